//! `pc_pagerank` and `granger_pagerank`: a graph learned from the whole table, then PageRank.
//!
//! Slips and shortcuts, kept: the graph is learned from both windows together, so it also holds what the fault ties
//! together; nothing says which column is the symptom, the walk starts anywhere; an undirected edge counts both ways;
//! `granger_pagerank` walks from effects to causes because its matrix happens to be written that way, and answers with the
//! columns in their order when it finds no edge; PageRank is that of scikit-network 0.33, which stops after ten rounds and
//! gives a node without arcs what it would have to share out among all. Where the program fails (columns that determine one another, a lagged
//! column that stands still) it prints a line and answers with the columns in their order; here that is an error.

use super::preprocess::prepare;
use super::{Ranking, descending};
use crate::causal::pagerank::{Arc, weights_out};
use crate::causal::skeleton::{FisherZ, Untestable, skeleton};
use crate::causal::{Mixed, granger};
use crate::wide::Wide;

pub(super) const ALPHA: f64 = 0.05;
const DAMPING: f64 = 0.85;
const LAGS: usize = 3;

/// The PC graph at level 0.05 without a limit to the number of conditions.
///
/// # Errors
/// When the program would fall back to the order of the columns.
pub fn pc_pagerank(table: &Wide) -> Result<Ranking, Untestable> {
    let columns = prepare(table, 0..table.times.len());
    let values: Vec<&[f64]> = columns.iter().map(|column| column.values.as_slice()).collect();
    let graph = Mixed::orient(&skeleton(&FisherZ::new(&values), ALPHA, usize::MAX - 1)?);
    let arcs: Vec<Arc> = graph.arcs().into_iter().map(|(cause, effect)| (effect, cause, 1.0)).collect();
    if arcs.is_empty() {
        return Err(Untestable);
    }
    let scores = pagerank(columns.len(), &arcs);
    Ok(descending(columns.iter().map(|column| column.index).zip(scores).collect()))
}

/// Granger tests with one to three lags between all pairs; a pair counts when the mean p-value of any lag is below 0.05.
///
/// # Errors
/// When the program would fall back to the order of the columns.
pub fn granger_pagerank(table: &Wide) -> Result<Ranking, Untestable> {
    let columns = prepare(table, 0..table.times.len());
    let mut arcs: Vec<Arc> = Vec::new();
    for (i, effect) in columns.iter().enumerate() {
        for (j, cause) in columns.iter().enumerate().filter(|(j, _)| *j != i) {
            if causes(&effect.values, &cause.values)? {
                arcs.push((i, j, 1.0));
            }
        }
    }
    let scores = if arcs.is_empty() { vec![0.0; columns.len()] } else { pagerank(columns.len(), &arcs) };
    Ok(descending(columns.iter().map(|column| column.index).zip(scores).collect()))
}

fn causes(effect: &[f64], cause: &[f64]) -> Result<bool, Untestable> {
    let mut found = false;
    for lag in 1..=LAGS {
        found |= granger::tests(effect, cause, lag).ok_or(Untestable)?.mean() < ALPHA;
    }
    Ok(found)
}

/// Ten rounds at most, fewer when the sum of changes is below 1e-6.
fn pagerank(size: usize, arcs: &[Arc]) -> Vec<f64> {
    const ROUNDS: usize = 10;
    const TOLERANCE: f64 = 1e-6;
    let out = weights_out(size, arcs);
    let kept = |node: usize| (if out[node] > 0.0 { 1.0 - DAMPING } else { 1.0 }) / size as f64;
    let base: Vec<f64> = (0..size).map(kept).collect();
    let mut scores = base.clone();
    for _ in 0..ROUNDS {
        let total: f64 = scores.iter().sum();
        let mut next: Vec<f64> = base.iter().map(|base| base * total).collect();
        for (from, to, weight) in arcs {
            next[*to] += DAMPING * weight / out[*from] * scores[*from];
        }
        normalise(&mut next);
        let change: f64 = scores.iter().zip(&next).map(|(a, b)| (a - b).abs()).sum();
        if change < TOLERANCE {
            break;
        }
        scores = next;
    }
    normalise(&mut scores);
    scores
}

fn normalise(values: &mut [f64]) {
    let total: f64 = values.iter().sum();
    values.iter_mut().for_each(|value| *value /= total);
}
