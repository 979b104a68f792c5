//! PC-PageRank: a causal graph by the PC algorithm, walked from effects to causes.

use model::{Answer, Result};

use super::graph_method::{DEVIATIONS, Graph};
use super::{About, Algorithm, Input, Minimum, Samples};
use crate::causal::pagerank::{Arc, pagerank, uniform};
use crate::frame::Pack;

const MINIMUM: Minimum = Minimum { window_s: 30, normal_samples: 20, abnormal_samples: 20, samples: Samples::Requests };

const ALPHA: f64 = 0.05;
const DAMPING: f64 = 0.85;

pub struct PcPageRank;

impl Algorithm for PcPageRank {
    fn name(&self) -> &'static str {
        "pc-pagerank"
    }

    fn about(&self) -> About {
        About {
            summary: "services by PageRank over a causal graph of metrics and golden signals, learned by the PC algorithm",
            source: "PC (Spirtes, Glymour 1991) with Fisher's z at .05, order-independent; PageRank with damping .85, as \
                     evaluated by Pham, Ha, Zhang (ASE 2024)",
            input: &[Input::Metrics, Input::Traces],
            shapes: "the wide table, rows (one a second) x columns (one for each metric series, and latency, workload and errors of each service); made small by its written rule",
            units: "p-values of independence; score as a share of PageRank",
            complexity: "O(columns² · subsets of neighbours + rows · columns²)",
            minimum: MINIMUM,
            deviations: &[
                DEVIATIONS[0],
                DEVIATIONS[1],
                "no more than three conditions are tested at once",
                "an undirected edge counts both ways",
            ],
            control: false,
            in_house: false,
        }
    }

    fn rank(&self, pack: &Pack, _seed: u64) -> Result<Vec<Answer>> {
        let graph = Graph::new(self.name(), pack, MINIMUM)?;
        let arcs = graph.pc(self.name(), ALPHA)?.arcs();
        let back: Vec<Arc> = arcs.into_iter().map(|(cause, effect)| (effect, cause, 1.0)).collect();
        let scores = pagerank(graph.size(), &back, DAMPING, &uniform(graph.size()));
        graph.ranked(self.name(), pack, &scores)
    }
}
