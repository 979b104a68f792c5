//! A case of RCAEval as a labelled pack of origin `imported`.
//!
//! No row is made up. A signal that the case does not have is empty in the pack, not required by its profile, and named in
//! the quality report. The windows are what the metric table covers, split at the time of the fault; records outside are left
//! out and counted. Traces that call a service `<name>service` mean the `<name>` of the metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::Float64Array;
use model::{
    DataTime, ErrorKind, InjectionId, Problem, Result, Role, Slot, SystemCode, Truth, TruthEntry, Window, Windows,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::records::{self, LogRow, SpanRow, batch, instants, resource, texts};
use super::wide::{Cell, Wide};
use super::{INJECT_TIME, LOGS, METRICS, NONE, TRACES};
use crate::builder::Builder;
use crate::disk::{failed, list};
use crate::input::{Batches, InMemory, PackInput, Profile, Source};
use crate::pack::Pack;
use crate::schema::Signal;

const SECOND: i64 = 1_000_000_000;

/// How deep below the named folder cases are looked for.
const DEEPEST: usize = 4;

/// A folder with a case in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    pub folder: PathBuf,
    /// The service that the fault acts on, or several joined by `+`; `none` of a run without a fault.
    pub service: String,
    pub fault: String,
}

impl Case {
    /// A run without a fault. A service may be called `none`; a fault is not.
    pub fn is_control(&self) -> bool {
        self.service == NONE && self.fault == NONE
    }

    /// The services that the fault acts on, of those that the data has.
    ///
    /// # Errors
    /// `import.root_unknown`.
    fn roots(&self, services: &BTreeSet<&str>) -> Result<Vec<String>> {
        if self.is_control() {
            return Ok(Vec::new());
        }
        let whole = services.contains(self.service.as_str());
        let named: Vec<&str> = if whole { vec![&self.service] } else { self.service.split('+').collect() };
        for name in &named {
            if !services.contains(name) {
                let problem = Problem::unknown("import.root_unknown", "service", name, services.iter().copied());
                let place = self.folder.display().to_string();
                return Err(Problem { kind: ErrorKind::Invalid, ..problem }.place(place));
            }
        }
        Ok(named.into_iter().map(str::to_owned).collect())
    }
}

/// How a case is imported.
#[derive(Debug, Clone)]
pub struct Import {
    /// The code under which the system is known; first part of the pack's name.
    pub system: SystemCode,
    /// Second part of the pack's name.
    pub number: InjectionId,
}

/// What became of a case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Imported {
    pub pack: String,
    pub case: PathBuf,
    pub service: String,
    pub fault: String,
    /// Rows of each signal over both windows.
    pub rows: BTreeMap<Signal, u64>,
    /// Signals that the case does not have.
    pub absent: Vec<Signal>,
    /// Records outside the windows, which were left out.
    pub outside: u64,
    /// Columns of the metric table whose name has no service, which were left out.
    pub skipped: Vec<String>,
    /// Cells of the metric table that are no finite number, which were left out.
    pub not_finite: u64,
}

impl Imported {
    pub(crate) fn of(pack: &Pack, case: &Path, service: String, fault: String) -> Self {
        let quality = &pack.manifest().content.quality;
        let rows = |signal: &Signal| Window::BOTH.map(|window| quality.rows(window, *signal)).iter().sum();
        let rows = BTreeMap::from_iter(Signal::SOURCED.iter().map(|signal| (*signal, rows(signal))));
        Self {
            pack: pack.name().to_owned(),
            case: case.to_owned(),
            service,
            fault,
            absent: rows.iter().filter(|(_, rows)| **rows == 0).map(|(signal, _)| *signal).collect(),
            rows,
            outside: 0,
            skipped: Vec::new(),
            not_finite: 0,
        }
    }
}

/// The cases in a folder, which may be one itself.
///
/// # Errors
/// `import.folder_missing`, `import.no_case`, `import.truth_unknown`.
pub fn cases(folder: &Path) -> Result<Vec<Case>> {
    there(folder)?;
    let mut found = Vec::new();
    collect(folder, 0, &mut found)?;
    if found.is_empty() {
        return Err(Problem::new(ErrorKind::Invalid, "import.no_case", "there is no case in the folder")
            .place(folder.display().to_string())
            .expected(format!("`<service>_<fault>/<run>/{INJECT_TIME}` beside {}", METRICS.join(" or "))));
    }
    found.into_iter().map(case).collect()
}

/// # Errors
/// `import.folder_missing`.
pub(crate) fn there(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    Err(Problem::new(ErrorKind::Invalid, "import.folder_missing", "there is no such folder")
        .place(folder.display().to_string()))
}

