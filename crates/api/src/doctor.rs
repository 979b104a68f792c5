//! Checks of the installation: one per known failure.

mod explain;
mod table;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use explain::explain;
pub use table::{ROWS, Row, Runs, contract_markdown, row};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Report {
    /// No check failed.
    pub ok: bool,
    pub checks: Vec<Check>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// Stable: `noun.state`, the state being the one that is in order.
    pub id: String,
    /// `error` or `warning`: how bad it is when the check does not pass.
    pub severity: String,
    pub state: CheckState,
    /// What was seen.
    pub observed: String,
    /// Why it matters.
    pub why: String,
    /// What to do, as a command that can be run as it is printed, where there is one. Absent when the check passes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fix: Option<String>,
    /// Who may run the fix.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub repair: Option<Repair>,
    /// Numbers of the symptoms that lead here, in the list of known failures of an installation.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub symptoms: Vec<u8>,
}

/// Who may run a fix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Repair {
    /// `doctor --fix`: it puts back what was declared and takes nothing away.
    Safe,
    /// `doctor --fix --yes`: it takes something away, or decides between two wishes.
    Consent,
    /// A person: it is outside of what Aegis may touch.
    Person,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    Ok,
    Warning,
    Failed,
    /// Could not be checked; `observed` says why.
    Skipped,
}

impl CheckState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}
