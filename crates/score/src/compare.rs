//! Paired comparison of algorithms: sign-flip permutation test on cluster differences, corrected by Holm.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::case::Options;
use crate::layout::{Layout, mean};
use crate::ranking::{Metric, Scores};

/// Clusters up to which every sign pattern is tried.
const ENUMERABLE: usize = 13;
/// Differences below this are rounding.
const EQUAL: f64 = 1e-12;

/// One algorithm against another on the same packs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub first: String,
    pub second: String,
    pub metric: Metric,
    /// Macro mean of first minus second.
    pub difference: f64,
    /// Two-sided.
    pub p: f64,
    /// The same after Holm's correction over all pairs of the board.
    pub p_holm: f64,
    /// Every sign pattern was tried.
    pub exact: bool,
    /// Distinct packs on which the first is better, equal, worse.
    pub win: usize,
    pub tie: usize,
    pub loss: usize,
}

/// Compares every pair; `columns` holds each algorithm's name and its value per case.
pub fn compare(layout: &Layout, columns: &[(&str, &[Scores])], metric: Metric, options: &Options) -> Vec<Comparison> {
    let mut pairs = Vec::new();
    for (index, first) in columns.iter().enumerate() {
        pairs.extend(columns[index + 1..].iter().map(|second| (*first, *second)));
    }
    compare_pairs(layout, &pairs, metric, options)
}

/// A name and its value per case.
pub type Column<'a> = (&'a str, &'a [Scores]);

/// Compares the pairs that are given; the correction is over all of them.
pub fn compare_pairs(
    layout: &Layout,
    pairs: &[(Column<'_>, Column<'_>)],
    metric: Metric,
    options: &Options,
) -> Vec<Comparison> {
    let compared = pairs.par_iter().map(|((first, a), (second, b))| {
        let pair = Pair::new(layout, a, b, metric);
        let (p, exact) = sign_flip(&pair.clusters, options);
        Comparison {
            first: (*first).to_owned(),
            second: (*second).to_owned(),
            metric,
            difference: pair.clusters.iter().sum(),
            p,
            p_holm: p,
            exact,
            win: pair.win,
            tie: pair.tie,
            loss: pair.loss,
        }
    });
    let mut list: Vec<Comparison> = compared.collect();
    holm(&mut list);
    list
}

struct Pair {
    /// What each cluster adds to the difference of the macro means.
    clusters: Vec<f64>,
    win: usize,
    tie: usize,
    loss: usize,
}

impl Pair {
    fn new(layout: &Layout, a: &[Scores], b: &[Scores], metric: Metric) -> Self {
        let column = metric as usize;
        let mut pair = Self { clusters: Vec::new(), win: 0, tie: 0, loss: 0 };
        for cell in &layout.cells {
            let samples: usize = cell.clusters.iter().map(|cluster| cluster.samples.len()).sum();
            let weight = 1.0 / (samples * layout.cells.len()) as f64;
            for cluster in &cell.clusters {
                let mut sum = 0.0;
                for sample in &cluster.samples {
                    let difference = mean(sample, a)[column] - mean(sample, b)[column];
                    sum += difference;
                    match difference {
                        difference if difference > EQUAL => pair.win += 1,
                        difference if difference < -EQUAL => pair.loss += 1,
                        _ => pair.tie += 1,
                    }
                }
                pair.clusters.push(sum * weight);
            }
        }
        pair
    }
}

/// The share of sign patterns under which the sum is at least as far from zero, and whether all were tried.
fn sign_flip(differences: &[f64], options: &Options) -> (f64, bool) {
    // A cluster without a difference has the same sum under both signs.
    let moving: Vec<f64> = differences.iter().copied().filter(|difference| difference.abs() > EQUAL).collect();
    let observed = moving.iter().sum::<f64>().abs() - EQUAL;
    if moving.len() <= ENUMERABLE {
        let patterns = 1_u64 << moving.len();
        let extreme =
            (0..patterns).filter(|pattern| flipped(&moving, |word| pattern >> (64 * word)) >= observed).count();
        return (extreme as f64 / patterns as f64, true);
    }
    let mut random = Pcg64::seed_from_u64(options.seed);
    let extreme = (0..options.permutations).filter(|_| flipped(&moving, |_| random.next_u64()) >= observed).count();
    // The observed pattern is one of those that could have been drawn.
    ((extreme + 1) as f64 / (options.permutations + 1) as f64, false)
}

/// The absolute sum after flipping the signs whose bit is set; `bits` gives the next 64 of them.
fn flipped(differences: &[f64], mut bits: impl FnMut(usize) -> u64) -> f64 {
    let mut total = 0.0;
    for (word, chunk) in differences.chunks(64).enumerate() {
        let signs = bits(word);
        for (bit, difference) in chunk.iter().enumerate() {
            // Moved to where a number has its sign: without a branch that nobody can foresee.
            total += f64::from_bits(difference.to_bits() ^ (((signs >> bit) & 1) << 63));
        }
    }
    total.abs()
}

/// Holm's step-down correction.
fn holm(list: &mut [Comparison]) {
    let mut order: Vec<usize> = (0..list.len()).collect();
    order.sort_by(|&a, &b| list[a].p.total_cmp(&list[b].p));
    let (count, mut highest) = (list.len(), 0.0_f64);
    for (step, index) in order.into_iter().enumerate() {
        highest = highest.max((list[index].p * (count - step) as f64).min(1.0));
        list[index].p_holm = highest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sign_flips_of_few_clusters_are_enumerated() {
        let options = Options::default();
        // Five equal gains: only the two patterns of one sign are as far from zero.
        assert_eq!(sign_flip(&[0.2; 5], &options), (2.0 / 32.0, true));
        assert_eq!(sign_flip(&[0.0; 5], &options), (1.0, true));
        assert_eq!(sign_flip(&[0.1, -0.1], &options), (1.0, true));
    }

    #[test]
    fn sign_flips_of_many_clusters_are_drawn_and_repeatable() {
        let options = Options::default();
        let gains: Vec<f64> = (0..100).map(|index| if index % 5 == 0 { -0.1 } else { 0.1 }).collect();
        let (p, exact) = sign_flip(&gains, &options);
        assert!(!exact && p < 0.001, "{p}");
        assert_eq!(sign_flip(&gains, &options), (p, exact));
        let balanced: Vec<f64> = (0..100).map(|index| if index % 2 == 0 { -0.1 } else { 0.1 }).collect();
        assert!(sign_flip(&balanced, &options).0 > 0.9);
    }

    #[test]
    fn holm_steps_down_and_stays_monotone() {
        let comparison = |p| Comparison {
            first: String::new(),
            second: String::new(),
            metric: Metric::Avg5,
            difference: 0.0,
            p,
            p_holm: p,
            exact: true,
            win: 0,
            tie: 0,
            loss: 0,
        };
        let mut list: Vec<Comparison> = [0.01, 0.04, 0.03].into_iter().map(comparison).collect();
        holm(&mut list);
        let found: Vec<f64> = list.iter().map(|comparison| comparison.p_holm).collect();
        for (found, expect) in found.into_iter().zip([0.03, 0.06, 0.06]) {
            assert!((found - expect).abs() < 1e-12);
        }
    }
}
