//! BARO's scorer: N-Sigma with median and interquartile range, which stand an onset that is known badly.

use model::{Answer, Result};

use super::metric_columns::{self, ADAPTER_DEVIATIONS, Keep, highest, scale_or_one};
use super::{About, Algorithm, Input, Minimum, Samples};
use crate::frame::Pack;
use crate::statistics::{quantile, sort};

const MINIMUM: Minimum = Minimum { window_s: 30, normal_samples: 3, abnormal_samples: 1, samples: Samples::Points };

pub struct Baro;

impl Algorithm for Baro {
    fn name(&self) -> &'static str {
        "baro"
    }

    fn about(&self) -> About {
        About {
            summary: "services by the highest robust z-score of any metric against median and interquartile range",
            source: "RobustScorer of BARO (Pham, Ha, Zhang, FSE 2024), with the onset given",
            input: &[Input::Metrics],
            shapes: "per metric series of a service: the points of its normal and of its abnormal window, two lists of any length",
            units: "values in the metric's unit; score in normal interquartile ranges",
            complexity: "O(points log points)",
            minimum: MINIMUM,
            deviations: &ADAPTER_DEVIATIONS,
            control: false,
            in_house: false,
        }
    }

    fn rank(&self, pack: &Pack, _seed: u64) -> Result<Vec<Answer>> {
        metric_columns::rank(self.name(), pack, MINIMUM, Keep::Varying, |normal, abnormal| {
            score(normal, highest(abnormal))
        })
    }
}

/// `(x − median) / (q75 − q25)` of the highest abnormal value; only a rise counts.
pub fn score(normal: &[f64], highest: f64) -> f64 {
    let mut sorted = normal.to_vec();
    sort(&mut sorted);
    let scale = quantile(&sorted, 0.75) - quantile(&sorted, 0.25);
    (highest - quantile(&sorted, 0.5)) / scale_or_one(scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_golden_vectors() {
        let normal: Vec<f64> = (1..=10).map(f64::from).collect();
        assert!((score(&normal, 30.0) - 5.444_444_4).abs() < 1e-7);
        assert_eq!(score(&[4.0; 5], 7.0), 3.0);
    }
}
