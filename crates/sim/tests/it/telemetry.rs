//! The telemetry of every built-in system against its profile: what is declared is sent, what is not is not, and it fits
//! together.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use model::{Problem, SystemCode};
use sim::{Plan, Sink, World};
use system::{Catalog, Histograms, Logs, MetricsPath, Protocol, Stack, StoreSpans, Topology};
use telemetry::otlp::common::KeyValue;
use telemetry::otlp::common::any_value::Value;
use telemetry::otlp::metrics::metric::Data;
use telemetry::otlp::trace::Span;
use telemetry::otlp::{ExportLogsServiceRequest, ExportMetricsServiceRequest, ExportTraceServiceRequest, Resource};

use crate::probe::{ORIGIN, SECOND, environment};

const CODES: [&str; 8] = ["ts", "otel-demo", "ob", "sockshop", "hs", "sn", "media", "teastore"];
/// Attributes that a pack's quality report asks of every record of a process.
const REQUIRED: [&str; 4] = ["service.name", "service.namespace", "k8s.namespace.name", "k8s.pod.name"];
const CLIENT: i32 = 3;
const SERVER: i32 = 2;

type Attributes = BTreeMap<String, String>;

/// What a receiver sees, by service.
#[derive(Default)]
struct Seen {
    spans: Vec<(String, String, Span)>,
    /// Service, whether it has a trace id, severity, body, attributes.
    logs: Vec<(String, bool, String, String, Attributes)>,
    /// Service, workload, name, unit, whether it is a histogram, description.
    metrics: BTreeSet<(String, String, String, String, bool, String)>,
}

fn flat(attributes: &[KeyValue]) -> Attributes {
    let text = |pair: &KeyValue| match pair.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(value)) => value.to_string(),
        other => panic!("no such value is made: {other:?}"),
    };
    attributes.iter().map(|pair| (pair.key.clone(), text(pair))).collect()
}

fn of(resource: Option<&Resource>) -> Attributes {
    flat(&resource.unwrap().attributes)
}

impl Sink for Seen {
    fn traces(&mut self, request: &ExportTraceServiceRequest) -> Result<(), Problem> {
        for group in &request.resource_spans {
            let resource = of(group.resource.as_ref());
            for key in REQUIRED {
                assert!(resource.contains_key(key), "{key} is missing from {resource:?}");
            }
            for scope in &group.scope_spans {
                let name = &scope.scope.as_ref().unwrap().name;
                let made =
                    scope.spans.iter().map(|span| (resource["service.name"].clone(), name.clone(), span.clone()));
                self.spans.extend(made);
            }
        }
        Ok(())
    }

    fn metrics(&mut self, request: &ExportMetricsServiceRequest) -> Result<(), Problem> {
        for group in &request.resource_metrics {
            let resource = of(group.resource.as_ref());
            let get = |key: &str| resource.get(key).cloned().unwrap_or_default();
            let workload = get("k8s.deployment.name") + &get("k8s.statefulset.name");
            for metric in group.scope_metrics.iter().flat_map(|scope| &scope.metrics) {
                let histogram = matches!(metric.data, Some(Data::Histogram(_)));
                let (name, unit) = (metric.name.clone(), metric.unit.clone());
                let entry = (get("service.name"), workload.clone(), name, unit, histogram, metric.description.clone());
                self.metrics.insert(entry);
            }
        }
        Ok(())
    }

    fn logs(&mut self, request: &ExportLogsServiceRequest) -> Result<(), Problem> {
        for group in &request.resource_logs {
            let resource = of(group.resource.as_ref());
            for key in REQUIRED {
                assert!(resource.contains_key(key), "{key} is missing from {resource:?}");
            }
            for log in group.scope_logs.iter().flat_map(|scope| &scope.log_records) {
                let Some(Value::StringValue(body)) = log.body.as_ref().unwrap().value.clone() else { panic!("text") };
                let traced = !log.trace_id.is_empty();
                let service = resource["service.name"].clone();
                self.logs.push((service, traced, log.severity_text.clone(), body, flat(&log.attributes)));
            }
        }
        Ok(())
    }
}

fn run(code: &str, change: impl FnOnce(&mut Plan)) -> Seen {
    let system = Catalog::builtin().unwrap().get(&SystemCode::parse(code).unwrap()).unwrap();
    let mut plan = Plan::new(code, &system.registration.app_label_key, system.topology().unwrap()).unwrap();
    change(&mut plan);
    let mut world = World::new(plan.into(), &format!("{code}0"), environment(11, 12.0));
    let mut seen = Seen::default();
    world.run(50 * SECOND, &mut seen).unwrap();
    seen
}

/// Services that requests of the journeys reach.
fn reached(topology: &Topology) -> BTreeSet<&str> {
    let steps = topology.journeys.iter().flat_map(system::Journey::steps);
    steps.map(|step| step.to.as_str()).collect()
}

