//! The kill switch: no new faults, and every live one is recovered.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Turns the switch on or off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KillSwitchRequest {
    pub engaged: bool,
    /// Why, for those who find it on.
    #[serde(default)]
    pub reason: String,
}

/// How the switch stands, and what is still to be recovered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KillSwitch {
    pub engaged: bool,
    pub reason: String,
    /// Absent when nobody ever touched it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub changed_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub changed_at: Option<String>,
    /// Faults that are on the cluster now.
    pub active_faults: Vec<ActiveFault>,
}

/// One fault that has not been recovered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ActiveFault {
    /// Name of its object.
    pub name: String,
    pub namespace: String,
    /// The run that it belongs to, as its labels say.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run: Option<String>,
    /// Pods that it hits.
    pub pods: Vec<String>,
    /// Data time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started_at: Option<String>,
}
