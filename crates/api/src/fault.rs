//! Capabilities and the points of a system that they apply to.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// One fault kind: the whole row of the table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Capability {
    /// Contract: never reused.
    pub id: i32,
    pub name: String,
    /// The same kind in the public vocabulary, for example `NetworkDelay`.
    pub chaos_type: String,
    pub family: String,
    pub summary: String,
    /// What it is aimed at beside the service: `service`, `container`, `link`, `http`, `dns`, `jvm_method` or `table`.
    pub target_kind: String,
    pub target: Vec<Field>,
    pub params: Vec<Field>,
    /// What the target and the cluster must have.
    pub requires: Vec<String>,
    /// `one_shot`, or `window` for a fault that acts from the start of the abnormal window to its end.
    pub length: String,
    /// The mechanism that it changes.
    pub acts_on: String,
    pub truth: Truth,
    pub witness: WitnessRule,
    /// What must be observed when it acts on a loaded target, and what must not.
    #[schema(value_type = Object)]
    #[serde(skip_serializing_if = "Value::is_null", default)]
    pub contract: Value,
    /// Kind of the Chaos Mesh object.
    pub chaos_kind: String,
    /// The object's own fields and where their values come from.
    #[schema(value_type = Object)]
    pub object: Value,
    /// Whether the simulated cluster carries it out.
    pub simulated: bool,
    /// Whether the cluster of this installation carries it out.
    pub available: bool,
    /// Why it does not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

/// Which labels a fault implies, beside the acting service with its pods and container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Truth {
    /// The other party is labelled as peer.
    pub peer: bool,
    /// Metric family of the public vocabulary.
    pub metric: Option<String>,
    /// `Class.method` of the target is labelled.
    pub function: bool,
    /// The spans that the fault touches are labelled.
    pub span: bool,
}

/// When a target counts as having felt the fault.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WitnessRule {
    /// What is counted.
    pub unit: String,
    /// Least share of the units that passed the mechanism, 0 to 1.
    pub min_share: f64,
    /// Least number of touched units.
    pub min_count: u64,
    pub why: String,
}

/// One member of a target or of the parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Field {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub required: bool,
    /// The unit is in the name; this says it in words.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unit: Option<String>,
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub default: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub minimum: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub maximum: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub values: Vec<String>,
    pub description: String,
}

/// One injectable target of one capability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Point {
    /// Stable; computed by the server only.
    pub id: String,
    pub system: String,
    pub service: String,
    pub capability: String,
    pub family: String,
    /// Target members, ready for a submission.
    #[schema(value_type = Object)]
    pub target: Value,
    /// Read from code or charts, not seen in telemetry.
    pub inferred: bool,
    /// Whether the known journeys of users come by here; elsewhere a fault will hardly be felt.
    pub on_path: bool,
    /// Whether the simulated cluster carries the fault out.
    pub simulated: bool,
}

/// Which points are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PointQuery {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capability: Option<String>,
    /// Only points that the known journeys of users come by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_path: Option<bool>,
}