#[test]
fn every_service_sends_what_its_profile_declares() {
    for code in CODES {
        let system = Catalog::builtin().unwrap().get(&SystemCode::parse(code).unwrap()).unwrap();
        let topology = system.topology().unwrap();
        let seen = run(code, |_| {});
        let reached = reached(topology);
        let derives = topology.telemetry.metrics_path == MetricsPath::SpanMetrics;
        for service in topology.services.iter().filter(|service| !service.disabled) {
            let profile = topology.telemetry.of(&service.name);
            let (name, reported) = (service.name.as_str(), service.reported_name());
            let place = format!("{code}: {name}");
            let spans = seen.spans.iter().filter(|(service, ..)| service == reported).count();
            let shares = topology.services.iter().filter(|other| other.reported_name() == reported).count() > 1;
            assert!(profile.traces || spans == 0 || shares, "{place} is not traced and has {spans} spans");
            let logs: Vec<_> = seen.logs.iter().filter(|log| log.0 == name || log.0 == reported).collect();
            assert!(profile.logs != Logs::None || logs.is_empty(), "{place} has no logs and writes {}", logs.len());
            if profile.logs == Logs::Plain {
                assert!(logs.iter().all(|log| !log.1), "{place} writes trace ids");
            }
            let has = |wanted: &dyn Fn(&str) -> bool, histogram: bool| {
                let own = |entry: &&(String, String, String, String, bool, String)| entry.1 == name;
                seen.metrics.iter().filter(own).any(|entry| entry.4 == histogram && wanted(&entry.2))
            };
            assert!(has(&|metric| metric == "container.cpu.usage", false), "{place} has no container metrics");
            if !reached.contains(name) {
                continue;
            }
            assert!(!profile.traces || spans > 0, "{place} is traced and has no span");
            let request = |metric: &str| {
                metric.contains(".duration") && (metric.starts_with("http.") || metric.starts_with("rpc."))
            };
            assert_eq!(has(&request, true), serves_natively(topology, name, profile), "{place}: native histograms");
            let derived = has(&|metric| metric == "traces.span.metrics.duration", true);
            assert_eq!(derived, derives && profile.traces, "{place}: derived histograms");
            let runtime = |metric: &str| {
                let own = [
                    "jvm.",
                    "go.",
                    "nodejs.",
                    "process.runtime.",
                    "rabbitmq_",
                    "mysql.",
                    "postgresql.",
                    "redis.",
                    "kafka.",
                ];
                own.iter().any(|prefix| metric.starts_with(prefix))
            };
            let runs = profile.runtime_metrics && !matches!(profile.stack, Stack::Caddy | Stack::Envoy | Stack::Cpp);
            assert_eq!(has(&runtime, false), runs, "{place}: runtime metrics");
        }
    }
}

/// Whether the service's own meters time requests: those of HTTP, and procedures where its instrumentation has them.
fn serves_natively(topology: &Topology, name: &str, profile: &system::ServiceTelemetry) -> bool {
    let times = |protocol: Protocol| match protocol {
        Protocol::Http => true,
        Protocol::Grpc => !matches!(profile.stack, Stack::Node | Stack::Next | Stack::Python),
        _ => false,
    };
    let steps = || topology.journeys.iter().flat_map(system::Journey::steps);
    let uses = steps().any(|step| (step.to == name || step.from == name) && times(step.protocol));
    profile.histograms == Histograms::Native && uses
}

#[test]
fn spans_fit_together_and_name_the_right_peers() {
    for code in CODES {
        let system = Catalog::builtin().unwrap().get(&SystemCode::parse(code).unwrap()).unwrap();
        let topology = system.topology().unwrap();
        let seen = run(code, |_| {});
        let by_id: BTreeMap<&[u8], &(String, String, Span)> =
            seen.spans.iter().map(|entry| (entry.2.span_id.as_slice(), entry)).collect();
        let settled = (ORIGIN + 45) as u64 * SECOND as u64;
        let (mut linked, mut lost) = (0, 0);
        for (service, _, span) in seen.spans.iter().filter(|entry| entry.2.end_time_unix_nano < settled) {
            let attributes = flat(&span.attributes);
            if let Some(address) = attributes.get("db.system").or(attributes.get("db.system.name")) {
                let peer = attributes.get("server.address").or(attributes.get("net.peer.name"));
                let peer = peer.unwrap_or_else(|| panic!("{code}: {} of {address} names no peer", span.name));
                let known = topology.statements.iter().any(|statement| {
                    let store = topology.service(&statement.instance).unwrap();
                    statement.service == *service && store.dns_name() == peer && *address == statement.system.as_str()
                });
                assert!(known, "{code}: {service} sends nothing to {peer}");
            }
            if span.parent_span_id.is_empty() {
                continue;
            }
            match by_id.get(span.parent_span_id.as_slice()) {
                None => lost += 1,
                Some((caller, _, parent)) => {
                    assert_eq!(parent.trace_id, span.trace_id, "{code}");
                    linked += 1;
                    if span.kind == SERVER && caller != service {
                        let caller = topology.services.iter().find(|other| other.reported_name() == caller).unwrap();
                        let quiet = !topology.telemetry.of(&caller.name).client_spans;
                        let bridge = topology.telemetry.of(&caller.name).stack == Stack::NginxOpentracing;
                        assert!(
                            parent.kind == CLIENT || quiet || bridge,
                            "{code}: {} under {}",
                            span.name,
                            parent.name
                        );
                    }
                }
            }
        }
        assert!(linked > 500 && lost * 100 < linked, "{code}: {linked} spans have their parent, {lost} do not");
        let named = topology.services.iter().filter(|service| {
            topology.telemetry.of(&service.name).store_spans == StoreSpans::Named
                && reached(topology).contains(service.name.as_str())
        });
        for service in named {
            let names = &topology.telemetry.of(&service.name).spans;
            if names.is_empty() {
                continue;
            }
            let made = seen.spans.iter().any(|(reported, _, span)| {
                reported == service.reported_name() && names.values().any(|name| *name == span.name)
            });
            assert!(made, "{code}: no command of {} has its span", service.name);
        }
    }
}

