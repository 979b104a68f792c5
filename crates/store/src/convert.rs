//! From stored text and numbers to the product's words. What cannot be read is an error that names it, never a default.

use model::{DataTime, WallTime};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::failure::{Work, corrupt};

pub(crate) fn uuid(text: &str) -> Work<Uuid> {
    Uuid::parse_str(text).map_err(|_| corrupt("id", text))
}

pub(crate) fn optional_uuid(text: Option<&str>) -> Work<Option<Uuid>> {
    text.map(uuid).transpose()
}

/// A word of a closed list, by its integer or its text.
pub(crate) fn word<S, T>(what: &str, stored: S, read: impl FnOnce(S) -> Option<T>) -> Work<T>
where
    S: std::fmt::Display + Copy,
{
    read(stored).ok_or_else(|| corrupt(what, stored))
}

pub(crate) fn json<T: DeserializeOwned>(what: &str, text: &str) -> Work<T> {
    serde_json::from_str(text).map_err(|error| corrupt(what, error))
}

pub(crate) fn optional_json<T: DeserializeOwned>(what: &str, text: Option<&str>) -> Work<Option<T>> {
    text.map(|text| json(what, text)).transpose()
}

pub(crate) fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("stored types have only string keys and finite or null numbers")
}

pub(crate) fn wall(micros: Option<i64>) -> Option<WallTime> {
    micros.map(WallTime)
}

pub(crate) fn data(nanos: Option<i64>) -> Option<DataTime> {
    nanos.map(DataTime)
}

/// Seeds use all 64 bits and SQL has only signed integers: the bits are kept as they are.
pub(crate) fn seed_to_sql(seed: u64) -> i64 {
    i64::from_ne_bytes(seed.to_ne_bytes())
}

pub(crate) fn seed_from_sql(stored: i64) -> u64 {
    u64::from_ne_bytes(stored.to_ne_bytes())
}

/// A count that SQL keeps signed.
pub(crate) fn count(what: &str, stored: i32) -> Work<u32> {
    u32::try_from(stored).map_err(|_| corrupt(what, stored))
}

/// Cuts text to what its column holds, at a character's border and visibly.
pub(crate) fn fit(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(longest - 1).collect();
    cut.push('…');
    cut
}
