//! Tasks and what they logged.

use model::{GroupId, RunId, TaskId, TaskKind, TaskState};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// One leased step of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Task {
    #[schema(value_type = String, format = Uuid)]
    pub id: TaskId,
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    pub kind: TaskKind,
    /// Of RunAlgorithm and CollectResult: the algorithm.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub algorithm: Option<String>,
    #[schema(value_type = String)]
    pub state: TaskState,
    /// `enabled`.
    pub status: String,
    #[schema(value_type = String, format = Uuid)]
    pub trace_id: RunId,
    #[schema(value_type = String, format = Uuid)]
    pub group_id: GroupId,
    pub project_id: i32,
    pub project_name: String,
    pub immediate: bool,
    /// When it may be taken up next: seconds since the Unix epoch.
    pub execute_time: i64,
    /// How often it was taken up.
    pub attempt: i32,
    /// Stable code of what it waits for or of how it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// The same in words.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// Who holds it now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub owner: Option<String>,
    pub created_at: String,
    pub updated_at: String,
}

/// A task with its log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskDetail {
    #[serde(flatten)]
    pub task: Task,
    pub logs: Vec<String>,
}

/// Which tasks are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TaskQuery {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<i32>,
    /// A state's name or number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// A type's name or number. `type` is the same.
    #[serde(skip_serializing_if = "Option::is_none", alias = "type")]
    pub task_type: Option<String>,
    /// Id of a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

/// One line of a task's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    pub timestamp: String,
    /// `info`, `warn` or `error`.
    pub level: String,
    pub line: String,
    #[schema(value_type = String, format = Uuid)]
    pub task_id: TaskId,
    #[schema(value_type = String, format = Uuid)]
    pub trace_id: RunId,
}
