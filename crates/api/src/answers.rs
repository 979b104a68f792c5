//! What algorithms answered, beside the truth, as programs ask for it that score by themselves. Nothing is run.

use model::ExecutionId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::algorithm::{DetectorResult, RankedAnswer};
use crate::injection::{GroundTruth, Label};

/// Something by its name, and its version where that matters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Named {
    pub name: String,
    /// Of an algorithm every version when absent, of a data set the newest.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub version: Option<String>,
}

/// Whose answers are wanted of one datapack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DatapackQuestion {
    pub algorithm: Named,
    /// A datapack by name or number.
    pub datapack: String,
    /// Only executions that carry all of these.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub filter_labels: Option<Vec<Label>>,
}

/// Whose answers are wanted of every datapack of a data set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DatasetQuestion {
    pub algorithm: Named,
    pub dataset: Named,
    /// Only executions that carry all of these.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub filter_labels: Option<Vec<Label>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DatapackQuestions {
    /// 1 to 100.
    pub specs: Vec<DatapackQuestion>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DatasetQuestions {
    /// 1 to 100.
    pub specs: Vec<DatasetQuestion>,
}

/// One execution that gave an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExecutionAnswer {
    #[schema(value_type = i32)]
    pub execution_id: ExecutionId,
    /// Seconds that the method took.
    pub execution_duration: f64,
    pub executed_at: String,
    pub predictions: Vec<RankedAnswer>,
    pub detector_results: Vec<DetectorResult>,
}

/// One datapack of a data set with its answers, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DatapackAnswers {
    pub datapack: String,
    /// One for each fault.
    pub groundtruths: Vec<GroundTruth>,
    pub execution_refs: Vec<ExecutionAnswer>,
}

/// The answer to one question about a datapack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DatapackReply {
    pub algorithm: String,
    /// As it was asked for; empty when every version was.
    pub algorithm_version: String,
    #[serde(flatten)]
    pub answers: DatapackAnswers,
}

/// The answer to one question about a data set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DatasetReply {
    pub algorithm: String,
    /// As it was asked for; empty when every version was.
    pub algorithm_version: String,
    pub dataset: String,
    pub dataset_version: String,
    /// Datapacks of the data set.
    pub total_count: i32,
    /// Spelled as the public contract has it.
    pub evalaute_refs: Vec<DatapackAnswers>,
    pub not_executed_datapacks: Vec<String>,
}

/// Answers to several questions. A question that cannot be answered does not spoil the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Answered<T> {
    pub success_count: i32,
    pub success_items: Vec<T>,
    pub failed_count: i32,
    /// The question's place from 0, and why.
    pub failed_items: Vec<String>,
}
