//! Durations of requests: from the meters of a process, and from spans by the collector's connector.

use system::{Conventions, ServiceTelemetry, Stack};
use telemetry::otlp::common::KeyValue;

use super::{Reading, Recorder, Round};
use crate::emit::attribute::{int, text};
use crate::emit::failure::{grpc_status, of_connection};
use crate::emit::histogram::{ClientSeries, Histogram, Meters, Unit};
use crate::emit::spans::{fails, kind_name};
use crate::emit::stack::http::braces;
use crate::emit::{DETOURS, SpanRecord, resource};
use crate::gate::Detour;
use crate::plan::{CallKind, Plan, ServicePlan};
use crate::pod::Pod;
use crate::request::Failure;

pub fn scope(stack: Stack) -> &'static str {
    match stack {
        Stack::SpringAgent | Stack::JerseyAgent => "io.opentelemetry.tomcat-10.0",
        Stack::HelidonAgent => "io.opentelemetry.helidon-4.3",
        Stack::JavaAgent => "io.opentelemetry.grpc-1.6",
        Stack::Go => "go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc",
        Stack::Caddy => "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp",
        Stack::Node | Stack::Next => "@opentelemetry/instrumentation-http",
        Stack::Python => "opentelemetry.instrumentation.requests",
        Stack::Dotnet => "Microsoft.AspNetCore.Hosting",
        Stack::Rust => "opentelemetry-instrumentation-actix-web",
        Stack::Php => "io.opentelemetry.contrib.php.slim",
        _ => "",
    }
}

pub fn report(
    round: &mut Round<'_>,
    plan: &Plan,
    detours: &[Detour],
    service: &ServicePlan,
    profile: &ServiceTelemetry,
    meters: &Meters,
) {
    let old = profile.conventions == Conventions::Old;
    let (mut http, mut rpc) = (Vec::new(), Vec::new());
    for ((operation, status), histogram) in &meters.server.list {
        if let Some(number) = operation.checked_sub(DETOURS) {
            let detour = &detours[number as usize];
            let route = detour.route.as_deref().unwrap_or_default();
            http.push((histogram, http_server(&detour.method, route, *status, service, old)));
            continue;
        }
        let operation = &plan.operations[*operation as usize];
        match operation.kind {
            CallKind::Http => {
                http.push((histogram, http_server(&operation.method, &operation.route, *status, service, old)))
            }
            // gRPC in ASP.NET Core is an HTTP/2 request like any other.
            _ if profile.stack == Stack::Dotnet => {
                let route = format!("/{}", operation.name);
                http.push((histogram, http_server("POST", &route, 200, service, old)));
            }
            _ => {
                let status = int("rpc.grpc.status_code", i64::from(*status));
                let mut attributes = procedure(&operation.route, &operation.method);
                attributes.push(status);
                rpc.push((histogram, attributes));
            }
        }
    }
    let (name, unit) =
        if old { ("http.server.duration", Unit::Millis) } else { ("http.server.request.duration", Unit::Seconds) };
    round.histogram(name, unit.name(), http);
    round.histogram("rpc.server.duration", "ms", rpc);
    let client = merged(plan, &meters.client.list);
    let attributes = |key: &Key<'_>| client_attributes(plan, profile, key);
    let of = |wanted: bool| {
        let fits = client.iter().filter(move |(key, _)| (key.kind == CallKind::Http) == wanted);
        fits.map(|(key, histogram)| (histogram, attributes(key))).collect()
    };
    let (name, unit) =
        if old { ("http.client.duration", Unit::Millis) } else { ("http.client.request.duration", Unit::Seconds) };
    round.histogram(name, unit.name(), of(true));
    let name = if profile.stack == Stack::Dotnet { "http.client.request.duration" } else { "rpc.client.duration" };
    round.histogram(name, if profile.stack == Stack::Dotnet { "s" } else { "ms" }, of(false));
}

fn http_server(method: &str, route: &str, status: u16, service: &ServicePlan, old: bool) -> Vec<KeyValue> {
    if old {
        return vec![
            text("http.method", method),
            text("http.scheme", "http"),
            text("http.flavor", "1.1"),
            text("net.host.name", service.dns_name.as_str()),
            int("net.host.port", i64::from(service.port.unwrap_or(80))),
            text("http.route", braces(route)),
            int("http.status_code", i64::from(status)),
        ];
    }
    let mut attributes = vec![
        text("http.request.method", method),
        int("http.response.status_code", i64::from(status)),
        text("http.route", braces(route)),
        text("network.protocol.version", "1.1"),
        text("url.scheme", "http"),
    ];
    if status >= 500 {
        attributes.push(text("error.type", status.to_string()));
    }
    attributes
}

fn procedure(service: &str, method: &str) -> Vec<KeyValue> {
    vec![text("rpc.system", "grpc"), text("rpc.service", service), text("rpc.method", method)]
}

