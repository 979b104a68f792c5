//! TraceRCA: support and confidence of an operation among slow spans.

use std::collections::HashMap;

use model::{Answer, Result};

use super::operations::{self, Operation, durations, operation};
use super::{About, Algorithm, Input, Minimum, Samples, suspects};
use crate::frame::Pack;
use crate::minimum::insufficient;
use crate::statistics::{deviation, mean};

const MINIMUM: Minimum = Minimum { window_s: 30, normal_samples: 2, abnormal_samples: 1, samples: Samples::Requests };

pub struct TraceRca;

impl Algorithm for TraceRca {
    fn name(&self) -> &'static str {
        "tracerca"
    }

    fn about(&self) -> About {
        About {
            summary: "services by the harmonic mean of support and confidence of their operations among slow spans",
            source: "TraceRCA (Li et al., IWQoS 2021) in the reduction of RCAEval",
            input: &[Input::Traces],
            shapes: "spans of each window, with operation (service and name), trace, parent, kind and status",
            units: "durations in milliseconds; score from 0 to 1",
            complexity: "O(spans)",
            minimum: MINIMUM,
            deviations: &[
                "an operation without a baseline of two normal spans is skipped rather than failing the run",
                "a service is answered once, at its best operation",
            ],
            control: false,
            in_house: false,
        }
    }

    fn rank(&self, pack: &Pack, _seed: u64) -> Result<Vec<Answer>> {
        MINIMUM.check(self.name(), &pack.windows)?;
        let (normal, abnormal) = operations::split(pack);
        let limits: HashMap<Operation, f64> = durations(normal)
            .into_iter()
            .filter(|(_, sample)| sample.len() >= MINIMUM.normal_samples)
            .map(|(operation, sample)| (operation, limit(&sample)))
            .collect();
        let mut counts: HashMap<Operation, Count> = HashMap::new();
        for span in abnormal {
            let Some(limit) = limits.get(&operation(span)) else { continue };
            let count = counts.entry(operation(span)).or_default();
            count.all += 1;
            count.slow += u64::from(operations::milliseconds(span) >= *limit);
        }
        if counts.is_empty() {
            return Err(insufficient(self.name(), "no operation of the abnormal window has a normal baseline"));
        }
        let slow: u64 = counts.values().map(|count| count.slow).sum();
        if slow == 0 {
            return Err(suspects::no_suspect(self.name(), "no span is slower than its normal mean and 3 deviations"));
        }
        let scores = counts.into_iter().filter_map(|((service, _), count)| Some((service, score(count, slow)?)));
        suspects::ranked(self.name(), pack, scores)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    all: u64,
    slow: u64,
}

/// Mean and three sample deviations in milliseconds, each rounded to two decimals as published.
fn limit(sample: &[f64]) -> f64 {
    let round = |x: f64| (x * 100.0).round() / 100.0;
    round(mean(sample)) + 3.0 * round(deviation(sample, 1))
}

/// The harmonic mean of support and confidence; `None` for an operation without slow spans.
fn score(count: Count, slow: u64) -> Option<f64> {
    if count.slow == 0 {
        return None;
    }
    let support = count.slow as f64 / slow as f64;
    let confidence = count.slow as f64 / count.all as f64;
    Some(2.0 * support * confidence / (support + confidence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn score_is_the_harmonic_mean_of_support_and_confidence() {
        // Support 6/8 = .75, confidence 6/10 = .6.
        assert!((score(Count { all: 10, slow: 6 }, 8).unwrap() - 2.0 / 3.0).abs() < 1e-7);
        assert_eq!(score(Count { all: 10, slow: 0 }, 8), None);
    }

    #[test]
    fn limit_rounds_to_two_decimals() {
        // Mean 1.2345 and sample deviation 0.0049 become 1.23 and 0.00.
        assert!((limit(&[1.231, 1.238]) - 1.23).abs() < 1e-12);
    }
}
