//! The scored board.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Which datapacks a board counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct BoardQuery {
    /// Short code of a system; all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Only the runs of one submission.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_id: Option<String>,
    /// `ranking`, `pipeline` or `detected only`; all three when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<String>,
    /// `root` (the default) or `public`: which services of the ground truth count as a hit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// Scores of every algorithm over the datapacks of one kind of cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Board {
    /// `simulated` or `cluster`: never a mean over both.
    pub origin: String,
    /// What counts as a hit: `root` or `public`.
    pub rule: String,
    /// The start of the fault was known to the algorithms.
    pub onset: String,
    /// How the figures are defined, in words.
    pub definition: String,
    pub rows: Vec<BoardRow>,
    /// Datapacks that no row counts, by reason.
    pub excluded: Vec<Excluded>,
    /// No-fault controls.
    pub controls: Controls,
    pub notes: Vec<String>,
}

/// One algorithm in one row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BoardRow {
    /// `ranking` (all exposed packs), `pipeline` (undetected = miss) or `detected only`.
    pub row: String,
    pub algorithm: String,
    pub version: String,
    pub in_house: bool,
    pub baseline: bool,
    /// Distinct datapacks behind the figures.
    pub packs: i32,
    /// Distinct (system, target) clusters among them.
    pub clusters: i32,
    /// Executions that crashed or timed out; they count as misses.
    pub failures: i32,
    pub ac1: Figure,
    pub ac3: Figure,
    pub ac5: Figure,
    pub avg5: Figure,
    pub mrr: Figure,
}

/// A figure with its 95 % interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Figure {
    pub value: f64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub low: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub high: Option<f64>,
    /// `bootstrap`, `exact`, or `n too small`.
    pub interval: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Excluded {
    pub reason: String,
    pub packs: i32,
}

/// What the detector said where there was no fault.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Controls {
    pub packs: i32,
    pub false_alarms: i32,
}
