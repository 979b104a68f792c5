//! Why a receiver refused records: grouped by the code that it names, else by its words without the numbers in them.

use std::collections::BTreeMap;

/// Groups that are kept apart; the records of more of them are counted together.
const MOST: usize = 200;
/// Characters of a message that make a group.
const LONGEST: usize = 160;
/// The group of what is in none.
const OTHERS: &str = "(other reasons)";

/// Refused records by reason. Holds a bounded number of reasons whatever a receiver says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reasons(BTreeMap<String, u64>);

impl Reasons {
    pub(super) fn note(&mut self, message: &str, refused: u64) {
        if refused == 0 {
            return;
        }
        let parts = listed(message);
        // A list that does not add up is not ours.
        if !parts.is_empty() && parts.iter().map(|(_, count)| count).sum::<u64>() == refused {
            parts.into_iter().for_each(|(code, count)| self.add(code.to_owned(), count));
        } else {
            self.add(code(message).map_or_else(|| without_numbers(message), str::to_owned), refused);
        }
    }

    fn add(&mut self, group: String, count: u64) {
        let group = if self.0.len() < MOST || self.0.contains_key(&group) { group } else { OTHERS.to_owned() };
        *self.0.entry(group).or_default() += count;
    }

    /// Records of all groups.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// The groups with the most records, at most `count`, the largest first; and how many groups are left out.
    pub fn largest(&self, count: usize) -> (Vec<(&str, u64)>, usize) {
        let mut groups: Vec<(&str, u64)> = self.0.iter().map(|(reason, &count)| (reason.as_str(), count)).collect();
        groups.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        let left = groups.len().saturating_sub(count);
        groups.truncate(count);
        (groups, left)
    }
}

/// The parts `N x CODE` of a message, as our own receiver writes them.
fn listed(message: &str) -> Vec<(&str, u64)> {
    let words: Vec<&str> = message.split_whitespace().collect();
    let parts = words.windows(3).filter(|part| part[1] == "x");
    parts.filter_map(|part| Some((code(part[2])?, part[0].parse().ok()?))).collect()
}

/// The first word that looks like a stable code: `noun.what_is_wrong`, maybe in brackets.
fn code(message: &str) -> Option<&str> {
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_lowercase())
            && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let words = message.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_ascii_alphanumeric()));
    let mut codes = words.filter(|word| {
        word.split_once('.').is_some_and(|(noun, rest)| is_part(noun) && is_part(rest) && rest.contains('_'))
    });
    codes.next()
}

/// A message in which every number is `N`, so that those that differ in numbers only are one.
fn without_numbers(message: &str) -> String {
    let mut text = String::new();
    for c in message.chars().take(LONGEST) {
        match c {
            '0'..='9' if text.ends_with('N') => {}
            '0'..='9' => text.push('N'),
            other => text.push(other),
        }
    }
    if text.is_empty() { "no reason was given".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_grouped_by_code_and_none_is_lost() {
        let mut reasons = Reasons::default();
        reasons.note(
            "3 of 9 spans refused: 2 x otlp.time_out_of_range, a timestamp is 7; 1 x otlp.span_kind_unknown, no",
            3,
        );
        reasons.note("1 of 5 spans refused: 1 x otlp.time_out_of_range, a timestamp is absent", 1);
        reasons.note("HTTP 400 [otlp.request_malformed] an OTLP request cannot be decoded", 40);
        reasons.note("dropped 17 spans, e.g. of 10.0.0.1", 17);
        reasons.note("dropped 4 spans, e.g. of 10.0.0.22", 4);
        reasons.note("", 1);
        reasons.note("nothing", 0);
        let all = [
            ("otlp.request_malformed", 40),
            ("dropped N spans, e.g. of N.N.N.N", 21),
            ("otlp.time_out_of_range", 3),
            ("no reason was given", 1),
            ("otlp.span_kind_unknown", 1),
        ];
        assert_eq!(reasons.largest(10), (all.to_vec(), 0));
        assert_eq!(reasons.largest(2), (all[..2].to_vec(), 3));
        for letter in 0..2 * MOST {
            reasons.note(&("x".repeat(letter % LONGEST + 1) + &"y".repeat(letter / LONGEST)), 1);
        }
        assert_eq!((reasons.total(), reasons.0.len() <= MOST + 1), (66 + 2 * MOST as u64, true));
    }
}
