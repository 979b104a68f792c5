//! The open part of a pack as frames: files are read in parallel, strings are interned once for each distinct text.

pub(crate) mod column;
mod points;
pub(crate) mod records;

use std::collections::BTreeSet;
use std::path::Path;

use model::{DataTime, ErrorKind, Problem, Result, Window, Windows};
use rayon::prelude::*;
use rca::frame::{HistogramPoint, Log, Names, Pack, Point, Signals, Span};
use serde_json::{Map, Value};

use crate::disk::{corrupt, read};
use crate::schema::Signal;
use crate::{ENV_FILE, K8S_FILE, inventory};

/// Names under which load generators are known; they are never candidates.
pub const LOAD_GENERATORS: [&str; 2] = ["loadgenerator", "load-generator"];

/// One file, with names of its own.
pub(crate) struct Part {
    pub names: Names,
    /// The services that the file's records name, of `names`.
    services: BTreeSet<u32>,
    pub rows: Rows,
}

pub(crate) enum Rows {
    Spans(Vec<Span>),
    Logs(Vec<Log>),
    Gauges(Vec<Point>),
    Sums(Vec<Point>),
    Histograms(Vec<HistogramPoint>),
}

/// Reads an open part, or a pack's public form, into frames. Absent sums and extremes of histograms become NaN.
///
/// Candidates are the workloads of `k8s.json` and the services that records name, without load generators: the given ones
/// and [`LOAD_GENERATORS`].
///
/// # Errors
/// `datapack.file_missing`, `datapack.file_corrupt`, `datapack.column_missing`, `datapack.column_type`,
/// `datapack.row_outside_window`.
pub fn load(folder: &Path, load_generators: &[String]) -> Result<Pack> {
    let windows = windows(folder)?;
    let path = folder.join(K8S_FILE);
    let k8s: Map<String, Value> = serde_json::from_slice(&read(&path)?).map_err(|error| corrupt(&path, error))?;
    let jobs: Vec<(Window, Signal)> =
        Signal::SOURCED.into_iter().flat_map(|signal| Window::BOTH.map(|window| (window, signal))).collect();
    let parts = jobs.par_iter().with_max_len(1).map(|&(window, signal)| {
        let part = part(folder, window, signal)?;
        inside(&part, &windows, window, &folder.join(signal.file(window)))?;
        Ok((window, part))
    });
    let parts: Vec<(Window, Part)> = parts.collect::<Result<_>>()?;

    let mut pack = Pack {
        windows,
        names: Names::default(),
        normal: Signals::default(),
        abnormal: Signals::default(),
        candidates: Vec::new(),
    };
    let mut candidates: BTreeSet<String> = inventory::workloads(&k8s).into_iter().collect();
    for (window, part) in parts {
        candidates.extend(part.services.iter().map(|&id| part.names.get(id).to_owned()));
        let signals = match window {
            Window::Normal => &mut pack.normal,
            Window::Abnormal => &mut pack.abnormal,
        };
        merge(part, &mut pack.names, signals);
    }
    let is_load = |name: &String| {
        LOAD_GENERATORS.contains(&name.as_str()) || load_generators.iter().any(|generator| generator == name)
    };
    pack.candidates = candidates.into_iter().filter(|name| !name.is_empty() && !is_load(name)).collect();
    Ok(pack)
}

fn part(folder: &Path, window: Window, signal: Signal) -> Result<Part> {
    let path = folder.join(signal.file(window));
    match signal {
        Signal::Traces => records::spans(&path),
        Signal::Logs => records::logs(&path),
        Signal::Metrics | Signal::MetricsSum => points::points(&path, signal),
        Signal::MetricsHistogram => points::histograms(&path),
        Signal::TraceIdTs => unreachable!("derived from the traces, holds nothing more"),
    }
}

/// A record outside of its window would be compared with the wrong time.
fn inside(part: &Part, windows: &Windows, window: Window, path: &Path) -> Result<()> {
    let (from, to) = windows.bounds(window);
    let outside = |time: &i64| !(from.0..to.0).contains(time);
    let time = match &part.rows {
        Rows::Spans(rows) => rows.iter().map(|row| row.time).find(outside),
        Rows::Logs(rows) => rows.iter().map(|row| row.time).find(outside),
        Rows::Gauges(rows) | Rows::Sums(rows) => rows.iter().map(|row| row.time).find(outside),
        Rows::Histograms(rows) => rows.iter().map(|row| row.time).find(outside),
    };
    let Some(time) = time else { return Ok(()) };
    Err(Problem::new(ErrorKind::Failed, "datapack.row_outside_window", "a record lies outside its window")
        .place(path.display().to_string())
        .found(format!("{time} ns"))
        .expected(format!("from {} ns to before {} ns, as `{ENV_FILE}` says", from.0, to.0))
        .fix("check the datapack with `datapack verify`, then build it again"))
}

/// Moves a part's rows over, in terms of the pack's names.
fn merge(part: Part, names: &mut Names, signals: &mut Signals) {
    let local = &part.names;
    let ids: Vec<u32> = (0..local.len()).map(|id| names.intern(local.get(id as u32))).collect();
    let id = |local: u32| ids[local as usize];
    let renamed = |mut points: Vec<Point>| {
        for point in &mut points {
            (point.service, point.metric, point.series) = (id(point.service), id(point.metric), id(point.series));
        }
        points
    };
    match part.rows {
        Rows::Spans(mut spans) => {
            for span in &mut spans {
                (span.service, span.name) = (id(span.service), id(span.name));
            }
            signals.spans = spans;
        }
        Rows::Logs(mut logs) => {
            for log in &mut logs {
                (log.service, log.body) = (id(log.service), id(log.body));
            }
            signals.logs = logs;
        }
        Rows::Gauges(points) => signals.gauges = renamed(points),
        Rows::Sums(points) => signals.sums = renamed(points),
        Rows::Histograms(mut points) => {
            for point in &mut points {
                (point.service, point.metric, point.series) = (id(point.service), id(point.metric), id(point.series));
            }
            signals.histograms = points;
        }
    }
}

/// The windows that `env.json` names, as text or as numbers of seconds.
fn windows(folder: &Path) -> Result<Windows> {
    let path = folder.join(ENV_FILE);
    let env: Map<String, Value> = serde_json::from_slice(&read(&path)?).map_err(|error| corrupt(&path, error))?;
    let seconds = |key: &str| {
        let value = env.get(key);
        let number = value.and_then(|value| value.as_i64().or_else(|| value.as_str()?.parse().ok()));
        number
            .filter(|seconds| (1..=i64::MAX / 1_000_000_000).contains(seconds))
            .map(DataTime::from_seconds)
            .ok_or_else(|| corrupt(&path, format!("{key} is not a number of seconds")))
    };
    let windows = Windows {
        normal_start: seconds("NORMAL_START")?,
        abnormal_start: seconds("ABNORMAL_START")?,
        abnormal_end: seconds("ABNORMAL_END")?,
    };
    let normal_end = seconds("NORMAL_END")?;
    if windows.normal_start < normal_end
        && normal_end == windows.abnormal_start
        && windows.abnormal_start < windows.abnormal_end
    {
        return Ok(windows);
    }
    Err(corrupt(&path, "the windows are empty or not contiguous"))
}
