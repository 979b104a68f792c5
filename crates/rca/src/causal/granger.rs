//! Granger causality (Granger, Econometrica 1969) between pairs of columns.

use nalgebra::{DMatrix, DVector};
use statrs::distribution::{ChiSquared, ContinuousCDF, FisherSnedecor};

/// What the four tests of one lag say, as p-values; the tests of the residuals and of the parameters agree by algebra.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tests {
    /// F test of the sums of squared residuals.
    pub f: f64,
    pub chi2: f64,
    pub likelihood_ratio: f64,
}

impl Tests {
    /// The mean of the four p-values, the F test counting twice: once by residuals and once by parameters.
    pub fn mean(&self) -> f64 {
        (self.f + self.chi2 + self.likelihood_ratio + self.f) / 4.0
    }
}

/// Whether the past of `cause` helps to predict `effect` beyond the past of `effect`, with `lag` lags of both and a
/// constant. `None` where the regression cannot be made: too few rows, a lagged column that is constant, a perfect fit.
/// O(rows · lag²).
pub fn tests(effect: &[f64], cause: &[f64], lag: usize) -> Option<Tests> {
    let rows = effect.len().checked_sub(lag)?;
    let parameters = 2 * lag + 1;
    if rows <= parameters {
        return None;
    }
    let shifted = |column: &[f64], by: usize| DVector::from_column_slice(&column[lag - by..lag - by + rows]);
    let lagged: Vec<DVector<f64>> =
        [effect, cause].iter().flat_map(|column| (1..=lag).map(|by| shifted(column, by))).collect();
    if lagged.iter().any(|column| column.iter().all(|value| *value == column[0])) {
        return None;
    }
    let target = shifted(effect, 0);
    let centre = target.mean();
    let total: f64 = target.iter().map(|value| (value - centre).powi(2)).sum();
    let (own, _) = residuals(&lagged[..lag], &target)?;
    let (joint, rank) = residuals(&lagged, &target)?;
    if total == 0.0 || joint / total < f64::EPSILON {
        return None;
    }
    let (rows, lags) = (rows as f64, lag as f64);
    let freedom = rows - rank as f64;
    let gain = ((own - joint) / joint).max(0.0);
    let chi2 = ChiSquared::new(lags).ok()?;
    Some(Tests {
        f: FisherSnedecor::new(lags, freedom).ok()?.sf(gain / lags * freedom),
        chi2: chi2.sf(rows * gain),
        likelihood_ratio: chi2.sf((rows * (own / joint).ln()).max(0.0)),
    })
}

/// The sum of squared residuals of a regression on these columns and a constant, and the rank of its matrix. The columns
/// are centred and scaled first, which changes neither.
fn residuals(columns: &[DVector<f64>], target: &DVector<f64>) -> Option<(f64, usize)> {
    let rows = target.len();
    let centred = |column: &DVector<f64>| column.add_scalar(-column.mean());
    let mut matrix = DMatrix::zeros(rows, columns.len());
    for (index, column) in columns.iter().enumerate() {
        let column = centred(column);
        let norm = column.norm();
        if norm > 0.0 {
            matrix.set_column(index, &(column / norm));
        }
    }
    let target = centred(target);
    let decomposed = matrix.clone().col_piv_qr();
    let r = decomposed.r();
    let rank = (0..columns.len()).take_while(|place| r[(*place, *place)].abs() > 1e-12).count();
    // The residual is what is orthogonal to the first `rank` directions.
    let directions = decomposed.q();
    let mut rest = target;
    for place in 0..rank {
        let direction = directions.column(place);
        let share = direction.dot(&rest);
        rest.axpy(-share, &direction, 1.0);
    }
    Some((rest.norm_squared(), rank + 1))
}

#[cfg(test)]
mod tests_of_tests {
    use super::*;

    /// statsmodels 0.14.6, `grangercausalitytests` with two lags on these two columns.
    #[test]
    fn the_p_values_are_those_of_statsmodels() {
        let (cause, effect) = series();
        let found = tests(&effect, &cause, 2).unwrap();
        for (found, expect) in [(found.f, F), (found.chi2, CHI2), (found.likelihood_ratio, LR)] {
            assert!((found - expect).abs() < 1e-10, "{found} is not {expect}");
        }
    }

    const F: f64 = 0.152_202_909_661_129_18;
    const CHI2: f64 = 0.100_632_616_188_575_29;
    const LR: f64 = 0.114_432_041_265_384_25;

    /// Two columns from a linear congruence: `effect` follows `cause` weakly, one step later.
    fn series() -> (Vec<f64>, Vec<f64>) {
        let mut state = 1_u64;
        let mut noise = || {
            state = (state * 1103515245 + 12345) % 2147483648;
            state as f64 / 2147483648.0 - 0.5
        };
        let cause: Vec<f64> = (0..40).map(|_| noise()).collect();
        let effect = (0..40).map(|row| noise() + if row == 0 { 0.0 } else { 0.4 * cause[row - 1] }).collect();
        (cause, effect)
    }

    #[test]
    fn what_cannot_be_tested_is_not() {
        assert_eq!(tests(&[1.0; 20], &[1.0; 20], 1), None);
        assert_eq!(tests(&[1.0, 2.0, 3.0], &[1.0, 0.0, 1.0], 1), None);
    }
}
