//! Algorithms and their executions.

use std::collections::BTreeMap;

use model::{
    Answer, ErrorKind, EvaluationId, ExecutionId, ExecutionState, InjectionId, Level, Problem, Result, RunId, TaskId,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::injection::Label;

/// One version of a detector or an algorithm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Algorithm {
    pub name: String,
    /// `builtin`, a version of a command, or one of a seed's container.
    pub version: String,
    /// `detector` or `algorithm`.
    pub role: String,
    /// `built in`, `command` or `container`.
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
    /// Of a built-in method: what its reader should know.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub method: Option<Method>,
    /// Of a command: what is run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub command: Option<CommandSpec>,
}

/// A built-in method as it is implemented.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Method {
    /// Parts of the datapack that it reads: `inventory`, `traces`, `logs`, `metrics`.
    pub input: Vec<String>,
    /// What it makes of the input: rows, columns, lists.
    pub shapes: String,
    /// Of what goes in, and of the score.
    pub units: String,
    pub complexity: String,
    /// Where it differs from the publication.
    pub deviations: Vec<String>,
}

/// A command that ranks the suspects of one datapack. A version of it never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandSpec {
    /// The program and its arguments. A program without a slash is looked for in the server's `PATH`.
    pub command: Vec<String>,
    /// Variables besides those of the contract, which they cannot replace.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Longest time for one datapack.
    pub timeout_seconds: u64,
    /// Most memory of all its processes together.
    pub memory_mib: u64,
    #[serde(default)]
    pub network: Network,
    /// Run it although this machine cannot keep it apart, with every right of the server. Its results are marked.
    #[serde(default)]
    pub no_isolation: bool,
}

/// What a command may reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Nothing.
    #[default]
    None,
    /// This server, to hand over its answer.
    Server,
    /// Everything that the server reaches.
    All,
}

/// A command to be added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddAlgorithmRequest {
    pub name: String,
    pub version: String,
    /// The program and its arguments. Either this or an image.
    #[serde(default)]
    pub command: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub image: Option<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The server's own limit when absent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub timeout_seconds: Option<u64>,
    /// The server's own limit when absent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub memory_mib: Option<u64>,
    #[serde(default)]
    pub network: Network,
    #[serde(default)]
    pub no_isolation: bool,
}

/// What an algorithm is tried on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TestAlgorithmRequest {
    /// A datapack by name or number.
    pub datapack: String,
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
    /// Seconds that the method took.
    pub duration: f64,
    /// Largest resident memory, bytes, where it was measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub peak_memory: Option<u64>,
    /// Of a command: `namespaces`, or `none` when nothing kept it apart.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub isolation: Option<String>,
    /// What it was told of the fault's start: `known`, `early` and `late` by 15 s, `detected`.
    pub onset: String,
    /// The evaluation that ran it.
    #[schema(value_type = Option<i32>)]
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub evaluation_id: Option<EvaluationId>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluation_id: Option<i32>,
}

/// Most suspects of one answer.
const MOST_ANSWERS: usize = 10_000;

/// An answer as it was given, ordered by rank. The ranks are exactly 1, 2, 3, ...: what is missing may have been lost on
/// its way, and closing the gap would better the place of what comes after it.
///
/// # Errors
/// `algorithm.answer_empty`, `algorithm.answer_invalid`, `algorithm.answer_too_large`.
pub fn ranked_answers(mut results: Vec<RankedAnswer>) -> Result<Vec<Answer>> {
    let refuse = |code, message: &str| Problem::new(ErrorKind::Failed, code, message);
    let invalid = |message: &str, found: String| Err(refuse("algorithm.answer_invalid", message).found(found));
    if results.is_empty() {
        return Err(refuse("algorithm.answer_empty", "it names no suspect").expected("at least one"));
    }
    if results.len() > MOST_ANSWERS {
        return Err(refuse("algorithm.answer_too_large", "it names too many suspects")
            .found(results.len().to_string())
            .expected(format!("at most {MOST_ANSWERS}")));
    }
    results.sort_by_key(|answer| answer.rank);
    for answer in &results {
        if answer.rank < 1 {
            return invalid("a rank is not positive", format!("rank {} of `{}`", answer.rank, answer.result));
        }
        if answer.result.is_empty() {
            return invalid("a suspect has no name", format!("rank {}", answer.rank));
        }
        if answer.confidence.is_some_and(|confidence| !confidence.is_finite()) {
            return invalid("a confidence is no number", format!("`{}`", answer.result));
        }
    }
    if let Some(pair) = results.windows(2).find(|pair| pair[0].rank == pair[1].rank) {
        let found = format!("`{}` and `{}` at rank {}", pair[0].result, pair[1].result, pair[0].rank);
        return invalid("two suspects have one rank", found);
    }
    if let Some((answer, place)) = results.iter().zip(1..).find(|(answer, place)| answer.rank != *place) {
        let found = format!("`{}` at rank {} and nothing at rank {place}", answer.result, answer.rank);
        return invalid("its ranks are not 1, 2, 3, ...", found);
    }
    // Many write a constant where a confidence is asked for; taken at its word it would make a tie of everything.
    let constant = results.iter().all(|answer| answer.confidence == results[0].confidence);
    let answer = |(answer, rank): (RankedAnswer, u32)| Answer {
        level: answer.level,
        name: answer.result,
        rank,
        score: if constant { None } else { answer.confidence },
    };
    Ok(results.into_iter().zip(1..).map(answer).collect())
}
