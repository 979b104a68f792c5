//! `tracerca`: the harmonic mean of support and confidence of operations among slow spans.
//!
//! Slips and shortcuts, kept: single spans are judged, not traces, with three deviations of their duration; an operation
//! without a slow span has the score 0/0, which is not a number, stands in the way of the sort, and is left out after it.

use super::spans::Usual;
use super::{Operations, Ranking, sorted};

/// O(spans + operations²). With more operations than Python sorts by insertion, those without a score are left out before
/// the sort.
pub fn tracerca(table: &Operations) -> Ranking {
    let (normal, abnormal) = table.split();
    let usual = Usual::of(&normal, table.names.len());
    let mut order = Vec::new();
    let mut counts = vec![(0_u64, 0_u64); table.names.len()];
    for row in abnormal {
        let Some(usual) = usual[row.operation] else { continue };
        let (all, slow) = &mut counts[row.operation];
        if *all == 0 {
            order.push(row.operation);
        }
        *all += 1;
        *slow += u64::from(usual.is_slow(row));
    }
    let total: u64 = counts.iter().map(|(_, slow)| slow).sum();
    let score = |operation: &usize| {
        let (all, slow) = counts[*operation];
        let (support, confidence) = (slow as f64 / total as f64, slow as f64 / all as f64);
        2.0 * support * confidence / (support + confidence)
    };
    let scores: Vec<f64> = order.iter().map(score).collect();
    let scored = order.iter().copied().zip(scores.iter().copied());
    if order.len() > sorted::INSERTION {
        return super::descending(scored.filter(|(_, score)| !score.is_nan()).collect());
    }
    let places = sorted::descending(&scores).into_iter().filter(|place| !scores[*place].is_nan());
    places.map(|place| (order[place], scores[place])).collect()
}
