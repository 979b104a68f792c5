//! Projects, and what is submitted within one in the public forms.

use model::{ExecutionId, GroupId, InjectionId, RunId, TaskId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::injection::Label;

/// What groups runs and their results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Project {
    pub id: i32,
    pub name: String,
    pub description: String,
    /// `enabled`.
    pub status: String,
    pub is_public: bool,
    pub created_at: String,
    pub updated_at: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProjectRequest {
    /// 1 to 128 characters: letters, digits, `-`, `_` and `.`.
    pub name: String,
    #[serde(default)]
    pub description: String,
    /// Every project of an installation is seen by all who may call it: only `true` has a meaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_public: Option<bool>,
}

/// A container by name, and by version where not the newest is meant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContainerSpec {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Of an algorithm: `{"remote": true}` when it runs elsewhere and its answer is uploaded.
    #[schema(value_type = Option<Object>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Map<String, Value>>,
    /// Not taken: a built-in method has no environment, and one that runs elsewhere has its own.
    #[schema(value_type = Option<Vec<Object>>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_vars: Option<Vec<Value>>,
}

/// Runs in the public form: each batch of faults is one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InjectRequest {
    /// Must be the path's project where it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_name: Option<String>,
    /// The system by its code, and the version that is installed.
    pub pedestal: ContainerSpec,
    pub benchmark: ContainerSpec,
    /// Faults that are injected together, by batch, in the guided form (`app`, `chaos_type`, `namespace`, parameters).
    #[schema(value_type = Vec<Vec<Object>>)]
    pub specs: Vec<Vec<Map<String, Value>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithms: Option<Vec<ContainerSpec>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<Label>>,
    /// Any free slot of the pool, whatever namespace the faults name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_allocate: Option<bool>,
    /// A slot is always installed when it is not there: has no effect of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_bootstrap: Option<bool>,
    /// Only an idempotency key deduplicates here: has no effect of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force_resubmit: Option<bool>,
    /// Refused when true: every run starts from a fresh release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_restart_pedestal: Option<bool>,
    /// Minutes of the normal window; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_duration: Option<i64>,
    /// Minutes of both windows together, where a client names them: must be what they add up to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<i64>,
}

/// The runs of an [`InjectRequest`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InjectReply {
    #[schema(value_type = String, format = Uuid)]
    pub group_id: GroupId,
    /// One for each batch.
    pub items: Vec<InjectedRun>,
    /// Number of batches asked for.
    pub original_count: i32,
    /// The same idempotency key was used before.
    pub deduplicated: bool,
    /// What deserves a second look and is no error, in words.
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InjectedRun {
    pub index: i32,
    #[schema(value_type = String, format = Uuid)]
    pub trace_id: RunId,
    #[schema(value_type = String, format = Uuid)]
    pub task_id: TaskId,
    #[schema(value_type = i32)]
    pub injection_id: InjectionId,
    pub injection_name: String,
    pub seed: u64,
}

/// Executions in the public form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecuteRequest {
    /// Must be the path's project where there is one.
    pub project_name: String,
    pub specs: Vec<ExecuteSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<Label>>,
}

/// One algorithm on one datapack, or on every datapack of a data set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecuteSpec {
    pub algorithm: ContainerSpec,
    /// Name or number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datapack: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<ContainerSpec>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExecuteReply {
    #[schema(value_type = String, format = Uuid)]
    pub group_id: GroupId,
    pub items: Vec<SubmittedExecution>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SubmittedExecution {
    pub index: i32,
    #[schema(value_type = String, format = Uuid)]
    pub trace_id: RunId,
    #[schema(value_type = String, format = Uuid)]
    pub task_id: TaskId,
    /// Where an answer is uploaded to, and read.
    #[schema(value_type = i32)]
    pub execution_id: ExecutionId,
    pub algorithm_id: i32,
    pub algorithm_version_id: i32,
    #[schema(value_type = i32)]
    pub datapack_id: InjectionId,
    pub datapack_name: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub dataset_id: Option<i32>,
    /// Until when the answer of a method that runs elsewhere is taken.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub upload_until: Option<String>,
}

/// Which labels are set and which are taken away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LabelRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_labels: Option<Vec<Label>>,
    /// Keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove_labels: Option<Vec<String>>,
}
