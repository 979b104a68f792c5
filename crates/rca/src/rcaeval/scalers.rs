//! `nsigma` and `baro`: the highest score of the abnormal rows after a scaler that was fitted to the normal ones.
//!
//! Slips and shortcuts, kept: a column that stands still in one of the two halves is dropped, so a counter that first
//! moves with the fault is lost; only a rise counts; memory is divided by a million, which matters only beside a scale
//! of one; a scale counts as zero, and becomes one, below the rounding of the column's own size (`nsigma`) or below ten
//! times the machine's precision (`baro`).

use super::preprocess::prepare;
use super::{Ranking, descending};
use crate::statistics::mean;
use crate::wide::Wide;

/// Highest `(x − mean) / σ` with the population's deviation. O(cells).
pub fn nsigma(table: &Wide) -> Ranking {
    ranked(table, |normal| {
        let centre = mean(normal);
        let count = normal.len() as f64;
        let (mut sum, mut squares) = (0.0, 0.0);
        for x in normal {
            sum += x - centre;
            squares += (x - centre) * (x - centre);
        }
        let variance = (squares - sum * sum / count) / count;
        let rounding = count * f64::EPSILON * variance + (count * centre * f64::EPSILON).powi(2);
        (centre, if variance <= rounding { 1.0 } else { variance.sqrt() })
    })
}

/// Highest `(x − median) / (q75 − q25)`. O(cells).
pub fn baro(table: &Wide) -> Ranking {
    ranked(table, |normal| {
        let mut values = normal.to_vec();
        let [low, middle, high] = [0.25, 0.5, 0.75].map(|q| quantile(&mut values, q));
        (middle, if high - low < 10.0 * f64::EPSILON { 1.0 } else { high - low })
    })
}

/// The same number as [`crate::statistics::quantile`] of the sorted sample, without sorting it. O(values).
fn quantile(values: &mut [f64], q: f64) -> f64 {
    let position = q * (values.len() - 1) as f64;
    let below = position.floor() as usize;
    let (_, &mut low, above) = values.select_nth_unstable_by(below, f64::total_cmp);
    let high = above.iter().copied().fold(f64::INFINITY, f64::min);
    if above.is_empty() { low } else { low + (high - low) * (position - below as f64) }
}

fn ranked(table: &Wide, fit: impl Fn(&[f64]) -> (f64, f64)) -> Ranking {
    let onset = table.normal_rows();
    if onset == 0 || onset == table.times.len() {
        return Ranking::new();
    }
    let abnormal = prepare(table, onset..table.times.len());
    let mut abnormal = abnormal.iter().peekable();
    let mut ranking = Ranking::new();
    for normal in prepare(table, 0..onset) {
        while abnormal.next_if(|column| column.index < normal.index).is_some() {}
        let Some(column) = abnormal.next_if(|column| column.index == normal.index) else { continue };
        let (centre, scale) = fit(&normal.values);
        let score = column.values.iter().map(|x| (x - centre) / scale).fold(f64::NEG_INFINITY, f64::max);
        ranking.push((normal.index, score));
    }
    descending(ranking)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::sort;

    #[test]
    fn quantiles_are_those_of_the_sorted_sample() {
        for length in 1..40 {
            let mut values: Vec<f64> = (0..length).map(|at| f64::from(at * 7919 % 23)).collect();
            let mut sorted = values.clone();
            sort(&mut sorted);
            for q in [0.25, 0.5, 0.75] {
                assert_eq!(quantile(&mut values, q), crate::statistics::quantile(&sorted, q), "{length} {q}");
            }
        }
    }
}
