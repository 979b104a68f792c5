//! Granger-PageRank: a graph of what predicts what, walked from effects to causes.

use model::{Answer, Result};

use super::graph_method::{DEVIATIONS, Graph};
use super::{About, Algorithm, Input, Minimum, Samples};
use crate::causal::granger::tests;
use crate::causal::pagerank::{Arc, pagerank, uniform};
use crate::frame::Pack;

const MINIMUM: Minimum = Minimum { window_s: 30, normal_samples: 20, abnormal_samples: 20, samples: Samples::Requests };

const ALPHA: f64 = 0.05;
const DAMPING: f64 = 0.85;
const LAGS: usize = 3;

pub struct GrangerPageRank;

impl Algorithm for GrangerPageRank {
    fn name(&self) -> &'static str {
        "granger-pagerank"
    }

    fn about(&self) -> About {
        About {
            summary: "services by PageRank over a graph of columns that help to predict one another",
            source: "Granger causality (Granger 1969) with one to three lags, mean p-value of four tests below .05; \
                     PageRank with damping .85, as evaluated by Pham, Ha, Zhang (ASE 2024)",
            input: &[Input::Metrics, Input::Traces],
            shapes: "the wide table, rows (one a second) x columns (one for each metric series, and latency, workload and errors of each service); made small by its written rule",
            units: "lags in rows; score as a share of PageRank",
            complexity: "O(rows · columns²)",
            minimum: MINIMUM,
            deviations: &[DEVIATIONS[0], DEVIATIONS[1], "a pair whose regression cannot be made counts as no edge"],
            control: false,
            in_house: false,
        }
    }

    fn rank(&self, pack: &Pack, _seed: u64) -> Result<Vec<Answer>> {
        let graph = Graph::new(self.name(), pack, MINIMUM)?;
        let values = graph.values();
        let mut back: Vec<Arc> = Vec::new();
        for effect in 0..values.len() {
            for cause in (0..values.len()).filter(|cause| *cause != effect) {
                let found = (1..=LAGS).filter_map(|lag| tests(values[effect], values[cause], lag));
                if found.into_iter().any(|tests| tests.mean() < ALPHA) {
                    back.push((effect, cause, 1.0));
                }
            }
        }
        let scores = pagerank(graph.size(), &back, DAMPING, &uniform(graph.size()));
        graph.ranked(self.name(), pack, &scores)
    }
}
