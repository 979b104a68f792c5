//! The wide table: one column `<service>_<metric>` per series of a service, one row per second, as RCAEval takes it.
//!
//! The rule by which a datapack becomes such a table, and a table becomes a small one, is written here once: the exporter
//! writes it, the graph methods learn from it, and the variants `@rcaeval` are compared with that program on it.
//!
//! - Columns: those of the metric table ([`crate::table`]) and, from the spans with which a service answers (kinds
//!   server and consumer), `latency-90` (seconds), `workload` (spans) and `error` (spans that failed).
//! - Names: `_` within a service or a metric becomes `-`, because the program splits a name there. `container.cpu.usage`
//!   is called `cpu` and `container.memory.working_set` is called `mem` (bytes), as the program's own data call them.
//! - Rows: one a second from the start of the normal window on; windows longer than the metric table's limit have its step.
//! - No gaps: a cell without a value repeats the one before it. Cells before a column's first value repeat that one, as
//!   long as it lies in the normal window; a column without a value there is left out. Nothing flows from the abnormal
//!   window into the normal one.
//! - Order: by name.

use std::collections::BTreeMap;

use model::Window;

use crate::frame::{Pack, Span, SpanKind, SpanStatus};
use crate::statistics::{correlation, quantile, sort};
use crate::table::Table;

const SECOND: i64 = 1_000_000_000;

/// Columns that tell the same story as one that is kept already say nothing new to a graph method, and make the matrices
/// that it inverts singular.
const SAME: f64 = 0.99;

/// What is kept first when a table is made small; the rest follows in the order of its names.
const FIRST: [&str; 5] = ["latency-90", "cpu", "mem", "error", "workload"];

#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// As the pack names it.
    pub service: String,
    /// `<service>_<metric>`, both without an underscore of their own.
    pub name: String,
    /// One per row, finite.
    pub values: Vec<f64>,
}

impl Column {
    fn new(service: &str, metric: &str, values: Vec<f64>) -> Self {
        let name = format!("{}_{}", service.replace('_', "-"), metric.replace('_', "-"));
        Self { service: service.to_owned(), name, values }
    }

