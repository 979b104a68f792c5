//! Control: the busiest service first. Shows how far popularity alone carries.

use std::collections::HashMap;

use model::{Answer, Result};

use super::{About, Algorithm, Input, Minimum, suspects};
use crate::frame::Pack;
use crate::minimum::insufficient;

pub struct MostFrequent;

impl Algorithm for MostFrequent {
    fn name(&self) -> &'static str {
        "most-frequent"
    }

    fn about(&self) -> About {
        About {
            summary: "services by their number of spans in the abnormal window",
            source: "a control that looks at traffic and not at harm",
            input: &[Input::Traces],
            shapes: "spans of each window, with operation (service and name), trace, parent, kind and status",
            units: "score in spans",
            complexity: "O(spans)",
            minimum: Minimum::NONE,
            deviations: &[],
            control: true,
            in_house: true,
        }
    }

    fn rank(&self, pack: &Pack, _seed: u64) -> Result<Vec<Answer>> {
        if pack.abnormal.spans.is_empty() {
            return Err(insufficient(self.name(), "the abnormal window has no span"));
        }
        let mut counts: HashMap<u32, u64> = HashMap::new();
        for span in &pack.abnormal.spans {
            *counts.entry(span.service).or_default() += 1;
        }
        suspects::ranked(self.name(), pack, counts.into_iter().map(|(service, count)| (service, count as f64)))
    }
}