fn collect(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<()> {
    if folder.join(INJECT_TIME).is_file() {
        found.push(folder.to_owned());
        return Ok(());
    }
    for name in list(folder)? {
        let path = folder.join(name);
        if depth < DEEPEST && path.is_dir() {
            collect(&path, depth + 1, found)?;
        }
    }
    Ok(())
}

/// The truth is in the name of the folder, or of the one around it.
fn case(folder: PathBuf) -> Result<Case> {
    let whole = fs::canonicalize(&folder).map_err(failed(&folder))?;
    let names = whole.ancestors().take(2).filter_map(|path| path.file_name()?.to_str());
    let truth = names.filter_map(|name| name.split_once('_')).find(|(a, b)| !a.is_empty() && !b.is_empty());
    let Some((service, fault)) = truth.map(|(service, fault)| (service.to_owned(), fault.to_owned())) else {
        return Err(Problem::new(
            ErrorKind::Invalid,
            "import.truth_unknown",
            "the folder's name does not say the truth",
        )
        .place(folder.display().to_string())
        .expected("a folder `<service>_<fault>`, or one inside it"));
    };
    Ok(Case { folder, service, fault })
}

/// Builds and publishes the pack of a case in the folder `packs`.
///
/// # Errors
/// `import.metrics_missing`, `import.fault_time_malformed`, `import.window_outside_data`, `import.root_unknown`,
/// `import.cell_malformed`, `import.column_missing`, `import.id_malformed`, and what building refuses.
pub fn import(case: &Case, import: &Import, packs: &Path) -> Result<(Pack, Imported)> {
    let data = Data::read(case)?;
    let windows = data.windows(case)?;
    let roots = case.roots(&data.services())?;
    let (source, outside) = data.source(&windows);
    let required = data.present();
    let pack =
        Builder::new(packs, input(case, import, windows, Profile { required }, outside, &data.wide.skipped, roots))?
            .build(&source)
            .map_err(Problem::from)?
            .publish()?;
    let report = Imported {
        outside,
        not_finite: data.wide.not_finite,
        skipped: data.wide.skipped,
        ..Imported::of(&pack, &case.folder, case.service.clone(), case.fault.clone())
    };
    Ok((pack, report))
}

/// Everything that a case has.
struct Data {
    wide: Wide,
    spans: Vec<SpanRow>,
    logs: Vec<LogRow>,
}

impl Data {
    fn read(case: &Case) -> Result<Self> {
        let path = |name: &str| Some(case.folder.join(name)).filter(|path| path.is_file());
        let metrics = METRICS.iter().find_map(|name| path(name)).ok_or_else(|| {
            Problem::new(ErrorKind::Invalid, "import.metrics_missing", "the case has no metric table")
                .place(case.folder.display().to_string())
                .expected(METRICS.join(" or "))
        })?;
        let wide = Wide::read(&metrics)?;
        let mut spans = path(TRACES).map(|path| records::spans(&path)).transpose()?.unwrap_or_default();
        let logs = path(LOGS).map(|path| records::logs(&path)).transpose()?.unwrap_or_default();
        let known: BTreeSet<&str> = wide.columns.iter().map(|(service, _)| service.as_str()).collect();
        for span in &mut spans {
            if let Some(short) = span.service.strip_suffix("service")
                && !known.contains(span.service.as_str())
                && known.contains(short)
            {
                span.service.truncate(short.len());
            }
        }
        Ok(Self { wide, spans, logs })
    }

    fn services(&self) -> BTreeSet<&str> {
        let metrics = self.wide.columns.iter().map(|(service, _)| service.as_str());
        metrics
            .chain(self.spans.iter().map(|span| span.service.as_str()))
            .chain(self.logs.iter().map(|log| log.service.as_str()))
            .collect()
    }

    /// From the first to the last second of the metric table, split at the time of the fault.
    fn windows(&self, case: &Case) -> Result<Windows> {
        let path = case.folder.join(INJECT_TIME);
        let text = fs::read_to_string(&path).map_err(failed(&path))?;
        let fault: i64 = text.trim().parse().map_err(|_| {
            Problem::new(ErrorKind::Invalid, "import.fault_time_malformed", "the time of the fault is not a number")
                .place(path.display().to_string())
                .found(format!("`{}`", text.trim()))
                .expected("Unix seconds")
        })?;
        let times = || self.wide.cells.iter().map(|cell| cell.time);
        let first = times().fold(f64::INFINITY, f64::min);
        let last = times().fold(f64::NEG_INFINITY, f64::max);
        let outside = || {
            Problem::new(ErrorKind::Invalid, "import.window_outside_data", "the fault is not within the metric table")
                .place(path.display().to_string())
                .found(fault.to_string())
                .expected(format!("after {first:.0} and before {last:.0}"))
        };
        if !(first.is_finite() && first < fault as f64 && (fault as f64) < last) {
            return Err(outside());
        }
        let (start, end) = (first.floor() as i64, last.floor() as i64 + 1);
        let seconds = |count: i64| Duration::from_secs(count.unsigned_abs());
        Windows::new(DataTime::from_seconds(start), seconds(fault - start), seconds(end - fault))
    }

    /// Signals with a row.
    fn present(&self) -> BTreeSet<Signal> {
        let mut present = BTreeSet::from([Signal::Metrics]);
        if !self.spans.is_empty() {
            present.extend([Signal::Traces, Signal::TraceIdTs]);
        }
        if !self.logs.is_empty() {
            present.insert(Signal::Logs);
        }
        present
    }

    /// The records by window, and how many are in none.
    fn source(&self, windows: &Windows) -> (Imports, u64) {
        let mut source = InMemory::default();
        let mut kept = 0;
        for window in Window::BOTH {
            let (from, to) = windows.bounds(window);
            let within = |time: i64| (from.0..to.0).contains(&time);
            let cells: Vec<&Cell> = self.wide.cells.iter().filter(|cell| within(nanoseconds(cell.time))).collect();
            let spans: Vec<&SpanRow> = self.spans.iter().filter(|span| within(span.time)).collect();
            let logs: Vec<&LogRow> = self.logs.iter().filter(|log| within(log.time)).collect();
            kept += cells.len() + spans.len() + logs.len();
            source.push(window, Signal::Metrics, self.points(&cells));
            source.push(window, Signal::Traces, records::span_batch(&spans));
            source.push(window, Signal::Logs, records::log_batch(&logs));
        }
        let all = self.wide.cells.len() + self.spans.len() + self.logs.len();
        (Imports(source), (all - kept) as u64)
    }

    fn points(&self, cells: &[&Cell]) -> arrow::array::RecordBatch {
        let column = |cell: &&Cell| &self.wide.columns[cell.column];
        let text = |of: &dyn Fn(&(String, String)) -> String| texts(cells.iter().map(|cell| of(column(cell))));
        batch(
            Signal::Metrics,
            vec![
                ("TimeUnix", instants(cells.iter().map(|cell| nanoseconds(cell.time)))),
                ("MetricName", text(&|(_, metric)| metric.clone())),
                ("MetricDescription", text(&|_| String::new())),
                ("Value", Arc::new(cells.iter().map(|cell| cell.value).collect::<Float64Array>())),
                ("ServiceName", text(&|(service, _)| service.clone())),
                ("MetricUnit", text(&|_| String::new())),
                ("ResourceAttributes", text(&|(service, _)| resource(service))),
                ("Attributes", text(&|_| "{}".into())),
            ],
        )
    }
}

fn nanoseconds(seconds: f64) -> i64 {
    let whole = seconds.floor();
    (whole as i64) * SECOND + ((seconds - whole) * 1e9).round() as i64
}

/// The records in memory; an empty signal is one that the case does not have.
struct Imports(InMemory);

impl Source for Imports {
    fn batches(&self, window: Window, signal: Signal) -> Result<Batches<'_>> {
        self.0.batches(window, signal)
    }

    fn why_empty(&self, _window: Window, signal: Signal) -> Result<Option<String>> {
        Ok(Some(format!("the imported case has no {signal}")))
    }
}

