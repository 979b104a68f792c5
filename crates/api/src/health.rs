//! Whether the server lives, whether it is ready, and what it is doing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::run::Run;

/// Answer of the health route. Open to everyone; names no host, no path and no user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `healthy` or `unhealthy`.
    pub status: String,
    pub version: String,
    /// Time since the process started, in words (`3h12m5s`).
    pub uptime: String,
    pub services: BTreeMap<String, ServiceHealth>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServiceHealth {
    /// `healthy` or `unhealthy`.
    pub status: String,
    /// In words (`0.4ms`).
    pub response_time: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}

/// Answer of the readiness route: 200 when every part can serve, else 503.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Ready {
    pub ready: bool,
    /// Parts that are not ready yet, in words.
    pub waiting_for: Vec<String>,
}

/// What the installation is doing now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    pub version: String,
    pub uptime_seconds: i64,
    /// Wall time of the server's start.
    pub started_at: String,
    /// `simulated` or `cluster`.
    pub cluster: String,
    pub cluster_version: String,
    pub systems: i32,
    pub systems_enabled: i32,
    /// Number of runs by state.
    pub runs: BTreeMap<String, i32>,
    /// Number of tasks by state.
    pub tasks: BTreeMap<String, i32>,
    /// Number of datapacks by state.
    pub datapacks: BTreeMap<String, i32>,
    /// Leases that are held now.
    pub leases: Vec<Lease>,
    /// Releases that the cluster has now.
    pub releases: i32,
    /// Fault objects that the cluster has now.
    pub active_faults: i32,
    pub recent_runs: Vec<Run>,
    /// What arrived as telemetry and what is kept of it.
    pub ingest: Ingest,
}

/// What arrived as telemetry since the server started, from the network and from simulated runs, and what is kept of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Ingest {
    /// Wall time from which on everything here is counted: the server's start.
    pub since: String,
    /// By namespace and signal, in this order.
    pub records: Vec<IngestRecords>,
    /// Requests refused as a whole, by signal, then by code; under `other` those for no signal: a wrong path.
    pub requests_refused: BTreeMap<String, BTreeMap<String, i64>>,
    /// Received and not yet written into segments, bytes in memory.
    pub waiting_bytes: i64,
    /// Received, and could not be written into segments yet, bytes in files.
    pub backlog_bytes: i64,
    /// Why segments cannot be written, while they cannot.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<String>,
    /// Bytes of all segments.
    pub stored_bytes: i64,
    /// Chunks removed since the start because of their age, and because there were too many bytes.
    pub expired_by_age: i64,
    pub expired_by_size: i64,
}

/// What became of the records of one signal of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IngestRecords {
    /// Empty when the records' resource names none; `(others)` for what is refused because of its namespace.
    pub namespace: String,
    /// `traces`, `metrics` or `logs`.
    pub signal: String,
    pub accepted: i64,
    /// By code.
    pub refused: BTreeMap<String, i64>,
}

/// A lease that is to be given back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseRequest {
    pub resource: String,
}

/// A right that one owner holds: a slot, a task, a limit, a singleton duty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Lease {
    pub resource: String,
    pub owner: String,
    pub fence: i64,
    pub heartbeat_at: String,
}
