//! A small telemetry generator: a web service that calls a cart, with logs and three kinds of metrics.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{
    ArrayRef, Float64Array, Int32Array, ListArray, RecordBatch, StringArray, TimestampMillisecondArray,
    TimestampNanosecondArray, UInt8Array, UInt64Array,
};
use arrow::datatypes::{Float64Type, UInt64Type};
use datapack::{Builder, InMemory, Pack, PackInput, Profile, Signal};
use model::{DataTime, InjectionId, Role, Slot, SystemCode, Truth, TruthEntry, Window, Windows};
use serde_json::{Map, Value, json};

/// Traces per window, one root span each.
pub const TRACES: usize = 200;

pub fn windows() -> Windows {
    let seconds = Duration::from_secs;
    Windows::new(DataTime::from_seconds(1_800_000_000), seconds(20), seconds(10)).unwrap()
}

pub fn input(number: i32) -> PackInput {
    let truth = Truth {
        entries: vec![TruthEntry {
            fault: 0,
            role: Role::Root,
            service: "cart".into(),
            pod: vec!["cart-0".into()],
            container: vec!["cart".into()],
            metric: vec!["cpu".into()],
            function: vec![],
            span: vec![],
        }],
    };
    PackInput {
        slot: Slot::new(SystemCode::parse("shop").unwrap(), 3),
        number: InjectionId(number),
        windows: windows(),
        profile: Profile::strict(),
        k8s: map(json!({
            "pods": [{"metadata": {"name": "cart-0", "annotations": {"sidecar.istio.io/inject": "false"}}}],
            "deployments": [
                {"metadata": {"name": "web", "labels": {"app": "web"}}},
                {"metadata": {"name": "cart", "labels": {"app": "cart"}}},
                {"metadata": {"name": "load-generator", "labels": {"app": "load-generator"}}},
            ],
            "stateful_sets": [{"metadata": {"name": "cart-db"}}],
        })),
        injection: map(json!({"id": number, "fault_type": "cpu_stress", "state": "build_success"})),
        truth,
        faults: vec![json!({"capability": "cpu_stress", "service": "cart"})],
        witness: json!({"exposed": true}),
        receipt: json!({"residue": []}),
        provenance: map(json!({"run": format!("run-{number}"), "built_at": format!("wall-{number}")})),
        forbidden: vec!["cpu_stress".into(), format!("run-{number}")],
    }
}

