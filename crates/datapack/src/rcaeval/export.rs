//! A pack as a case of RCAEval: the metric table that the built-in algorithms take, the records, the time of the fault.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, TimestampNanosecondType, UInt64Type};
use model::{DataTime, Problem, Result, Window};
use parquet::arrow::ArrowWriter;
use rca::frame::Pack as Frames;
use rca::table::Table;
use serde::Serialize;

use super::{INJECT_TIME, LEFT_OUT, LOGS, NONE, SPAN_KIND, SPAN_STATUS, TIME, TRACES};
use crate::csv_file::Csv;
use crate::disk::{create_folder, failed, failed_within};
use crate::load::records::http_status;
use crate::manifest::canonical;
use crate::pack::Pack;
use crate::schema::Signal;

/// What was written for one pack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Exported {
    pub pack: String,
    /// The case's folder, relative to the target.
    pub folder: PathBuf,
    /// Columns that have no value before the fault. The programs that read the layout take no gaps, and a value made up for
    /// them would be one of ours, so the columns are left out.
    pub omitted: Vec<String>,
    /// What the layout has no place for, of the signals that the pack has.
    pub lost: Vec<&'static str>,
}

/// What of each signal does not get through.
const LOST: [(Signal, &str); 5] = [
    (
        Signal::Traces,
        "spans: attributes but for the HTTP status, those of the resource, trace states, status messages, parts of a \
         microsecond",
    ),
    (Signal::Logs, "log records: trace and span ids, attributes, those of the resource"),
    (
        Signal::Metrics,
        "gauges: descriptions, units, attributes; series of one service and metric are one, once a second",
    ),
    (Signal::MetricsSum, "sums: they are left out"),
    (Signal::MetricsHistogram, "histograms: all but the mean of a second"),
];

impl Pack {
    /// Writes the pack as a case below `to`.
    ///
    /// A cell is the mean of a second's points (of more seconds in long windows); a second without points repeats the one
    /// before it, and the seconds before a column's first value have that value.
    ///
    /// # Errors
    /// `datapack.file_missing`, `datapack.file_corrupt`, `datapack.column_type`, and those of the disk.
    pub fn export_rcaeval(&self, to: &Path) -> Result<Exported> {
        let frames = self.load(&[])?;
        let folder = self.case_folder()?;
        let target = to.join(&folder);
        create_folder(&target)?;
        let wide = Wide::of(&frames);
        wide.csv(&target.join("data.csv"))?;
        wide.parquet(&target.join("metrics.parquet"))?;
        self.logs_csv(&target.join(LOGS))?;
        self.traces_csv(&target.join(TRACES))?;
        let time = target.join(INJECT_TIME);
        fs::write(&time, format!("{}\n", frames.windows.abnormal_start.seconds())).map_err(failed(&time))?;
        let lost = LOST.into_iter().filter(|(signal, _)| self.has(*signal)).map(|(_, words)| words).collect();
        let exported = Exported { pack: self.name().to_owned(), folder, omitted: wide.omitted, lost };
        let path = target.join(LEFT_OUT);
        let told = serde_json::to_value(&exported)
            .map_err(|error| Problem::internal("export.unwritable", "the report cannot be written").cause(error))?;
        fs::write(&path, canonical(&told)).map_err(failed(&path))?;
        Ok(exported)
    }

    fn has(&self, signal: Signal) -> bool {
        Window::BOTH.into_iter().any(|window| self.manifest().content.quality.rows(window, signal) > 0)
    }

    /// `<system>/<service>_<fault>/<pack>`; `none_none` for a control.
    fn case_folder(&self) -> Result<PathBuf> {
        let truth = self.truth()?;
        let roots = truth.roots();
        // The readers split the name at its underscore.
        let plain = |text: &str| text.replace('_', "-");
        let service = if roots.is_empty() { NONE.to_owned() } else { plain(&roots.join("+")) };
        let injection = self.injection()?;
        let fault = injection.get("fault_type").and_then(serde_json::Value::as_str).unwrap_or(NONE);
        let system = self.manifest().content.system.to_string();
        Ok(PathBuf::from(system).join(format!("{service}_{}", plain(fault))).join(self.name()))
    }

    /// Every batch of both windows, in order of time.
    fn both(&self, signal: Signal, mut work: impl FnMut(&RecordBatch) -> Result<()>) -> Result<()> {
        Window::BOTH.into_iter().try_for_each(|window| self.batches(window, signal, &mut work))
    }

    fn logs_csv(&self, path: &Path) -> Result<()> {
        let header = [
            TIME,
            "timestamp",
            "container_name",
            "message",
            "level",
            "req_path",
            "error",
            "cluster_id",
            "log_template",
        ];
        let mut csv = Csv::create(path, &header)?;
        self.both(Signal::Logs, |batch| {
            let times = batch.column_by_name("Timestamp").expect("checked").as_primitive::<TimestampNanosecondType>();
            let [services, bodies, levels] = ["ServiceName", "Body", "SeverityText"].map(|name| text(batch, name));
            for row in 0..batch.num_rows() {
                let (time, stamp) = (clock(times.value(row)), times.value(row).to_string());
                let [service, body, level] = [&services, &bodies, &levels].map(|column| column.value(row));
                csv.write(&[&time, &stamp, service, body, level, "", "", "", ""])?;
            }
            Ok(())
        })?;
        csv.finish()
    }