fn input(
    case: &Case,
    import: &Import,
    windows: Windows,
    profile: Profile,
    outside: u64,
    skipped: &[String],
    roots: Vec<String>,
) -> PackInput {
    let object = |value: Value| match value {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    let entry = |service: String| TruthEntry {
        fault: 0,
        role: Role::Root,
        service,
        pod: vec![],
        container: vec![],
        metric: vec![],
        function: vec![],
        span: vec![],
    };
    let names = case.folder.iter().rev().take(2).map(|part| part.to_string_lossy().into_owned());
    let name: Vec<String> = names.collect::<Vec<_>>().into_iter().rev().collect();
    PackInput {
        slot: Slot::new(import.system.clone(), 0),
        number: import.number,
        windows,
        profile,
        k8s: object(json!({"deployments": [], "stateful_sets": [], "pods": []})),
        injection: object(json!({
            "id": import.number.0,
            "source": "imported",
            "fault_type": case.fault,
            "state": "build_success",
        })),
        faults: roots.iter().map(|root| json!({"capability": case.fault, "service": root})).collect(),
        truth: Truth { entries: roots.into_iter().map(entry).collect() },
        witness: Value::Null,
        receipt: Value::Null,
        provenance: object(json!({
            "origin": "imported",
            "format": "rcaeval",
            "case": name.join("/"),
            "records_outside_windows": outside,
            "columns_without_service": skipped,
        })),
        forbidden: Vec::new(),
    }
}
