//! Lengths of time as people write them.

/// Seconds of `90`, `90s`, `2m`, `1m30s` or `1h`. A sign is let through, so that the server can say what is wrong with it.
pub fn parse(text: &str) -> Result<i64, String> {
    let wrong = || format!("`{text}` is no length of time; write it like `90s`, `2m` or `1m30s`");
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    if let Ok(seconds) = rest.parse::<i64>() {
        return Ok(sign * seconds);
    }
    let mut total: i64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: i64 = rest[..digits].parse().map_err(|_| wrong())?;
        let unit = match rest.as_bytes()[digits] {
            b's' => 1,
            b'm' => 60,
            b'h' => 3600,
            _ => return Err(wrong()),
        };
        total = number.checked_mul(unit).and_then(|part| total.checked_add(part)).ok_or_else(wrong)?;
        rest = &rest[digits + 1..];
    }
    if text.is_empty() { Err(wrong()) } else { Ok(sign * total) }
}

/// As [`parse`], at least one second.
pub fn parse_positive(text: &str) -> Result<u64, String> {
    let seconds = parse(text)?;
    u64::try_from(seconds)
        .ok()
        .filter(|&seconds| seconds > 0)
        .ok_or_else(|| format!("`{text}` is not longer than zero"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_as_written() {
        for (text, expect) in [("90", 90), ("90s", 90), ("2m", 120), ("1h1m30s", 3690), ("-5s", -5), ("0s", 0)] {
            assert_eq!(parse(text), Ok(expect), "{text}");
        }
        for text in ["", "s", "5.5s", "5x", "m5", "99999999999999999h", "ä"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse_positive("0s").is_err());
    }
}
