//! ε-Diagnosis: metrics whose windows are alike in no way that chance explains.

use model::{Answer, Result};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::metric_columns::{self, ADAPTER_DEVIATIONS, Keep};
use super::{About, Algorithm, Input, Minimum, Samples};
use crate::frame::Pack;
use crate::statistics::{correlation, quantile, sort};

const MINIMUM: Minimum = Minimum { window_s: 30, normal_samples: 3, abnormal_samples: 3, samples: Samples::Points };

const REPLICATES: usize = 200;
const ALPHA: f64 = 0.05;

pub struct EpsilonDiagnosis;

impl Algorithm for EpsilonDiagnosis {
    fn name(&self) -> &'static str {
        "epsilon-diagnosis"
    }

    fn about(&self) -> About {
        About {
            summary: "services by how far the squared correlation of a metric's two windows exceeds what chance gives",
            source: "ε-Diagnosis (Shan et al., WWW 2019) in the form of PyRCA: two-sample test by squared correlation, \
                     threshold at 1 − α of a bootstrap",
            input: &[Input::Metrics],
            shapes: "per metric series of a service: the last points of the normal and as many first ones of the abnormal window",
            units: "values in the metric's unit; score as a difference of squared correlations, 0 to 1",
            complexity: "O(replicates · points)",
            minimum: MINIMUM,
            deviations: &[
                ADAPTER_DEVIATIONS[0],
                ADAPTER_DEVIATIONS[1],
                ADAPTER_DEVIATIONS[2],
                ADAPTER_DEVIATIONS[3],
                "the threshold of a metric is that of its own bootstrap: two resamples of its normal window against each \
                 other, 200 times, at α .05; PyRCA hands the first replicate's threshold to the first metric and so on",
                "the draws are this project's own, from the given seed",
                "all metrics are ordered, those below their threshold last, rather than the first three only",
            ],
            control: false,
            in_house: false,
        }
    }

    fn rank(&self, pack: &Pack, seed: u64) -> Result<Vec<Answer>> {
        metric_columns::rank(self.name(), pack, MINIMUM, Keep::Varying, |normal, abnormal| {
            score(normal, abnormal, seed)
        })
    }
}

/// The squared correlation of the last normal with the first abnormal values, beyond its threshold.
fn score(normal: &[f64], abnormal: &[f64], seed: u64) -> f64 {
    let length = normal.len().min(abnormal.len());
    let (normal, abnormal) = (&normal[normal.len() - length..], &abnormal[..length]);
    correlation(normal, abnormal).powi(2) - threshold(normal, seed)
}

fn threshold(normal: &[f64], seed: u64) -> f64 {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut resample = || -> Vec<f64> { normal.iter().map(|_| normal[random.random_range(0..normal.len())]).collect() };
    let mut null: Vec<f64> = (0..REPLICATES).map(|_| correlation(&resample(), &resample()).powi(2)).collect();
    sort(&mut null);
    quantile(&null, 1.0 - ALPHA)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_repeats_exceeds_chance_and_noise_does_not() {
        let mut random = Pcg64::seed_from_u64(1);
        let mut noise = || -> Vec<f64> { (0..60).map(|_| random.random::<f64>()).collect() };
        let (a, b) = (noise(), noise());
        assert!(score(&a, &a, 7) > 0.8, "{}", score(&a, &a, 7));
        assert!(score(&a, &b, 7) < 0.1, "{}", score(&a, &b, 7));
        // The .95 quantile of the squared correlation of 60 independent pairs is near 1.96² / 60.
        assert!((threshold(&a, 7) - 0.064).abs() < 0.03, "{}", threshold(&a, 7));
    }
}
