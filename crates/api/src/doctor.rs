//! Checks of the installation: one per known failure.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Report {
    /// No check failed.
    pub ok: bool,
    pub checks: Vec<Check>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// Stable: `area.what`.
    pub id: String,
    /// `error` or `warning`: how bad it is when the check does not pass.
    pub severity: String,
    pub state: CheckState,
    /// What was seen.
    pub observed: String,
    /// Why it matters.
    pub why: String,
    /// The exact thing to do; empty when the check passes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fix: Option<String>,
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
