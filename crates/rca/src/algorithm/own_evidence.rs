//! Own evidence: what is wrong with a service itself, after what its callees explain has been taken away.
//!
//! A slow or failing request makes every service on its way look bad. This method moves blame down the calls of each
//! trace: of a span's time only that counts which none of its children spent, of a chain of failed spans only the deepest
//! one counts, and what is lost between a call and its answer counts for the two ends of the call. Metrics and logs are
//! compared between services, so that what the load or the fault does to all of them says nothing against one.

mod logs;
mod metrics;
mod traces;

use std::collections::BTreeMap;

use model::{Answer, Result};

use super::{About, Algorithm, Input, Minimum, Samples, suspects};
use crate::frame::Pack;
use crate::minimum::insufficient;

const MINIMUM: Minimum = Minimum { window_s: 30, normal_samples: 2, abnormal_samples: 1, samples: Samples::Requests };

/// How much each kind of evidence weighs where it is as strong as it can be.
const TIME: f64 = 1.0;
const FAILURES: f64 = 1.0;
const SILENCE: f64 = 1.0;
const METRICS: f64 = 1.0;
const RENEWED: f64 = 1.0;
const LOGS: f64 = 0.3;

/// Marks of services, from 0 up. In order, so that sums are the same every time.
type Marks = BTreeMap<u32, f64>;

pub struct OwnEvidence;

impl Algorithm for OwnEvidence {
    fn name(&self) -> &'static str {
        "own-evidence"
    }

    fn about(&self) -> About {
        About {
            summary: "services by what their own spans, metrics and logs show that their callees do not explain",
            source: "devised in this project",
            input: &[Input::Traces, Input::Metrics, Input::Logs],
            shapes: "spans, metric series and log lines of each window, and the candidates",
            units: "durations in seconds, values in the metric's unit; score in shares of evidence",
            complexity: "O(spans log spans + points + log bytes)",
            minimum: MINIMUM,
            deviations: &[],
            control: false,
            in_house: true,
        }
    }

    fn rank(&self, pack: &Pack, _seed: u64) -> Result<Vec<Answer>> {
        MINIMUM.check(self.name(), &pack.windows)?;
        let signals = [&pack.normal, &pack.abnormal];
        if signals.iter().any(|window| window.spans.is_empty() && window.gauges.is_empty() && window.sums.is_empty()) {
            return Err(insufficient(self.name(), "a window has neither spans nor metrics"));
        }
        let candidates: Vec<u32> = pack.candidates.iter().filter_map(|name| pack.names.find(name)).collect();
        let mut scores: Marks = candidates.iter().map(|service| (*service, 0.0)).collect();
        let mut add = |marks: &Marks, weight: f64| {
            for (service, mark) in marks {
                if let Some(score) = scores.get_mut(service) {
                    *score += weight * mark;
                }
            }
        };
        let traces = traces::evidence(pack, &candidates);
        add(&traces.time, TIME);
        add(&traces.failures, FAILURES);
        add(&traces.silence, SILENCE);
        add(&metrics::evidence(pack, &candidates), METRICS);
        add(&metrics::renewed(pack), RENEWED);
        add(&logs::evidence(pack, &candidates), LOGS);
        suspects::ranked(self.name(), pack, scores)
    }
}

/// The marks as shares of their sum over these services, times how strong the whole is: `amount / (amount + half)`.
fn shares(marks: &Marks, candidates: &[u32], amount: f64, half: f64) -> Marks {
    let of = |service: &u32| marks.get(service).copied().unwrap_or(0.0);
    let total: f64 = candidates.iter().map(of).sum();
    if total <= 0.0 || amount <= 0.0 {
        return Marks::new();
    }
    let strength = amount / (amount + half);
    candidates.iter().map(|service| (*service, strength * of(service) / total)).collect()
}
