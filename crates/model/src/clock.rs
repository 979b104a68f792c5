//! Two clocks, two types, and no conversion between them.
//!
//! *Wall* time orders what Aegis does: leases, heartbeats, retries, events. *Data* time orders what a system under test
//! does: windows, faults, telemetry. On Kubernetes they coincide; on the simulator data time belongs to the slot.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Wall-clock time: microseconds since the Unix epoch, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WallTime(pub i64);

impl WallTime {
    /// Reads the machine's clock. The only place in the product that does so for wall time.
    pub fn now() -> Self {
        let since = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("the machine's clock is past 1970");
        Self(i64::try_from(since.as_micros()).expect("the machine's clock is before the year 294000"))
    }

    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX)))
    }

    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }
}

impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&rfc3339(self.0.div_euclid(1_000_000), (self.0.rem_euclid(1_000_000) * 1000) as u32))
    }
}

/// Time inside a system under test: nanoseconds since the Unix epoch, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DataTime(pub i64);

impl DataTime {
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds * 1_000_000_000)
    }

    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000_000)
    }
}

impl Add<Duration> for DataTime {
    type Output = Self;
    fn add(self, by: Duration) -> Self {
        Self(self.0 + i64::try_from(by.as_nanos()).expect("a duration inside a run fits in 292 years"))
    }
}

impl Sub for DataTime {
    type Output = Duration;
    /// The time from `earlier` to `self`; zero when `earlier` is later.
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }
}

impl fmt::Display for DataTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&rfc3339(self.seconds(), self.0.rem_euclid(1_000_000_000) as u32))
    }
}

/// Formats seconds and nanoseconds since the Unix epoch as RFC 3339 in UTC, without a fraction when it is zero.
///
/// The calendar arithmetic is the proleptic Gregorian algorithm of H. Hinnant, "chrono-compatible low-level date algorithms".
pub fn rfc3339(seconds: i64, nanos: u32) -> String {
    let days = seconds.div_euclid(86_400);
    let second_of_day = seconds.rem_euclid(86_400);
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let mp = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
    let head = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    if nanos == 0 {
        return format!("{head}Z");
    }
    let fraction = format!("{nanos:09}");
    format!("{head}.{}Z", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_known_instants() {
        let check = |seconds, nanos, expect: &str| assert_eq!(rfc3339(seconds, nanos), expect);
        check(0, 0, "1970-01-01T00:00:00Z");
        check(951_782_400, 0, "2000-02-29T00:00:00Z");
        check(1_793_404_799, 500_000_000, "2026-10-30T23:59:59.5Z");
        check(-1, 0, "1969-12-31T23:59:59Z");
    }
}
