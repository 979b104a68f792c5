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
}

/// A right that one owner holds: a slot, a task, a limit, a singleton duty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Lease {
    pub resource: String,
    pub owner: String,
    pub fence: i64,
    pub heartbeat_at: String,
}
