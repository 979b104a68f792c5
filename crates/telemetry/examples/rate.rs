//! How fast records become segments and come back: `cargo run -p telemetry --example rate [ROUNDS]`.
//!
//! Each round writes 300,000 spans, 60,000 log records and 240,000 points with the attributes of a real Java system as one step, reads
//! the spans of half of it, and prints rows per second of this thread. Pin it (`taskset -c 0`) to speak of one core.

use std::time::Instant;

use model::{DataTime, RunId};
use telemetry::otlp::common::any_value::Value;
use telemetry::otlp::common::{AnyValue, KeyValue};
use telemetry::otlp::logs::{LogRecord, ResourceLogs, ScopeLogs};
use telemetry::otlp::metrics::metric::Data;
use telemetry::otlp::metrics::{Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, number_data_point};
use telemetry::otlp::trace::{ResourceSpans, ScopeSpans, Span, Status};
use telemetry::otlp::{
    ExportLogsServiceRequest, ExportMetricsServiceRequest, ExportTraceServiceRequest, Message, Resource,
};
use telemetry::{Export, Query, Signal, SignalStore, Stream};

const START: u64 = 1_767_225_600_000_000_000;
const SERVICES: u64 = 48;
const SPANS: u64 = 300_000;
const LOGS: u64 = 60_000;
const POINTS: u64 = 240_000;
/// Spans of one request.
const BATCH: u64 = 5_000;

