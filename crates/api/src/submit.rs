//! Submitting runs.

use model::{GroupId, InjectionId, RunId, TaskId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// Asks for one run, or for several that differ only in their simulator seed.
///
/// Everything is checked before anything is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// Short code of a registered and enabled system. May be left out when the first fault names a point.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub system: String,
    /// Use this slot of the pool; any free one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<u32>,
    /// Faults that are injected together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultRequest>,
    /// Observe the system without any fault. Excludes `faults`.
    #[serde(default)]
    pub no_fault: bool,
    /// Add a run without the fault that starts from the same environment.
    #[serde(default)]
    pub paired_control: bool,
    /// Simulator seed; drawn when absent. With `repeat` the seeds count up from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Where data time starts on the simulated cluster: seconds since the Unix epoch; the present second when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<i64>,
    #[serde(default)]
    pub windows: WindowsRequest,
    /// Journeys per second; those that the system is normally used with when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
    /// Strength of the simulated noise, 0 to 2; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<f64>,
    /// `name` or `name:version`; none when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub algorithms: Vec<String>,
    /// Rank even when the detector sees no anomaly.
    #[serde(default)]
    pub always_rank: bool,
    /// Refuse windows that are too short for the detector or an algorithm, instead of a warning.
    #[serde(default)]
    pub strict: bool,
    /// Number of runs: 1 to 100.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 100)]
    pub repeat: u32,
    /// Check everything and store nothing.
    #[serde(default)]
    pub dry_run: bool,
}

const fn one() -> u32 {
    1
}

/// One fault: either a point, or a service with a capability and what of the target they leave open.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FaultRequest {
    /// Id of a point; excludes `service`, `capability` and `target`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub service: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub capability: String,
    /// Where on the service, by the capability's target schema (`route`, `class`, `method`, `database`, ...).
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub target: Map<String, Value>,
    /// By the capability's parameter schema; defaults for what is absent.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub params: Map<String, Value>,
}

/// Lengths in seconds of data time; 60 when absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowsRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub normal_seconds: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abnormal_seconds: Option<i64>,
}

impl WindowsRequest {
    pub const DEFAULT_SECONDS: i64 = 60;
}

/// The runs of one submission.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SubmitReply {
    #[schema(value_type = String, format = Uuid)]
    pub group_id: GroupId,
    pub items: Vec<SubmittedRun>,
    /// Number of runs asked for.
    pub original_count: i32,
    /// The same idempotency key was used before: `items` are the runs of then, and nothing was stored.
    pub deduplicated: bool,
    pub dry_run: bool,
    /// What deserves a second look and is no error, in words.
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SubmittedRun {
    pub index: i32,
    /// The run's id.
    #[schema(value_type = String, format = Uuid)]
    pub trace_id: RunId,
    /// Its first task.
    #[schema(value_type = Option<String>)]
    pub task_id: Option<TaskId>,
    #[schema(value_type = Option<i32>)]
    pub injection_id: Option<InjectionId>,
    pub seed: u64,
    /// Of a paired control: the run that it belongs to.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub control_of: Option<RunId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_member_is_refused_and_the_short_form_is_enough() {
        let short: RunRequest = serde_json::from_str(r#"{"system": "ts", "no_fault": true}"#).unwrap();
        assert_eq!((short.repeat, short.no_fault, short.windows), (1, true, WindowsRequest::default()));
        let error = serde_json::from_str::<RunRequest>(r#"{"system": "ts", "windows": {"normal": 5}}"#).unwrap_err();
        assert!(error.to_string().contains("unknown field `normal`"), "{error}");
    }
}
