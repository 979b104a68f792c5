//! Log lines of warning and above that a service writes more of, and services that fall silent.

use super::{Marks, shares};
use crate::frame::{Pack, Signals};

/// OpenTelemetry's number for the severity `WARN`.
const WARN: u8 = 13;
/// Lines from which on a silence means something.
const TALKATIVE: f64 = 20.0;

pub fn evidence(pack: &Pack, candidates: &[u32]) -> Marks {
    let longer = pack.windows.abnormal_length().as_secs_f64() / pack.windows.normal_length().as_secs_f64();
    let (before, after) = (Lines::new(&pack.normal), Lines::new(&pack.abnormal));
    let mut bad = Marks::new();
    for (service, count) in &after.bad {
        let usual = longer * before.bad.get(service).copied().unwrap_or(0.0);
        bad.insert(*service, (count - usual - 3.0 * usual.max(1.0).sqrt()).max(0.0));
    }
    let total: f64 = bad.values().sum();
    let mut marks = shares(&bad, candidates, total, 20.0);
    for (service, usual) in before.all.iter().filter(|(_, usual)| **usual >= TALKATIVE) {
        let now = after.all.get(service).copied().unwrap_or(0.0);
        if now < 0.2 * usual * longer {
            *marks.entry(*service).or_default() += 1.0;
        }
    }
    marks
}

struct Lines {
    all: Marks,
    bad: Marks,
}

impl Lines {
    fn new(signals: &Signals) -> Self {
        let mut lines = Self { all: Marks::new(), bad: Marks::new() };
        for log in &signals.logs {
            *lines.all.entry(log.service).or_default() += 1.0;
            if log.severity >= WARN {
                *lines.bad.entry(log.service).or_default() += 1.0;
            }
        }
        lines
    }
}
