//! `circa`: departures of columns from what their parents in a PC graph explain.
//!
//! Slips and shortcuts, kept: the graph is the PC graph of the whole table, not the call graph; it is read the wrong way
//! round, so a column is explained by its effects; an undirected edge makes each end explain the other; columns without an edge are not answered; the training rows are the 111 seconds
//! from 120 s before the onset on and the tested ones are the 10 seconds that end 300 s after it, whatever the table
//! holds: seconds outside of it repeat its first or last row.
//!
//! Two kinds of columns end up where rounding puts them, in the program as here: one that its effects explain to the last
//! digit is scored by dividing rounding by rounding; one of whose effects stands still over the training rows is regressed on
//! what rounding left of it. They are told apart.

use super::graphs::ALPHA;
use super::preprocess::prepare;
use super::{Ranking, descending};
use crate::causal::Mixed;
use crate::causal::regress::departures;
use crate::causal::skeleton::{FisherZ, Untestable, skeleton};
use crate::wide::Wide;

/// Scores beyond it are rounding divided by rounding.
const CHANCE: f64 = 1e9;

/// The default tolerance of scikit-learn 1.9, coarser than rounding.
const CUT: f64 = 1e-6;
const BEFORE_S: i64 = 120;
const AFTER_S: i64 = 300;
const TRAINED: usize = 111;
const TESTED: usize = 10;

/// What `circa` answers.
pub struct Circa {
    pub ranking: Ranking,
    /// Columns that stand in it where rounding puts them.
    pub by_chance: Vec<usize>,
}

/// Highest departure in size over the tested seconds. The rows of the table must be one second apart.
///
/// # Errors
/// When the program would fall back to the order of the columns.
pub fn circa(table: &Wide) -> Result<Circa, Untestable> {
    let columns = prepare(table, 0..table.times.len());
    let values: Vec<&[f64]> = columns.iter().map(|column| column.values.as_slice()).collect();
    let graph = Mixed::orient(&skeleton(&FisherZ::new(&values), ALPHA, usize::MAX - 1)?);
    let (first, last) = (table.times[0], table.times[table.times.len() - 1]);
    let seconds = table.onset - BEFORE_S..=table.onset + AFTER_S;
    let place = |second: i64| (second.clamp(first, last) - first) as usize;
    let series: Vec<Vec<f64>> =
        values.iter().map(|column| seconds.clone().map(|second| column[place(second)]).collect()).collect();
    let varies = |column: usize| series[column].iter().any(|value| *value != series[column][0]);
    let arcs = graph.arcs();
    let (mut ranking, mut by_chance) = (Ranking::new(), Vec::new());
    for (node, column) in columns.iter().enumerate() {
        let touched = arcs.iter().any(|(cause, effect)| *cause == node || *effect == node);
        if !touched || !varies(node) {
            continue;
        }
        // The program turns its graph around once too often.
        let parents = arcs.iter().filter(|(cause, _)| *cause == node).map(|(_, effect)| *effect);
        let parents: Vec<&[f64]> =
            parents.filter(|parent| varies(*parent)).map(|parent| series[parent].as_slice()).collect();
        let departures = departures(&series[node], &parents, TRAINED, TESTED, CUT);
        let score = departures.iter().map(|z| z.abs()).fold(0.0, f64::max);
        let stands_still = |parent: &&[f64]| parent[..TRAINED].iter().all(|value| *value == parent[0]);
        if score > CHANCE || parents.iter().any(stands_still) {
            by_chance.push(column.index);
        }
        ranking.push((column.index, score));
    }
    Ok(Circa { ranking: descending(ranking), by_chance })
}
