//! What users get at the entrance, second by second: the view of the load generator.

use crate::engine::{SECOND, Time};

/// Seconds are joined to slices of this length when the band is judged.
const SLICE: usize = 5;
/// The start of a run, when everything is cold, does not count as normal.
const SETTLING: usize = 20;
/// Width of the normal band in standard deviations of the normal part's slices.
const WIDTH: f64 = 4.0;
/// Seconds kept; older ones are dropped, so that memory does not grow with the length of a run.
const KEPT: usize = 4 * 3600;

#[derive(Debug, Clone, Copy, Default)]
struct Second {
    answers: u32,
    failures: u32,
    latency: f64,
}

#[derive(Debug, Default)]
pub struct Entrance {
    seconds: std::collections::VecDeque<Second>,
    /// Seconds dropped from the front.
    dropped: usize,
}

/// When the entrance was back to normal, and how that was judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Return {
    pub at: Option<Time>,
    pub measure: String,
}

impl Entrance {
    pub fn record(&mut self, now: Time, took: Time, failed: bool) {
        let second = (now / SECOND) as usize;
        while self.dropped + self.seconds.len() <= second {
            self.seconds.push_back(Second::default());
            if self.seconds.len() > KEPT {
                self.seconds.pop_front();
                self.dropped += 1;
            }
        }
        let place = &mut self.seconds[second - self.dropped];
        place.answers += 1;
        place.failures += u32::from(failed);
        place.latency += took as f64 / SECOND as f64;
    }

    /// The first slice after `end` from which on every slice up to `now` is inside the band of the time before `start`.
    pub fn back(&self, start: Time, end: Time, now: Time) -> Return {
        let second = |at: Time| ((at / SECOND) as usize).saturating_sub(self.dropped);
        let normal = self.slices(SETTLING.saturating_sub(self.dropped), second(start));
        let measure =
            |text: &str| format!("mean latency and share of failures at the entrance in slices of {SLICE} s: {text}");
        if normal.len() < 3 {
            return Return { at: None, measure: measure("the time before was too short to know the band") };
        }
        let latency_limit = limit(normal.iter().map(|slice| slice.0), 0.02);
        // A share is never more than all. Where that many failed before, failures say nothing about being back.
        let failure_limit = limit(normal.iter().map(|slice| slice.1), 0.02).min(1.0);
        let from = second(end + SECOND - 1);
        let after = self.slices(from, second(now));
        let calm = after.iter().rev().take_while(|slice| slice.0 <= latency_limit && slice.1 <= failure_limit).count();
        let at = (calm > 0).then(|| ((self.dropped + from + (after.len() - calm) * SLICE) as Time) * SECOND);
        let text = format!(
            "at most {latency_limit:.3} s and {:.1} % ({WIDTH} sigma of the time before)",
            100.0 * failure_limit
        );
        Return { at, measure: measure(&text) }
    }

    /// Mean latency and share of failures of each whole slice that had answers.
    fn slices(&self, from: usize, to: usize) -> Vec<(f64, f64)> {
        let to = to.min(self.seconds.len());
        let seconds: Vec<Second> = (from.min(to)..to).map(|at| self.seconds[at]).collect();
        seconds
            .chunks_exact(SLICE)
            .map(|slice| {
                let answers: f64 = slice.iter().map(|second| f64::from(second.answers)).sum();
                let failures: f64 = slice.iter().map(|second| f64::from(second.failures)).sum();
                let latency: f64 = slice.iter().map(|second| second.latency).sum();
                if answers == 0.0 { (f64::INFINITY, 1.0) } else { (latency / answers, failures / answers) }
            })
            .collect()
    }
}

fn limit(values: impl Iterator<Item = f64> + Clone, floor: f64) -> f64 {
    let finite = values.filter(|value| value.is_finite());
    let n = finite.clone().count().max(1) as f64;
    let mean = finite.clone().sum::<f64>() / n;
    let variance = finite.map(|value| (value - mean).powi(2)).sum::<f64>() / n;
    mean + (WIDTH * variance.sqrt()).max(floor).max(0.2 * mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_band_is_left_and_found_again() {
        let mut entrance = Entrance::default();
        for second in 0..200_i64 {
            let slow = (100..140).contains(&second);
            for request in 0..20_i64 {
                let took = if slow { 2 * SECOND } else { SECOND / 10 + request * 1_000_000 };
                entrance.record(second * SECOND, took, false);
            }
        }
        let back = entrance.back(100 * SECOND, 120 * SECOND, 200 * SECOND);
        assert_eq!(back.at, Some(140 * SECOND));
        assert_eq!(entrance.back(100 * SECOND, 120 * SECOND, 130 * SECOND).at, None);
        assert_eq!(entrance.back(20 * SECOND, 120 * SECOND, 200 * SECOND).at, None, "too short a time before");
    }

    #[test]
    fn no_share_of_an_overloaded_system_is_more_than_all() {
        let mut entrance = Entrance::default();
        for second in 0..200_i64 {
            for request in 0..20_i64 {
                entrance.record(second * SECOND, SECOND, request < 17 || second % 7 == 0);
            }
        }
        let back = entrance.back(100 * SECOND, 120 * SECOND, 200 * SECOND);
        assert!(back.measure.contains(" and 100.0 % "), "{}", back.measure);
    }
}
