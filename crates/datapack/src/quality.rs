//! The quality report: what a pack holds, what it lacks and why, and whether that refuses it.

use std::collections::{BTreeMap, BTreeSet};

use model::{ErrorKind, Problem, Window, Windows};
use serde::{Deserialize, Serialize};

use crate::input::Profile;
use crate::meter::{ATTRIBUTES, Meter};
use crate::schema::Signal;

/// Root spans that the normal window must have before anything can be compared with it.
pub const MIN_ROOT_SPANS: u64 = 10;

/// How much of a window's start or end may be without any record: 30 s, or half of a shorter window.
const MAX_SILENCE_NS: i64 = 30_000_000_000;

/// The public gate calls a system unstable whose normal root spans last longer than 3 s.
const STABLE_ROOT_SPAN_NS: u64 = 3_000_000_000;

/// Whether a finding refuses the pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    Error,
    Warning,
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub level: Level,
    /// Stable: `datapack.empty_signal`, ...
    pub code: String,
    pub message: String,
    /// File or window.
    pub place: String,
    pub found: String,
    pub expected: String,
    /// Probable cause, and what to do.
    pub cause: String,
}

/// Machine-readable report on one pack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    pub normal: WindowQuality,
    pub abnormal: WindowQuality,
    pub findings: Vec<Finding>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct WindowQuality {
    pub signals: BTreeMap<Signal, SignalQuality>,
    pub root_spans: u64,
    pub longest_root_span_ns: u64,
    /// First and last record of any signal, nanoseconds since the Unix epoch.
    pub first: Option<i64>,
    pub last: Option<i64>,
    /// Workloads and services of other signals that have no span.
    pub services_without_traces: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SignalQuality {
    pub rows: u64,
    /// Rows that equal another row in every column.
    pub duplicates: u64,
    /// Longest time without a record, window edges included, in nanoseconds.
    pub longest_gap_ns: u64,
    /// Share of the rows whose resource has the attribute, 0 to 1; `k8s.pod.name` counts `pod.name` as well.
    pub attributes: BTreeMap<String, f64>,
}

impl Quality {
    /// The findings that refuse the pack.
    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.level == Level::Error)
    }

    /// The first error as a problem that also says how many more there are.
    pub(crate) fn problem(&self) -> Option<Problem> {
        let first = self.errors().next()?;
        let more = self.errors().count() - 1;
        let more = if more > 0 { format!(" (and {more} more findings)") } else { String::new() };
        let mut problem = Problem::new(ErrorKind::Failed, "datapack.invalid", format!("{}{more}", first.message))
            .place(first.place.clone())
            .found(first.found.clone())
            .expected(first.expected.clone())
            .fix(first.cause.clone());
        problem.code = first.code.clone().into();
        Some(problem)
    }

    pub fn rows(&self, window: Window, signal: Signal) -> u64 {
        self.window(window).signals.get(&signal).map_or(0, |measured| measured.rows)
    }

    pub const fn window(&self, window: Window) -> &WindowQuality {
        match window {
            Window::Normal => &self.normal,
            Window::Abnormal => &self.abnormal,
        }
    }
}

/// What the report is made from.
pub(crate) struct Evidence<'a> {
    pub windows: &'a Windows,
    pub profile: &'a Profile,
    /// Names of the workloads in the cluster's inventory.
    pub workloads: &'a BTreeSet<String>,
    /// One for each window and sourced signal.
    pub meters: &'a BTreeMap<(&'static str, Signal), Meter>,
    /// What the source itself says about an empty signal.
    pub hints: &'a BTreeMap<(&'static str, Signal), String>,
}

pub(crate) fn assess(evidence: &Evidence<'_>) -> Quality {
    let [normal, abnormal] = Window::BOTH.map(|window| measure(evidence, window));
    let mut quality = Quality { normal, abnormal, findings: Vec::new() };
    let mut findings = Vec::new();
    for window in Window::BOTH {
        findings.extend(empty_signals(evidence, &quality, window));
    }
    for window in Window::BOTH {
        findings.extend(silence(evidence.windows, quality.window(window), window));
        findings.extend(root_spans(quality.window(window), window));
        findings.extend(attributes(quality.window(window), window));
    }
    // Errors first, in the order in which they were found.
    findings.sort_by_key(|finding| finding.level == Level::Warning);
    quality.findings = findings;
    quality
}

