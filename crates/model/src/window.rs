//! The two adjacent observation windows of a run.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{DataTime, ErrorKind, Problem, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    Normal,
    Abnormal,
}

impl Window {
    pub const BOTH: [Self; 2] = [Self::Normal, Self::Abnormal];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Abnormal => "abnormal",
        }
    }
}

/// Half-open, contiguous, whole seconds: `[normal_start, abnormal_start)` and `[abnormal_start, abnormal_end)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Windows {
    pub normal_start: DataTime,
    pub abnormal_start: DataTime,
    pub abnormal_end: DataTime,
}

impl Windows {
    /// Shortest and longest window that a run may ask for.
    pub const BOUNDS: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(3600));

    /// Windows of the given lengths from `normal_start` on.
    ///
    /// # Errors
    /// `window.out_of_range` when a length is not a whole number of seconds inside [`Self::BOUNDS`].
    pub fn new(normal_start: DataTime, normal: Duration, abnormal: Duration) -> Result<Self> {
        for (place, length) in [("windows.normal", normal), ("windows.abnormal", abnormal)] {
            if length < Self::BOUNDS.0 || length > Self::BOUNDS.1 || length.subsec_nanos() != 0 {
                return Err(Problem::new(
                    ErrorKind::Invalid,
                    "window.out_of_range",
                    "a window's length is not allowed",
                )
                .place(place)
                .found(format!("{} s", length.as_secs_f64()))
                .expected("a whole number of seconds from 5 to 3600")
                .fix("set `--normal` and `--abnormal`, for example `--normal 60s --abnormal 60s`"));
            }
        }
        let abnormal_start = normal_start + normal;
        Ok(Self { normal_start, abnormal_start, abnormal_end: abnormal_start + abnormal })
    }

    /// Start (inclusive) and end (exclusive) of one window.
    pub const fn bounds(&self, window: Window) -> (DataTime, DataTime) {
        match window {
            Window::Normal => (self.normal_start, self.abnormal_start),
            Window::Abnormal => (self.abnormal_start, self.abnormal_end),
        }
    }

    pub fn normal_length(&self) -> Duration {
        self.abnormal_start - self.normal_start
    }

    pub fn abnormal_length(&self) -> Duration {
        self.abnormal_end - self.abnormal_start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_and_fractional_windows_are_refused() {
        let start = DataTime::from_seconds(1_700_000_000);
        let seconds = Duration::from_secs;
        assert!(Windows::new(start, seconds(60), seconds(60)).is_ok());
        for (normal, abnormal) in [(0, 60), (60, 0), (60, 3601)] {
            assert_eq!(
                Windows::new(start, seconds(normal), seconds(abnormal)).unwrap_err().code,
                "window.out_of_range"
            );
        }
        assert!(Windows::new(start, Duration::from_millis(5500), seconds(60)).is_err());
    }
}
