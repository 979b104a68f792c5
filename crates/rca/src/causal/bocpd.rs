//! Bayesian online change-point detection (Adams and MacKay 2007) for several columns at once, as BARO has it.

use nalgebra::{Cholesky, DMatrix, DVector, Dyn};
use statrs::function::gamma::ln_gamma;

/// The chance of a change in any row is one in this many.
const HAZARD: f64 = 50.0;

/// What is known of a run: a normal-inverse-Wishart belief about mean and covariance of its rows.
struct Belief {
    mean: DVector<f64>,
    /// Rows seen, and one.
    weight: f64,
    freedom: f64,
    scale: Cholesky<f64, Dyn>,
}

impl Belief {
    /// Mean zero, unit scale, one more degree of freedom than columns.
    fn prior(size: usize) -> Self {
        let scale = Cholesky::new(DMatrix::identity(size, size)).expect("the identity is positive definite");
        Self { mean: DVector::zeros(size), weight: 1.0, freedom: size as f64 + 1.0, scale }
    }

    /// The logarithm of the density of a row under the multivariate Student distribution that the belief predicts.
    fn ln_density(&self, row: &DVector<f64>) -> f64 {
        let size = self.mean.len() as f64;
        let freedom = self.freedom - size + 1.0;
        let spread = (self.weight + 1.0) / (self.weight * freedom);
        let away = row - &self.mean;
        let distance = away.dot(&self.scale.solve(&away)) / spread;
        let ln_det: f64 = self.scale.l_dirty().diagonal().iter().map(|value| 2.0 * value.ln()).sum();
        ln_gamma((freedom + size) / 2.0)
            - ln_gamma(freedom / 2.0)
            - 0.5 * (size * (freedom * std::f64::consts::PI).ln() + ln_det + size * spread.ln())
            - 0.5 * (freedom + size) * (distance / freedom).ln_1p()
    }

    fn learn(&mut self, row: &DVector<f64>) {
        let away = row - &self.mean;
        self.scale.rank_one_update(&away, self.weight / (self.weight + 1.0));
        self.mean.axpy(1.0 / (self.weight + 1.0), &away, 1.0);
        self.weight += 1.0;
        self.freedom += 1.0;
    }
}

/// Rows at which the most likely length of the current run jumps by more than one, of columns that were scaled to [0, 1].
/// O(rows² · columns²).
pub fn change_points(columns: &[Vec<f64>]) -> Vec<usize> {
    let Some(rows) = columns.first().map(Vec::len).filter(|rows| *rows > 1) else { return Vec::new() };
    // One belief and one probability per possible length of the run, shortest first.
    let mut beliefs = vec![Belief::prior(columns.len())];
    let mut lengths = vec![1.0_f64];
    let mut likely = Vec::with_capacity(rows + 1);
    likely.push(0_usize);
    for row in 0..rows {
        let values = DVector::from_iterator(columns.len(), columns.iter().map(|column| column[row]));
        let densities: Vec<f64> = beliefs.iter().map(|belief| belief.ln_density(&values)).collect();
        let highest = densities.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let seen: Vec<f64> =
            lengths.iter().zip(&densities).map(|(length, density)| length * (density - highest).exp()).collect();
        let total: f64 = seen.iter().sum();
        lengths =
            std::iter::once(1.0 / HAZARD).chain(seen.iter().map(|seen| seen / total * (1.0 - 1.0 / HAZARD))).collect();
        beliefs.iter_mut().for_each(|belief| belief.learn(&values));
        beliefs.insert(0, Belief::prior(columns.len()));
        let best =
            (0..lengths.len()).fold(0, |best, length| if lengths[length] > lengths[best] { length } else { best });
        likely.push(best);
    }
    (1..likely.len()).filter(|row| likely[*row].abs_diff(likely[row - 1]) > 1).map(|row| row - 1).collect()
}

/// A column on [0, 1]; zero when it is constant.
pub fn scaled(values: &[f64]) -> Vec<f64> {
    let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let range = values.iter().copied().fold(f64::NEG_INFINITY, f64::max) - lowest;
    values.iter().map(|value| if range > 0.0 { (value - lowest) / range } else { 0.0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_is_found_where_it_is_and_calm_has_none() {
        let wave = |row: usize| 0.02 * ((row * 7919 % 13) as f64 / 13.0);
        let calm: Vec<f64> = (0..120).map(wave).collect();
        let jump = |by: f64| -> Vec<f64> { (0..120).map(|row| wave(row) + if row >= 70 { by } else { 0.0 }).collect() };
        assert_eq!(change_points(&[calm.clone(), calm.clone()]), [] as [usize; 0]);
        let found = change_points(&[scaled(&jump(1.0)), scaled(&jump(0.5))]);
        assert!(found.first().is_some_and(|row| row.abs_diff(70) <= 3), "{found:?}");
    }
}
