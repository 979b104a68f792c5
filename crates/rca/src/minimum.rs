//! How much data a method needs before its answer means anything.

use std::time::Duration;

use model::{ErrorKind, Problem, Result, Windows};
use serde::Serialize;

/// Declared by the detector and by every algorithm, so that a submission can be warned or refused before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Minimum {
    /// Seconds that each of the two windows must last.
    pub window_s: u64,
    /// Samples per judged thing (an endpoint, a metric, an operation) in the normal window.
    pub normal_samples: usize,
    /// The same in the abnormal window.
    pub abnormal_samples: usize,
    pub samples: Samples,
}

/// What a method's samples are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Samples {
    /// Requests: how many there are depends on the load.
    Requests,
    /// Points of a metric: how many there are depends on the interval at which metrics are collected.
    Points,
}

impl Minimum {
    pub const NONE: Self = Self { window_s: 0, normal_samples: 0, abnormal_samples: 0, samples: Samples::Requests };

    /// Whether both windows are long enough, whatever is in them.
    pub fn allows(&self, windows: &Windows) -> bool {
        self.holds(windows, 0)
    }

    /// Seconds that the normal and the abnormal window must last where metrics are collected every `interval_s` seconds.
    /// That many points are sure to lie in a window of one interval more: a collection may be late, or be missing.
    pub fn seconds(&self, interval_s: u64) -> (u64, u64) {
        let least = |samples: usize| match self.samples {
            Samples::Points if samples > 0 => self.window_s.max((samples as u64 + 1) * interval_s),
            _ => self.window_s,
        };
        (least(self.normal_samples), least(self.abnormal_samples))
    }

    fn holds(&self, windows: &Windows, interval_s: u64) -> bool {
        let (normal, abnormal) = self.seconds(interval_s);
        windows.normal_length() >= Duration::from_secs(normal)
            && windows.abnormal_length() >= Duration::from_secs(abnormal)
    }

    /// Where the interval of metrics is not known: their points are counted by the method itself.
    ///
    /// # Errors
    /// `algorithm.insufficient_data` when a window is too short for the method called `name`.
    pub fn check(&self, name: &str, windows: &Windows) -> Result<()> {
        self.check_at(name, windows, 0)
    }

    /// # Errors
    /// `algorithm.insufficient_data` when a window is too short for the method called `name`, by its length or by the
    /// number of points that it can hold.
    pub fn check_at(&self, name: &str, windows: &Windows, interval_s: u64) -> Result<()> {
        if self.holds(windows, interval_s) {
            return Ok(());
        }
        let (normal, abnormal) = self.seconds(interval_s);
        let mut expected = format!("at least {normal} s normal and {abnormal} s abnormal");
        if (normal, abnormal) != (self.window_s, self.window_s) {
            expected.push_str(&format!(
                ", for {} and {} points of a metric that is collected every {interval_s} s",
                self.normal_samples, self.abnormal_samples
            ));
        }
        Err(insufficient(name, "a window is too short for the method")
            .found(format!(
                "{} s normal and {} s abnormal",
                windows.normal_length().as_secs(),
                windows.abnormal_length().as_secs()
            ))
            .expected(expected)
            .fix(format!(
                "submit with longer windows, for example `--normal {}s --abnormal {}s`",
                normal.max(60),
                abnormal.max(60)
            )))
    }
}

/// The one answer of a method that has too little data: never an empty or invented ranking.
pub fn insufficient(name: &str, message: &str) -> Problem {
    Problem::new(ErrorKind::Failed, "algorithm.insufficient_data", message).place(format!("algorithm {name}"))
}

#[cfg(test)]
mod tests {
    use model::DataTime;

    use super::*;

    #[test]
    fn points_follow_the_interval_of_metrics_and_requests_do_not() {
        let seconds = Duration::from_secs;
        let windows = |normal, abnormal| Windows::new(DataTime(0), seconds(normal), seconds(abnormal)).unwrap();
        let points = Minimum { window_s: 30, normal_samples: 3, abnormal_samples: 1, samples: Samples::Points };
        assert_eq!(points.seconds(15), (60, 30));
        assert!(points.check("baro", &windows(30, 30)).is_ok(), "the points are counted later");
        let problem = points.check_at("baro", &windows(45, 60), 15).unwrap_err();
        assert_eq!(problem.code, "algorithm.insufficient_data");
        assert!(problem.expected.unwrap().contains("every 15 s"));
        assert!(points.check_at("baro", &windows(60, 30), 15).is_ok());
        assert!(points.check_at("baro", &windows(60, 30), 30).is_err());
        let requests = Minimum { samples: Samples::Requests, ..points };
        assert!(requests.check_at("tracerca", &windows(30, 30), 60).is_ok());
    }
}
