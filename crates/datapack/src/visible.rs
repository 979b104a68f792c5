//! Whether the targets' own telemetry moved: read from the exported files, judged by one simple rule, kept as evidence.
//!
//! This is a column for whoever reads a pack. It decides nothing: whether a fault was felt is for its mechanism to say.

use std::collections::BTreeMap;
use std::path::Path;

use arrow::array::Array;
use arrow::datatypes::{Float64Type, TimestampNanosecondType, UInt8Type, UInt64Type};
use model::{Result, Truth, Window, Windows};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::load::column::{Batch, Projection, read};
use crate::schema::Signal;

/// Spans and logs are counted in slices of this length, in seconds.
const SLICE_S: i64 = 5;
/// Metrics are averaged over slices of this length: one sample of each pod, at the usual interval of their receivers.
const SCRAPE_SLICE_S: i64 = 15;
/// Slices with a value that the normal window must have.
const FEWEST: usize = 3;
/// Slices of the abnormal window that must lie outside.
const OUTSIDE: usize = 2;
/// The least widening of the band: this share of the normal mean, and this much of a share.
const FLOOR: f64 = 0.2;
const SHARE_FLOOR: f64 = 0.02;
/// OpenTelemetry severity number from which a log record is an error.
const ERROR: u8 = 17;

/// The rule in words, kept beside its results.
const RULE: &str = "a signal moved when at least 2 slices of the abnormal window (5 s for spans and logs, 15 s for \
                    metrics) lie outside of the normal window's range of slices, widened on both sides by its own width, \
                    by at least 20 % of its mean (2 points for shares); signals with fewer than 3 normal slices are not \
                    judged";

/// Whether the targets' own telemetry moved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Visibility {
    /// A signal of every target moved.
    pub visible: bool,
    /// How that was judged.
    pub rule: String,
    pub targets: Vec<Target>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Target {
    pub service: String,
    pub visible: bool,
    /// Every signal that could be judged.
    pub signals: Vec<Judged>,
}

/// One signal of a target. Rates are per second, latency in seconds, shares from 0 to 1, metrics in their own unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// `span_rate`, `span_latency`, `span_error_share`, `log_rate`, `log_error_share`, or the name of a metric.
    pub signal: String,
    pub moved: bool,
    /// The widened range of the normal window's slices.
    pub band: (f64, f64),
    /// Range of the abnormal window's slices.
    pub abnormal: (f64, f64),
    /// Slices of the abnormal window outside of the band, and all of them.
    pub outside: usize,
    pub slices: usize,
}

/// Judges the root services of `truth`; `None` when there is none.
///
/// # Errors
/// Those of reading the exported files.
pub(crate) fn visibility(open: &Path, windows: &Windows, truth: &Truth) -> Result<Option<Visibility>> {
    let roots: Vec<&str> = truth.roots();
    if roots.is_empty() {
        return Ok(None);
    }
    let [normal, abnormal] = Window::BOTH.map(|window| observe(open, windows, window, &roots));
    let (normal, abnormal) = (normal?, abnormal?);
    let targets: Vec<Target> = roots
        .iter()
        .zip(normal.iter().zip(&abnormal))
        .map(|(service, (normal, abnormal))| target(service, normal, abnormal))
        .collect();
    let visible = targets.iter().all(|target| target.visible);
    Ok(Some(Visibility { visible, rule: RULE.to_owned(), targets }))
}

fn target(service: &str, normal: &Series, abnormal: &Series) -> Target {
    let signals: Vec<Judged> = normal
        .iter()
        .filter_map(|(signal, before)| judge(signal, before, abnormal.get(signal).map_or(&[][..], Vec::as_slice)))
        .collect();
    Target { service: service.to_owned(), visible: signals.iter().any(|signal| signal.moved), signals }
}

/// The slices' values of each signal of one service.
type Series = BTreeMap<String, Vec<f64>>;

fn judge(signal: &str, normal: &[f64], abnormal: &[f64]) -> Option<Judged> {
    if normal.len() < FEWEST || abnormal.is_empty() {
        return None;
    }
    let range = |values: &[f64]| {
        values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &value| (low.min(value), high.max(value)))
    };
    let (low, high) = range(normal);
    let mean = normal.iter().sum::<f64>() / normal.len() as f64;
    let is_share = signal.ends_with("_share");
    let floor = if is_share { SHARE_FLOOR } else { FLOOR * mean.abs() };
    let width = (high - low).max(floor);
    let mut band = (low - width, high + width);
    if is_share {
        band = (band.0.max(0.0), band.1.min(1.0));
    }
    let outside = abnormal.iter().filter(|&&value| value < band.0 || value > band.1).count();
    let moved = outside >= OUTSIDE;
    Some(Judged { signal: signal.to_owned(), moved, band, abnormal: range(abnormal), outside, slices: abnormal.len() })
}

