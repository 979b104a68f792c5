//! How much data a method needs before its answer means anything.

use std::time::Duration;

use model::{ErrorKind, Problem, Result, Windows};
use serde::Serialize;

/// Declared by the detector and by every algorithm, so that a submission can be warned or refused before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Minimum {
    /// Seconds that each of the two windows must last.
    pub window_s: u64,
    /// Samples per judged thing (an endpoint, a metric, an operation) in the normal window.
    pub normal_samples: usize,
    /// The same in the abnormal window.
    pub abnormal_samples: usize,
}

impl Minimum {
    pub const NONE: Self = Self { window_s: 0, normal_samples: 0, abnormal_samples: 0 };

    /// Whether both windows are long enough.
    pub fn allows(&self, windows: &Windows) -> bool {
        let least = Duration::from_secs(self.window_s);
        windows.normal_length() >= least && windows.abnormal_length() >= least
    }

    /// # Errors
    /// `algorithm.insufficient_data` when a window is too short for the method called `name`.
    pub fn check(&self, name: &str, windows: &Windows) -> Result<()> {
        if self.allows(windows) {
            return Ok(());
        }
        Err(insufficient(name, "a window is too short for the method")
            .found(format!(
                "{} s normal and {} s abnormal",
                windows.normal_length().as_secs(),
                windows.abnormal_length().as_secs()
            ))
            .expected(format!("at least {} s each", self.window_s))
            .fix("submit with longer windows, for example `--normal 60s --abnormal 60s`"))
    }
}

/// The one answer of a method that has too little data: never an empty or invented ranking.
pub fn insufficient(name: &str, message: &str) -> Problem {
    Problem::new(ErrorKind::Failed, "algorithm.insufficient_data", message).place(format!("algorithm {name}"))
}