fn pair(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn text(key: &str, value: impl Into<String>) -> KeyValue {
    pair(key, Value::StringValue(value.into()))
}

fn resource(service: u64) -> Option<Resource> {
    let name = format!("ts-service-{service}");
    let attributes = vec![
        text("service.name", name.clone()),
        text("service.namespace", "ts0"),
        text("k8s.namespace.name", "ts0"),
        text("k8s.deployment.name", name.clone()),
        text("k8s.replicaset.name", format!("{name}-6d5f9c7b8")),
        text("k8s.pod.name", format!("{name}-6d5f9c7b8-x{service}")),
        text("k8s.pod.uid", format!("0d9c1a6e-5c55-4d0e-9f5e-{service:012}")),
        text("k8s.container.name", name),
        text("k8s.node.name", format!("worker-{}", service % 6)),
        text("telemetry.sdk.language", "java"),
        text("telemetry.sdk.name", "opentelemetry"),
        text("process.runtime.version", "17.0.9+9"),
        text("host.arch", "amd64"),
    ];
    Some(Resource { attributes, ..Resource::default() })
}

/// Ids spread over all bits, as random ones are, and yet the same each time.
fn id(number: u64) -> u64 {
    (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn span(number: u64) -> Span {
    let start = START + number * 400_000;
    let trace = [id(number / 30).to_be_bytes(), id(number / 30 + 7).to_be_bytes()].concat();
    Span {
        trace_id: trace,
        span_id: id(number).to_be_bytes().to_vec(),
        parent_span_id: if number.is_multiple_of(30) { vec![] } else { id(number - 1).to_be_bytes().to_vec() },
        name: format!("GET /api/v1/service/{}", number % 211),
        kind: 1 + (number % 5) as i32,
        start_time_unix_nano: start,
        end_time_unix_nano: start + 1_000_000 + id(number) % 50_000_000,
        attributes: vec![
            text("http.request.method", "GET"),
            text("url.path", format!("/api/v1/service/{}/{}", number % 211, id(number) % 5000)),
            pair("http.response.status_code", Value::IntValue(200)),
            text("server.address", format!("ts-service-{}", number % SERVICES)),
            pair("server.port", Value::IntValue(8080)),
            text("network.protocol.version", "1.1"),
            pair("thread.id", Value::IntValue((id(number) % 200) as i64)),
            text("user_agent.original", "Java/17.0.9"),
        ],
        status: Some(Status::default()),
        ..Span::default()
    }
}

fn traces() -> Vec<ExportTraceServiceRequest> {
    let group = |service, numbers: &mut dyn Iterator<Item = u64>| ResourceSpans {
        resource: resource(service),
        scope_spans: vec![ScopeSpans { spans: numbers.map(span).collect(), ..ScopeSpans::default() }],
        ..ResourceSpans::default()
    };
    let request = |first: u64| ExportTraceServiceRequest {
        resource_spans: (0..SERVICES)
            .map(|service| group(service, &mut (first..first + BATCH).filter(|number| number % SERVICES == service)))
            .collect(),
    };
    (0..SPANS / BATCH).map(|batch| request(batch * BATCH)).collect()
}

fn logs() -> Vec<ExportLogsServiceRequest> {
    let log = |number: u64| LogRecord {
        time_unix_nano: START + number * 2_000_000,
        severity_number: 9,
        severity_text: "INFO".into(),
        body: Some(AnyValue {
            value: Some(Value::StringValue(format!("[{}] order {} saved", number % 48, id(number)))),
        }),
        trace_id: [id(number / 30).to_be_bytes(), id(number / 30 + 7).to_be_bytes()].concat(),
        span_id: id(number).to_be_bytes().to_vec(),
        attributes: vec![text("log.iostream", "stdout"), text("logtag", "F")],
        ..LogRecord::default()
    };
    let group = |service| ResourceLogs {
        resource: resource(service),
        scope_logs: vec![ScopeLogs {
            log_records: (0..LOGS / SERVICES).map(|n| log(n * SERVICES + service)).collect(),
            ..ScopeLogs::default()
        }],
        ..ResourceLogs::default()
    };
    (0..SERVICES).map(|service| ExportLogsServiceRequest { resource_logs: vec![group(service)] }).collect()
}

/// Eight scrapes of 48 services with 125 metrics of 5 series each.
fn metrics() -> Vec<ExportMetricsServiceRequest> {
    let series = POINTS / 8 / SERVICES / 5;
    let point = |scrape: u64, service: u64, number: u64| NumberDataPoint {
        time_unix_nano: START + scrape * 15_000_000_000,
        value: Some(number_data_point::Value::AsDouble(id(scrape * 1_000_000 + service * 1000 + number) as f64 / 1e12)),
        attributes: vec![text("area", "heap"), text("id", format!("space {}", number % 5))],
        ..NumberDataPoint::default()
    };
    let metric = |scrape, service, number: u64| Metric {
        name: format!("jvm.metric.{number}"),
        unit: "By".into(),
        description: "A measure of the virtual machine".into(),
        data: Some(Data::Gauge(Gauge {
            data_points: (0..5).map(|n| point(scrape, service, number * 5 + n)).collect(),
        })),
        ..Metric::default()
    };
    let group = |scrape, service| ResourceMetrics {
        resource: resource(service),
        scope_metrics: vec![ScopeMetrics {
            metrics: (0..series).map(|number| metric(scrape, service, number)).collect(),
            ..ScopeMetrics::default()
        }],
        ..ResourceMetrics::default()
    };
    let request = |scrape| ExportMetricsServiceRequest {
        resource_metrics: (0..SERVICES).map(|service| group(scrape, service)).collect(),
    };
    (0..8).map(request).collect()
}

fn rate(what: &str, rows: u64, since: Instant, note: impl std::fmt::Display) {
    let seconds = since.elapsed().as_secs_f64();
    println!("{what:<22} {rows:>8} rows  {seconds:>6.3} s  {:>10.0} rows/s  {note}", rows as f64 / seconds);
}

fn main() -> model::Result<()> {
    let rounds: u32 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(3);
    let (traces, logs, metrics) = (traces(), logs(), metrics());
    let bodies: Vec<Vec<u8>> = traces.iter().map(Message::encode_to_vec).collect();
    let folder = std::env::temp_dir().join(format!("telemetry-rate-{}", std::process::id()));
    let store = SignalStore::open(&folder)?;
    let (from, to) = (DataTime(START as i64), DataTime(START as i64 + 120_000_000_000));
    for _ in 0..rounds {
        let run = Some(RunId::random());
        let stream = Stream { namespace: "ts0".into(), run };
        let write = |what: &str, rows: u64, fill: &dyn Fn(&mut telemetry::StepWriter) -> model::Result<()>| {
            let since = Instant::now();
            let mut step = store.step(&stream, from, to)?;
            fill(&mut step)?;
            let filled = since.elapsed().as_secs_f64();
            let stats = step.commit()?;
            assert_eq!(stats.rows.values().sum::<u64>(), rows);
            let size = stats.bytes as f64 / rows as f64;
            rate(what, rows, since, format!("{size:.1} bytes/row, {filled:.3} s before the commit"));
            model::Result::Ok(())
        };
        write("points", POINTS, &|step| metrics.iter().try_for_each(|request| step.metrics(request).map(drop)))?;
        write("log records", LOGS, &|step| logs.iter().try_for_each(|request| step.logs(request).map(drop)))?;
        write("spans", SPANS, &|step| traces.iter().try_for_each(|request| step.traces(request).map(drop)))?;
        let since = Instant::now();
        let query =
            Query { signal: Signal::Traces, namespace: "ts0".into(), run, from, to: DataTime(from.0 + 60_000_000_000) };
        let read = store.scan(&query)?.map(|batch| batch.num_rows() as u64).sum();
        rate("spans read", read, since, "half of the step");
        let ingest = store.ingest()?;
        let since = Instant::now();
        bodies.iter().try_for_each(|body| ingest.accept(Export::Traces, body).map(drop))?;
        ingest.flush()?;
        let mib = bodies.iter().map(Vec::len).sum::<usize>() as f64 / f64::from(1 << 20);
        let speed = mib / since.elapsed().as_secs_f64();
        rate("spans from the wire", SPANS, since, format!("{} bodies, {speed:.0} MiB/s", bodies.len()));
    }
    drop(store);
    std::fs::remove_dir_all(&folder).expect("the folder is ours");
    Ok(())
}
