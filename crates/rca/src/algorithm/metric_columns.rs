//! What the metric methods share: score every column of the metric table, a service counts by its best one.

use model::{Answer, Result};

use super::{Minimum, suspects};
use crate::frame::Pack;
use crate::minimum::insufficient;
use crate::table::Table;

/// Which columns take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// All with enough points in both windows.
    Enough,
    /// Of those, the ones that are constant in neither window: the preprocessing of RCAEval. It loses a counter that
    /// stands still before the fault, and keeps out a byte count that once moved by a page.
    Varying,
}

/// Ranks services by their highest column score.
///
/// # Errors
/// `algorithm.insufficient_data` when a window is too short or no column is left; `algorithm.no_suspect`.
pub fn rank(
    name: &str,
    pack: &Pack,
    minimum: Minimum,
    keep: Keep,
    score: impl Fn(&[f64], &[f64]) -> f64,
) -> Result<Vec<Answer>> {
    minimum.check(name, &pack.windows)?;
    let table = Table::build(pack);
    let scores: Vec<(u32, f64)> = table
        .columns()
        .iter()
        .enumerate()
        .filter(|(_, column)| {
            column.own_normal >= minimum.normal_samples.max(1) && column.own_abnormal >= minimum.abnormal_samples.max(1)
        })
        .map(|(index, column)| (column.service, table.normal(index), table.abnormal(index)))
        .filter(|(_, normal, abnormal)| keep == Keep::Enough || (varies(normal) && varies(abnormal)))
        .map(|(service, normal, abnormal)| (service, score(normal, abnormal)))
        .collect();
    if scores.is_empty() {
        return Err(insufficient(name, "no metric has enough points in both windows")
            .found(format!("{} metric columns, none of them usable", table.columns().len()))
            .expected(format!(
                "at least {} points of a metric in the normal window and {} in the abnormal one",
                minimum.normal_samples, minimum.abnormal_samples
            )));
    }
    suspects::ranked(name, pack, scores)
}

/// Whether a sample holds two different values.
pub fn varies(sample: &[f64]) -> bool {
    sample.windows(2).any(|pair| pair[0] != pair[1])
}

/// The highest value.
pub fn highest(sample: &[f64]) -> f64 {
    sample.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// A scale of zero means that the unit of the metric is its scale.
pub fn scale_or_one(scale: f64) -> f64 {
    if scale > 0.0 { scale } else { 1.0 }
}

/// Said of every metric method.
pub const ADAPTER_DEVIATIONS: [&str; 4] = [
    "a service is answered once, at its best metric, rather than once per metric",
    "points are averaged on a time grid and filled forward only; a backward fill would carry abnormal values into the normal window",
    "cumulative histogram sums are differenced per series first",
    "the service is the record's own, not the text before the first underscore, and `-db` is not cut off",
];
