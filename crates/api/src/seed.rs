//! Seeds: planning a change, applying it, its history, drift, and the proof that it is live.

use std::collections::BTreeMap;

pub use ::seed::{Change, ChangeKind, Consent, Consents, Impact, ObjectKind, Plan, PlanLayer, ValueChange};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::chart::Lookup;

/// What to compare the installation with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanRequest {
    /// Name of the seed's environment folder; recorded.
    pub env: String,
    /// The environment folder's files: `data.yaml` and the overlays, text by name.
    pub files: BTreeMap<String, String>,
    /// Only what belongs to this system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlanReply {
    pub plan: Plan,
    /// The charts of the versions that the plan adds or changes, as far as they are known without asking anybody.
    #[serde(default)]
    pub charts: Vec<Lookup>,
    /// SHA-256 of the seed's files.
    pub digest: String,
    /// The newest revision that was applied.
    pub revision: Option<i32>,
    /// Findings of the seed that are no errors, each with its file and line.
    pub warnings: Vec<String>,
}

/// Where the files were checked out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Commit {
    /// The commit's hash.
    pub id: String,
    /// The folder had changes that are not in the commit.
    pub dirty: bool,
}

/// Brings the installation to a seed. Either `files` or `revision` says which.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyRequest {
    #[serde(default)]
    pub env: String,
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// The seed of an earlier application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i32>,
    /// Only what belongs to this system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Hash of the plan that was looked at. When what is there has changed since, nothing is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    #[serde(default)]
    pub consents: Consents,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<Commit>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ApplyReply {
    /// The revision that now holds; absent when nothing was ever applied.
    pub revision: Option<i32>,
    /// Whether anything was written.
    pub changed: bool,
    pub applied: Vec<Change>,
    /// What waits for a consent that was not given.
    pub left: Vec<Change>,
    pub drift: Vec<Change>,
    pub impact: Vec<Impact>,
    pub warnings: Vec<String>,
}

/// One application of a seed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SeedRevision {
    pub id: i32,
    pub env: String,
    /// The system to which it was limited.
    pub system: Option<String>,
    /// SHA-256 of the seed's files.
    pub digest: String,
    pub commit: Option<Commit>,
    pub by: String,
    /// `applying`, `applied`, `interrupted`
    pub state: String,
    /// Number of changes that were written.
    pub changes: i32,
    pub started_at: String,
    pub ended_at: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SeedRevisionDetail {
    #[serde(flatten)]
    pub revision: SeedRevision,
    pub consents: Consents,
    /// What was written.
    pub applied: Vec<Change>,
    /// SHA-256 of each file, by name.
    pub files: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SeedQuery {
    /// Only what belongs to this system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Only objects and values whose name holds this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// What is done about the files of a watched folder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Auto {
    /// What they would change is told.
    #[default]
    Plan,
    /// What needs nobody's consent is applied: no removal, no conflict.
    Apply,
}

impl Auto {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Apply => "apply",
        }
    }
}

/// The watched folder, as it was read last, against the installation as it is now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Watched {
    pub folder: String,
    pub auto: Auto,
    /// SHA-256 of its files; absent when they could not be read.
    pub digest: Option<String>,
    pub read_at: String,
    /// What they would still change; absent when that is not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub changes: Option<Vec<Change>>,
    /// The revision that applied the rest by itself.
    pub applied: Option<i32>,
    /// Why nothing is known of them, or nothing was done.
    pub problem: Option<String>,
}

/// What differs from the seed that was applied last, by another way than a seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DriftReply {
    pub revision: Option<i32>,
    pub drift: Vec<Change>,
}

/// How far each value of the applied seed has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Proof {
    pub revision: Option<i32>,
    /// Every hop of every line is the seed's.
    pub complete: bool,
    pub lines: Vec<ProofLine>,
}

/// One value, from the seed to where it has an effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProofLine {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    pub object: ObjectKind,
    pub name: String,
    pub field: String,
    /// What the seed says.
    pub value: String,
    /// `data.yaml:12:5`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    pub hops: Vec<Hop>,
    /// The first hop that is not the seed's, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_difference: Option<String>,
}

/// One place that a value passes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hop {
    /// `store`, `setting`, `process api@host`, `chart`, `release ts0`
    pub hop: String,
    pub state: HopState,
    /// What was read there.
    pub found: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum HopState {
    /// The seed's value.
    #[serde(rename = "same")]
    Same,
    /// This kind of cluster does without it.
    #[serde(rename = "not fetched")]
    NotFetched,
    #[serde(rename = "differs")]
    Differs,
    #[serde(rename = "missing")]
    Missing,
}

impl HopState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::NotFetched => "not fetched",
            Self::Differs => "differs",
            Self::Missing => "missing",
        }
    }

    /// Whether the change may be called live as far as this hop goes.
    pub const fn is_good(self) -> bool {
        matches!(self, Self::Same | Self::NotFetched)
    }
}

/// What became of the releases that hold old values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RestartReply {
    /// Namespaces whose old release was removed; the next run there installs the new one.
    pub removed: Vec<String>,
    /// Namespaces that a run holds, with the holder: they follow when it ends.
    pub held: Vec<String>,
}

/// The installation as a seed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExportReply {
    /// Text by file name.
    pub files: BTreeMap<String, String>,
}
