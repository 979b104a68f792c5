//! What the tests look at: spans, logs and points in a flat form.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::cluster::Environment;
use fault::{Resolved, Spec, resolve};
use model::{DataTime, Problem, RunId, SystemCode};
use serde_json::Value;
use sim::{Plan, Sink, World};
use system::{Catalog, SystemData};
use telemetry::otlp::common::KeyValue;
use telemetry::otlp::common::any_value::Value as Any;
use telemetry::otlp::metrics::metric::Data;
use telemetry::otlp::metrics::number_data_point::Value as Number;
use telemetry::otlp::{
    ExportLogsServiceRequest, ExportMetricsServiceRequest, ExportTraceServiceRequest, Message, Resource,
};

pub const ORIGIN: i64 = 1_790_000_000;
pub const SECOND: i64 = 1_000_000_000;

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// Nanoseconds since the origin.
    pub start: i64,
    pub end: i64,
    pub service: String,
    pub pod: String,
    pub name: String,
    pub kind: i32,
    pub trace: Vec<u8>,
    pub id: Vec<u8>,
    pub parent: Vec<u8>,
    pub failed: bool,
    pub attributes: BTreeMap<String, String>,
}

impl Span {
    pub fn lasted(&self) -> i64 {
        self.end - self.start
    }

    pub fn status(&self) -> Option<&str> {
        self.attributes.get("http.response.status_code").map(String::as_str)
    }

    pub const CLIENT: i32 = 3;
    pub const SERVER: i32 = 2;
}

#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    pub at: i64,
    pub service: String,
    pub pod: String,
    pub name: String,
    pub attributes: BTreeMap<String, String>,
    pub value: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Log {
    pub at: i64,
    pub service: String,
    pub severity: String,
    pub body: String,
}

/// Keeps everything, also as the bytes that a receiver would get.
#[derive(Default)]
pub struct Probe {
    pub spans: Vec<Span>,
    pub points: Vec<Point>,
    pub logs: Vec<Log>,
    pub bytes: Vec<u8>,
}

