//! Control: the largest latency ratio. Solves much of some public data sets, so it is always reported.

use model::{Answer, Result};

use super::operations::durations;
use super::{About, Algorithm, Input, Minimum, Samples, suspects};
use crate::frame::Pack;
use crate::minimum::insufficient;
use crate::statistics::mean;

const MINIMUM: Minimum = Minimum { window_s: 30, normal_samples: 5, abnormal_samples: 5, samples: Samples::Requests };

pub struct MaxChange;

impl Algorithm for MaxChange {
    fn name(&self) -> &'static str {
        "max-change"
    }

    fn about(&self) -> About {
        About {
            summary: "services by the largest ratio of an operation's mean duration, abnormal to normal window",
            source: "the latency-ratio control used to audit public data sets",
            input: &[Input::Traces],
            shapes: "spans of each window, with operation (service and name), trace, parent, kind and status",
            units: "durations in nanoseconds; score as a ratio of mean durations",
            complexity: "O(spans)",
            minimum: MINIMUM,
            deviations: &["durations come from the spans themselves rather than from exported latency columns"],
            control: true,
            in_house: false,
        }
    }

    fn rank(&self, pack: &Pack, _seed: u64) -> Result<Vec<Answer>> {
        MINIMUM.check(self.name(), &pack.windows)?;
        let normal = durations(&pack.normal.spans);
        let abnormal = durations(&pack.abnormal.spans);
        let scores: Vec<(u32, f64)> = normal
            .iter()
            .filter(|(_, sample)| sample.len() >= MINIMUM.normal_samples)
            .filter_map(|(operation, before)| {
                let after = abnormal.get(operation).filter(|sample| sample.len() >= MINIMUM.abnormal_samples)?;
                (mean(before) > 0.0).then(|| (operation.0, mean(after) / mean(before)))
            })
            .collect();
        if scores.is_empty() {
            return Err(insufficient(self.name(), "no operation has enough spans in both windows")
                .expected(format!("at least {} spans of an operation in each window", MINIMUM.normal_samples)));
        }
        suspects::ranked(self.name(), pack, scores)
    }
}
