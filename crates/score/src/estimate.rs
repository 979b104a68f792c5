//! A number with its interval, and the rule by which the interval is found.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};
use statrs::distribution::{Beta, ContinuousCDF};

use crate::layout::{Sums, add, cell_mean};
use crate::ranking::{METRICS, Metric, Values};

/// Distinct packs from which a bootstrap interval is given.
const ENOUGH: usize = 10;
const CONFIDENCE: f64 = 0.95;
const NOT_RUN: &str = "not run";

/// How an interval was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Exact binomial (Clopper-Pearson).
    Exact,
    /// Clustered bootstrap.
    Bootstrap,
    /// No interval; the note says why.
    None,
}

/// A value with its 95 % interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    pub value: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub method: Method,
    pub note: Option<String>,
}

impl Estimate {
    /// A proportion of `n` with its exact interval.
    pub(crate) fn exact(value: f64, n: usize) -> Self {
        let (low, high) = clopper_pearson(value * n as f64, n as f64, CONFIDENCE);
        Self { value, low: Some(low), high: Some(high), method: Method::Exact, note: None }
    }

    pub(crate) fn is_not_run(&self) -> bool {
        self.note.as_deref() == Some(NOT_RUN)
    }

    fn without(value: f64, note: &str) -> Self {
        Self { value, low: None, high: None, method: Method::None, note: Some(note.to_owned()) }
    }
}

/// A value and its interval for each metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimates {
    pub ac1: Estimate,
    pub ac3: Estimate,
    pub ac5: Estimate,
    pub avg3: Estimate,
    pub avg5: Estimate,
    pub mrr: Estimate,
    pub precision3: Estimate,
    pub precision5: Estimate,
    pub recall3: Estimate,
    pub recall5: Estimate,
}

impl Estimates {
    /// Of an algorithm that ran on nothing: zero everywhere, and no interval, because nothing was drawn.
    pub(crate) fn not_run() -> Self {
        let [ac1, ac3, ac5, avg3, avg5, mrr, precision3, precision5, recall3, recall5] =
            Metric::ALL.map(|_| Estimate::without(0.0, NOT_RUN));
        Self { ac1, ac3, ac5, avg3, avg5, mrr, precision3, precision5, recall3, recall5 }
    }

    pub const fn get(&self, metric: Metric) -> &Estimate {
        match metric {
            Metric::Ac1 => &self.ac1,
            Metric::Ac3 => &self.ac3,
            Metric::Ac5 => &self.ac5,
            Metric::Avg3 => &self.avg3,
            Metric::Avg5 => &self.avg5,
            Metric::Mrr => &self.mrr,
            Metric::Precision3 => &self.precision3,
            Metric::Precision5 => &self.precision5,
            Metric::Recall3 => &self.recall3,
            Metric::Recall5 => &self.recall5,
        }
    }

    /// Values and intervals of several algorithms on the same `packs` distinct packs, for which the same draws are made.
    pub(crate) fn all(sums: &[Sums], packs: usize, resamples: usize, seed: u64) -> Vec<Self> {
        let Some(clusters) = sums.first().map(Sums::clusters) else { return Vec::new() };
        let draws = if packs >= ENOUGH && clusters >= 2 { bootstrap(sums, resamples, seed) } else { Vec::new() };
        let of = |(index, sums): (usize, &Sums)| {
            let values = sums.macro_mean();
            let [ac1, ac3, ac5, avg3, avg5, mrr, precision3, precision5, recall3, recall5] =
                Metric::ALL.map(|metric| {
                    let column = metric as usize;
                    let drawn = draws.get(index).into_iter().flatten().map(|draw| draw[column]).collect();
                    estimate(metric, values[column], packs, clusters, drawn)
                });
            Self { ac1, ac3, ac5, avg3, avg5, mrr, precision3, precision5, recall3, recall5 }
        };
        sums.iter().enumerate().map(of).collect()
    }
}