    fn traces_csv(&self, path: &Path) -> Result<()> {
        let header = [
            TIME,
            "traceID",
            "spanID",
            "serviceName",
            "methodName",
            "operationName",
            "startTimeMillis",
            "startTime",
            "duration",
            "statusCode",
            "parentSpanID",
            SPAN_KIND,
            SPAN_STATUS,
        ];
        let mut csv = Csv::create(path, &header)?;
        self.both(Signal::Traces, |batch| {
            let times = batch.column_by_name("Timestamp").expect("checked").as_primitive::<TimestampNanosecondType>();
            let durations = batch.column_by_name("Duration").expect("checked").as_primitive::<UInt64Type>();
            let names = [
                "TraceId",
                "SpanId",
                "ServiceName",
                "SpanName",
                "ParentSpanId",
                "SpanAttributes",
                "SpanKind",
                "StatusCode",
            ];
            let columns = names.map(|name| text(batch, name));
            for row in 0..batch.num_rows() {
                let time = times.value(row);
                let [trace, span, service, name, parent, attributes, kind, outcome] =
                    columns.each_ref().map(|column| column.value(row));
                let status = match http_status(attributes) {
                    0 => String::new(),
                    status => status.to_string(),
                };
                let numbers = [(time / 1_000_000).to_string(), (time / 1000).to_string()];
                let duration = (durations.value(row) / 1000).to_string();
                csv.write(&[
                    &clock(time),
                    trace,
                    span,
                    service,
                    name,
                    name,
                    &numbers[0],
                    &numbers[1],
                    &duration,
                    &status,
                    parent,
                    kind,
                    outcome,
                ])?;
            }
            Ok(())
        })?;
        csv.finish()
    }
}

fn text<'a>(batch: &'a RecordBatch, name: &str) -> &'a arrow::array::StringArray {
    batch.column_by_name(name).expect("the columns were checked").as_string::<i32>()
}

/// `HH:MM` of an instant.
fn clock(time: i64) -> String {
    let minutes = time.div_euclid(60_000_000_000).rem_euclid(24 * 60);
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}

/// The metric table without gaps.
struct Wide {
    times: Vec<i64>,
    columns: Vec<(String, Vec<f64>)>,
    omitted: Vec<String>,
}

impl Wide {
    fn of(frames: &Frames) -> Self {
        let table = Table::build(frames);
        let name = |index: usize| {
            let column = table.columns()[index];
            format!("{}_{}", frames.names.get(column.service), frames.names.get(column.metric))
        };
        let mut wide = Self { times: Vec::new(), columns: Vec::new(), omitted: Vec::new() };
        let step = table.step_s();
        let DataTime(fault) = frames.windows.abnormal_start;
        let rows = |length: std::time::Duration| (length.as_secs() as i64 + step - 1) / step;
        let normal = rows(frames.windows.normal_length());
        let abnormal = rows(frames.windows.abnormal_length());
        wide.times = (-normal..abnormal).map(|row| fault.div_euclid(1_000_000_000) + row * step).collect();
        for index in 0..table.columns().len() {
            let Some(&first) = table.normal(index).first() else {
                wide.omitted.push(name(index));
                continue;
            };
            let known = table.normal(index).iter().chain(table.abnormal(index)).copied();
            let before = wide.times.len() - table.normal(index).len() - table.abnormal(index).len();
            wide.columns.push((name(index), std::iter::repeat_n(first, before).chain(known).collect()));
        }
        wide
    }

    fn csv(&self, path: &Path) -> Result<()> {
        let header: Vec<&str> = [TIME].into_iter().chain(self.columns.iter().map(|(name, _)| name.as_str())).collect();
        let mut csv = Csv::create(path, &header)?;
        for (row, time) in self.times.iter().enumerate() {
            let cells: Vec<String> = [time.to_string()]
                .into_iter()
                .chain(self.columns.iter().map(|(_, values)| format!("{:?}", values[row])))
                .collect();
            csv.write(&cells.iter().map(String::as_str).collect::<Vec<_>>())?;
        }
        csv.finish()
    }

    fn parquet(&self, path: &Path) -> Result<()> {
        let mut fields = vec![Field::new(TIME, DataType::Int64, false)];
        fields.extend(self.columns.iter().map(|(name, _)| Field::new(name, DataType::Float64, false)));
        let mut arrays: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(self.times.clone()))];
        arrays.extend(self.columns.iter().map(|(_, values)| Arc::new(Float64Array::from(values.clone())) as ArrayRef));
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(schema.clone(), arrays).expect("every column has a value for each row");
        let file = File::create(path).map_err(failed(path))?;
        let mut writer = ArrowWriter::try_new(file, schema, None).map_err(failed_within(path))?;
        writer.write(&batch).map_err(failed_within(path))?;
        writer.close().map_err(failed_within(path))?;
        Ok(())
    }
}
