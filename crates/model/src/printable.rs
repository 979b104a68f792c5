//! Text for a terminal: whatever would steer it is shown as an escape.

use std::borrow::Cow;

/// The text without characters that a terminal obeys: control characters (new lines and tabs stay) and those that turn the
/// direction of writing. Each is shown as `\u{1b}`.
///
/// Names and messages come from charts, telemetry and answers that somebody else wrote. For people only: documents for
/// programs are escaped by their own rules.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(steers) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for one in text.chars() {
        if steers(one) { shown.extend(one.escape_unicode()) } else { shown.push(one) }
    }
    Cow::Owned(shown)
}

fn steers(one: char) -> bool {
    let turns = matches!(one, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (one.is_control() && one != '\n' && one != '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_shown_instead() {
        assert_eq!(printable("a\x1b[2Jb\u{9b}31m\rc\u{202e}d"), "a\\u{1b}[2Jb\\u{9b}31m\\u{d}c\\u{202e}d");
        assert!(matches!(printable("one\ttwo\nüber 中"), Cow::Borrowed(_)));
    }
}
