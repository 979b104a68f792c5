//! Evaluations: algorithms on datapacks, as durable work with a board at its end.

use std::collections::BTreeMap;

use model::{EvaluationId, ProjectId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::board::Comparison;

/// What is to be evaluated. Without any choice of datapacks it is all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EvaluationRequest {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// `name` or `name:version`; every built-in one when empty. The trivial baselines are always added.
    #[serde(default)]
    pub algorithms: Vec<String>,
    /// A data set, `name` (its newest version) or `name:version`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub dataset: Option<String>,
    /// Only one part of the data set: `open` or `held_out`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub part: Option<String>,
    /// Datapacks by name or number.
    #[serde(default)]
    pub packs: Vec<String>,
    /// Short code of a system.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub system: Option<String>,
    /// The runs of one submission.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub group_id: Option<String>,
    /// Run also what has answered already: the same version on the same datapack.
    #[serde(default)]
    pub always: bool,
    /// Run the built-in algorithms three times more, told a start of the fault that is 15 s too early, 15 s too late, and
    /// the one that the detector finds.
    #[serde(default)]
    pub robustness: bool,
}

/// One evaluation and how far it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Evaluation {
    #[schema(value_type = i32)]
    pub id: EvaluationId,
    #[schema(value_type = i32)]
    pub project_id: ProjectId,
    pub name: String,
    /// `dataset` or `datapack`.
    pub eval_type: String,
    /// The algorithms, joined by commas.
    pub algorithm_name: String,
    pub algorithm_version: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub dataset_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub dataset_version: Option<String>,
    /// `Running`, `Completed` or `Cancelled`.
    pub state: String,
    /// One algorithm on one datapack each.
    pub executions: i64,
    pub done: i64,
    /// Of those done: ended without an answer.
    pub failed: i64,
    /// Datapacks that algorithms run on.
    pub packs: i64,
    /// The others that were asked about, by reason.
    pub excluded: BTreeMap<String, i64>,
    /// Seconds of its processes: reading datapacks, and ranking.
    pub reading_seconds: f64,
    pub ranking_seconds: f64,
    /// JSON text of the figures above, as the public contract has it.
    pub result_json: String,
    pub created_at: String,
    pub updated_at: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ended_at: Option<String>,
}

/// Whether a cancellation changed anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CancelEvaluationReply {
    /// False when it had ended already.
    pub cancelled: bool,
}

/// Which two evaluations are compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct CompareQuery {
    pub first: i32,
    pub second: i32,
    /// `root` (the default) or `public`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// Two evaluations on the datapacks that both scored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EvaluationComparison {
    pub first: i32,
    pub second: i32,
    pub origin: String,
    pub rule: String,
    /// Distinct datapacks that both have.
    pub packs: i32,
    /// Datapacks that only one of them has.
    pub only_first: i32,
    pub only_second: i32,
    /// Each algorithm of the first with itself in the second; the p values are corrected over all of them.
    pub comparisons: Vec<Comparison>,
    /// Algorithms that only one of them has.
    pub not_compared: Vec<String>,
}
