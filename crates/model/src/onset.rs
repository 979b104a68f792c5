//! What an algorithm is told about the moment at which a fault began.

use serde::{Deserialize, Serialize};

/// The start of the abnormal window as an algorithm is given it. Everything but [`Onset::Known`] measures how much an
/// answer depends on being told the exact second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Onset {
    /// The true start.
    #[default]
    Known,
    /// [`Onset::SHIFT_SECONDS`] too early.
    Early,
    /// [`Onset::SHIFT_SECONDS`] too late.
    Late,
    /// What the detector's change point says, without being told.
    Detected,
}

impl Onset {
    pub const ALL: [Self; 4] = [Self::Known, Self::Early, Self::Late, Self::Detected];
    pub const SHIFT_SECONDS: i64 = 15;

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Known => "known",
            Self::Early => "early",
            Self::Late => "late",
            Self::Detected => "detected",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|onset| onset.as_str() == text)
    }
}
