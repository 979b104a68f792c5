//! Runs: `trace` on the wire.

use model::{GroupId, InjectionId, RunId, RunState, TaskId, TaskKind, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::task::Task;

/// A run as lists show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Run {
    #[schema(value_type = String, format = Uuid)]
    pub id: RunId,
    /// `FullPipeline`, or `AlgorithmRun` for one method on a datapack that is there already.
    #[serde(rename = "type")]
    pub kind: String,
    /// `Pending`, `Running`, `Completed`, `Failed` or `Cancelled`.
    #[schema(value_type = String)]
    pub state: RunState,
    /// `enabled`.
    pub status: String,
    #[schema(value_type = String, format = Uuid)]
    pub group_id: GroupId,
    pub project_id: i32,
    pub project_name: String,
    /// Number of the run's tasks that nothing follows.
    pub leaf_num: i32,
    /// Name of the newest event.
    pub last_event: String,
    pub start_time: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub end_time: Option<String>,
    pub created_at: String,
    pub updated_at: String,
    /// Short code of the system.
    pub system: String,
    /// The namespace that the run has or had.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub namespace: Option<String>,
    /// Capabilities injected, joined by `+`; `none` for a control.
    pub fault_type: String,
    /// The targets, joined by `+`.
    pub services: String,
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub verdict: Option<Verdict>,
    /// Why it ended as it did, or what it waits for: a stable code.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// The same in words.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    #[schema(value_type = Option<i32>)]
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub injection_id: Option<InjectionId>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub injection_name: Option<String>,
    pub seed: u64,
    /// Of a paired control: the run that it belongs to.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub control_of: Option<RunId>,
    /// Kind of the cluster that it runs on: `simulated` or `cluster`.
    pub origin_kind: String,
}

/// A run with its tasks and the specification that it follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunDetail {
    #[serde(flatten)]
    pub run: Run,
    /// In the order in which they were created.
    pub tasks: Vec<Task>,
    /// Of a run with a paired control: that run.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub paired_control: Option<RunId>,
    /// Whether every fault was felt; absent when nothing was measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub exposed: Option<bool>,
    /// Whether the targets' own telemetry moved; says nothing about `exposed`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub visible: Option<bool>,
    /// One object per fault: what the mechanism said of its effect, and from when to when that lasted.
    #[schema(value_type = Vec<Object>)]
    #[serde(default)]
    pub witness: Vec<Value>,
    /// The recovery receipt: what was removed, when the system was back inside its normal band, how that was measured.
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub recovery: Option<Value>,
    /// [`crate::spec::RunSpec`] as JSON.
    #[schema(value_type = Object)]
    pub spec: Value,
}

/// Which runs are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RunQuery {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<i32>,
    /// A state's name or number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_id: Option<String>,
    /// Number or name of a project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// Short code of a system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
}

/// What a run waits for, or why it ended, in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    #[schema(value_type = String, format = Uuid)]
    pub id: RunId,
    #[schema(value_type = String)]
    pub state: RunState,
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub verdict: Option<Verdict>,
    /// One sentence that answers the question.
    pub answer: String,
    /// What it rests on, one fact a line.
    pub facts: Vec<String>,
    /// What to do, when there is something to do.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fix: Option<String>,
}

/// Receipt of a cancellation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CancelReply {
    #[schema(value_type = String)]
    pub state: RunState,
    pub message: String,
    /// Tasks that were ended by this call.
    pub cancelled_tasks: Vec<String>,
    /// Names of the run's faults that were live and are removed; of a run that was cancelled before, those that were.
    pub deleted_podchaos: Vec<String>,
    /// Always empty: there is no queue beside the database.
    pub removed_redis_tasks: Vec<String>,
}

/// Which step a retry starts from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryRequest {
    /// A task type's name; the step that failed when absent. FaultInjection needs the system, which a run gives back when it
    /// ends: it starts with RestartPedestal. BuildDatapack reads what was kept of the run, and simulates nothing again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RetryReply {
    #[schema(value_type = String, format = Uuid)]
    pub id: RunId,
    #[schema(value_type = String)]
    pub state: RunState,
    /// The step that the run starts from again.
    #[schema(value_type = String)]
    pub from: TaskKind,
    #[schema(value_type = String, format = Uuid)]
    pub task_id: TaskId,
}