pub fn map(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

pub fn resource(service: &str) -> String {
    json!({
        "k8s.container.name": service,
        "k8s.deployment.name": service,
        "k8s.namespace.name": "shop3",
        "k8s.pod.name": format!("{service}-0"),
        "service.name": service,
        "service.namespace": "shop3",
    })
    .to_string()
}

pub fn instants(times: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(TimestampNanosecondArray::from_iter_values(times).with_timezone("UTC"))
}

pub fn texts<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> ArrayRef {
    Arc::new(texts.into_iter().map(Some).collect::<StringArray>())
}

pub fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

/// One row of a traces table.
#[derive(Clone)]
pub struct Row {
    pub time: i64,
    pub trace: u128,
    pub span: u64,
    pub parent: u64,
    pub service: &'static str,
    pub kind: &'static str,
    pub attributes: String,
}

/// A root span, a server span in `web` and one in `cart` for each trace, evenly over the window.
pub fn rows(window: Window) -> Vec<Row> {
    let (from, to) = windows().bounds(window);
    let step = (to.0 - from.0) / TRACES as i64;
    let salt = if window == Window::Normal { 0 } else { 1 << 32 };
    let mut rows = Vec::new();
    for trace in 0..TRACES as u64 {
        let time = from.0 + trace as i64 * step;
        let id = salt + trace * 3 + 1;
        let old = json!({"http.method": "GET", "http.status_code": "200"}).to_string();
        let new = json!({"http.response.status_code": if trace % 10 == 0 { "503" } else { "200" }}).to_string();
        let row = |offset: u64, parent, service, kind, attributes| Row {
            time: time + offset as i64 * 1_000_000,
            trace: u128::from(id),
            span: id + offset,
            parent,
            service,
            kind,
            attributes,
        };
        rows.push(row(0, 0, "load-generator", "Client", old.clone()));
        rows.push(row(1, id, "web", "Server", old));
        rows.push(row(2, id + 1, "cart", "Server", new));
    }
    // Three interleaved spans per trace and a step of at least 50 ms: sorting by time keeps them in order.
    rows.sort_by_key(|row| (row.time, row.trace, row.span));
    rows
}

pub fn traces(rows: &[Row]) -> RecordBatch {
    let hex = |number: u64| if number == 0 { String::new() } else { format!("{number:016x}") };
    let empty = || texts(rows.iter().map(|_| ""));
    batch(vec![
        ("ScopeName", empty()),
        ("Timestamp", instants(rows.iter().map(|row| row.time))),
        ("TraceId", texts(rows.iter().map(|row| format!("{:032x}", row.trace)))),
        ("SpanId", texts(rows.iter().map(|row| hex(row.span)))),
        ("ParentSpanId", texts(rows.iter().map(|row| hex(row.parent)))),
        ("TraceState", empty()),
        ("SpanName", texts(rows.iter().map(|row| format!("GET /{}", row.service)))),
        ("SpanKind", texts(rows.iter().map(|row| row.kind))),
        ("ServiceName", texts(rows.iter().map(|row| row.service))),
        ("ResourceAttributes", texts(rows.iter().map(|row| resource(row.service)))),
        ("SpanAttributes", texts(rows.iter().map(|row| row.attributes.as_str()))),
        ("Duration", Arc::new(rows.iter().map(|row| 1_000_000 + row.span % 7).collect::<UInt64Array>())),
        ("StatusCode", texts(rows.iter().map(|_| "Unset"))),
        ("StatusMessage", empty()),
    ])
}

/// Log records `(time, service, body)`.
pub fn logs(rows: &[(i64, &str, String)]) -> RecordBatch {
    let seconds = rows.iter().map(|row| row.0.div_euclid(1_000_000_000) * 1000);
    batch(vec![
        ("Timestamp", instants(rows.iter().map(|row| row.0))),
        ("TimestampTime", Arc::new(TimestampMillisecondArray::from_iter_values(seconds).with_timezone("UTC"))),
        ("TraceId", texts(rows.iter().map(|_| ""))),
        ("SpanId", texts(rows.iter().map(|_| ""))),
        ("SeverityText", texts(rows.iter().map(|_| "INFO"))),
        ("SeverityNumber", Arc::new(rows.iter().map(|_| 9).collect::<UInt8Array>())),
        ("ServiceName", texts(rows.iter().map(|row| row.1))),
        ("Body", texts(rows.iter().map(|row| row.2.as_str()))),
        ("ResourceAttributes", texts(rows.iter().map(|row| resource(row.1)))),
        ("LogAttributes", texts(rows.iter().map(|_| "{}"))),
    ])
}

/// Every fifth of a second, one record of each service.
pub fn log_rows(window: Window) -> Vec<(i64, &'static str, String)> {
    ticks(window)
        .flat_map(|time| [(time, "cart", "item added".to_owned()), (time, "web", "page served".to_owned())])
        .collect()
}

fn ticks(window: Window) -> impl Iterator<Item = i64> {
    let (from, to) = windows().bounds(window);
    (from.0..to.0).step_by(200_000_000)
}

fn points(window: Window, metric: &str) -> RecordBatch {
    let times: Vec<i64> = ticks(window).collect();
    let same = |text: &str| texts(times.iter().map(|_| text));
    batch(vec![
        ("TimeUnix", instants(times.iter().copied())),
        ("MetricName", same(metric)),
        ("MetricDescription", same("")),
        ("Value", Arc::new(times.iter().map(|time| (time % 7) as f64).collect::<Float64Array>())),
        ("ServiceName", same("cart")),
        ("MetricUnit", same("1")),
        ("ResourceAttributes", same(&resource("cart"))),
        ("Attributes", same("{}")),
    ])
}

pub fn histogram(window: Window) -> RecordBatch {
    let times: Vec<i64> = ticks(window).collect();
    let same = |text: &str| texts(times.iter().map(|_| text));
    let optional = |absent: bool| -> ArrayRef {
        Arc::new(times.iter().map(|_| (!absent).then_some(2.5)).collect::<Float64Array>())
    };
    let buckets = times.iter().map(|_| Some([Some(1_u64), Some(2)]));
    let bounds = times.iter().map(|_| Some([Some(0.5)]));
    batch(vec![
        ("TimeUnix", instants(times.iter().copied())),
        ("MetricName", same("http.server.duration")),
        ("ServiceName", same("web")),
        ("MetricUnit", same("s")),
        ("ResourceAttributes", same(&resource("web"))),
        ("Attributes", same("{\"route\":\"/\"}")),
        ("Count", Arc::new(times.iter().map(|_| 3).collect::<UInt64Array>())),
        ("Sum", optional(false)),
        ("BucketCounts", Arc::new(ListArray::from_iter_primitive::<UInt64Type, _, _>(buckets))),
        ("ExplicitBounds", Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(bounds))),
        ("Min", optional(true)),
        ("Max", optional(false)),
        ("AggregationTemporality", Arc::new(times.iter().map(|_| 2).collect::<Int32Array>())),
    ])
}

/// A healthy run's telemetry.
pub fn telemetry() -> InMemory {
    let mut source = InMemory::default();
    for window in Window::BOTH {
        source.push(window, Signal::Traces, traces(&rows(window)));
        source.push(window, Signal::Logs, logs(&log_rows(window)));
        source.push(window, Signal::Metrics, points(window, "container.cpu.usage"));
        source.push(window, Signal::MetricsSum, points(window, "requests"));
        source.push(window, Signal::MetricsHistogram, histogram(window));
    }
    source
}

/// Builds and publishes.
pub fn published(packs: &Path, number: i32) -> Pack {
    Builder::new(packs, input(number)).unwrap().build(&telemetry()).unwrap().publish().unwrap()
}

/// Every file below a folder with its bytes, by relative path.
pub fn tree(folder: &Path) -> Vec<(String, Vec<u8>)> {
    fn walk(folder: &Path, base: &Path, files: &mut Vec<(String, Vec<u8>)>) {
        let mut entries: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            if path.is_dir() {
                walk(&path, base, files);
            } else {
                let name = path.strip_prefix(base).unwrap().to_str().unwrap().to_owned();
                files.push((name, std::fs::read(&path).unwrap()));
            }
        }
    }
    let mut files = Vec::new();
    walk(folder, folder, &mut files);
    files
}