/// What tells the series of calls apart: HTTP by peer and method, procedures by peer and procedure.
#[derive(PartialEq, Eq)]
struct Key<'a> {
    kind: CallKind,
    peer: u16,
    service: &'a str,
    method: &'a str,
    status: u16,
    failure: Option<Failure>,
}

fn merged<'a>(plan: &'a Plan, list: &[(ClientSeries, Histogram)]) -> Vec<(Key<'a>, Histogram)> {
    let mut merged: Vec<(Key<'a>, Histogram)> = Vec::new();
    for ((call, status, failure), histogram) in list {
        let call = &plan.calls[*call as usize];
        let operation = &plan.operations[call.operation as usize];
        let service = if call.kind == CallKind::Http { "" } else { operation.route.as_str() };
        let key = Key {
            kind: call.kind,
            peer: call.to,
            service,
            method: operation.method.as_str(),
            status: *status,
            failure: *failure,
        };
        match merged.iter_mut().find(|(other, _)| *other == key) {
            Some((_, sum)) => sum.merge(histogram),
            None => merged.push((key, histogram.clone())),
        }
    }
    merged
}

fn client_attributes(plan: &Plan, profile: &ServiceTelemetry, key: &Key<'_>) -> Vec<KeyValue> {
    let peer = &plan.services[key.peer as usize];
    let (host, port) = (peer.dns_name.as_str(), i64::from(peer.service_port.or(peer.port).unwrap_or(80)));
    if key.kind != CallKind::Http {
        let mut attributes = procedure(key.service, key.method);
        attributes.push(text("server.address", host));
        attributes.push(int("server.port", port));
        let status = grpc_status(key.failure.unwrap_or(Failure::None), key.status);
        attributes.push(int("rpc.grpc.status_code", status));
        return attributes;
    }
    if profile.conventions == Conventions::Old {
        let mut attributes =
            vec![text("http.method", key.method), text("net.peer.name", host), int("net.peer.port", port)];
        if key.status > 0 {
            attributes.push(int("http.status_code", i64::from(key.status)));
        }
        return attributes;
    }
    let mut attributes = vec![
        text("http.request.method", key.method),
        text("network.protocol.version", "1.1"),
        text("server.address", host),
        int("server.port", port),
    ];
    if key.status > 0 {
        attributes.push(int("http.response.status_code", i64::from(key.status)));
    }
    if key.status >= 400 {
        attributes.push(text("error.type", key.status.to_string()));
    } else if let Some((class, _)) = key.failure.and_then(|failure| of_connection(profile.stack, failure, host, port)) {
        attributes.push(text("error.type", class));
    }
    attributes
}

impl Recorder {
    /// The collector counts the spans that reach it.
    pub(in crate::emit) fn derive(&mut self, pod: &Pod, records: &[SpanRecord]) {
        if !self.span_metrics {
            return;
        }
        let derived = &mut self.buffers[pod.slot as usize].derived;
        for record in records {
            if let Some(template) = self.texts.calls[record.call as usize].part(record.part) {
                derived.add(template.group, fails(template.verdict, record), record.end - record.start);
            }
        }
    }

    /// The connector's round over the spans of one pod.
    pub(super) fn report_derived(&mut self, reading: &Reading<'_>) {
        let pod = reading.pod;
        let derived = std::mem::take(&mut self.buffers[pod.slot as usize].derived);
        if !derived.list().is_empty() {
            let name = self.plan.services[pod.service as usize].reported_name.clone();
            let mut points = 0;
            let mut round = self.round(reading, resource::created(pod), &mut points);
            let groups = &self.texts.groups[pod.service as usize];
            let series: Vec<(&Histogram, Vec<KeyValue>)> = derived
                .list()
                .iter()
                .map(|((group, failed), histogram)| {
                    let (span, kind) = &groups[usize::from(*group)];
                    let status = if *failed { "STATUS_CODE_ERROR" } else { "STATUS_CODE_UNSET" };
                    let attributes = vec![
                        text("service.name", name.as_str()),
                        text("span.name", span.as_str()),
                        text("span.kind", kind_name(*kind)),
                        text("status.code", status),
                    ];
                    (histogram, attributes)
                })
                .collect();
            let calls: Vec<(f64, &[KeyValue])> =
                series.iter().map(|(histogram, attributes)| (histogram.count as f64, attributes.as_slice())).collect();
            round.sum("traces.span.metrics.calls", "", true, &calls);
            round.histogram("traces.span.metrics.duration", "ms", series);
            let metrics = round.metrics;
            self.counts.points += points;
            self.keep(self.process(pod), "spanmetricsconnector", metrics);
        }
        self.buffers[pod.slot as usize].derived = derived;
    }
}
