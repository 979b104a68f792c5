//! The rules of the decision, one function each: latency against a baseline, success rate, new and missing endpoints.
//!
//! Source: the public detector's enhanced thresholds, its ratio rule and its two-proportion test. Repaired: the ratio
//! rule respects the baseline checks, a percentile is judged only on samples that can carry it, every issue has a
//! score above zero, and all numbers are finite.

use serde_json::{Value, json};

use super::endpoint::{Figures, Sample};
use super::profile::Profile;
use crate::statistics::{mean, quantile, tidy, two_proportions};

/// Baseline values that a latency statistic needs, and requests of the abnormal window.
pub(super) const MIN_BASELINE: usize = 5;
pub(super) const MIN_ABNORMAL: usize = 5;
/// Requests of the normal window that the success-rate test needs.
pub(super) const MIN_NORMAL: usize = 10;

/// A mean above this is a timeout, whatever the baseline, seconds.
const HARD_TIMEOUT_S: f64 = 15.0;
/// A baseline that is slower or less steady than this cannot be compared with, seconds.
const SLOW_BASELINE_S: f64 = 1.0;
const UNSTEADY_BASELINE_S: f64 = 5.0;
/// Baselines below this have absolute limits, the others an adaptive multiple, seconds.
const FAST_BASELINE_S: f64 = 0.5;
/// Baseline from which the smallest multiple holds, seconds.
const SMALLEST_MULTIPLE_S: f64 = 2.0;

const SIGNIFICANCE: f64 = 0.05;
const MIN_DROP: f64 = 0.03;
const MIN_RELATIVE_DROP: f64 = 0.1;

/// Something that a rule objects to.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Finding {
    /// The key of the issue in `conclusion.csv`.
    pub key: &'static str,
    pub kind: Kind,
    pub detail: Value,
    /// The finding in words.
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Latency,
    SuccessRate,
    Presence,
}

/// What a rule says of one endpoint.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Call {
    Issue(Finding),
    Usual,
    /// The data cannot carry a judgement.
    Undecided,
}

/// One latency statistic and its constants.
#[derive(Debug, Clone, Copy)]
pub(super) struct Statistic {
    name: &'static str,
    key: &'static str,
    read: fn(&Figures) -> f64,
    /// The baseline's slice of the ascending normal sample, in hundredths.
    slice: (usize, usize),
    /// Absolute limit for a fast baseline, seconds.
    limit_s: f64,
    /// Multiple of the baseline at [`FAST_BASELINE_S`] and from [`SMALLEST_MULTIPLE_S`] on.
    multiples: (f64, f64),
    new_limit: fn(&Profile) -> f64,
}

pub(super) const STATISTICS: [Statistic; 4] = [
    Statistic {
        name: "mean",
        key: "avg_duration",
        read: |figures| figures.avg,
        slice: (0, 100),
        limit_s: 2.0,
        multiples: (3.0, 1.5),
        new_limit: |profile| profile.new_endpoint_limits_s.avg,
    },
    Statistic {
        name: "p90",
        key: "p90_duration",
        read: |figures| figures.p90,
        slice: (85, 95),
        limit_s: 4.0,
        multiples: (6.0, 4.0),
        new_limit: |profile| profile.new_endpoint_limits_s.p90,
    },
    Statistic {
        name: "p95",
        key: "p95_duration",
        read: |figures| figures.p95,
        slice: (90, 99),
        limit_s: 4.5,
        multiples: (7.5, 4.5),
        new_limit: |profile| profile.new_endpoint_limits_s.p95,
    },
    Statistic {
        name: "p99",
        key: "p99_duration",
        read: |figures| figures.p99,
        slice: (95, 100),
        limit_s: 5.0,
        multiples: (8.0, 5.0),
        new_limit: |profile| profile.new_endpoint_limits_s.p99,
    },
];

impl Statistic {
    /// The values that a statistic is compared with: the part of the normal sample around it, all of it when that part
    /// is empty.
    fn baseline<'a>(&self, sorted: &'a [f64]) -> &'a [f64] {
        let count = sorted.len();
        let slice = &sorted[count * self.slice.0 / 100..count * self.slice.1 / 100];
        if slice.is_empty() { sorted } else { slice }
    }

    /// The multiple of a baseline mean of `seconds` that is still usual.
    fn multiple(&self, seconds: f64) -> f64 {
        let (base, least) = self.multiples;
        let way = (seconds - FAST_BASELINE_S) / (SMALLEST_MULTIPLE_S - FAST_BASELINE_S);
        base + (least - base) * way.clamp(0.0, 1.0)
    }
}

