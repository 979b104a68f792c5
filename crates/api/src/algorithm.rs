//! Algorithms and their executions.

use model::{ExecutionId, ExecutionState, InjectionId, Level, RunId, TaskId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::injection::Label;

/// One version of a detector or an algorithm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Algorithm {
    pub name: String,
    /// `builtin`, or a version of a seed's container.
    pub version: String,
    /// `detector` or `algorithm`.
    pub role: String,
    /// `built in` or `container`.
    pub kind: String,
    /// Whether it can run here.
    pub runnable: bool,
    /// Why it cannot.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// A method of this project's own, which boards mark.
    pub in_house: bool,
    /// A trivial method that every board shows for comparison.
    pub baseline: bool,
    /// What it does, in a sentence.
    pub summary: String,
    /// Shortest normal window that it declares, in seconds. Of a method that counts points of a metric: where one is
    /// collected every 15 s; a system that collects more seldom needs more.
    pub minimum_window_seconds: i64,
    /// Where it is defined.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub source: Option<String>,
}

/// One run of one algorithm on one datapack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Execution {
    #[schema(value_type = i32)]
    pub id: ExecutionId,
    pub algorithm_id: i32,
    pub algorithm_name: String,
    pub algorithm_version: String,
    pub algorithm_version_id: i32,
    #[schema(value_type = i32)]
    pub datapack_id: InjectionId,
    pub datapack_name: String,
    /// `Initial`, `Failed` or `Success`.
    #[schema(value_type = String)]
    pub state: ExecutionState,
    /// `enabled`.
    pub status: String,
    /// Seconds that the method's process took.
    pub duration: f64,
    #[schema(value_type = Option<String>)]
    pub task_id: Option<TaskId>,
    #[schema(value_type = String, format = Uuid)]
    pub trace_id: RunId,
    pub labels: Vec<Label>,
    /// Stable code of a failure.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    pub created_at: String,
    pub updated_at: String,
}

/// An execution with what it answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExecutionDetail {
    #[serde(flatten)]
    pub execution: Execution,
    pub granularity_results: Vec<RankedAnswer>,
    /// Of the detector: one entry per entrance.
    pub detector_results: Vec<DetectorResult>,
}

/// One suspect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RankedAnswer {
    #[schema(value_type = String)]
    pub level: Level,
    pub result: String,
    /// From 1.
    pub rank: i32,
    /// The method's own score.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub confidence: Option<f64>,
}

/// What the detector saw at one entrance. Durations in seconds, rates from 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DetectorResult {
    pub span_name: String,
    /// JSON text of the issues found; `{}` when there is none.
    pub issues: String,
    #[serde(default)]
    pub abnormal_avg_duration: Option<f64>,
    pub normal_avg_duration: Option<f64>,
    pub abnormal_p90: Option<f64>,
    pub normal_p90: Option<f64>,
    pub abnormal_p95: Option<f64>,
    pub normal_p95: Option<f64>,
    pub abnormal_p99: Option<f64>,
    pub normal_p99: Option<f64>,
    pub abnormal_succ_rate: Option<f64>,
    pub normal_succ_rate: Option<f64>,
}

/// What a method that runs elsewhere found. As the public contract has it: names are compared as text, so a service may be
/// named more than once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RankingUpload {
    /// Seconds that the method took; more than 0.
    pub duration: f64,
    /// At least one.
    pub results: Vec<UploadedSuspect>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UploadedSuspect {
    /// `service`, `pod`, `container`, `metric`, `function` or `span`.
    pub level: String,
    pub result: String,
    /// From 1, each once in the whole upload.
    pub rank: i32,
    /// 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub confidence: Option<f64>,
}

/// What a detector that runs elsewhere saw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DetectorUpload {
    /// Seconds that the detector took; more than 0.
    pub duration: f64,
    /// At least one.
    pub results: Vec<DetectorResult>,
}

/// Receipt of an upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UploadReply {
    pub result_count: i32,
    pub uploaded_at: String,
    /// Of a detector: whether it saw an issue.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub has_anomalies: Option<bool>,
}

/// Which executions are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ExecutionQuery {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<i32>,
    /// A state's name or number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datapack_id: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
}
