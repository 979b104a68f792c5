//! Injections and the datapacks that they lead to: one row for both.

use std::collections::BTreeMap;

use model::{InjectionId, PackState, RunId, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// An injection as lists show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Injection {
    #[schema(value_type = i32)]
    pub id: InjectionId,
    /// Neutral: names neither fault nor target.
    pub name: String,
    /// `injection`.
    pub source: String,
    /// Capability; `hybrid` for several, `none` for a control.
    pub fault_type: String,
    /// Short code of the system.
    pub category: String,
    #[schema(value_type = String)]
    pub state: PackState,
    /// `enabled`.
    pub status: String,
    /// Length of the normal window in minutes, rounded up.
    pub pre_duration: i32,
    /// Data time of the fault's start and end (of the abnormal window for a control).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub start_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub end_time: Option<String>,
    pub labels: Vec<Label>,
    pub created_at: String,
    pub updated_at: String,
    #[schema(value_type = String, format = Uuid)]
    pub trace_id: RunId,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub namespace: Option<String>,
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub verdict: Option<Verdict>,
    /// Whether the target felt the fault; absent when nothing was measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub exposed: Option<bool>,
    /// Whether the targets' own telemetry moved: for whoever chooses datapacks, never a filter of scores.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub visible: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Label {
    pub key: String,
    /// Empty for a label that is only there or not.
    #[serde(default)]
    pub value: String,
}

/// Everything about one injection, its sealed part included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InjectionDetail {
    #[serde(flatten)]
    pub injection: Injection,
    /// What was asked for, in one object.
    #[schema(value_type = Object)]
    pub display_config: Value,
    /// One object per fault: capability, service, target and parameters as resolved.
    #[schema(value_type = Vec<Object>)]
    pub engine_config: Vec<Value>,
    /// Services where a fault acts. A ranking that names one of them first is right.
    pub roots: Vec<String>,
    /// The public label: the other parties of the faults are in it as well.
    pub ground_truth: Vec<GroundTruth>,
    /// `auto`.
    pub groundtruth_source: String,
    /// What the mechanism said about each fault's effect.
    #[schema(value_type = Vec<Object>)]
    pub witness: Vec<Value>,
    /// How the system looked after the fault.
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub recovery: Option<Value>,
}

/// Ground truth of one fault by level. Every list may be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroundTruth {
    pub service: Vec<String>,
    pub pod: Vec<String>,
    pub container: Vec<String>,
    pub metric: Vec<String>,
    pub function: Vec<String>,
    pub span: Vec<String>,
}

/// Which injections are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct InjectionQuery {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<i32>,
    /// A state's name or number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Short code of a system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
}

/// Which injections are wanted, in one body. A filter that is not listed here is refused: it would have no effect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InjectionSearch {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i32>,
    /// A part of the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_pattern: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<Vec<String>>,
    /// Numbers of states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states: Option<Vec<i32>>,
    /// All of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<Label>>,
    /// Labels are always shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_labels: Option<bool>,
    /// The run is always shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_task: Option<bool>,
}

/// The files of a datapack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileTree {
    pub files: Vec<FileNode>,
}

/// A file, or a folder when it has children.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileNode {
    pub name: String,
    /// Relative to the datapack's folder, with `/`.
    pub path: String,
    /// Bytes, in words (`12.4 KiB`).
    pub size: String,
    pub bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(no_recursion)]
    pub children: Option<Vec<FileNode>>,
}

/// Which file of a datapack is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct FileQuery {
    /// As [`FileNode::path`].
    pub path: String,
}

/// Whether a datapack is what was built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VerifyReport {
    #[schema(value_type = i32)]
    pub id: InjectionId,
    pub name: String,
    pub ok: bool,
    /// Every file that was built, and every one that should not be there.
    pub files: Vec<FileCheck>,
    /// Rows of each parquet file.
    pub rows: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileCheck {
    pub path: String,
    /// `ok`, `changed`, `missing`, `unexpected` or `unreadable`.
    pub state: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub detail: Option<String>,
}
