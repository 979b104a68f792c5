//! Requests as a real sender would make them, and small helpers to read a store.

use std::path::Path;
use std::time::Duration;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::TimestampNanosecondType;
use model::{DataTime, RunId};
use telemetry::otlp::common::any_value::Value;
use telemetry::otlp::common::{AnyValue, KeyValue};
use telemetry::otlp::logs::{LogRecord, ResourceLogs, ScopeLogs};
use telemetry::otlp::metrics::metric::Data;
use telemetry::otlp::metrics::{
    Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum,
    number_data_point,
};
use telemetry::otlp::trace::{ResourceSpans, ScopeSpans, Span, Status};
use telemetry::otlp::{ExportLogsServiceRequest, ExportMetricsServiceRequest, ExportTraceServiceRequest, Resource};
use telemetry::{Limits, Options, Query, Signal, SignalStore, Stream};

/// The start of all test data: 2026-01-01.
pub const START: i64 = 1_767_225_600;

const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The product's options, but that records may be of [`START`].
pub fn options() -> Options {
    Options { limits: Limits { past: CENTURY, future: CENTURY, ..Limits::default() }, ..Options::default() }
}

pub fn open(folder: impl AsRef<Path>) -> SignalStore {
    SignalStore::open_with(folder, options()).unwrap()
}

pub fn at(seconds: i64) -> DataTime {
    DataTime::from_seconds(START + seconds)
}

pub fn nanos(seconds: f64) -> u64 {
    (START as u64) * 1_000_000_000 + (seconds * 1e9) as u64
}

pub fn pair(key: &str, value: &str) -> KeyValue {
    let value = Some(AnyValue { value: Some(Value::StringValue(value.into())) });
    KeyValue { key: key.into(), value, ..KeyValue::default() }
}

pub fn resource(service: &str, namespaces: &[(&str, &str)]) -> Option<Resource> {
    let mut attributes = vec![pair("service.name", service), pair("k8s.pod.name", &format!("{service}-0"))];
    attributes.extend(namespaces.iter().map(|(key, value)| pair(key, value)));
    Some(Resource { attributes, ..Resource::default() })
}

/// A span of one second's tenth that starts at `seconds`; `number` makes its ids.
pub fn span(number: u64, seconds: f64) -> Span {
    Span {
        trace_id: u128::from(number / 10 + 1).to_be_bytes().to_vec(),
        span_id: (number + 1).to_be_bytes().to_vec(),
        name: format!("GET /api/v1/{}", number % 7),
        kind: 2,
        start_time_unix_nano: nanos(seconds),
        end_time_unix_nano: nanos(seconds + 0.1),
        attributes: vec![pair("http.route", "/api"), pair("http.method", "GET")],
        status: Some(Status { code: 2, message: "boom".into() }),
        ..Span::default()
    }
}

pub fn traces_of(resource: Option<Resource>, spans: Vec<Span>) -> ExportTraceServiceRequest {
    let scope_spans = vec![ScopeSpans { spans, ..ScopeSpans::default() }];
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans { resource, scope_spans, ..ResourceSpans::default() }],
    }
}

pub fn traces(namespace: &str, spans: Vec<Span>) -> ExportTraceServiceRequest {
    traces_of(resource("front", &[("k8s.namespace.name", namespace)]), spans)
}

pub fn log(seconds: f64, body: &str, attributes: Vec<KeyValue>) -> LogRecord {
    LogRecord {
        time_unix_nano: nanos(seconds),
        severity_number: 9,
        severity_text: "INFO".into(),
        body: Some(AnyValue { value: Some(Value::StringValue(body.into())) }),
        attributes,
        ..LogRecord::default()
    }
}

pub fn logs(namespace: &str, log_records: Vec<LogRecord>) -> ExportLogsServiceRequest {
    let scope_logs = vec![ScopeLogs { log_records, ..ScopeLogs::default() }];
    let resource = resource("front", &[("k8s.namespace.name", namespace)]);
    ExportLogsServiceRequest { resource_logs: vec![ResourceLogs { resource, scope_logs, ..ResourceLogs::default() }] }
}

pub fn point(seconds: f64, value: f64, attributes: Vec<KeyValue>) -> NumberDataPoint {
    NumberDataPoint {
        time_unix_nano: nanos(seconds),
        value: Some(number_data_point::Value::AsDouble(value)),
        attributes,
        ..NumberDataPoint::default()
    }
}

pub fn gauge(name: &str, data_points: Vec<NumberDataPoint>) -> Metric {
    Metric { name: name.into(), unit: "1".into(), data: Some(Data::Gauge(Gauge { data_points })), ..Metric::default() }
}

pub fn sum(name: &str, data_points: Vec<NumberDataPoint>) -> Metric {
    let data = Sum { data_points, aggregation_temporality: 2, is_monotonic: true };
    Metric { name: name.into(), unit: "By".into(), data: Some(Data::Sum(data)), ..Metric::default() }
}

pub fn histogram_point(seconds: f64) -> HistogramDataPoint {
    HistogramDataPoint {
        time_unix_nano: nanos(seconds),
        count: 6,
        sum: Some(1.5),
        bucket_counts: vec![1, 2, 3],
        explicit_bounds: vec![0.1, 0.5],
        max: Some(0.9),
        ..HistogramDataPoint::default()
    }
}

pub fn histogram(name: &str, data_points: Vec<HistogramDataPoint>) -> Metric {
    let data = Histogram { data_points, aggregation_temporality: 2 };
    Metric { name: name.into(), unit: "s".into(), data: Some(Data::Histogram(data)), ..Metric::default() }
}

pub fn metrics_of(resource: Option<Resource>, metrics: Vec<Metric>) -> ExportMetricsServiceRequest {
    let scope_metrics = vec![ScopeMetrics { metrics, ..ScopeMetrics::default() }];
    let resource_metrics = vec![ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() }];
    ExportMetricsServiceRequest { resource_metrics }
}

pub fn metrics(namespace: &str, list: Vec<Metric>) -> ExportMetricsServiceRequest {
    metrics_of(resource("front", &[("k8s.namespace.name", namespace)]), list)
}

pub fn stream(namespace: &str, run: Option<RunId>) -> Stream {
    Stream { namespace: namespace.into(), run }
}

pub fn query(signal: Signal, namespace: &str, run: Option<RunId>, from: i64, to: i64) -> Query {
    Query { signal, namespace: namespace.into(), run, from: at(from), to: at(to) }
}

/// All rows that a query gives, as one batch.
pub fn read(store: &SignalStore, query: &Query) -> RecordBatch {
    let batches = store.read(query).unwrap();
    arrow::compute::concat_batches(&query.signal.schema(), &batches).unwrap()
}

pub fn text(batch: &RecordBatch, column: &str) -> Vec<String> {
    let array = batch.column_by_name(column).unwrap_or_else(|| panic!("no column {column}"));
    array.as_string::<i32>().iter().map(|text| text.unwrap().to_owned()).collect()
}

/// Nanoseconds after [`START`].
pub fn times(batch: &RecordBatch) -> Vec<i64> {
    let array = batch.column(0).as_primitive::<TimestampNanosecondType>();
    assert_eq!(array.null_count(), 0);
    array.values().iter().map(|time| time - START * 1_000_000_000).collect()
}
