//! Correlation-PageRank: columns tied by how they move together, walked from the symptom.

use model::{Answer, Result};
use statrs::function::erf::erfc;

use super::graph_method::{DEVIATIONS, Graph};
use super::{About, Algorithm, Input, Minimum, Samples};
use crate::causal::pagerank::{Arc, pagerank};
use crate::frame::Pack;
use crate::statistics::correlation;

const MINIMUM: Minimum = Minimum { window_s: 30, normal_samples: 20, abnormal_samples: 20, samples: Samples::Requests };

const ALPHA: f64 = 0.05;
const DAMPING: f64 = 0.85;

pub struct CorrelationPageRank;

impl Algorithm for CorrelationPageRank {
    fn name(&self) -> &'static str {
        "correlation-pagerank"
    }

    fn about(&self) -> About {
        About {
            summary: "services by PageRank over correlated columns, restarting at columns that go with the symptom",
            source: "MicroRCA (Wu et al., NOMS 2020): personalised PageRank on a graph weighted by correlation",
            input: &[Input::Metrics, Input::Traces],
            shapes: "the wide table, rows (one a second) x columns (one for each metric series, and latency, workload and errors of each service); made small by its written rule",
            units: "correlations from -1 to 1; score as a share of PageRank",
            complexity: "O(rows · columns²)",
            minimum: MINIMUM,
            deviations: &[
                DEVIATIONS[0],
                DEVIATIONS[1],
                "the graph joins columns whose Pearson correlation is significant at .05, where the paper takes the calls \
                 between services and the hosts that they run on",
                "the symptom is the latency of the service at the entrance",
            ],
            control: false,
            in_house: false,
        }
    }

    fn rank(&self, pack: &Pack, _seed: u64) -> Result<Vec<Answer>> {
        let graph = Graph::new(self.name(), pack, MINIMUM)?;
        let values = graph.values();
        let rows = values[0].len() as f64;
        let mut arcs: Vec<Arc> = Vec::new();
        for a in 0..values.len() {
            for b in (0..values.len()).filter(|b| *b != a) {
                let r = correlation(values[a], values[b]).abs().min(1.0 - f64::EPSILON);
                let z = (rows - 3.0).max(0.0).sqrt() * r.atanh();
                if erfc(z / std::f64::consts::SQRT_2) < ALPHA {
                    arcs.push((a, b, r));
                }
            }
        }
        let mut restart = graph.likeness(graph.symptom(pack));
        let total: f64 = restart.iter().sum();
        restart.iter_mut().for_each(|share| *share /= total);
        let scores = pagerank(graph.size(), &arcs, DAMPING, &restart);
        graph.ranked(self.name(), pack, &scores)
    }
}
