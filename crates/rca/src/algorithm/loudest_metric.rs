//! Control: the service whose metrics moved most, up or down.

use model::{Answer, Result};

use super::metric_columns::{self, ADAPTER_DEVIATIONS, Keep, scale_or_one};
use super::{About, Algorithm, Input, Minimum, Samples};
use crate::frame::Pack;
use crate::statistics::{deviation, mean};

const MINIMUM: Minimum = Minimum { window_s: 30, normal_samples: 2, abnormal_samples: 1, samples: Samples::Points };

pub struct LoudestMetric;

impl Algorithm for LoudestMetric {
    fn name(&self) -> &'static str {
        "loudest-metric"
    }

    fn about(&self) -> About {
        About {
            summary: "services by the largest shift of any metric's mean, in normal standard deviations",
            source: "a control: no model of causes at all",
            input: &[Input::Metrics],
            shapes: "per metric series of a service: the points of its normal and of its abnormal window, two lists of any length",
            units: "values in the metric's unit; score in normal standard deviations",
            complexity: "O(points)",
            minimum: MINIMUM,
            deviations: &ADAPTER_DEVIATIONS,
            control: true,
            in_house: true,
        }
    }

    fn rank(&self, pack: &Pack, _seed: u64) -> Result<Vec<Answer>> {
        metric_columns::rank(self.name(), pack, MINIMUM, Keep::Enough, score)
    }
}

fn score(normal: &[f64], abnormal: &[f64]) -> f64 {
    (mean(abnormal) - mean(normal)).abs() / scale_or_one(deviation(normal, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fall_is_as_loud_as_a_rise() {
        let normal: Vec<f64> = (1..=10).map(f64::from).collect();
        assert!((score(&normal, &[2.5, 2.5]) - score(&normal, &[8.5, 8.5])).abs() < 1e-12);
        assert!((score(&normal, &[8.5]) - 3.0 / 2.872_281_3).abs() < 1e-7);
    }
}
