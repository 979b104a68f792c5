//! The event stream of a run: server-sent events that can be resumed by number.

use model::{RunId, RunState, TaskId, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// SSE event name of every frame but the last.
pub const UPDATE: &str = "update";
/// SSE event name of the last frame.
pub const END: &str = "end";
/// Longest `data:` line, in bytes: known readers stop at 64 KiB.
pub const LONGEST_LINE: usize = 60 * 1024;

/// `data` of an `update` frame. The frame's id is the event's number in its run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Milliseconds since the Unix epoch.
    pub timestamp: i64,
    #[schema(value_type = Option<String>)]
    pub task_id: Option<TaskId>,
    /// A task type's number.
    pub task_type: Option<i32>,
    pub event_name: String,
    /// In words.
    pub message: String,
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub payload: Option<Value>,
    pub file_name: String,
    pub function_name: String,
    pub line: i32,
}

/// `data` of the `end` frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct End {
    #[schema(value_type = String)]
    pub state: RunState,
    #[schema(value_type = Option<String>)]
    #[serde(default)]
    pub trace_id: Option<RunId>,
    #[schema(value_type = Option<String>)]
    #[serde(default)]
    pub verdict: Option<Verdict>,
    #[serde(default)]
    pub reason: Option<String>,
    #[serde(default)]
    pub message: Option<String>,
}