fn measure(evidence: &Evidence<'_>, window: Window) -> WindowQuality {
    let mut quality = WindowQuality::default();
    let mut seen: BTreeSet<&str> = evidence.workloads.iter().map(String::as_str).collect();
    let mut traced: BTreeSet<&str> = BTreeSet::new();
    for (&(_, signal), meter) in evidence.meters.iter().filter(|((name, _), _)| *name == window.as_str()) {
        quality.first = [quality.first, meter.first].into_iter().flatten().min();
        quality.last = quality.last.max(meter.last);
        let services = meter.services.iter().map(String::as_str).filter(|name| !name.is_empty());
        if signal == Signal::Traces {
            quality.root_spans = meter.root_spans;
            quality.longest_root_span_ns = meter.longest_root_span_ns;
            traced.extend(services);
            let derived = SignalQuality { rows: meter.traces.len() as u64, ..SignalQuality::default() };
            quality.signals.insert(Signal::TraceIdTs, derived);
        } else {
            seen.extend(services);
        }
        quality.signals.insert(signal, signal_quality(meter));
    }
    quality.services_without_traces = seen.difference(&traced).map(|&name| name.to_owned()).collect();
    quality
}

fn signal_quality(meter: &Meter) -> SignalQuality {
    let share = |count: u64| if meter.rows == 0 { 0.0 } else { count as f64 / meter.rows as f64 };
    let attributes = ATTRIBUTES.iter().zip(&meter.with_attribute);
    SignalQuality {
        rows: meter.rows,
        duplicates: meter.duplicates,
        longest_gap_ns: meter.longest_gap(),
        attributes: attributes.map(|(name, &count)| ((*name).to_owned(), share(count))).collect(),
    }
}

fn empty_signals(evidence: &Evidence<'_>, quality: &Quality, window: Window) -> Vec<Finding> {
    let signals = &quality.window(window).signals;
    let empty = signals.iter().filter(|(_, measured)| measured.rows == 0).map(|(&signal, _)| signal);
    let finding = |signal: Signal| {
        let required = evidence.profile.required.contains(&signal);
        let hint = evidence.hints.get(&(window.as_str(), signal)).cloned();
        Finding {
            level: if required { Level::Error } else { Level::Warning },
            code: "datapack.empty_signal".into(),
            message: if required { "a required signal is empty" } else { "an optional signal is empty" }.into(),
            place: signal.file(window),
            found: "0 rows".into(),
            expected: "at least one row".into(),
            cause: hint.unwrap_or_else(|| probable_cause(quality, window, signal)),
        }
    };
    // The derived file is empty exactly when its source is: one finding says it, with the cause.
    empty.filter(|&signal| signal != Signal::TraceIdTs || signals[&Signal::Traces].rows > 0).map(finding).collect()
}

/// What most likely emptied a signal, from what the other signals and the other window have.
fn probable_cause(quality: &Quality, window: Window, signal: Signal) -> String {
    let rows = |window: Window, signal: Signal| quality.window(window).signals.get(&signal).map_or(0, |s| s.rows);
    let nothing = |window: Window| quality.window(window).signals.values().all(|signal| signal.rows == 0);
    let other = if window == Window::Normal { Window::Abnormal } else { Window::Normal };
    let cause = match (nothing(window), nothing(other), rows(other, signal) > 0) {
        (true, true, _) => {
            "no record of any signal carries this namespace: the collector may not set k8s.namespace.name \
             (it needs get, list and watch on pods, namespaces and replicasets), or nothing is sent at all"
        }
        (true, false, _) if window == Window::Normal => {
            "no record of any signal is as old as the normal window: the system was not sending yet; lengthen the warm-up"
        }
        (true, false, _) => {
            "no record of any signal is as young as the abnormal window: the exporter lags behind or has stopped"
        }
        (false, _, true) if window == Window::Normal => {
            "the signal begins only after the normal window: its exporter started late; lengthen the warm-up"
        }
        (false, _, true) => {
            "the signal ends with the normal window: its exporter lags, or the fault silenced everything that sends it"
        }
        (false, ..) if signal == Signal::MetricsHistogram => {
            "the system sends no histograms and no pipeline derives them: enable the span-metrics connector, \
             or make the signal optional in the system's profile"
        }
        (false, ..) => {
            "other signals arrive but this one never does: the system does not send it, or the collector has no pipeline \
             for it; enable it, or make the signal optional in the system's profile"
        }
    };
    cause.to_owned()
}