/// Compares one statistic of an endpoint that both windows have.
pub(super) fn latency(statistic: &Statistic, profile: &Profile, normal: &Sample, abnormal: &Figures) -> Call {
    let baseline = statistic.baseline(&normal.durations);
    let usual = mean(baseline);
    if baseline.len() < MIN_BASELINE || usual > SLOW_BASELINE_S || quantile(baseline, 0.99) > UNSTEADY_BASELINE_S {
        return Call::Undecided;
    }
    let now = (statistic.read)(abnormal);
    let (limit, enhanced) = if usual < FAST_BASELINE_S {
        (statistic.limit_s, "absolute_threshold")
    } else {
        (usual * statistic.multiple(usual), "adaptive_threshold")
    };
    if now <= usual {
        return if abnormal.count < MIN_ABNORMAL { Call::Undecided } else { Call::Usual };
    }
    let (method, limit) = if now > HARD_TIMEOUT_S {
        ("hard_timeout", HARD_TIMEOUT_S)
    } else if abnormal.count < MIN_ABNORMAL {
        return Call::Undecided;
    } else if now > limit {
        (enhanced, limit)
    } else if usual > 0.0 && now >= profile.min_absolute_latency_s && now / usual >= profile.relative_ratio {
        ("relative_ratio", (usual * profile.relative_ratio).max(profile.min_absolute_latency_s))
    } else {
        return Call::Usual;
    };
    Call::Issue(slower(statistic, method, usual, now, limit))
}

fn slower(statistic: &Statistic, method: &str, usual: f64, now: f64, limit: f64) -> Finding {
    let ratio = (usual > 0.0).then(|| now / usual);
    Finding {
        key: statistic.key,
        kind: Kind::Latency,
        detail: json!({
            "normal": tidy(usual),
            "abnormal": now,
            "threshold": tidy(limit),
            "anomaly_score": score(method, now, limit),
            "change_rate": ratio.map(|ratio| tidy(ratio - 1.0)),
            "absolute_change": tidy(now - usual),
            "ratio": ratio.map(tidy),
            "slo_violated": true,
            "detection_method": method,
        }),
        text: format!("{} latency {now:.3} s against {usual:.3} s, limit {limit:.3} s ({method})", statistic.name),
    }
}

/// 1 for a timeout, else how far beyond the limit: 0.5 at the limit, towards 1 far above it.
fn score(method: &str, now: f64, limit: f64) -> f64 {
    if method == "hard_timeout" { 1.0 } else { tidy(now / (now + limit)) }
}

/// Whether the success rate fell: significant, by more than three points, and by more than a tenth of what it was.
pub(super) fn success_rate(normal: &Sample, abnormal: &Sample) -> Call {
    if normal.count() < MIN_NORMAL || abnormal.count() < MIN_ABNORMAL {
        return Call::Undecided;
    }
    let trials = |sample: &Sample| (sample.successes, sample.count() as u64);
    let rate = |sample: &Sample| sample.successes as f64 / sample.count() as f64;
    let (before, now) = (rate(normal), rate(abnormal));
    let drop = before - now;
    let Some(test) = two_proportions(trials(normal), trials(abnormal)) else { return Call::Usual };
    if test.p >= SIGNIFICANCE || drop <= MIN_DROP || drop <= MIN_RELATIVE_DROP * before {
        return Call::Usual;
    }
    let severity = match drop {
        drop if drop > 0.2 => "critical",
        drop if drop > 0.1 => "high",
        drop if drop > 0.05 => "medium",
        _ => "low",
    };
    Call::Issue(Finding {
        key: "succ_rate",
        kind: Kind::SuccessRate,
        detail: json!({
            "normal": tidy(before),
            "abnormal": tidy(now),
            "p_value": tidy(test.p),
            "z_statistic": tidy(test.z),
            "change_rate": tidy(drop / before),
            "rate_drop": tidy(drop),
            "severity": severity,
            "slo_violated": true,
        }),
        text: format!("success rate {now:.3} against {before:.3} (z {:.2}, p {:.2e})", test.z, test.p),
    })
}

/// What is wrong with an endpoint that the normal window does not have. `None` when there are too few requests to say.
pub(super) fn new_endpoint(profile: &Profile, figures: &Figures) -> Option<Vec<Finding>> {
    if figures.count < MIN_ABNORMAL {
        return None;
    }
    let above = |key, name: &str, value: f64, limit: f64| {
        (value > limit).then(|| Finding {
            key,
            kind: Kind::Latency,
            detail: json!({
                "normal": 0.0,
                "abnormal": value,
                "threshold": limit,
                "anomaly_score": score("", value, limit),
                "change_rate": null,
                "slo_violated": true,
                "detection_reason": "new_endpoint",
            }),
            text: format!("new endpoint, {name} latency {value:.3} s, limit {limit:.3} s"),
        })
    };
    let mut findings: Vec<Finding> = STATISTICS
        .iter()
        .filter_map(|statistic| {
            above(statistic.key, statistic.name, (statistic.read)(figures), (statistic.new_limit)(profile))
        })
        .collect();
    findings.extend(above("hard_timeout", "mean", figures.avg, profile.new_endpoint_timeout_s));
    let floor = profile.new_endpoint_success_floor;
    if let Some(rate) = figures.succ_rate.filter(|&rate| rate < floor) {
        findings.push(Finding {
            key: "succ_rate",
            kind: Kind::SuccessRate,
            detail: json!({
                "normal": 1.0,
                "abnormal": rate,
                "threshold": floor,
                "rate_drop": tidy(1.0 - rate),
                "slo_violated": true,
                "detection_reason": "new_endpoint",
            }),
            text: format!("new endpoint, success rate {rate:.3}, floor {floor:.3}"),
        });
    }
    Some(findings)
}

