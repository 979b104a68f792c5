//! Capabilities and the points of a system that they apply to.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// One fault kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Capability {
    /// Contract: never reused.
    pub id: i32,
    pub name: String,
    pub family: String,
    pub summary: String,
    /// What a target must have.
    pub requires: Vec<String>,
    pub target: Vec<Field>,
    pub params: Vec<Field>,
    /// Kind of the Chaos Mesh object.
    pub chaos_kind: String,
    /// Whether the cluster of this installation can carry it.
    pub available: bool,
    /// Why it cannot.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
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

/// One injectable target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Point {
    /// Stable; computed by the server only.
    pub id: String,
    pub system: String,
    pub service: String,
    pub capability: String,
    /// Target members, ready for a submission.
    #[schema(value_type = Object)]
    pub target: Value,
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
}
