//! Regression-based hypothesis testing (Li et al., CIRCA, KDD 2022): how far a column departs from what its parents explain.

use nalgebra::{DMatrix, DVector};

use crate::statistics::{deviation, mean};

/// A linear regression with intercept of `target` on `parents`, fitted to the first `trained` rows; gives the residuals of
/// the `tested` last rows in deviations of the training residuals. Without parents the plain z-scores. A deviation of zero
/// counts as one. Directions of the parents that are smaller than `cut` beside the largest one are left out.
/// O(rows · parents²).
pub fn departures(target: &[f64], parents: &[&[f64]], trained: usize, tested: usize, cut: f64) -> Vec<f64> {
    let first_tested = target.len() - tested;
    if parents.is_empty() {
        return scores(&target[..trained], &target[first_tested..]);
    }
    // Centred, the intercept drops out.
    let centres: Vec<f64> = parents.iter().map(|parent| mean(&parent[..trained])).collect();
    let centre = mean(&target[..trained]);
    let cell = |row: usize, column: usize| parents[column][row] - centres[column];
    let svd = DMatrix::from_fn(trained, parents.len(), cell).svd(true, true);
    let answer = DVector::from_iterator(trained, target[..trained].iter().map(|value| value - centre));
    let least = cut * svd.singular_values.max();
    let weights = svd.solve(&answer, least).unwrap_or_else(|_| DVector::zeros(parents.len()));
    let residual = |row: usize| {
        target[row] - centre - (0..parents.len()).map(|column| weights[column] * cell(row, column)).sum::<f64>()
    };
    let train: Vec<f64> = (0..trained).map(residual).collect();
    let test: Vec<f64> = (first_tested..target.len()).map(residual).collect();
    scores(&train, &test)
}

fn scores(train: &[f64], test: &[f64]) -> Vec<f64> {
    let (centre, spread) = (mean(train), deviation(train, 0));
    let count = train.len() as f64;
    let rounding = count * f64::EPSILON * spread * spread + (count * centre * f64::EPSILON).powi(2);
    let scale = if spread * spread <= rounding { 1.0 } else { spread };
    test.iter().map(|value| (value - centre) / scale).collect()
}
