//! The flat layout that the public algorithms read: attributes as columns of their own, beside the pack as an attachment.
//!
//! ```text
//! sealed/converted/{normal,abnormal}_{traces,logs,metrics,metrics_sum,metrics_histogram}.parquet
//! sealed/converted/conclusion.parquet    the detector's rows; none before it ran
//! sealed/converted/env.json, injection.json
//! sealed/converted/.finished             says to the public program that nothing is left to convert
//! ```
//! Every file is in the order of `time`. A column is one of the layout's own or begins with `attr.`. An attribute that a
//! record has not is absent. Differences to the public converter: span names are kept as they were sent, and no service's
//! log records are left out.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, RecordBatch, StringArray, UInt16Array, UInt64Array, new_null_array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use model::{Result, Window};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use rayon::prelude::*;
use serde_json::{Map, Value};

use crate::check::check_columns;
use crate::conclusion::{COLUMNS, ConclusionRow};
use crate::disk::{corrupt, create_folder, failed, failed_within, sync_folder};
use crate::pack::{CONVERTED, OPEN, Pack, SEALED};
use crate::schema::{Kind, Signal};
use crate::{ENV_FILE, INJECTION_FILE};

/// Says to the public program that the conversion is done. Not empty, because some stores of objects drop empty files.
const FINISHED: &str = ".finished";

