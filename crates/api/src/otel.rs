//! What the telemetry of a system lacks.

use model::RunId;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Which records are looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct OtelQuery {
    /// Only this namespace; by default every namespace of the system, and the records that name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Only the records of this simulated run, by its id or the beginning of it; by default those that came from the network, and of
    /// each namespace those of the run that was written last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// Where a collector sends to: one of both.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RenderQuery {
    /// Base address of OTLP over HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otlp: Option<String>,
    /// Address of ClickHouse over HTTP; the database is `otel`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clickhouse: Option<String>,
}

/// The collector of a system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Rendered {
    /// Its configuration.
    #[schema(value_type = Object)]
    pub configuration: serde_json::Value,
    /// What it runs as on Kubernetes; the configuration is in them.
    #[schema(value_type = Vec<Object>)]
    pub manifests: Vec<serde_json::Value>,
}

/// The telemetry of a system, judged by what datapacks and their readers need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OtelReport {
    pub system: String,
    /// Where the records were read.
    #[serde(default)]
    pub source: String,
    /// Whether there are no findings.
    pub ok: bool,
    pub namespaces: Vec<NamespaceReport>,
    pub findings: Vec<OtelFinding>,
}

/// The records of one namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NamespaceReport {
    /// Empty for records that name no namespace.
    pub namespace: String,
    /// The simulated run that the records are of; absent for those that came from the network.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run: Option<RunId>,
    pub signals: Vec<SignalCount>,
}

/// How much there is of a signal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignalCount {
    /// As a datapack names it: `traces`, `logs`, `metrics`, `metrics_sum`, `metrics_histogram`.
    pub signal: String,
    pub records: u64,
    /// Time of the earliest record, data time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub first: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last: Option<String>,
}

/// Something that is missing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OtelFinding {
    /// `otel.attribute_missing` or `otel.signal_missing`.
    pub code: String,
    /// Empty for records that name no namespace.
    pub namespace: String,
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run: Option<RunId>,
    pub signal: String,
    /// What is missing: an attribute, several of which one is enough, or `any record`.
    pub missing: String,
    /// Records that should carry it, and those of them that do not.
    pub records: u64,
    pub without: u64,
    /// `without` / `records`, 0 to 1.
    pub share: f64,
    /// Time of the first record without it, data time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub since: Option<String>,
    /// The services that it is missing of, those with the most such records first; at most ten.
    pub services: Vec<OtelService>,
    pub why: String,
    pub fix: String,
}

/// The same for one service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OtelService {
    /// Empty when the records name none.
    pub service: String,
    pub records: u64,
    pub without: u64,
    /// Of the service's records from `since` on, the share without it, 0 to 1; `since` counts as a whole second.
    pub share_since: f64,
    pub since: String,
}
