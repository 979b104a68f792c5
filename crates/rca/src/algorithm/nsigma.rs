//! N-Sigma: how many standard deviations above its normal mean a metric rises.

use model::{Answer, Result};

use super::metric_columns::{self, ADAPTER_DEVIATIONS, Keep, highest, scale_or_one};
use super::{About, Algorithm, Input, Minimum, Samples};
use crate::frame::Pack;
use crate::statistics::{deviation, mean};

const MINIMUM: Minimum = Minimum { window_s: 30, normal_samples: 3, abnormal_samples: 1, samples: Samples::Points };

pub struct NSigma;

impl Algorithm for NSigma {
    fn name(&self) -> &'static str {
        "nsigma"
    }

    fn about(&self) -> About {
        About {
            summary: "services by the highest z-score of any metric against mean and deviation of the normal window",
            source: "N-Sigma as in RCAEval (Pham et al., ASE 2024)",
            input: &[Input::Metrics],
            shapes: "per metric series of a service: the points of its normal and of its abnormal window, two lists of any length",
            units: "values in the metric's unit; score in normal standard deviations",
            complexity: "O(points)",
            minimum: MINIMUM,
            deviations: &ADAPTER_DEVIATIONS,
            control: false,
            in_house: false,
        }
    }

    fn rank(&self, pack: &Pack, _seed: u64) -> Result<Vec<Answer>> {
        metric_columns::rank(self.name(), pack, MINIMUM, Keep::Varying, score)
    }
}

/// The highest `(x − μ) / σ` over the abnormal sample, with the population deviation; only a rise counts.
fn score(normal: &[f64], abnormal: &[f64]) -> f64 {
    (highest(abnormal) - mean(normal)) / scale_or_one(deviation(normal, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_golden_vectors() {
        let normal: Vec<f64> = (1..=10).map(f64::from).collect();
        assert!((score(&normal, &[10.0, 12.0, 30.0]) - 8.529_805_1).abs() < 1e-7);
        assert_eq!(score(&[4.0; 5], &[4.0, 7.0]), 3.0);
    }
}