#[test]
fn without_the_connector_a_system_of_derived_histograms_has_none() {
    for code in ["ob", "sockshop"] {
        let seen = run(code, |plan| plan.telemetry.metrics_path = MetricsPath::Bare);
        let histograms: Vec<&str> = seen.metrics.iter().filter(|entry| entry.4).map(|entry| entry.2.as_str()).collect();
        assert!(histograms.is_empty(), "{code}: {histograms:?}");
        assert!(seen.spans.len() > 1000 && seen.metrics.len() > 100, "{code}");
    }
}

/// Values that belong to one request, not to the instrumentation.
const OWN: [&str; 24] = [
    "url.path",
    "url.full",
    "http.target",
    "http.url",
    "network.peer.address",
    "network.peer.port",
    "client.address",
    "net.sock.peer.addr",
    "net.sock.peer.port",
    "net.peer.ip",
    "net.peer.port",
    "peer.address",
    "upstream_address",
    "thread.id",
    "thread.name",
    "http.response.body.size",
    "http.response_content_length",
    "request_size",
    "response_size",
    "guid:x-request-id",
    "messaging.kafka.producer.offset",
    "messaging.kafka.message.offset",
    "http.request_content_length",
    "messaging.message.body.size",
];

/// One span per instrumentation module and kind, one line per service, the metrics of each kind: small enough to read.
#[test]
fn each_stack_looks_like_itself() {
    for code in ["ts", "otel-demo", "hs", "sn", "teastore"] {
        let seen = run(code, |_| {});
        let mut spans: BTreeMap<(String, i32), String> = BTreeMap::new();
        // What fails now and then does not belong to the page.
        let well = |entry: &&(String, String, Span)| {
            let attributes = flat(&entry.2.attributes);
            let grpc = attributes.get("rpc.grpc.status_code").or(attributes.get("grpc.status_code"));
            entry.2.status.is_none() && grpc.is_none_or(|status| status == "0")
        };
        for (_, scope, span) in seen.spans.iter().filter(well) {
            let mut text = span.name.clone();
            for (key, value) in flat(&span.attributes) {
                let value = if OWN.contains(&key.as_str()) { "…" } else { value.trim() };
                write!(text, "\n    {key}: {}", value.split_whitespace().collect::<Vec<_>>().join(" ")).unwrap();
            }
            let kept = spans.entry((scope.clone(), span.kind)).or_insert_with(|| text.clone());
            // The first in alphabetical order, whatever comes first in time.
            if text < *kept {
                *kept = text;
            }
        }
        let mut page = String::new();
        for ((scope, kind), text) in spans {
            writeln!(page, "[{scope}] kind {kind}: {text}").unwrap();
        }
        let metrics: BTreeSet<String> = seen
            .metrics
            .iter()
            .map(|entry| format!("{} [{}]{}", entry.2, entry.3, if entry.5.is_empty() { "" } else { " *" }))
            .collect();
        writeln!(page, "metrics (* described):").unwrap();
        for metric in metrics {
            writeln!(page, "    {metric}").unwrap();
        }
        insta::assert_snapshot!(format!("stack_{}", code.replace('-', "_")), page);
    }
}

#[test]
fn log_lines_vary_and_leave_no_gap() {
    for code in CODES {
        let seen = run(code, |_| {});
        assert!(!seen.logs.is_empty(), "{code} writes nothing");
        for (service, _, severity, body, attributes) in &seen.logs {
            assert!(!body.trim().is_empty(), "{code}: {service} writes an empty {severity} line");
            for var in ["{uuid", "{error}", "{class}", "{status}", "{iso}"] {
                assert!(!body.contains(var), "{code}: {service} leaves {var} in {body}");
            }
            if attributes.contains_key("exception.type") {
                let trace = &attributes["exception.stacktrace"];
                assert!(trace.lines().count() > 3 && trace.contains("\tat "), "{trace}");
            }
        }
        // Lines without their digits and ids: templates.
        let shape = |body: &str| -> String {
            body.chars().filter(|c| c.is_ascii_uppercase() || "[]{}:".contains(*c)).collect()
        };
        let shapes: BTreeSet<String> = seen.logs.iter().map(|log| log.0.clone() + &shape(&log.3)).collect();
        assert!(shapes.len() >= 6, "{code} has only {} kinds of lines", shapes.len());
    }
}
