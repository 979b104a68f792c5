//! The order of version names: parsed ones by precedence, all others below them.

use std::cmp::Ordering;

use semver::{BuildMetadata, Prerelease, Version};

/// A version name's place in the order.
///
/// One to three numbers, an optional leading `v`, then an optional pre-release (`1.0`, `v2.1.0-rc.1`), compared by the
/// precedence of Semantic Versioning 2.0.0, section 11. A name of any other form is below every parsed one and equal to
/// the others of its kind. Among equals the newest row wins: see [`newest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionOrder(Option<Version>);

impl VersionOrder {
    pub fn of(name: &str) -> Self {
        Self(parse(name))
    }

    pub fn is_parsed(&self) -> bool {
        self.0.is_some()
    }
}

impl PartialOrd for VersionOrder {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for VersionOrder {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => a.cmp_precedence(b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        }
    }
}

/// The row of the highest version; of equal ones the last. Give the rows in the order of their ids.
pub fn newest<T>(rows: impl IntoIterator<Item = T>, name: impl Fn(&T) -> &str) -> Option<T> {
    rows.into_iter().max_by_key(|row| VersionOrder::of(name(row)))
}

/// Whether the name is an exact version in full, as a chart's version must be.
pub(crate) fn is_exact(name: &str) -> bool {
    Version::parse(name.strip_prefix('v').unwrap_or(name)).is_ok()
}

fn parse(name: &str) -> Option<Version> {
    let name = name.strip_prefix('v').unwrap_or(name);
    // Build metadata does not count for the order, but it must be well-formed.
    let (name, build) = name.split_once('+').unwrap_or((name, ""));
    BuildMetadata::new(build).ok()?;
    let (core, pre) = name.split_once('-').unwrap_or((name, ""));
    if name.ends_with('-') {
        return None;
    }
    let numbers: Vec<u64> = core.split('.').map(number).collect::<Option<_>>()?;
    let &[major, ref rest @ ..] = numbers.as_slice() else { return None };
    if rest.len() > 2 {
        return None;
    }
    let mut version = Version::new(major, rest.first().copied().unwrap_or(0), rest.get(1).copied().unwrap_or(0));
    version.pre = Prerelease::new(pre).ok()?;
    Some(version)
}

/// Digits only: `u64::from_str` would take a sign as well.
fn number(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsed_versions_are_ordered_by_number_and_stand_above_all_others() {
        let ascending = [
            "nightly",
            "0.0.0-rc.1",
            "0.0.0",
            "0.1.9",
            "0.1.10",
            "1.0.0-rc.1",
            "1",
            "v1.2",
            "17.6-bookworm",
            "17.6",
            "2026.01.02",
        ];
        for pair in ascending.windows(2) {
            assert!(VersionOrder::of(pair[0]) < VersionOrder::of(pair[1]), "{pair:?}");
        }
        assert_eq!(VersionOrder::of("v1.0.0+abc").cmp(&VersionOrder::of("1")), Ordering::Equal);
    }

    #[test]
    fn odd_names_are_not_parsed() {
        for odd in
            ["", "-", "v", "1.", "1..2", "1.2.3.4", "+1", "1.-2", "99999999999999999999", "e2e-kind-20260421", "1.0-"]
        {
            assert!(!VersionOrder::of(odd).is_parsed(), "{odd}");
        }
    }

    #[test]
    fn the_newest_of_equal_versions_is_the_last_row() {
        let rows = [("1.0", 1), ("0.9", 2), ("v1.0.0", 3), ("zzz", 4)];
        assert_eq!(newest(rows, |row| row.0), Some(("v1.0.0", 3)));
        assert_eq!(newest([("a", 1), ("b", 2)], |row| row.0), Some(("b", 2)));
    }
}
