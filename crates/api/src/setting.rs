//! Runtime settings: what is declared, what is live, and what stands between the store and the place where live values are
//! published.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// One declared key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Setting {
    pub key: String,
    /// `producer`, `consumer` or `global`.
    pub scope: String,
    /// `string`, `bool`, `int`, `float` or `string_array`.
    pub value_type: String,
    /// What is in force: the live value, or the default. `a secret` for a secret.
    pub value: String,
    /// `seed`, `operator`, or `default` when no value is live.
    pub owner: String,
    pub default: String,
    /// What the seed declares, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    pub description: String,
    pub is_secret: bool,
    /// Number of the change that made the live value; grows with each change of any key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
}

/// Which keys are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct SettingQuery {
    /// Beginning of the keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i32>,
}

/// A new value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetRequest {
    pub value: String,
    /// The revision that the value must still have; any when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
}

/// One change of a live value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Change {
    pub revision: i64,
    pub key: String,
    /// Absent when the value was deleted.
    pub value: Option<String>,
    pub previous: Option<String>,
    /// `seed` or `operator`.
    pub owner: String,
    pub changed_by: String,
    pub at: String,
}

/// Which changes are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ChangeQuery {
    /// Those after this revision; from now on when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<i64>,
    /// Seconds to wait for one when there is none yet, at most 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<u32>,
}

/// Changes, and where to go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Changes {
    /// For the next query's `after`.
    pub revision: i64,
    pub changes: Vec<Change>,
}

/// What is to be deleted because nothing reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DiscardRequest {
    /// Path below the prefix, or whole name outside of it; with a dot at its end, everything that begins so.
    pub path: String,
}

/// An earlier change to go back to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RollbackRequest {
    pub revision: i64,
}

/// How settings stand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Where live values are published; absent when the store alone keeps them.
    pub source: Option<String>,
    /// Number of the newest change that the store knows.
    pub revision: i64,
    /// The newest revision of the source that is in force.
    pub source_revision: Option<i64>,
    /// `ours`, `empty`, `foreign`, or `none` without a source.
    pub standing: String,
    /// Why the source cannot be followed at this moment, if it cannot.
    pub problem: Option<String>,
    /// What only a person can decide.
    pub findings: Vec<Finding>,
    /// What each process applies.
    pub processes: Vec<Process>,
}

/// Something in the source that has no effect, or not the one that it looks like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    pub code: String,
    pub message: String,
    pub place: Option<String>,
    pub found: Option<String>,
    pub expected: Option<String>,
    pub fix: Option<String>,
}

/// One process and the revisions that it applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Process {
    pub host: String,
    pub pid: u32,
    pub role: String,
    pub revision: i64,
    pub source_revision: Option<i64>,
    /// Why it cannot follow, if it cannot.
    pub problem: Option<String>,
    /// When it said so.
    /// Its version; empty when it did not say.
    #[serde(default)]
    pub build: String,
    pub reported_at: String,
}

/// Both sides of every key, to be looked at before they are adopted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tree {
    pub source: String,
    /// `ours`, `empty` or `foreign`.
    pub standing: String,
    /// The other installation whose mark is there, if one's is.
    pub other: Option<String>,
    /// What an adoption must name.
    pub revision: i64,
    pub keys: Vec<TreeKey>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TreeKey {
    /// Below the source's prefix: scope and key.
    pub path: String,
    /// What the source holds.
    pub live: Option<String>,
    /// What is in force here; absent for a key that nothing declares.
    pub accepted: Option<String>,
    /// What an adoption does: `same`, `taken`, `published`, `not declared`.
    pub effect: String,
}

/// Confirms what was shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdoptRequest {
    /// The revision of the tree that was looked at.
    pub revision: i64,
}

/// Keys that were put back, or taken away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Restored {
    pub keys: Vec<String>,
}
