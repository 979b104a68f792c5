//! What can be asked of datapacks beside listing and downloading them: health, differences, SQL.

use model::{InjectionId, PackState};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// What is right and wrong with a datapack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Diagnosis {
    #[schema(value_type = i32)]
    pub injection_id: InjectionId,
    pub injection_name: String,
    #[schema(value_type = String)]
    pub state: PackState,
    /// `not_built`, `state_inconsistent`, `incomplete`, `empty_parquets` or `healthy`.
    pub health: String,
    pub missing_files: Vec<String>,
    /// Required signals without rows.
    pub empty_parquets: Vec<String>,
    /// Files that no datapack has.
    pub unexpected_extras: Vec<String>,
    pub parquets: Vec<FileState>,
    pub json: Vec<FileState>,
    /// What was measured when the datapack was built: rows, gaps, duplicates, attributes and coverage of both windows, and
    /// what is not as it should be with its probable cause. The datapack's contract says its members.
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub quality: Option<Value>,
    /// Services whose clock disagrees with their callers', worst first.
    pub clock_skew: Vec<ClockSkew>,
    /// All of it in sentences, what is wrong first.
    pub notes: Vec<String>,
}

/// A file that a datapack should have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileState {
    pub name: String,
    pub present: bool,
    /// Of a parquet file that can be read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rows: Option<u64>,
    /// Bytes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub size: Option<u64>,
    /// Stable code of what is wrong with it: `datapack.checksum_mismatch`, `datapack.column_type`, ...
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<String>,
    /// The same in words.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub problem: Option<String>,
}

/// A service whose spans begin before the spans that call them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClockSkew {
    pub service: String,
    /// Spans of the service that a span of another service calls.
    pub calls: u64,
    /// How many of them begin more than 1 ms before their caller.
    pub early: u64,
    /// The longest such time, in nanoseconds.
    pub worst_ns: u64,
}

/// Which two datapacks are compared; names or numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DiffQuery {
    pub left: String,
    pub right: String,
}

/// In what two datapacks differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Diff {
    /// Whether telemetry, cluster objects and truth are equal; ids and times of the builds may differ.
    pub same: bool,
    /// Files that are equal.
    pub equal: Vec<String>,
    pub tables: Vec<TableDiff>,
    pub documents: Vec<DocumentDiff>,
}

/// A parquet file that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TableDiff {
    pub file: String,
    /// Columns that one side lacks or has in another type, as `name: left / right`.
    pub columns: Vec<String>,
    /// Rows of the left and of the right side.
    pub rows: Vec<u64>,
    /// Absent when one side is the beginning of the other.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub first: Option<CellDiff>,
}

/// The first cell that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CellDiff {
    /// Counted from zero.
    pub row: u64,
    pub column: String,
    /// Of a column of attributes: the first attribute that differs, whose values the sides are then.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub attribute: Option<String>,
    pub left: String,
    pub right: String,
}

/// A JSON file that differs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DocumentDiff {
    pub file: String,
    /// The first place where they differ, as a JSON pointer.
    pub at: String,
    pub left: Value,
    pub right: Value,
}

/// The flat layout that was attached to a datapack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Converted {
    pub name: String,
    /// Paths in the datapack.
    pub files: Vec<String>,
}

/// Which datapacks are exported, and into which layout.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExportRequest {
    /// Names or numbers.
    pub packs: Vec<String>,
    /// `rcaeval` or `csv`.
    pub format: String,
}

/// A query in SQL over the open parts of datapacks.
///
/// The tables are `traces`, `logs`, `metrics`, `metrics_sum`, `metrics_histogram` and `trace_id_ts`, with the columns of the
/// files and two more: `pack`, a datapack's name, and `window`, `normal` or `abnormal`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueryRequest {
    pub sql: String,
    /// Names or numbers; all that are built when it is empty.
    #[serde(default)]
    pub packs: Vec<String>,
    /// Only datapacks of this system, when none are named.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub system: Option<String>,
    /// Longest time of computing; 1 to 600, 60 when absent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seconds: Option<u64>,
    /// Memory of sorts, groups and joins; 16 to 4096, 512 when absent. What does not fit goes to disk where it can.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub memory_mib: Option<u64>,
    /// Rows of the answer at most; 1 to 1,000,000,000, a million when absent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rows: Option<u64>,
}

/// The first line of an answer. After it comes one array for each row, and then one [`QueryLast`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueryFirst {
    pub columns: Vec<QueryColumn>,
}

/// The last line of an answer. An answer without one was cut.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueryLast {
    End(QueryEnd),
    /// What went wrong after the first rows: a problem object.
    #[schema(value_type = Object)]
    Error(model::Problem),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueryColumn {
    pub name: String,
    /// `text`, `int64`, `uint64`, `float64`, `timestamp`, ...
    #[serde(rename = "type")]
    pub kind: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueryEnd {
    pub rows: u64,
    /// Time of planning and computing.
    pub seconds: f64,
}