    fn metric(&self) -> &str {
        self.name.split_once('_').map_or("", |(_, metric)| metric)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Wide {
    /// Seconds since the Unix epoch, ascending.
    pub times: Vec<i64>,
    /// Start of the abnormal window, in the same unit.
    pub onset: i64,
    pub columns: Vec<Column>,
}

impl Wide {
    pub fn build(pack: &Pack) -> Self {
        let table = Table::build(pack);
        let onset = pack.windows.abnormal_start.0.div_euclid(SECOND);
        let (rows, normal) = (table.rows(), table.normal_rows());
        let times = (0..rows).map(|row| onset + (row as i64 - normal as i64) * table.step_s()).collect();
        let mut columns = Vec::new();
        for (index, column) in table.columns().iter().enumerate() {
            let metric = match pack.names.get(column.metric) {
                "container.cpu.usage" => "cpu",
                "container.memory.working_set" => "mem",
                other => other,
            };
            let values = without_gaps(table.cells(index), normal);
            columns.extend(values.map(|values| Column::new(pack.names.get(column.service), metric, values)));
        }
        for (service, spans) in answered(pack) {
            columns.extend(golden(pack.names.get(service), &spans, &table, pack.windows.abnormal_start.0));
        }
        columns.sort_by(|a, b| a.name.cmp(&b.name));
        columns.dedup_by(|a, b| a.name == b.name);
        Self { times, onset, columns }
    }

    /// At most `limit` columns: those that vary in both windows, [`FIRST`] first and then by metric and service, without
    /// those whose Pearson correlation with one that is kept exceeds 0.99 in size; in the order of their names.
    #[must_use]
    pub fn reduced(&self, limit: usize) -> Self {
        let normal = self.normal_rows();
        let varies = |values: &[f64]| values.windows(2).any(|pair| pair[0] != pair[1]);
        let mut order: Vec<&Column> = self
            .columns
            .iter()
            .filter(|column| varies(&column.values[..normal]) && varies(&column.values[normal..]))
            .collect();
        let place = |column: &Column| FIRST.iter().position(|name| *name == column.metric()).unwrap_or(FIRST.len());
        order.sort_by(|a, b| (place(a), a.metric(), a.name.as_str()).cmp(&(place(b), b.metric(), b.name.as_str())));
        let mut kept: Vec<&Column> = Vec::new();
        for column in order {
            if kept.len() == limit {
                break;
            }
            if kept.iter().all(|other| correlation(&other.values, &column.values).abs() <= SAME) {
                kept.push(column);
            }
        }
        kept.sort_by(|a, b| a.name.cmp(&b.name));
        Self { times: self.times.clone(), onset: self.onset, columns: kept.into_iter().cloned().collect() }
    }

    /// Rows before the onset.
    pub fn normal_rows(&self) -> usize {
        self.times.partition_point(|time| *time < self.onset)
    }

    /// The index of a column.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Comma-separated, `time` first: what `pandas.read_csv` reads back to the same numbers.
    pub fn to_csv(&self) -> String {
        use std::fmt::Write;
        let mut text = String::from("time");
        for column in &self.columns {
            text.push(',');
            text += &column.name.replace(',', ";");
        }
        for (row, time) in self.times.iter().enumerate() {
            write!(text, "\n{time}").expect("a string takes any text");
            for column in &self.columns {
                write!(text, ",{}", column.values[row]).expect("a string takes any text");
            }
        }
        text.push('\n');
        text
    }
}

/// A series as it is told, without gaps; `None` when it has no value in the normal window.
fn without_gaps(cells: &[f64], normal: usize) -> Option<Vec<f64>> {
    let first = cells[..normal].iter().position(|value| !value.is_nan())?;
    let mut values = cells.to_vec();
    values[..first].fill(cells[first]);
    Some(values)
}

/// The spans with which each service answers, by service.
fn answered(pack: &Pack) -> BTreeMap<u32, Vec<&Span>> {
    let mut services: BTreeMap<u32, Vec<&Span>> = BTreeMap::new();
    for span in Window::BOTH.into_iter().flat_map(|window| &pack.signals(window).spans) {
        if matches!(span.kind, SpanKind::Server | SpanKind::Consumer) {
            services.entry(span.service).or_default().push(span);
        }
    }
    services
}

/// Latency, workload and errors of a service, row by row.
fn golden(service: &str, spans: &[&Span], table: &Table, onset: i64) -> Vec<Column> {
    let (rows, normal) = (table.rows(), table.normal_rows());
    let mut durations = vec![Vec::new(); rows];
    let mut errors = vec![0.0; rows];
    for span in spans {
        let row = (span.time - onset).div_euclid(table.step_s() * SECOND) + normal as i64;
        let Some(row) = usize::try_from(row).ok().filter(|row| *row < rows) else { continue };
        durations[row].push(span.duration as f64 / SECOND as f64);
        errors[row] += f64::from(u8::from(span.status == SpanStatus::Error || span.http_status >= 500));
    }
    let workload: Vec<f64> = durations.iter().map(|row| row.len() as f64).collect();
    let mut latency = vec![f64::NAN; rows];
    for (row, sample) in durations.iter_mut().enumerate() {
        sort(sample);
        latency[row] = match sample.as_slice() {
            [] if row > 0 => latency[row - 1],
            [] => f64::NAN,
            sample => quantile(sample, 0.9),
        };
    }
    let Some(latency) = without_gaps(&latency, normal) else { return Vec::new() };
    vec![
        Column::new(service, "error", errors),
        Column::new(service, "latency-90", latency),
        Column::new(service, "workload", workload),
    ]
}