/// Windows that reach beyond the data: both ends need a record of some signal nearby.
fn silence(windows: &Windows, quality: &WindowQuality, window: Window) -> Vec<Finding> {
    let (from, to) = windows.bounds(window);
    let (Some(first), Some(last)) = (quality.first, quality.last) else { return Vec::new() };
    let limit = MAX_SILENCE_NS.min((to.0 - from.0) / 2);
    let ends = [
        (first - from.0, "begins", "the system was not sending yet: lengthen the warm-up"),
        (to.0 - last, "ends", "records were still on their way when the pack was built, or the exporter stopped"),
    ];
    let silent = ends.into_iter().filter(|(silence, ..)| *silence > limit);
    let finding = |(silence, end, cause): (i64, &str, &str)| Finding {
        level: Level::Error,
        code: "datapack.window_not_covered".into(),
        message: format!("the window {end} without any record"),
        place: format!("{} window", window.as_str()),
        found: format!("{:.1} s without a record", silence as f64 / 1e9),
        expected: format!("at most {:.1} s", limit as f64 / 1e9),
        cause: cause.to_owned(),
    };
    silent.map(finding).collect()
}

fn root_spans(quality: &WindowQuality, window: Window) -> Vec<Finding> {
    let mut findings = Vec::new();
    let traced = quality.signals.get(&Signal::Traces).is_some_and(|traces| traces.rows > 0);
    let place = format!("{} window", window.as_str());
    if traced && quality.root_spans < MIN_ROOT_SPANS {
        findings.push(Finding {
            // In the abnormal window it may be the symptom; in the normal window there is nothing to compare with.
            level: if window == Window::Normal { Level::Error } else { Level::Warning },
            code: "datapack.too_few_root_spans".into(),
            message: "the window has too few root spans".into(),
            place: place.clone(),
            found: format!("{} root spans", quality.root_spans),
            expected: format!("at least {MIN_ROOT_SPANS}"),
            cause:
                "the load generator sends too little, or its spans do not arrive, so that no span is without a parent"
                    .into(),
        });
    }
    if window == Window::Normal && quality.longest_root_span_ns > STABLE_ROOT_SPAN_NS {
        findings.push(Finding {
            level: Level::Warning,
            code: "datapack.unstable_normal_window".into(),
            message: "the system was slow before the fault".into(),
            place,
            found: format!("a root span of {:.1} s", quality.longest_root_span_ns as f64 / 1e9),
            expected: "at most 3 s, the limit of the public gate".into(),
            cause: "the system was overloaded or still warming up".into(),
        });
    }
    findings
}

/// Attributes that no record of a signal has, although its readers need them.
fn attributes(quality: &WindowQuality, window: Window) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (signal, measured) in &quality.signals {
        let needed: &[&str] = match signal {
            Signal::Traces | Signal::Logs => &["service.name", "k8s.namespace.name", "k8s.pod.name"],
            Signal::Metrics | Signal::MetricsSum | Signal::MetricsHistogram => &["k8s.namespace.name", "k8s.pod.name"],
            Signal::TraceIdTs => &[],
        };
        for name in needed.iter().filter(|_| measured.rows > 0) {
            if measured.attributes.get(*name).is_none_or(|&share| share == 0.0) {
                findings.push(Finding {
                    level: Level::Warning,
                    code: "datapack.attribute_missing".into(),
                    message: format!("no record has `{name}`"),
                    place: signal.file(window),
                    found: "0 % of the records".into(),
                    expected: "the attribute on the records".into(),
                    cause: "the collector's k8sattributes processor lacks get, list and watch on pods, namespaces and \
                            replicasets, or has no rule for this signal"
                        .into(),
                });
            }
        }
    }
    findings
}
