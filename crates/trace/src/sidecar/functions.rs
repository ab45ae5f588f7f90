//! `kallsyms.tsv`: every function of the recorded kernel by its address, as `tenalloc record` keeps it. A call site lies
//! in the last function at or below it.

use super::{NOT_OURS, tasks::short};
use crate::error::Error;

/// Address and symbol of each function, ascending.
pub(crate) fn parse(text: &str, file: &str) -> Result<Vec<(u64, String)>, Error> {
    let mut functions = Vec::new();
    for (line, n) in text.lines().zip(1..) {
        if line.is_empty() {
            continue;
        }
        // A third column names the module.
        let mut columns = line.split('\t');
        let address = columns.next().and_then(|a| u64::from_str_radix(a, 16).ok());
        let (Some(address), Some(symbol)) = (address, columns.next().filter(|s| !s.is_empty())) else {
            let what = format!("`{}` is no address with its function", short(line));
            return Err(Error::line(file, n, what, NOT_OURS));
        };
        functions.push((address, symbol.to_owned()));
    }
    functions.sort_by_key(|f| f.0);
    Ok(functions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_with_and_without_a_module() {
        let text = "ffffffffc0201000\tovl_fill_super\toverlay\nffffffff81000000\t_stext\n";
        let functions = parse(text, "kallsyms.tsv").unwrap();
        assert_eq!(functions[0], (0xffff_ffff_8100_0000, "_stext".to_owned()));
        assert_eq!(functions[1].1, "ovl_fill_super");
        for bad in ["ffffffff81000000", "ffffffff81000000 T _stext", "x\ty", "10\t"] {
            let e = parse(&format!("10\ta\n{bad}\n"), "kallsyms.tsv").unwrap_err().to_string();
            assert!(e.starts_with("kallsyms.tsv, line 2"), "{e}");
        }
    }
}
