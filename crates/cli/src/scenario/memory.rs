//! Sizes of memory on the command line: `16GiB`, `512M`, `1000000`.

/// Bytes. Units count in 1,024, with or without `iB` or `B`, whatever the case.
///
/// # Errors
/// A line that says what is wrong.
pub(super) fn parse(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a size: write 16GiB, 512MiB or a number of bytes");
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
    let (number, unit) = lower.split_at(digits);
    let shift = match unit.trim() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    match number.checked_mul(1 << shift) {
        Some(bytes @ 1..) => Ok(bytes),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn sizes_are_read() {
        let texts = ["16GiB", "512m", "1000000", " 2 gb ", "7KB", "1t", "9B"];
        let bytes = [16 << 30, 512 << 20, 1_000_000, 2 << 30, 7 << 10, 1 << 40, 9];
        assert_eq!(texts.map(parse), bytes.map(Ok));
    }

    #[test]
    fn what_is_no_size_is_told() {
        for text in ["", "GiB", "1.5G", "-1", "16 GiBs", "0", "99999999999999999999", "17179869184T"] {
            assert!(parse(text).is_err_and(|line| line.contains("16GiB")), "{text}");
        }
    }
}
