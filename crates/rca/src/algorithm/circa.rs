//! CIRCA: how far each metric departs from what its causes explain.

use model::{Answer, Result};

use super::graph_method::{DEVIATIONS, Graph};
use super::{About, Algorithm, Input, Minimum, Samples};
use crate::causal::regress::departures;
use crate::frame::Pack;

const MINIMUM: Minimum = Minimum { window_s: 30, normal_samples: 20, abnormal_samples: 1, samples: Samples::Requests };

const ALPHA: f64 = 0.05;
/// Directions of the causes below that share of the largest are rounding.
const CUT: f64 = 1e-12;

pub struct Circa;

impl Algorithm for Circa {
    fn name(&self) -> &'static str {
        "circa"
    }

    fn about(&self) -> About {
        About {
            summary: "services by how far their columns depart from a regression on the columns that cause them",
            source: "regression-based hypothesis testing of CIRCA (Li et al., KDD 2022)",
            input: &[Input::Metrics, Input::Traces],
            shapes: "the wide table, rows (one a second) x columns (one for each metric series, and latency, workload and errors of each service); made small by its written rule",
            units: "values in the column's unit; score in deviations of the regression's residuals while training",
            complexity: "O(columns² · subsets of neighbours + rows · columns · causes²)",
            minimum: MINIMUM,
            deviations: &[
                DEVIATIONS[0],
                DEVIATIONS[1],
                "causes come from a PC graph (.05, at most three conditions) rather than from the architecture, and only \
                 directed edges count",
                "no adjustment by descendants",
            ],
            control: false,
            in_house: false,
        }
    }

    fn rank(&self, pack: &Pack, _seed: u64) -> Result<Vec<Answer>> {
        let graph = Graph::new(self.name(), pack, MINIMUM)?;
        let mixed = graph.pc(self.name(), ALPHA)?;
        let values = graph.values();
        let trained = graph.table.normal_rows();
        let tested = values[0].len() - trained;
        let score = |node: usize| {
            let parents: Vec<&[f64]> =
                (0..values.len()).filter(|other| mixed.is_directed(*other, node)).map(|other| values[other]).collect();
            departures(values[node], &parents, trained, tested, CUT).iter().map(|z| z.abs()).fold(0.0, f64::max)
        };
        let scores: Vec<f64> = (0..values.len()).map(score).collect();
        graph.ranked(self.name(), pack, &scores)
    }
}