/// Sum and number of what fell into a slice.
#[derive(Debug, Clone, Copy, Default)]
struct Slice {
    count: f64,
    sum: f64,
    errors: f64,
}

/// The whole slices of one window.
struct Slices {
    start: i64,
    length: i64,
    number: usize,
}

impl Slices {
    fn new(windows: &Windows, window: Window, seconds: i64) -> Self {
        let (start, end) = windows.bounds(window);
        let length = seconds * 1_000_000_000;
        let number = usize::try_from((end.0 - start.0) / length).expect("a window ends after it starts");
        Self { start: start.0, length, number }
    }

    fn place(&self, time: i64) -> Option<usize> {
        let slice = usize::try_from((time - self.start) / self.length).ok()?;
        (time >= self.start && slice < self.number).then_some(slice)
    }

    fn empty(&self) -> Vec<Slice> {
        vec![Slice::default(); self.number]
    }

    fn seconds(&self) -> f64 {
        self.length as f64 / 1e9
    }
}

/// Everything of one window about each service, in the order of `roots`.
fn observe(open: &Path, windows: &Windows, window: Window, roots: &[&str]) -> Result<Vec<Series>> {
    let mut all: Vec<Series> = vec![Series::new(); roots.len()];
    let slices = Slices::new(windows, window, SLICE_S);
    let spans = spans(&open.join(Signal::Traces.file(window)), &slices, roots)?;
    let logs = logs(&open.join(Signal::Logs.file(window)), &slices, roots)?;
    for ((series, spans), logs) in all.iter_mut().zip(&spans).zip(&logs) {
        let rate = |slices_of: &[Slice]| slices_of.iter().map(|slice| slice.count / slices.seconds()).collect();
        let mean = |of: &[Slice], pick: fn(&Slice) -> f64| {
            of.iter().filter(|slice| slice.count > 0.0).map(|slice| pick(slice) / slice.count).collect::<Vec<f64>>()
        };
        series.insert("span_rate".into(), rate(spans));
        series.insert("span_latency".into(), mean(spans, |slice| slice.sum));
        series.insert("span_error_share".into(), mean(spans, |slice| slice.errors));
        series.insert("log_rate".into(), rate(logs));
        series.insert("log_error_share".into(), mean(logs, |slice| slice.errors));
    }
    let slices = Slices::new(windows, window, SCRAPE_SLICE_S);
    metrics(&open.join(Signal::Metrics.file(window)), &slices, roots, &mut all)?;
    Ok(all)
}

/// Which of the roots a text names.
fn root_of(roots: &[&str], text: &str) -> Option<usize> {
    roots.iter().position(|root| *root == text)
}

fn spans(path: &Path, slices: &Slices, roots: &[&str]) -> Result<Vec<Vec<Slice>>> {
    let projection = Projection {
        table: Signal::Traces.table(),
        plain: &["Timestamp", "Duration"],
        dictionaries: &["ServiceName", "StatusCode"],
    };
    let mut all = vec![slices.empty(); roots.len()];
    read(path, projection, |batch| {
        let root = batch.mapped("ServiceName", |text| Ok(root_of(roots, text)))?;
        let failed = batch.mapped("StatusCode", |text| Ok(text == "Error"))?;
        let times = batch.numbers::<TimestampNanosecondType>("Timestamp");
        let durations = batch.numbers::<UInt64Type>("Duration");
        each(batch, &root, times, slices, |row, root, slice| {
            let slice = &mut all[root][slice];
            slice.count += 1.0;
            slice.sum += durations.value(row) as f64 / 1e9;
            slice.errors += f64::from(u8::from(failed[row]));
        });
        Ok(())
    })?;
    Ok(all)
}

fn logs(path: &Path, slices: &Slices, roots: &[&str]) -> Result<Vec<Vec<Slice>>> {
    let projection = Projection {
        table: Signal::Logs.table(),
        plain: &["Timestamp", "SeverityNumber"],
        dictionaries: &["ServiceName"],
    };
    let mut all = vec![slices.empty(); roots.len()];
    read(path, projection, |batch| {
        let root = batch.mapped("ServiceName", |text| Ok(root_of(roots, text)))?;
        let times = batch.numbers::<TimestampNanosecondType>("Timestamp");
        let severities = batch.numbers::<UInt8Type>("SeverityNumber");
        each(batch, &root, times, slices, |row, root, slice| {
            let slice = &mut all[root][slice];
            slice.count += 1.0;
            slice.errors += f64::from(u8::from(severities.value(row) >= ERROR));
        });
        Ok(())
    })?;
    Ok(all)
}