/// What fills a column of the layout.
#[derive(Clone, Copy)]
enum From {
    /// A column as it is.
    Same(&'static str),
    /// A text in capitals.
    Capitals(&'static str),
    /// A number as a double.
    Double(&'static str),
    /// The first of these keys in a JSON column, as text.
    Text(&'static str, &'static [&'static str]),
    /// The same as a number; what is no number is absent.
    Number16(&'static str, &'static [&'static str]),
    Number64(&'static str, &'static [&'static str]),
    /// Always absent: nothing here computes it.
    NoText,
    NoNumber,
}

type Layout = &'static [(&'static str, From)];

const RESOURCE: &str = "ResourceAttributes";
const SPAN: &str = "SpanAttributes";
const POINT: &str = "Attributes";
const POD: From = From::Text(RESOURCE, &["k8s.pod.name", "pod.name"]);
const SERVICE: From = From::Text(RESOURCE, &["service.name"]);
const NAMESPACE: From = From::Text(RESOURCE, &["service.namespace", "k8s.namespace.name"]);

const TRACES: Layout = &[
    ("time", From::Same("Timestamp")),
    ("trace_id", From::Same("TraceId")),
    ("span_id", From::Same("SpanId")),
    ("parent_span_id", From::Same("ParentSpanId")),
    ("span_name", From::Same("SpanName")),
    ("service_name", From::Same("ServiceName")),
    ("duration", From::Same("Duration")),
    ("attr.span_kind", From::Same("SpanKind")),
    ("attr.status_code", From::Same("StatusCode")),
    ("attr.k8s.pod.name", POD),
    ("attr.k8s.service.name", SERVICE),
    ("attr.k8s.namespace.name", NAMESPACE),
    ("attr.http.request.method", From::Text(SPAN, &["http.request.method", "http.method"])),
    ("attr.http.response.status_code", From::Number16(SPAN, &["http.response.status_code", "http.status_code"])),
    (
        "attr.http.request.content_length",
        From::Number64(SPAN, &["http.request.body.size", "http.request.content_length", "http.request_content_length"]),
    ),
    (
        "attr.http.response.content_length",
        From::Number64(
            SPAN,
            &["http.response.body.size", "http.response.content_length", "http.response_content_length"],
        ),
    ),
];

const LOGS: Layout = &[
    ("time", From::Same("Timestamp")),
    ("trace_id", From::Same("TraceId")),
    ("span_id", From::Same("SpanId")),
    ("level", From::Capitals("SeverityText")),
    ("service_name", From::Same("ServiceName")),
    ("message", From::Same("Body")),
    ("attr.k8s.pod.name", POD),
    ("attr.k8s.service.name", SERVICE),
    ("attr.k8s.namespace.name", NAMESPACE),
    ("attr.template_id", From::NoNumber),
    ("attr.log_template", From::NoText),
];

const METRICS: Layout = &[
    ("time", From::Same("TimeUnix")),
    ("metric", From::Same("MetricName")),
    ("value", From::Same("Value")),
    ("service_name", From::Same("ServiceName")),
    ("attr.k8s.node.name", From::Text(RESOURCE, &["k8s.node.name"])),
    ("attr.k8s.namespace.name", From::Text(RESOURCE, &["k8s.namespace.name"])),
    ("attr.k8s.statefulset.name", From::Text(RESOURCE, &["k8s.statefulset.name"])),
    ("attr.k8s.deployment.name", From::Text(RESOURCE, &["k8s.deployment.name"])),
    ("attr.k8s.replicaset.name", From::Text(RESOURCE, &["k8s.replicaset.name"])),
    ("attr.k8s.pod.name", From::Text(RESOURCE, &["k8s.pod.name"])),
    ("attr.k8s.container.name", From::Text(RESOURCE, &["k8s.container.name"])),
    ("attr.destination_workload", From::Text(POINT, &["destination_workload"])),
    ("attr.source_workload", From::Text(POINT, &["source_workload"])),
    ("attr.destination", From::Text(POINT, &["destination"])),
    ("attr.source", From::Text(POINT, &["source"])),
];

const HISTOGRAMS: Layout = &[
    ("time", From::Same("TimeUnix")),
    ("metric", From::Same("MetricName")),
    ("service_name", From::Same("ServiceName")),
    ("count", From::Double("Count")),
    ("sum", From::Same("Sum")),
    ("min", From::Same("Min")),
    ("max", From::Same("Max")),
    ("attr.k8s.pod.name", POD),
    ("attr.k8s.service.name", SERVICE),
    ("attr.k8s.namespace.name", NAMESPACE),
    ("attr.jvm.gc.action", From::Text(POINT, &["jvm.gc.action"])),
    ("attr.jvm.gc.name", From::Text(POINT, &["jvm.gc.name"])),
    ("attr.destination", From::Text(POINT, &["destination"])),
    ("attr.source", From::Text(POINT, &["source"])),
];

const fn layout(signal: Signal) -> Option<Layout> {
    match signal {
        Signal::Traces => Some(TRACES),
        Signal::Logs => Some(LOGS),
        Signal::Metrics | Signal::MetricsSum => Some(METRICS),
        Signal::MetricsHistogram => Some(HISTOGRAMS),
        Signal::TraceIdTs => None,
    }
}

impl Pack {
    /// Attaches the flat layout; replaces an earlier one. Gives the names of its files, below `converted/`.
    ///
    /// # Errors
    /// `datapack.file_missing`, `datapack.file_corrupt`, `datapack.column_missing`, `datapack.column_type`.
    pub fn convert(&self) -> Result<Vec<String>> {
        let sealed = self.folder().join(SEALED);
        let new = sealed.join(format!(".{CONVERTED}.{}", uuid::Uuid::new_v4()));
        create_folder(&new)?;
        let written = self.write_converted(&new).and_then(|()| {
            let to = sealed.join(CONVERTED);
            if to.exists() {
                fs::remove_dir_all(&to).map_err(failed(&to))?;
            }
            fs::rename(&new, &to).map_err(failed(&to))?;
            sync_folder(&sealed)
        });
        if let Err(problem) = written {
            // Nothing reads a half of it; the first problem is the one that is told.
            let _ = fs::remove_dir_all(&new);
            return Err(problem);
        }
        crate::disk::list(&sealed.join(CONVERTED))
    }

    fn write_converted(&self, to: &Path) -> Result<()> {
        let open = self.open_part();
        let jobs: Vec<_> =
            crate::schema::files().filter_map(|(w, signal)| Some((w, signal, layout(signal)?))).collect();
        jobs.into_par_iter().try_for_each(|(window, signal, layout)| flat_file(&open, to, window, signal, layout))?;
        write_conclusion(&to.join("conclusion.parquet"), &self.conclusion()?.unwrap_or_default())?;
        for (part, name) in [(OPEN, ENV_FILE), (SEALED, INJECTION_FILE)] {
            let from = self.folder().join(part).join(name);
            fs::copy(&from, to.join(name)).map_err(failed(&from))?;
        }
        crate::disk::write_durably(&to.join(FINISHED), b"\n")
    }
}

fn flat_file(open: &Path, to: &Path, window: Window, signal: Signal, layout: Layout) -> Result<()> {
    let name = signal.file(window);
    let path = open.join(&name);
    check_columns(&path, signal)?;
    let schema = flat_schema(signal, layout);
    let target = to.join(&name);
    let mut file = Flat::create(&target, schema.clone())?;
    let input = File::open(&path).map_err(failed(&path))?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(input).and_then(|builder| builder.build());
    for batch in reader.map_err(|error| corrupt(&path, error))? {
        let batch = batch.map_err(|error| corrupt(&path, error))?;
        let mut objects: HashMap<&str, Vec<Map<String, Value>>> = HashMap::new();
        let columns: Result<Vec<ArrayRef>> =
            layout.iter().map(|(_, from)| fill(&batch, *from, &mut objects, &path)).collect();
        file.write(&RecordBatch::try_new(schema.clone(), columns?).expect("the columns are those of the layout"))?;
    }
    file.finish()
}

fn flat_schema(signal: Signal, layout: Layout) -> SchemaRef {
    let kind = |name: &str| {
        let at = signal.table().index(name).expect("the layout names columns of the table");
        signal.table().columns[at].kind
    };
    let field = |&(name, from): &(&str, From)| match from {
        From::Same(column) => Field::new(name, kind(column).data_type(), kind(column) == Kind::F64),
        From::Capitals(_) => Field::new(name, DataType::Utf8, false),
        From::Double(_) => Field::new(name, DataType::Float64, true),
        From::Text(..) | From::NoText => Field::new(name, DataType::Utf8, true),
        From::Number16(..) | From::NoNumber => Field::new(name, DataType::UInt16, true),
        From::Number64(..) => Field::new(name, DataType::UInt64, true),
    };
    Arc::new(Schema::new(layout.iter().map(field).collect::<Vec<_>>()))
}

fn fill(
    batch: &RecordBatch,
    from: From,
    objects: &mut HashMap<&str, Vec<Map<String, Value>>>,
    path: &Path,
) -> Result<ArrayRef> {
    let column = |name: &str| batch.column_by_name(name).expect("the columns were checked");
    let mut texts = |name: &'static str, keys: &[&str]| -> Result<Vec<Option<String>>> {
        if !objects.contains_key(name) {
            objects.insert(name, parse(column(name).as_string(), path)?);
        }
        let rows = indices(column(name).as_string());
        let values: Vec<Option<String>> = objects[name].iter().map(|object| first(object, keys)).collect();
        Ok(rows.into_iter().map(|row| values[row].clone()).collect())
    };
    Ok(match from {
        From::Same(name) => column(name).clone(),
        From::Capitals(name) => {
            let texts = column(name).as_string::<i32>();
            Arc::new(texts.iter().map(|text| text.map(str::to_uppercase)).collect::<StringArray>())
        }
        From::Double(name) => cast(column(name), &DataType::Float64).map_err(|error| corrupt(path, error))?,
        From::Text(name, keys) => Arc::new(texts(name, keys)?.into_iter().collect::<StringArray>()),
        From::Number16(name, keys) => {
            Arc::new(texts(name, keys)?.into_iter().map(|text| text?.parse().ok()).collect::<UInt16Array>())
        }
        From::Number64(name, keys) => {
            Arc::new(texts(name, keys)?.into_iter().map(|text| text?.parse().ok()).collect::<UInt64Array>())
        }
        From::NoText => new_null_array(&DataType::Utf8, batch.num_rows()),
        From::NoNumber => new_null_array(&DataType::UInt16, batch.num_rows()),
    })
}

/// The distinct texts of a column as objects, in the order of their first row.
fn parse(texts: &StringArray, path: &Path) -> Result<Vec<Map<String, Value>>> {
    let mut seen = HashMap::new();
    let mut objects = Vec::new();
    for text in texts.iter().flatten() {
        if seen.insert(text, ()).is_none() {
            objects.push(serde_json::from_str(text).map_err(|error| corrupt(path, error))?);
        }
    }
    Ok(objects)
}

/// Each row's place among the distinct texts.
fn indices(texts: &StringArray) -> Vec<usize> {
    let mut seen = HashMap::new();
    (0..texts.len())
        .map(|row| {
            let next = seen.len();
            *seen.entry(texts.value(row)).or_insert(next)
        })
        .collect()
}

fn first(object: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| match object.get(*key)? {
        Value::String(text) => Some(text.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    })
}

fn write_conclusion(path: &Path, rows: &[ConclusionRow]) -> Result<()> {
    let text = |name: &str| Field::new(name, DataType::Utf8, false);
    let mut fields = vec![text(COLUMNS[0]), text(COLUMNS[1])];
    fields.extend(COLUMNS[2..].iter().map(|name| Field::new(*name, DataType::Float64, true)));
    let schema = Arc::new(Schema::new(fields));
    let names: StringArray = rows.iter().map(|row| Some(row.span_name.clone())).collect();
    let issues: StringArray = rows.iter().map(|row| Some(Value::Object(row.issues.clone()).to_string())).collect();
    let mut columns: Vec<ArrayRef> = vec![Arc::new(names), Arc::new(issues)];
    for index in 0..COLUMNS.len() - 2 {
        columns.push(Arc::new(rows.iter().map(|row| row.figures()[index]).collect::<Float64Array>()));
    }
    let mut file = Flat::create(path, schema.clone())?;
    file.write(&RecordBatch::try_new(schema, columns).expect("the columns are those of the schema"))?;
    file.finish()
}

/// A parquet file of the attachment.
struct Flat<'a> {
    path: &'a Path,
    writer: ArrowWriter<File>,
}

impl<'a> Flat<'a> {
    fn create(path: &'a Path, schema: SchemaRef) -> Result<Self> {
        let file = File::create(path).map_err(failed(path))?;
        let level = ZstdLevel::try_new(1).expect("1 is a level of zstd");
        let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
        let writer = ArrowWriter::try_new(file, schema, Some(properties)).map_err(failed_within(path))?;
        Ok(Self { path, writer })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.writer.write(batch).map_err(failed_within(self.path))
    }

    fn finish(self) -> Result<()> {
        let file = self.writer.into_inner().map_err(failed_within(self.path))?;
        file.sync_all().map_err(failed(self.path))
    }
}
