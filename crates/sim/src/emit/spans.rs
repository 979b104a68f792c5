//! Span records become OTLP spans.

use model::Problem;
use system::Language;
use telemetry::otlp::ExportTraceServiceRequest;
use telemetry::otlp::common::{InstrumentationScope, KeyValue};
use telemetry::otlp::trace::span::SpanKind;
use telemetry::otlp::trace::status::StatusCode;
use telemetry::otlp::trace::{ResourceSpans, ScopeSpans, Span, Status};

use super::attribute::{int, text};
use super::{Part, Recorder, Sink, SpanRecord, resource};
use crate::gate::Detour;
use crate::plan::CallKind;
use crate::pod::Pod;
use crate::request::Failure;

/// Spans per request, as the SDKs' batch processors have it. Small requests also stay in the processor's cache.
const BATCH: usize = 512;

impl Recorder {
    /// Hands over the spans that wait on one pod.
    pub(super) fn export_spans(&mut self, pod: &Pod, pods: &[Pod], sink: &mut dyn Sink) -> Result<(), Problem> {
        let mut records = std::mem::take(&mut self.buffers[pod.slot as usize].spans);
        if records.is_empty() {
            return Ok(());
        }
        self.counts.spans += records.len() as u64;
        let service = &self.plan.services[pod.service as usize];
        let scope = InstrumentationScope {
            name: scope_name(service.language).to_owned(),
            version: resource::sdk(service.language).1.to_owned(),
            ..InstrumentationScope::default()
        };
        let mut request = ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(resource::of_process(&self.namespace, service, pod)),
                scope_spans: vec![ScopeSpans { scope: Some(scope), ..ScopeSpans::default() }],
                ..ResourceSpans::default()
            }],
        };
        for batch in records.chunks(BATCH) {
            let spans = &mut request.resource_spans[0].scope_spans[0].spans;
            spans.clear();
            spans.extend(batch.iter().map(|record| self.span(pod, pods, record)));
            sink.traces(&request)?;
        }
        // The buffer keeps its room for the next round.
        records.clear();
        self.buffers[pod.slot as usize].spans = records;
        Ok(())
    }

    fn span(&self, pod: &Pod, pods: &[Pod], record: &SpanRecord) -> Span {
        let text = &self.texts[record.call as usize];
        let kind = self.plan.calls[record.call as usize].kind;
        let (name, constant) = match (record.part, &text.inner) {
            (Part::Inner, Some((name, attributes))) => (name, attributes),
            (Part::Server, _) => (&text.server_name, &text.server),
            _ => (&text.client_name, &text.client),
        };
        let mut attributes: Vec<KeyValue> = Vec::with_capacity(constant.len() + 4);
        attributes.extend_from_slice(constant);
        if kind == CallKind::Http && record.part != Part::Inner {
            self.http(record, pods, &mut attributes);
        }
        let detour = record.detour.filter(|_| record.part == Part::Server);
        let detour = detour.map(|number| &self.detours[usize::from(number)]);
        if let Some(detour) = detour {
            detoured(detour, &mut attributes);
        }
        let failed = fails(record, kind);
        if failed && let Some(error) = self.error_type(record) {
            attributes.push(self::text("error.type", error));
        }
        Span {
            trace_id: self.trace_id(record.trace),
            span_id: record.id.to_be_bytes().to_vec(),
            parent_span_id: if record.parent == 0 { Vec::new() } else { record.parent.to_be_bytes().to_vec() },
            flags: 0x101,
            name: detour.map_or_else(|| name.clone(), server_name),
            kind: span_kind(record.part, kind) as i32,
            start_time_unix_nano: self.own_stamp(pod, record.start, record.start),
            end_time_unix_nano: self.own_stamp(pod, record.end, record.start),
            attributes,
            status: failed.then(|| Status { code: StatusCode::Error as i32, message: self.status_message(record) }),
            ..Span::default()
        }
    }

    fn http(&self, record: &SpanRecord, pods: &[Pod], attributes: &mut Vec<KeyValue>) {
        let call = &self.texts[record.call as usize];
        let path = call.path.fill(record.trace);
        if record.part == Part::Server {
            attributes.push(text("url.path", path));
            if let Some(peer) = pods.get(record.peer as usize) {
                attributes.push(text("network.peer.address", peer.ip.as_str()));
            }
        } else {
            attributes.push(text("url.full", format!("{}{path}", call.base)));
        }
        if record.status > 0 {
            attributes.push(int("http.response.status_code", i64::from(record.status)));
        }
    }

    fn error_type(&self, record: &SpanRecord) -> Option<String> {
        if record.status >= 400 && record.part != Part::Inner {
            return Some(record.status.to_string());
        }
        self.exception(self.language(record), record.failure, record.cause).map(|(class, _)| class)
    }

    /// The runtime that made the span.
    fn language(&self, record: &SpanRecord) -> Language {
        let call = &self.plan.calls[record.call as usize];
        let service = if record.part == Part::Client { call.from } else { call.to };
        match self.plan.services[service as usize].language {
            Language::None => Language::Java,
            language => language,
        }
    }

    /// The Java agent leaves the message empty for statuses and gives none for exceptions of clients.
    fn status_message(&self, record: &SpanRecord) -> String {
        match record.failure {
            Failure::None | Failure::Upstream | Failure::Own | Failure::Thrown(_) => String::new(),
            failure => {
                self.exception(self.language(record), failure, None).map_or(String::new(), |(_, message)| message)
            }
        }
    }
}

/// A server names its span by method and route, or by the method alone when no route matched.
fn server_name(detour: &Detour) -> String {
    let route = detour.route.as_ref().map(|route| format!(" {route}"));
    format!("{}{}", detour.method, route.unwrap_or_default())
}

/// The attributes of a server span whose request came with another method or path than was asked for.
fn detoured(detour: &Detour, attributes: &mut Vec<KeyValue>) {
    attributes.retain(|pair| {
        let path = detour.path.is_some() && pair.key == "url.path";
        !path && pair.key != "http.request.method" && pair.key != "http.route"
    });
    attributes.push(text("http.request.method", detour.method.as_str()));
    attributes.extend(detour.path.as_ref().map(|path| text("url.path", path.as_str())));
    attributes.extend(detour.route.as_ref().map(|route| text("http.route", route.as_str())));
}

/// OpenTelemetry's rules: a client fails from 400 on, a server from 500 on, and both when there was no answer.
fn fails(record: &SpanRecord, kind: CallKind) -> bool {
    match (kind, record.part) {
        (CallKind::Http, Part::Client) => record.status >= 400 || record.status == 0,
        (CallKind::Http, Part::Server) => record.status >= 500,
        (CallKind::Grpc | CallKind::Thrift, Part::Client | Part::Server) => kind.failed(record.failure, record.status),
        _ => record.failure != Failure::None,
    }
}

const fn span_kind(part: Part, kind: CallKind) -> SpanKind {
    match (part, kind) {
        (Part::Inner, _) => SpanKind::Internal,
        (Part::Client, CallKind::Publish) => SpanKind::Producer,
        (Part::Server, CallKind::Process) => SpanKind::Consumer,
        (Part::Client, _) => SpanKind::Client,
        (Part::Server, _) => SpanKind::Server,
    }
}

const fn scope_name(language: Language) -> &'static str {
    match language {
        Language::Java | Language::Kotlin => "io.opentelemetry.tomcat-10.0",
        Language::Caddy => "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp",
        Language::Go => "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp",
        _ => "opentelemetry",
    }
}
