//! Data sets: named, versioned, immutable sets of datapacks.

use std::collections::BTreeMap;

use model::DatasetId;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A version of a data set that is to be made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DatasetRequest {
    pub name: String,
    pub version: String,
    #[serde(default)]
    pub description: String,
    /// SPDX identifier of the license under which the data may be used.
    pub license: String,
    /// Datapacks by name or number; with `system` or `group_id` those as well.
    #[serde(default)]
    pub packs: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub system: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub group_id: Option<String>,
    /// Share of the groups of equal system and point that are held out, 0 to 1.
    #[serde(default)]
    pub held_out: f64,
    /// Which groups are held out follows from this and from nothing else.
    #[serde(default)]
    pub split_seed: u64,
}

/// One data set as lists show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Dataset {
    #[schema(value_type = i32)]
    pub id: DatasetId,
    pub name: String,
    /// `datapack`.
    #[serde(rename = "type")]
    pub kind: String,
    pub description: String,
    /// `enabled`.
    pub status: String,
    pub is_public: bool,
    /// Its versions, oldest first.
    pub versions: Vec<DatasetVersion>,
    pub created_at: String,
    pub updated_at: String,
}

/// One version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DatasetVersion {
    #[schema(value_type = i32)]
    pub id: DatasetId,
    /// The version.
    pub name: String,
    pub license: String,
    pub packs: i32,
    pub held_out: i32,
    /// SHA-256 of the manifest.
    pub digest: String,
    pub updated_at: String,
}

/// What one version is made of. Its canonical JSON is what [`DatasetVersion::digest`] is the digest of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Manifest {
    pub format: u32,
    pub name: String,
    pub version: String,
    pub description: String,
    pub license: String,
    /// `simulated` or `cluster`: never both in one data set.
    pub origin: String,
    pub split: Split,
    pub members: Vec<Member>,
}

/// How the held-out part was chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Split {
    /// Datapacks of one system and point are never parted: whoever saw one knows the other.
    pub by: String,
    pub held_out: f64,
    pub seed: u64,
}

/// One datapack of a data set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Member {
    pub name: String,
    pub system: String,
    /// Capability; several joined by `+`, `none` for a control.
    pub fault_type: String,
    /// `open` or `held_out`.
    pub part: String,
    /// SHA-256 of the datapack's `sha256sum.txt` as it is stored, which covers all of its files.
    pub sha256: String,
}

/// Whether every datapack is still what the manifest says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DatasetReport {
    pub name: String,
    pub version: String,
    pub ok: bool,
    pub packs: i32,
    /// What is wrong, by datapack.
    pub findings: BTreeMap<String, String>,
}

/// Which part of a data set is downloaded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DownloadQuery {
    /// `open` or `held_out`; both when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
}