/// Gauges of processor and memory, each metric by its name, averaged over the service's pods.
fn metrics(path: &Path, slices: &Slices, roots: &[&str], all: &mut [Series]) -> Result<()> {
    let projection = Projection {
        table: Signal::Metrics.table(),
        plain: &["TimeUnix", "Value"],
        dictionaries: &["MetricName", "ServiceName", "ResourceAttributes"],
    };
    let mut names: Vec<String> = Vec::new();
    let mut found: BTreeMap<(usize, usize), Vec<Slice>> = BTreeMap::new();
    read(path, projection, |batch| {
        let metric = batch.mapped("MetricName", |text| {
            if !(text.contains("cpu") || text.contains("memory")) {
                return Ok(None);
            }
            Ok(Some(names.iter().position(|name| name == text).unwrap_or_else(|| {
                names.push(text.to_owned());
                names.len() - 1
            })))
        })?;
        let service = batch.mapped("ServiceName", |text| Ok(root_of(roots, text)))?;
        let workload = batch.mapped("ResourceAttributes", |text| Ok(workload(roots, text)))?;
        let root: Vec<Option<usize>> = workload.iter().zip(&service).map(|(one, other)| one.or(*other)).collect();
        let times = batch.numbers::<TimestampNanosecondType>("TimeUnix");
        let values = batch.numbers::<Float64Type>("Value");
        each(batch, &root, times, slices, |row, root, slice| {
            if let Some(metric) = metric[row].filter(|_| values.is_valid(row) && values.value(row).is_finite()) {
                let slice = &mut found.entry((root, metric)).or_insert_with(|| slices.empty())[slice];
                slice.count += 1.0;
                slice.sum += values.value(row);
            }
        });
        Ok(())
    })?;
    for ((root, metric), slices) in found {
        let values = slices.iter().filter(|slice| slice.count > 0.0).map(|slice| slice.sum / slice.count);
        all[root].insert(names[metric].clone(), values.collect());
    }
    Ok(())
}

/// The root whose workload a metric's resource is part of. Containers share names between services; workloads do not.
fn workload(roots: &[&str], resource: &str) -> Option<usize> {
    let map: Map<String, Value> = serde_json::from_str(resource).ok()?;
    let name = ["k8s.deployment.name", "k8s.statefulset.name"].iter().find_map(|key| map.get(*key)?.as_str())?;
    root_of(roots, name)
}

/// Calls `act` with row, root and slice of every row of a root in a whole slice.
fn each(
    batch: &Batch<'_>,
    root: &[Option<usize>],
    times: &arrow::array::TimestampNanosecondArray,
    slices: &Slices,
    mut act: impl FnMut(usize, usize, usize),
) {
    for (row, &root) in root.iter().enumerate().take(batch.rows()) {
        if let (Some(root), Some(slice)) = (root, slices.place(times.value(row))) {
            act(row, root, slice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shift_is_seen_and_the_usual_is_not() {
        let normal = [20.0, 22.0, 19.0, 21.0, 18.0, 20.0];
        let moved = |abnormal: &[f64]| judge("span_rate", &normal, abnormal).unwrap().moved;
        assert!(!moved(&[17.0, 23.0, 20.0, 24.0]), "inside the widened range");
        assert!(!moved(&[20.0, 0.0, 20.0, 20.0]), "one slice is no shift");
        assert!(moved(&[20.0, 0.0, 0.0, 20.0]), "silence");
        assert!(moved(&[40.0, 41.0, 20.0]));
        assert_eq!(judge("span_rate", &normal[..2], &[0.0, 0.0]), None, "too little to know what is normal");
        // A target that says nothing any more has rates of zero, which are values; it has no latency.
        assert_eq!(judge("span_latency", &normal, &[]), None);
    }

    #[test]
    fn a_share_has_a_floor_of_its_own() {
        let judged = |abnormal: &[f64]| judge("span_error_share", &[0.0; 6], abnormal).unwrap().moved;
        assert!(!judged(&[0.01, 0.01, 0.02]));
        assert!(judged(&[0.05, 0.03]));
    }
}
