//! `pc_randomwalk`: a PC graph that is learned and then not walked.
//!
//! The slip, kept: the walk weighs its steps by scores that the caller never gives, so all weights are zero, every step leads
//! to any column with one probability, and neither the graph nor the start, the only thing that is drawn without a seed, has a
//! say. The walk's own generator has the seed 0, and it makes as many steps as there are columns: the ranking is one fixed
//! order for each number of columns, whatever is in them.

use rand::Rng;
use rand_pcg::Pcg64;

use super::graphs::ALPHA;
use super::preprocess::prepare;
use super::{Ranking, descending};
use crate::causal::skeleton::{FisherZ, Untestable, skeleton};
use crate::wide::Wide;

/// State and stream of `numpy.random.default_rng(0)`: what NumPy's seed sequence makes of the entropy 0.
const STATE: u128 = 0xdb2c_d7e7_b0f4_78be_abf4_641a_2c71_ba49;
const STREAM: u128 = 0x20c6_ed6d_9d7b_8d41_2c40_99de_223c_39d4;

/// # Errors
/// When the graph cannot be learned, where the program falls back to the order of the columns.
pub fn random_walk(table: &Wide) -> Result<Ranking, Untestable> {
    let columns = prepare(table, 0..table.times.len());
    let values: Vec<&[f64]> = columns.iter().map(|column| column.values.as_slice()).collect();
    skeleton(&FisherZ::new(&values), ALPHA, usize::MAX - 1)?;
    let visits = visits(columns.len());
    Ok(descending(columns.iter().map(|column| column.index).zip(visits).collect()))
}

/// The share of steps that end at each of so many columns, drawn as NumPy's `choice` draws by weights.
fn visits(size: usize) -> Vec<f64> {
    let mut random = Pcg64::new(STATE, STREAM);
    let weight = 1.0 / size as f64;
    let sums: Vec<f64> = (0..size)
        .scan(0.0, |sum, _| {
            *sum += weight;
            Some(*sum)
        })
        .collect();
    let mut visits = vec![0.0; size];
    for _ in 0..size {
        // A number from 0 to 1 with 53 bits.
        let drawn = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let column = sums.iter().filter(|sum| **sum / sums[size - 1] <= drawn).count();
        visits[column] += weight;
    }
    visits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_draws_are_those_of_numpy() {
        let counts = |size: usize| -> Vec<u64> {
            visits(size).iter().map(|share| (share * size as f64).round() as u64).collect()
        };
        assert_eq!(counts(4), [2, 1, 1, 0]);
        assert_eq!(counts(7), [2, 1, 0, 0, 2, 1, 1]);
        assert_eq!(counts(20), [4, 0, 0, 1, 0, 2, 0, 0, 1, 0, 2, 0, 2, 0, 2, 0, 2, 2, 2, 0]);
    }
}
