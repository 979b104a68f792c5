//! PDiagnose: votes of metrics, logs and traces, one for each thing out of the ordinary.

use std::collections::HashMap;

use model::{Answer, Result};

use super::operations::{self, Operation, durations, operation};
use super::{About, Algorithm, Input, Minimum, Samples, suspects};
use crate::frame::Pack;
use crate::minimum::insufficient;
use crate::statistics::{deviation, mean};
use crate::table::Table;

const MINIMUM: Minimum = Minimum { window_s: 30, normal_samples: 3, abnormal_samples: 1, samples: Samples::Points };

const DEVIATIONS_AWAY: f64 = 3.0;
/// OpenTelemetry's number for the severity `ERROR`.
const ERROR: u8 = 17;

pub struct PDiagnose;

impl Algorithm for PDiagnose {
    fn name(&self) -> &'static str {
        "pdiagnose"
    }

    fn about(&self) -> About {
        About {
            summary: "services by votes: metric points and spans three deviations up, and error lines in logs",
            source: "PDiagnose (Hou et al., ISPA 2021) in the reduction of RCAEval, where each kind of evidence weighs alike",
            input: &[Input::Metrics, Input::Logs, Input::Traces],
            shapes: "metric series, spans and log lines of each window",
            units: "values in the metric's unit, durations in milliseconds; score in votes",
            complexity: "O(points log points + spans + log lines)",
            minimum: MINIMUM,
            deviations: &[
                "logs are counted by their severity, error and above, or by the words error, fail and exception where they \
                 have none, beyond what the normal window holds",
                "a metric that is constant before the fault takes part with a deviation of one",
                "an operation without a baseline of two normal spans has no vote",
            ],
            control: false,
            in_house: false,
        }
    }

    fn rank(&self, pack: &Pack, _seed: u64) -> Result<Vec<Answer>> {
        MINIMUM.check(self.name(), &pack.windows)?;
        let mut votes: HashMap<u32, f64> = HashMap::new();
        let judged = metrics(pack, &mut votes) + logs(pack, &mut votes) + spans(pack, &mut votes);
        if judged == 0 {
            return Err(insufficient(self.name(), "no metric, log or span can be compared with the normal window"));
        }
        let votes = votes.into_iter().filter(|(_, votes)| *votes > 0.0);
        suspects::ranked(self.name(), pack, votes)
    }
}

/// Columns that could be judged. So with the other two.
fn metrics(pack: &Pack, votes: &mut HashMap<u32, f64>) -> usize {
    let table = Table::build(pack);
    let mut judged = 0;
    for (index, column) in table.columns().iter().enumerate() {
        if column.own_normal < MINIMUM.normal_samples || column.own_abnormal < MINIMUM.abnormal_samples {
            continue;
        }
        judged += 1;
        let normal = table.normal(index);
        let spread = super::metric_columns::scale_or_one(deviation(normal, 1));
        let limit = mean(normal) + DEVIATIONS_AWAY * spread;
        let beyond = table.abnormal(index).iter().filter(|value| **value >= limit).count();
        *votes.entry(column.service).or_default() += beyond as f64;
    }
    judged
}

fn logs(pack: &Pack, votes: &mut HashMap<u32, f64>) -> usize {
    let share = pack.windows.abnormal_length().as_secs_f64() / pack.windows.normal_length().as_secs_f64();
    let mut beyond: HashMap<u32, f64> = HashMap::new();
    for (signals, weight) in [(&pack.normal, -share), (&pack.abnormal, 1.0)] {
        for log in &signals.logs {
            if log.severity >= ERROR || (log.severity == 0 && complains(pack.names.get(log.body))) {
                *beyond.entry(log.service).or_default() += weight;
            }
        }
    }
    for (service, count) in beyond {
        *votes.entry(service).or_default() += count.max(0.0);
    }
    usize::from(!pack.normal.logs.is_empty())
}

fn complains(body: &str) -> bool {
    let body = body.to_ascii_lowercase();
    ["error", "fail", "exception"].iter().any(|word| body.contains(word))
}

fn spans(pack: &Pack, votes: &mut HashMap<u32, f64>) -> usize {
    let (normal, abnormal) = operations::split(pack);
    let limits: HashMap<Operation, f64> = durations(normal)
        .into_iter()
        .filter(|(_, sample)| sample.len() >= 2)
        .map(|(operation, sample)| (operation, mean(&sample) + DEVIATIONS_AWAY * deviation(&sample, 1)))
        .collect();
    for span in abnormal {
        let slow = limits.get(&operation(span)).is_some_and(|limit| operations::milliseconds(span) >= *limit);
        *votes.entry(span.service).or_default() += f64::from(u8::from(slow));
    }
    limits.len()
}
