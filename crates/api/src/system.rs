//! Systems and the five layers that a registration touches.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// One of the five places that must agree before a system can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// The system's own row: pattern, count, status.
    Registry,
    /// Runtime settings `injection.system.<code>.*`.
    Config,
    /// Containers, versions, parameters and overlays.
    Database,
    /// The chart and its composed values.
    Chart,
    /// What produces the signals, and the profile that says which are required.
    Telemetry,
}

impl Layer {
    pub const ALL: [Self; 5] = [Self::Registry, Self::Config, Self::Database, Self::Chart, Self::Telemetry];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Registry => "registry",
            Self::Config => "config",
            Self::Database => "database",
            Self::Chart => "chart",
            Self::Telemetry => "telemetry",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How one layer stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum LayerState {
    #[serde(rename = "ok")]
    Ok,
    /// This kind of cluster does without it.
    #[serde(rename = "not needed here")]
    NotNeededHere,
    #[serde(rename = "missing")]
    Missing,
    #[serde(rename = "wrong")]
    Wrong,
    /// The chart archive, on a cluster that does not need it.
    #[serde(rename = "not fetched")]
    NotFetched,
    /// The simulated cluster knows no topology of this system: it is registered and cannot run here.
    #[serde(rename = "no simulation data")]
    NoSimulationData,
}

impl LayerState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NotNeededHere => "not needed here",
            Self::Missing => "missing",
            Self::Wrong => "wrong",
            Self::NotFetched => "not fetched",
            Self::NoSimulationData => "no simulation data",
        }
    }

    /// Whether a run can start with the layer in this state.
    pub const fn allows_runs(self) -> bool {
        matches!(self, Self::Ok | Self::NotNeededHere | Self::NotFetched)
    }
}

impl fmt::Display for LayerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One row of the five-layer table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LayerStatus {
    pub layer: Layer,
    pub state: LayerState,
    /// What was read there, in words.
    pub observed: String,
    /// Where it was read.
    #[serde(default)]
    pub source: String,
    /// What to do when the state is not good.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fix: Option<String>,
}

/// A system as lists show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct System {
    pub id: i32,
    /// Short code.
    pub name: String,
    pub display_name: String,
    pub ns_pattern: String,
    pub extract_pattern: String,
    pub app_label_key: String,
    /// Number of slots in the pool.
    pub count: i32,
    pub description: String,
    pub is_builtin: bool,
    pub enabled: bool,
    /// `enabled` or `disabled`.
    pub status: String,
    pub layers: Vec<LayerStatus>,
    pub created_at: String,
    pub updated_at: String,
}

/// Everything about one system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SystemDetail {
    #[serde(flatten)]
    pub system: System,
    /// Where the declared state came from.
    pub seed: Option<SeedOrigin>,
    /// What a run would install.
    pub pedestal: Option<Pedestal>,
    /// Runtime settings of this system.
    pub settings: Vec<SettingValue>,
    /// Services that can be a target, by name.
    pub services: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SeedOrigin {
    /// Environment folder of the seed.
    pub env: String,
    /// SHA-256 of the seed's files.
    pub content_hash: String,
    pub applied_at: String,
}

/// The version of the pedestal that a run would install now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Pedestal {
    pub version: String,
    /// Content hash of parameters and overlay.
    pub revision: String,
    pub chart_name: String,
    pub chart_version: String,
    pub repo_url: String,
    pub repo_name: String,
    /// The composed values of slot 0.
    #[schema(value_type = Object)]
    pub values: Value,
    pub values_digest: String,
    /// Where each leaf of `values` comes from.
    pub origins: Vec<ValueOrigin>,
}

/// One version of a pedestal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PedestalVersion {
    pub name: String,
    /// A version that is not is retired.
    pub enabled: bool,
    /// The one that runs install.
    pub used: bool,
    pub chart_name: String,
    pub chart_version: String,
    pub repo_url: String,
    /// SHA-256 of the chart's archive; absent while none was fetched.
    pub chart_digest: Option<String>,
    /// Content hash of parameters and overlay.
    pub revision: String,
    /// SHA-256 of the overlay.
    pub overlay: Option<String>,
    pub created_at: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ValueOrigin {
    /// Dotted path of the leaf.
    pub key: String,
    #[schema(value_type = Object)]
    pub value: Value,
    /// `seed default`, `overlay`, ...; with file and line where there is one.
    pub origin: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettingValue {
    pub key: String,
    pub value: String,
    /// `seed` or `operator`.
    pub owner: String,
}

/// Asks which systems can be registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RegistrableRequest {
    /// The files of a seed's environment, text by name; none for the systems that the server knows.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

/// Registers a system: all five layers, or none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RegisterRequest {
    pub name: String,
    /// Name of the seed's environment folder; recorded.
    #[serde(default)]
    pub env: String,
    /// The environment folder's files: `data.yaml` and the overlays, text by name. None: the system is declared by what the
    /// server knows about it.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Take the files from this revision of an applied seed instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed_revision: Option<i32>,
    /// Replace a registration that is there; without it that is a conflict.
    #[serde(default)]
    pub force: bool,
    /// Say what would be written and write nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// What a registration wrote, or would write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RegisterReport {
    pub id: Option<i32>,
    pub name: String,
    pub is_builtin: bool,
    pub dry_run: bool,
    pub writes: Vec<LayerWrite>,
    /// Findings of the seed that are no errors, each with its file and line.
    pub warnings: Vec<String>,
    pub layers: Vec<LayerStatus>,
}

/// One value that a registration writes into one layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LayerWrite {
    pub layer: Layer,
    pub key: String,
    pub value: String,
    /// `new`, `changed` or `same`.
    pub change: String,
}

/// Changes a system. `status` 1 enables, 0 disables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateRequest {
    pub status: i32,
}

/// What an unregistration removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnregisterReport {
    pub name: String,
    /// Number of records removed, by layer.
    pub removed: BTreeMap<String, i32>,
    /// Things that stay on purpose (finished runs and their datapacks), in words.
    pub kept: Vec<String>,
}