/// An endpoint without a request in the abnormal window. `scale` is the abnormal window's length over the normal one's.
pub(super) fn missing_endpoint(profile: &Profile, normal: usize, scale: f64) -> Option<Finding> {
    let expected = normal as f64 * scale;
    (expected >= f64::from(profile.disappeared_min_count)).then(|| Finding {
        key: "endpoint_disappeared",
        kind: Kind::Presence,
        detail: json!({
            "normal_count": normal,
            "abnormal_count": 0,
            "slo_violated": true,
            "detection_reason": format!("{expected:.0} requests were to be expected and none came"),
        }),
        text: format!("no request where {expected:.0} were to be expected"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: impl IntoIterator<Item = f64>) -> Sample {
        let durations: Vec<f64> = values.into_iter().collect();
        Sample { successes: durations.len() as u64, durations }
    }

    fn steady(seconds: f64, count: usize) -> Sample {
        sample(std::iter::repeat_n(seconds, count))
    }

    fn verdict(profile: &Profile, normal: f64, abnormal: f64) -> Option<String> {
        let call = latency(&STATISTICS[0], profile, &steady(normal, 50), &steady(abnormal, 50).figures());
        match call {
            Call::Issue(finding) => Some(finding.detail["detection_method"].as_str().unwrap().to_owned()),
            Call::Usual => None,
            Call::Undecided => Some("undecided".to_owned()),
        }
    }

    #[test]
    fn baselines_are_the_golden_slices() {
        let hundred: Vec<f64> = (0..100).map(f64::from).collect();
        let check = |index: usize, expect: &[f64]| {
            let slice: &[f64] = STATISTICS[index].baseline(&hundred);
            assert_eq!(slice, expect);
        };
        check(1, &hundred[85..95]);
        check(2, &hundred[90..99]);
        check(3, &hundred[95..100]);
        // Small samples: the slice is empty and the whole sample stands in.
        assert_eq!(STATISTICS[1].baseline(&hundred[..5]), &hundred[..5]);
        // The least numbers of requests whose slices carry five values.
        for (index, least) in [(1, 47), (2, 51), (3, 81)] {
            assert!(STATISTICS[index].baseline(&hundred[..least]).len() >= MIN_BASELINE, "{index}");
            assert!(STATISTICS[index].baseline(&hundred[..least - 1]).len() < MIN_BASELINE, "{index}");
        }
    }

    #[test]
    fn multiples_shrink_with_the_baseline() {
        for (seconds, multiple) in [(0.5, 3.0), (0.8, 2.7), (1.0, 2.5), (3.0, 1.5)] {
            assert!((STATISTICS[0].multiple(seconds) - multiple).abs() < 1e-12);
        }
    }

    #[test]
    fn latency_rules_match_the_golden_vectors() {
        let default = Profile::default();
        let ts = Profile { relative_ratio: 2.5, ..Profile::default() };
        let demo = Profile { min_absolute_latency_s: 0.5, ..Profile::default() };
        let check = |profile: &Profile, normal, abnormal, expect: Option<&str>| {
            assert_eq!(verdict(profile, normal, abnormal).as_deref(), expect, "{normal} to {abnormal}");
        };
        check(&default, 0.10, 0.31, Some("relative_ratio"));
        check(&ts, 0.10, 0.31, Some("relative_ratio"));
        check(&demo, 0.10, 0.31, None);
        check(&default, 0.10, 0.09, None);
        check(&default, 0.40, 2.1, Some("absolute_threshold"));
        check(&default, 0.80, 2.17, Some("adaptive_threshold"));
        check(&default, 0.80, 2.15, None);
        check(&default, 0.10, 15.1, Some("hard_timeout"));
        // A baseline that is too slow is left alone, by the ratio rule too.
        check(&default, 1.01, 9.0, Some("undecided"));
        let few = latency(&STATISTICS[0], &default, &steady(0.1, 4), &steady(9.0, 50).figures());
        assert_eq!(few, Call::Undecided);
    }

    #[test]
    fn success_rates_match_the_golden_vectors() {
        let check = |normal: (u64, usize), abnormal: (u64, usize), expect: bool| {
            let with = |(successes, count)| Sample { successes, ..steady(0.1, count) };
            assert_eq!(matches!(success_rate(&with(normal), &with(abnormal)), Call::Issue(_)), expect, "{abnormal:?}");
        };
        check((100, 100), (40, 50), true);
        check((98, 100), (46, 50), false);
        check((198, 200), (190, 200), false);
        check((40, 50), (100, 100), false);
    }
}