fn estimate(metric: Metric, value: f64, packs: usize, clusters: usize, mut draws: Vec<f64>) -> Estimate {
    // Sums of thirds and fifths end a rounding error beside the value that they stand for.
    let value = [0.0, 1.0].into_iter().find(|end| (value - end).abs() < 1e-12).unwrap_or(value);
    let at_an_end = value == 0.0 || value == 1.0;
    if packs < ENOUGH && !metric.is_proportion() {
        return Estimate::without(value, "n too small");
    }
    if packs < ENOUGH || at_an_end {
        return Estimate::exact(value, packs);
    }
    if clusters < 2 {
        return Estimate::without(value, "one cluster");
    }
    if draws.is_empty() {
        return Estimate::without(value, "no resamples");
    }
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let mut at = |share: f64| {
        let place = (share * (draws.len() - 1) as f64).round() as usize;
        *draws.select_nth_unstable_by(place, f64::total_cmp).1
    };
    Estimate { value, low: Some(at(tail)), high: Some(at(1.0 - tail)), method: Method::Bootstrap, note: None }
}

/// Draws macro means: in each cell as many clusters as it has, with replacement. A cell of one cluster has no spread of
/// its own; such cells draw from each other's clusters (collapsed strata), so that their spread is not taken for zero.
/// All of `sums` have the same cells and clusters; the result is a list of draws for each of them.
fn bootstrap(sums: &[Sums], resamples: usize, seed: u64) -> Vec<Vec<Values>> {
    let mut random = Pcg64::seed_from_u64(seed);
    let sizes: Vec<usize> = sums[0].cells.iter().map(Vec::len).collect();
    let (single, several): (Vec<usize>, Vec<usize>) = (0..sizes.len()).partition(|&cell| sizes[cell] == 1);
    let mut draws = vec![Vec::with_capacity(resamples); sums.len()];
    for _ in 0..resamples {
        let drawn: Vec<(usize, Vec<usize>)> = several
            .iter()
            .map(|&cell| (cell, (0..sizes[cell]).map(|_| random.random_range(0..sizes[cell])).collect()))
            .collect();
        let borrowed: Vec<usize> = single.iter().map(|_| single[random.random_range(0..single.len())]).collect();
        for (draws, sums) in draws.iter_mut().zip(sums) {
            let mut total = [0.0; METRICS];
            for (cell, clusters) in &drawn {
                add(&mut total, &cell_mean(clusters.iter().map(|&cluster| &sums.cells[*cell][cluster])));
            }
            for &cell in &borrowed {
                add(&mut total, &cell_mean(&sums.cells[cell]));
            }
            draws.push(total.map(|value| value / sizes.len() as f64));
        }
    }
    draws
}

/// The exact binomial interval of Clopper and Pearson (1934) for `hits` of `n`; `hits` may be fractional, as the
/// expectation over ties is. An empty sample has the interval 0 to 1.
pub fn clopper_pearson(hits: f64, n: f64, confidence: f64) -> (f64, f64) {
    let tail = (1.0 - confidence) / 2.0;
    let quantile = |a: f64, b: f64, share: f64, end: f64| match Beta::new(a, b) {
        Ok(beta) => beta.inverse_cdf(share).clamp(0.0, 1.0),
        Err(_) => end,
    };
    // Both shapes are positive strictly inside, and an end of the range is its own bound.
    let low = if hits <= 0.0 { 0.0 } else { quantile(hits, n - hits + 1.0, tail, 0.0) };
    let high = if hits >= n { 1.0 } else { quantile(hits + 1.0, n - hits, 1.0 - tail, 1.0) };
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clopper_pearson_gives_the_known_intervals() {
        let check = |hits, n, low: f64, high: f64| {
            let found = clopper_pearson(hits, n, 0.95);
            assert!((found.0 - low).abs() < 5e-5 && (found.1 - high).abs() < 5e-5, "{hits} of {n}: {found:?}");
        };
        check(0.0, 10.0, 0.0, 0.3085);
        check(10.0, 10.0, 0.6915, 1.0);
        check(5.0, 10.0, 0.1871, 0.8129);
        check(1.0, 6.0, 0.0042, 0.6412);
        check(7.0, 8.0, 0.4735, 0.9968);
        check(90.0, 100.0, 0.8238, 0.9510);
        // One minus the 40th root of .025.
        check(0.0, 40.0, 0.0, 1.0 - 0.025_f64.powf(1.0 / 40.0));
        check(0.0, 0.0, 0.0, 1.0);
    }
}
