//! `callsites.tsv`: address, symbol, offset and events of every call site of the trace.

use super::{NOT_OURS, tasks::short};
use crate::error::Error;
use hashbrown::HashMap;

/// Symbol of each address.
pub(crate) fn parse(text: &str, file: &str) -> Result<HashMap<u64, String>, Error> {
    let mut sites = HashMap::new();
    for (line, n) in text.lines().zip(1..) {
        if line.is_empty() || line.starts_with("call_site") {
            continue;
        }
        let mut columns = line.split('\t');
        let address = columns.next().unwrap_or("");
        let (Ok(address), Some(symbol)) =
            (u64::from_str_radix(address.trim_start_matches("0x"), 16), columns.next())
        else {
            let what = format!("`{}` is no address with its symbol", short(line));
            return Err(Error::line(file, n, what, NOT_OURS));
        };
        sites.insert(address, symbol.to_owned());
    }
    Ok(sites)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_symbols() {
        let s = parse(
            "call_site_hex\tsymbol\toffset\tevents\nffffffff81c8ff9d\tf.part.0\t0x4d\tkmalloc:60\n",
            "c",
        )
        .unwrap();
        assert_eq!(s.get(&0xffff_ffff_81c8_ff9d).map(String::as_str), Some("f.part.0"));
        assert!(parse("10\tf\nzz\tf\n", "c").unwrap_err().to_string().contains("c, line 2"));
        assert!(parse("10\n", "c").is_err());
    }
}
