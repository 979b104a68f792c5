//! The scored board.

use std::collections::BTreeMap;
use std::fmt;

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
    /// Only one evaluation: its datapacks, and what ran for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<i32>,
    /// Only the datapacks of a data set, `name` (its newest version) or `name:version`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
}

/// A board as a document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ExportQuery {
    /// `md`, `csv`, `svg` or `png`.
    pub format: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
}

/// Scores of every algorithm over the datapacks of one kind of cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Board {
    /// `simulated` or `cluster`, or `imported` where `aegis datapack score` made it: never a mean over several.
    pub origin: String,
    /// What counts as a hit: `root` or `public`.
    pub rule: String,
    /// The start of the fault was known to the algorithms.
    pub onset: String,
    /// How the figures are defined, in words.
    pub definition: String,
    /// How many injections with a fault are left at each stage.
    pub funnel: Funnel,
    /// What stands behind the rows of one name.
    pub views: Vec<View>,
    pub rows: Vec<BoardRow>,
    /// Every pair of algorithms on the row `ranking`.
    pub comparisons: Vec<Comparison>,
    /// Levels below the service, where a truth and an answer have them.
    pub levels: Vec<Level>,
    /// How the algorithms fare that were also told another start of the fault than the true one.
    pub robustness: Vec<Robustness>,
    /// Datapacks on which exactly one of the two best algorithms that are no baselines names a root first.
    pub flips: Vec<Flip>,
    /// Datapacks that no row counts, by reason.
    pub excluded: Vec<Excluded>,
    /// No-fault controls.
    pub controls: Controls,
    pub notes: Vec<String>,
}

/// Injections with a fault; each stage counts what passed all before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Funnel {
    pub submitted: i32,
    pub completed: i32,
    pub exposed: i32,
    pub valid: i32,
    pub scored: i32,
}

/// One way to count the same datapacks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct View {
    pub row: String,
    pub packs: i32,
    pub clusters: i32,
    /// Systems times fault families that have a datapack: the headline is the mean over these.
    pub cells: i32,
    /// What a random order of the candidates scores.
    pub chance: Chance,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Chance {
    pub ac1: f64,
    pub ac3: f64,
    pub ac5: f64,
    pub avg3: f64,
    pub avg5: f64,
    pub mrr: f64,
}

/// One algorithm against another on the same datapacks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Comparison {
    pub first: String,
    pub second: String,
    pub metric: String,
    /// First minus second.
    pub difference: f64,
    /// Two-sided p of the sign-flip permutation test on cluster differences.
    pub p: f64,
    /// The same after Holm's correction over all pairs.
    pub p_holm: f64,
    pub wins: i32,
    pub ties: i32,
    pub losses: i32,
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
    /// Datapacks on which it did not run; they count as misses too.
    pub missing: i32,
    /// Median time of an execution.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seconds: Option<f64>,
    /// Largest resident memory of an execution, bytes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub peak_memory: Option<u64>,
    /// Executions of a command that nothing kept apart from the rest of the machine.
    pub not_isolated: i32,
    /// Executions without an answer, by reason.
    pub reasons: BTreeMap<String, i32>,
    pub ac1: Figure,
    pub ac3: Figure,
    pub ac5: Figure,
    pub avg3: Figure,
    pub avg5: Figure,
    pub mrr: Figure,
    /// The same packs cut by family, system, difficulty and number of roots.
    pub slices: Vec<Slice>,
}

/// One part of a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Slice {
    /// `family`, `system`, `difficulty` or `roots`.
    pub by: String,
    pub name: String,
    pub packs: i32,
    pub clusters: i32,
    pub chance: Chance,
    pub ac1: Figure,
    pub ac3: Figure,
    pub ac5: Figure,
    pub avg3: Figure,
    pub avg5: Figure,
    pub mrr: Figure,
    /// Hits among the first k, over k; of interest where there are several roots.
    pub precision3: Figure,
    pub precision5: Figure,
    /// Hits among the first k, over all roots.
    pub recall3: Figure,
    pub recall5: Figure,
}

/// One level below the service. Nobody says what could have been named there, so there is no chance level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Level {
    /// `pod`, `container`, `metric`, `function` or `span`.
    pub level: String,
    /// Distinct datapacks whose truth says something at this level.
    pub packs: i32,
    pub rows: Vec<LevelRow>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LevelRow {
    pub algorithm: String,
    pub ac1: Figure,
    pub ac3: Figure,
    pub ac5: Figure,
    pub avg3: Figure,
    pub avg5: Figure,
    pub mrr: Figure,
}

/// `Avg@5` of one algorithm by what it was told of the fault's start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Robustness {
    pub algorithm: String,
    pub packs: i32,
    pub known: Figure,
    /// 15 s too early.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub early: Option<Figure>,
    /// 15 s too late.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub late: Option<Figure>,
    /// As the detector finds it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub detected: Option<Figure>,
}

/// A datapack on which the two best algorithms differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Flip {
    pub pack: String,
    pub system: String,
    pub family: String,
    pub right: String,
    pub wrong: String,
}

/// A figure with its 95 % interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Figure {
    pub value: f64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub low: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub high: Option<f64>,
    /// `bootstrap`, `exact`, or why there is none: `n too small`, or `not run`, when there is no value either.
    pub interval: String,
}

impl Figure {
    const NOT_RUN: &str = "not run";
}

/// As boards for people show it.
impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.low, self.high) {
            (Some(low), Some(high)) => write!(f, "{:.2} [{low:.2}, {high:.2}]", self.value),
            _ if self.interval == Self::NOT_RUN => f.write_str(Self::NOT_RUN),
            _ => write!(f, "{:.2} ({})", self.value, self.interval),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Excluded {
    pub reason: String,
    pub packs: i32,
}

/// The detector's own errors: where there was no fault, and where there was one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Controls {
    /// No-fault controls.
    pub packs: i32,
    pub false_alarms: i32,
    /// Share of the controls that it flagged; below 100 controls the interval says so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub false_alarm_rate: Option<Figure>,
    /// Exposed, valid datapacks with a fault.
    pub faulty: i32,
    pub misses: i32,
    /// Share of them that it did not flag.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub miss_rate: Option<Figure>,
}
