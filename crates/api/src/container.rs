//! Containers in the public form: algorithms, benchmarks, pedestals.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A container as lists show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Container {
    /// Of a built-in method without a container: a number that its name gives.
    pub id: i32,
    pub name: String,
    /// `algorithm`, `benchmark` or `pedestal`.
    #[serde(rename = "type")]
    pub kind: String,
    pub is_public: bool,
    /// `enabled`.
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub created_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub updated_at: Option<String>,
}

/// A container with its versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ContainerDetail {
    #[serde(flatten)]
    pub container: Container,
    pub versions: Vec<ContainerVersion>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ContainerVersion {
    pub id: i32,
    pub name: String,
    /// Empty for what is part of the program.
    pub image_ref: String,
    /// Executions of this version.
    pub usage: i32,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub updated_at: Option<String>,
}

/// Which containers are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ContainerQuery {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<i32>,
    /// A kind's name or number: algorithm 0, benchmark 1, pedestal 2.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}