fn flat(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &Any| match value {
        Any::StringValue(text) => text.clone(),
        Any::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let value =
        |pair: &KeyValue| pair.value.as_ref().and_then(|value| value.value.as_ref()).map_or_else(String::new, text);
    attributes.iter().map(|pair| (pair.key.clone(), value(pair))).collect()
}

fn names(resource: Option<&Resource>) -> (String, String) {
    let attributes = flat(&resource.unwrap().attributes);
    let get = |key: &str| attributes.get(key).cloned().unwrap_or_default();
    (get("service.name"), get("k8s.pod.name"))
}

const fn since_origin(nanos: u64) -> i64 {
    nanos as i64 - ORIGIN * SECOND
}

impl Sink for Probe {
    fn traces(&mut self, request: &ExportTraceServiceRequest) -> Result<(), Problem> {
        request.encode(&mut self.bytes).unwrap();
        for group in &request.resource_spans {
            let (service, pod) = names(group.resource.as_ref());
            for span in group.scope_spans.iter().flat_map(|scope| &scope.spans) {
                self.spans.push(Span {
                    start: since_origin(span.start_time_unix_nano),
                    end: since_origin(span.end_time_unix_nano),
                    service: service.clone(),
                    pod: pod.clone(),
                    name: span.name.clone(),
                    kind: span.kind,
                    trace: span.trace_id.clone(),
                    id: span.span_id.clone(),
                    parent: span.parent_span_id.clone(),
                    failed: span.status.as_ref().is_some_and(|status| status.code == 2),
                    attributes: flat(&span.attributes),
                });
            }
        }
        Ok(())
    }

    fn metrics(&mut self, request: &ExportMetricsServiceRequest) -> Result<(), Problem> {
        request.encode(&mut self.bytes).unwrap();
        for group in &request.resource_metrics {
            let (service, pod) = names(group.resource.as_ref());
            for metric in group.scope_metrics.iter().flat_map(|scope| &scope.metrics) {
                let values: Vec<(u64, &[KeyValue], f64)> = match metric.data.as_ref().unwrap() {
                    Data::Gauge(gauge) => gauge.data_points.iter().map(number).collect(),
                    Data::Sum(sum) => sum.data_points.iter().map(number).collect(),
                    Data::Histogram(histogram) => {
                        let points = histogram.data_points.iter();
                        points.map(|p| (p.time_unix_nano, p.attributes.as_slice(), p.count as f64)).collect()
                    }
                    other => panic!("no such metric is made: {other:?}"),
                };
                self.points.extend(values.into_iter().map(|(at, attributes, value)| Point {
                    at: since_origin(at),
                    service: service.clone(),
                    pod: pod.clone(),
                    name: metric.name.clone(),
                    attributes: flat(attributes),
                    value,
                }));
            }
        }
        Ok(())
    }

    fn logs(&mut self, request: &ExportLogsServiceRequest) -> Result<(), Problem> {
        request.encode(&mut self.bytes).unwrap();
        for group in &request.resource_logs {
            let (service, _) = names(group.resource.as_ref());
            for log in group.scope_logs.iter().flat_map(|scope| &scope.log_records) {
                let Some(Any::StringValue(body)) = log.body.as_ref().and_then(|body| body.value.clone()) else {
                    panic!("a log line is text")
                };
                let at = since_origin(log.time_unix_nano);
                self.logs.push(Log { at, service: service.clone(), severity: log.severity_text.clone(), body });
            }
        }
        Ok(())
    }
}

fn number(point: &telemetry::otlp::metrics::NumberDataPoint) -> (u64, &[KeyValue], f64) {
    let Some(Number::AsDouble(value)) = point.value else { panic!("a point has a value") };
    (point.time_unix_nano, &point.attributes, value)
}

impl Probe {
    pub fn at(&self, service: &str, name: &str) -> Vec<(i64, f64)> {
        let points = self.points.iter().filter(|point| point.service == service && point.name == name);
        points.map(|point| (point.at, point.value)).collect()
    }

    /// Client spans from one service to another that ended in `[from, to)` seconds.
    pub fn calls(&self, from: &str, to: &str, window: (i64, i64)) -> Vec<&Span> {
        self.spans
            .iter()
            .filter(|span| span.kind == Span::CLIENT && span.service == from && inside(span, window))
            .filter(|span| span.attributes.get("server.address").is_some_and(|address| address == to))
            .collect()
    }

    /// Full collections of a service's virtual machines, as the last points count them.
    pub fn collections(&self, service: &str) -> f64 {
        let full = |point: &&Point| {
            point.service == service
                && point.name == "jvm.gc.duration"
                && point.attributes.get("jvm.gc.action").is_some_and(|action| action == "end of major GC")
        };
        self.points.iter().filter(full).map(|point| point.value).fold(0.0, f64::max)
    }

    pub fn served(&self, service: &str, window: (i64, i64)) -> Vec<&Span> {
        let served = |span: &&Span| span.kind == Span::SERVER && span.service == service && inside(span, window);
        self.spans.iter().filter(served).collect()
    }
}

fn inside(span: &Span, (from, to): (i64, i64)) -> bool {
    span.end >= from * SECOND && span.end < to * SECOND
}

pub fn ts() -> Arc<SystemData> {
    Catalog::builtin().unwrap().get(&SystemCode::parse("ts").unwrap()).unwrap()
}

pub fn environment(seed: u64, load: f64) -> Environment {
    let run: RunId = "00000000-0000-4000-8000-000000000001".parse().unwrap();
    Environment { run, origin: DataTime::from_seconds(ORIGIN), seed, load, noise: 1.0 }
}

pub fn world(seed: u64, load: f64) -> World {
    let system = ts();
    let plan = Plan::new("ts", "app", system.topology().unwrap()).unwrap();
    World::new(plan.into(), "ts0", environment(seed, load))
}

/// A run of any built-in system without a fault.
pub fn calm(code: &str, seed: u64, load: f64, seconds: i64) -> (Probe, World) {
    let system = Catalog::builtin().unwrap().get(&SystemCode::parse(code).unwrap()).unwrap();
    let plan = Plan::new(code, &system.registration.app_label_key, system.topology().unwrap()).unwrap();
    let (mut probe, mut world) =
        (Probe::default(), World::new(plan.into(), &format!("{code}0"), environment(seed, load)));
    world.run(seconds * SECOND, &mut probe).unwrap();
    (probe, world)
}

/// A fault from `key=value` pairs.
pub fn fault(capability: &str, service: &str, pairs: &[(&str, &str)]) -> Resolved {
    let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let spec = Spec::from_pairs(capability, service, pairs).unwrap();
    resolve(&spec, &ts()).unwrap_or_else(|problem| panic!("{problem}"))
}

/// A run with the fault on in `[60, 120)` seconds, until 150.
pub fn with_fault(seed: u64, load: f64, resolved: Option<&Resolved>) -> (Probe, World) {
    let (mut probe, mut world) = (Probe::default(), world(seed, load));
    world.run(60 * SECOND, &mut probe).unwrap();
    if let Some(resolved) = resolved {
        world.start_fault("f", resolved).unwrap();
    }
    world.run(120 * SECOND, &mut probe).unwrap();
    if resolved.is_some() {
        world.end_fault("f").unwrap();
    }
    world.run(150 * SECOND, &mut probe).unwrap();
    (probe, world)
}

pub fn quantile(values: impl IntoIterator<Item = i64>, share: f64) -> i64 {
    let mut sorted: Vec<i64> = values.into_iter().collect();
    assert!(!sorted.is_empty(), "nothing to take a quantile of");
    sorted.sort_unstable();
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}

pub fn json(resolved: &Resolved) -> Value {
    resolved.to_value()
}
