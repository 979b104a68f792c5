//! Random walk from the symptom over a causal graph, towards columns that go with it.

use model::{Answer, Result};

use super::graph_method::{DEVIATIONS, Graph};
use super::{About, Algorithm, Input, Minimum, Samples};
use crate::frame::Pack;

const MINIMUM: Minimum = Minimum { window_s: 30, normal_samples: 20, abnormal_samples: 20, samples: Samples::Requests };

const ALPHA: f64 = 0.1;
/// The weight of a step from a cause to its effect, beside one from an effect to its cause.
const BACKWARD: f64 = 0.2;
/// Steps, as the original walks them ten times.
const STEPS: usize = 1000;

pub struct RandomWalk;

impl Algorithm for RandomWalk {
    fn name(&self) -> &'static str {
        "random-walk"
    }

    fn about(&self) -> About {
        About {
            summary: "services by how often a walk from the symptom towards its causes visits their columns",
            source: "first-order random walk of MonitorRank (Kim et al., SIGMETRICS 2013) on the PC graph of CloudRanger \
                     (Wang et al., CCGRID 2018), with its levels and weights",
            input: &[Input::Metrics, Input::Traces],
            shapes: "the wide table, rows (one a second) x columns (one for each metric series, and latency, workload and errors of each service); made small by its written rule",
            units: "correlations from -1 to 1; score as a share of the walk's steps",
            complexity: "O(columns² · subsets of neighbours + steps · columns²)",
            minimum: MINIMUM,
            deviations: &[
                DEVIATIONS[0],
                DEVIATIONS[1],
                "no more than three conditions are tested at once",
                "the expected share of visits in a thousand steps is computed rather than sampled: what a sampled walk visits scatters around \
                 it, and the order of columns that are near one another would be that of its draws",
                "the symptom is the latency of the service at the entrance, and is not answered for its own visits at the start",
            ],
            control: false,
            in_house: false,
        }
    }

    fn rank(&self, pack: &Pack, _seed: u64) -> Result<Vec<Answer>> {
        let graph = Graph::new(self.name(), pack, MINIMUM)?;
        let symptom = graph.symptom(pack);
        let arcs = graph.pc(self.name(), ALPHA)?.arcs();
        let moves = moves(&arcs, &graph.likeness(symptom));
        graph.ranked(self.name(), pack, &visits(&moves, symptom))
    }
}

/// The probability of each step: to causes by their likeness with the symptom, to effects by a share of it, staying where
/// the column itself is more like the symptom than all around it. A column that leads nowhere leads everywhere.
fn moves(arcs: &[(usize, usize)], likeness: &[f64]) -> Vec<Vec<f64>> {
    let size = likeness.len();
    let mut moves = vec![vec![0.0; size]; size];
    for &(cause, effect) in arcs {
        moves[effect][cause] = likeness[cause];
        let back = &mut moves[cause][effect];
        *back = back.max(BACKWARD * likeness[effect]);
    }
    for (node, row) in moves.iter_mut().enumerate() {
        let around = row.iter().copied().fold(0.0, f64::max);
        row[node] = (likeness[node] - around).max(0.0);
        let total: f64 = row.iter().sum();
        row.iter_mut().for_each(|weight| *weight = if total > 0.0 { *weight / total } else { 1.0 / size as f64 });
    }
    moves
}

/// The expected share of steps that end at each column.
fn visits(moves: &[Vec<f64>], start: usize) -> Vec<f64> {
    let size = moves.len();
    let mut place = vec![0.0; size];
    place[start] = 1.0;
    let mut visits = vec![0.0; size];
    for _ in 0..STEPS {
        let mut next = vec![0.0; size];
        for (from, row) in moves.iter().enumerate().filter(|(from, _)| place[*from] > 0.0) {
            row.iter().zip(&mut next).for_each(|(weight, next)| *next += place[from] * weight);
        }
        next.iter().zip(&mut visits).for_each(|(share, visits)| *visits += share / STEPS as f64);
        place = next;
    }
    visits
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    #[test]
    fn visits_of_a_known_chain() {
        // From 0 always to 1, from 1 back with a half: in the long run 0 gets a third.
        let visits = visits(&[vec![0.0, 1.0], vec![0.5, 0.5]], 0);
        assert!((visits[0] - 1.0 / 3.0).abs() < 1e-3, "{visits:?}");
        assert!((visits.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    /// Walks as the original does, by drawing each step.
    fn sampled(moves: &[Vec<f64>], start: usize, random: &mut Pcg64) -> Vec<f64> {
        let (mut node, mut visits) = (start, vec![0.0; moves.len()]);
        for _ in 0..STEPS {
            let mut drawn: f64 = random.random();
            node = moves[node]
                .iter()
                .position(|weight| {
                    drawn -= weight;
                    drawn < 0.0
                })
                .unwrap_or(node);
            visits[node] += 1.0 / STEPS as f64;
        }
        visits
    }

    #[test]
    fn the_computed_visits_are_those_that_sampled_walks_scatter_around() {
        // Two causes of a middle column and the symptom, and one column beside them that leads nowhere.
        let moves = moves(&[(0, 2), (1, 2), (2, 3)], &[0.9, 0.4, 0.7, 1.0, 0.0]);
        let expected = visits(&moves, 3);
        let mut random = Pcg64::seed_from_u64(11);
        let walks: Vec<Vec<f64>> = (0..400).map(|_| sampled(&moves, 3, &mut random)).collect();
        for (node, expected) in expected.iter().enumerate() {
            let mean = walks.iter().map(|walk| walk[node]).sum::<f64>() / walks.len() as f64;
            let variance = walks.iter().map(|walk| (walk[node] - mean).powi(2)).sum::<f64>() / walks.len() as f64;
            let error = (variance / walks.len() as f64).sqrt();
            assert!((mean - expected).abs() <= 4.0 * error + 1e-12, "{node}: {mean} ± {error} is not {expected}");
        }
        // One walk is not it: that is what is left out by computing.
        assert!(
            walks.iter().any(|walk| walk.iter().zip(&expected).any(|(walk, expected)| (walk - expected).abs() > 0.02))
        );
    }
}
