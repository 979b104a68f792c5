//! Trace and span ids: fixed-length lower-case hexadecimal, empty when there is none.

/// The number behind `digits` lower-case hexadecimal digits; zero for the empty text.
pub(crate) fn parse(text: &str, digits: usize) -> Option<u128> {
    if text.is_empty() {
        return Some(0);
    }
    if text.len() != digits {
        return None;
    }
    text.bytes().try_fold(0_u128, |number, byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(digit))
    })
}

/// Digits of the ids of a column.
pub(crate) fn digits(column: &str) -> usize {
    if column == "TraceId" { 32 } else { 16 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lower_case_ids_are_read() {
        assert_eq!(parse("00000000000000ff", 16), Some(255));
        assert_eq!(parse("", 16), Some(0));
        assert_eq!(parse(&format!("{:032x}", u128::MAX), 32), Some(u128::MAX));
        for bad in ["ff", "00000000000000FF", "00000000000000g0", "0x000000000000ff"] {
            assert_eq!(parse(bad, 16), None, "{bad}");
        }
    }
}
