//! `pids.tsv`: tid, tgid, cgroup path and comm of every task just before the recording.

use super::{NOT_OURS, unescape};
use crate::error::Error;

/// Task and cgroup path of each line.
pub(crate) fn parse(text: &str, file: &str, notes: &mut Vec<String>) -> Result<Vec<(i32, String)>, Error> {
    let (mut tasks, mut without) = (Vec::new(), 0);
    for (line, n) in text.lines().zip(1..) {
        let mut columns = line.split('\t');
        let tid = columns.next().unwrap_or("");
        if line.is_empty() || (n == 1 && tid == "tid") {
            continue;
        }
        let tid: i32 =
            tid.parse().ok().filter(|t| *t >= 0).ok_or_else(|| {
                Error::line(file, n, format!("`{}` is no task number", short(tid)), NOT_OURS)
            })?;
        // Between tgid and comm. A task that ended while the list was made has no path.
        match columns.nth(1) {
            Some(path) if path.starts_with('/') => tasks.push((tid, unescape(path, false))),
            Some("") => without += 1,
            other => {
                let what = format!("`{}` is no cgroup path", short(other.unwrap_or("")));
                return Err(Error::line(file, n, what, NOT_OURS));
            }
        }
    }
    if without > 0 {
        notes.push(format!("{file}: {without} tasks have no cgroup; their objects are of an unknown group"));
    }
    Ok(tasks)
}

/// At most 40 characters of something that may be anything.
pub(crate) fn short(text: &str) -> String {
    text.chars().take(40).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_and_what_is_none() {
        let mut notes = Vec::new();
        let ok = parse("1\t1\t/\tinit\n42\t40\t/g/a\\011b\tsh x\n43\t43\t\tgone\n", "pids.tsv", &mut notes)
            .unwrap();
        assert_eq!(ok, [(1, "/".to_owned()), (42, "/g/a\tb".to_owned())]);
        assert_eq!(notes.len(), 1);
        for (bad, line) in
            [("1\t1\t/\tx\nxyz\t1\t/\ty\n", 2), ("1\t1\n", 1), ("-4\t1\t/\tx\n", 1), ("1\t1\tg\tx", 1)]
        {
            let e = parse(bad, "pids.tsv", &mut notes).unwrap_err().to_string();
            assert!(e.contains(&format!("pids.tsv, line {line}")), "{e}");
        }
    }
}
