//! What became of a run's datapack. Verdicts are never merged.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{PackState, RunState};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The detector saw user-facing harm.
    Anomaly,
    /// The detector ran and saw none.
    NoAnomaly,
    DetectorFailed,
    /// A required signal is empty.
    NoData,
    /// The target did not feel the fault.
    NotExposed,
    /// The pack does not pass validation.
    Invalid,
    /// A window or sample is too short for the detector to decide.
    InsufficientData,
}

impl Verdict {
    pub const ALL: &'static [Self] = &[
        Self::Anomaly,
        Self::NoAnomaly,
        Self::DetectorFailed,
        Self::NoData,
        Self::NotExposed,
        Self::Invalid,
        Self::InsufficientData,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Anomaly => "anomaly",
            Self::NoAnomaly => "no_anomaly",
            Self::DetectorFailed => "detector_failed",
            Self::NoData => "no_data",
            Self::NotExposed => "not_exposed",
            Self::Invalid => "invalid",
            Self::InsufficientData => "insufficient_data",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|verdict| verdict.as_str() == text)
    }

    /// The terminal run state that this verdict leads to.
    pub const fn run_state(self) -> RunState {
        match self {
            Self::Anomaly | Self::NoAnomaly => RunState::Completed,
            _ => RunState::Failed,
        }
    }

    /// The datapack state that this verdict leads to.
    pub const fn pack_state(self) -> PackState {
        match self {
            Self::Anomaly | Self::NoAnomaly => PackState::DetectorSuccess,
            Self::NotExposed => PackState::BuildSuccess,
            Self::DetectorFailed | Self::InsufficientData => PackState::DetectorFailed,
            Self::NoData | Self::Invalid => PackState::BuildFailed,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
