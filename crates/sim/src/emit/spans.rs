//! Span records become OTLP spans.

use model::Problem;
use system::Stack;
use telemetry::otlp::ExportTraceServiceRequest;
use telemetry::otlp::common::KeyValue;
use telemetry::otlp::trace::span::SpanKind;
use telemetry::otlp::trace::status::StatusCode;
use telemetry::otlp::trace::{ResourceSpans, ScopeSpans, Span, Status};

use super::attribute::{int, text};
use super::calls::CallText;
use super::failure::grpc_status;
use super::stack::thread;
use super::template::{Slot, Template, Verdict};
use super::{Part, Recorder, Sink, SpanRecord};
use crate::gate::Detour;
use crate::pod::Pod;
use crate::request::Failure;
use crate::rng::{Stream, join};

/// Spans per request, as the SDKs' batch processors have it. Small requests also stay in the processor's cache.
const BATCH: usize = 512;

impl CallText {
    pub(super) fn part(&self, part: Part) -> Option<&Template> {
        match part {
            Part::Client => self.client.as_ref(),
            Part::Wrapper => self.wrapper.as_ref(),
            Part::Server => self.server.as_ref(),
            Part::Inner => self.inner.as_ref(),
        }
    }
}

impl Recorder {
    /// Hands over the spans that wait on one pod.
    pub(super) fn export_spans(&mut self, pod: &Pod, pods: &[Pod], sink: &mut dyn Sink) -> Result<(), Problem> {
        let mut records = std::mem::take(&mut self.buffers[pod.slot as usize].spans);
        if records.is_empty() {
            return Ok(());
        }
        self.counts.spans += records.len() as u64;
        self.derive(pod, &records);
        let mut request = ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans { resource: Some(self.process(pod)), ..ResourceSpans::default() }],
        };
        let scopes = self.texts.scopes[pod.service as usize].list.len();
        for batch in records.chunks(BATCH) {
            let mut by_scope: Vec<Vec<Span>> = (0..scopes).map(|_| Vec::new()).collect();
            for record in batch {
                let Some(template) = self.texts.calls[record.call as usize].part(record.part) else { continue };
                by_scope[usize::from(template.scope)].push(self.span(template, pod, pods, record));
            }
            let known = &self.texts.scopes[pod.service as usize].list;
            let filled = known.iter().zip(by_scope).filter(|(_, spans)| !spans.is_empty());
            request.resource_spans[0].scope_spans = filled
                .map(|(scope, spans)| ScopeSpans { scope: Some(scope.clone()), spans, ..ScopeSpans::default() })
                .collect();
            sink.traces(&request)?;
        }
        // The buffer keeps its room for the next round.
        records.clear();
        self.buffers[pod.slot as usize].spans = records;
        Ok(())
    }

    fn span(&self, template: &Template, pod: &Pod, pods: &[Pod], record: &SpanRecord) -> Span {
        let mut attributes: Vec<KeyValue> = Vec::with_capacity(template.constant.len() + template.slots.len() + 1);
        attributes.extend_from_slice(&template.constant);
        for &(key, slot) in &template.slots {
            attributes.extend(self.value(slot, pod, pods, record).map(|value| value.named(key)));
        }
        let detour = record.detour.filter(|_| record.part == Part::Server);
        let detour = detour.map(|number| &self.detours[usize::from(number)]);
        if let Some(detour) = detour {
            detoured(detour, &self.texts.calls[record.call as usize].base, &mut attributes);
        }
        let failed = fails(template.verdict, record);
        if failed && let Some(error) = self.error_type(template.verdict, record) {
            attributes.push(text("error.type", error));
        }
        Span {
            trace_id: self.trace_id(record.trace),
            span_id: record.id.to_be_bytes().to_vec(),
            parent_span_id: if record.parent == 0 { Vec::new() } else { record.parent.to_be_bytes().to_vec() },
            flags: 0x101,
            name: detour.map_or_else(|| template.name.clone(), |detour| server_name(template, detour)),
            kind: template.kind as i32,
            start_time_unix_nano: self.own_stamp(pod, record.start, record.start),
            end_time_unix_nano: self.own_stamp(pod, record.end, record.start),
            attributes,
            status: failed.then(|| Status {
                code: StatusCode::Error as i32,
                message: self.status_message(template.verdict, record),
            }),
            ..Span::default()
        }
    }

    fn value(&self, slot: Slot, pod: &Pod, pods: &[Pod], record: &SpanRecord) -> Option<Value> {
        let call = &self.texts.calls[record.call as usize];
        let peer = pods.get(record.peer as usize);
        let size = |bytes: u32, salt: u64| {
            let spread = join(record.id, salt) % 1000;
            Value::Number(i64::from(bytes) * (850 + spread as i64 * 3 / 10) / 1000)
        };
        let operation = || &self.plan.operations[self.plan.calls[record.call as usize].operation as usize];
        let answered = record.status > 0;
        Some(match slot {
            Slot::Path => Value::Text(call.path.fill(record.trace)),
            Slot::Url => Value::Text(format!("{}{}", call.base, call.path.fill(record.trace))),
            Slot::Status if answered => Value::Number(i64::from(record.status)),
            Slot::StatusText => Value::Text(record.status.to_string()),
            Slot::StatusLine if answered => Value::Text(reason(record.status).to_owned()),
            Slot::GrpcStatus => Value::Number(grpc_status(record.failure, record.status)),
            Slot::PeerAddress => Value::Text(peer?.ip.clone()),
            Slot::PeerPort => Value::Number(self.peer_port(record, peer?)),
            Slot::Peer => Value::Text(format!("{}:{}", peer?.ip, self.peer_port(record, peer?))),
            Slot::RequestSize => size(operation().request_bytes, 1),
            Slot::ResponseSize if answered => size(operation().response_bytes, 2),
            Slot::RequestId => Value::Text(crate::pod::uuid(&mut Stream::new(record.trace, "request id").at(0))),
            Slot::ThreadId => Value::Number(thread(self.stack(pod), record.trace, pod.slot).0),
            Slot::ThreadName => Value::Text(thread(self.stack(pod), record.trace, pod.slot).1),
            Slot::Offset => Value::Number(record.start / 1_000_000_000 + (join(record.trace, 9) % 7) as i64),
            Slot::ResponseFlags => Value::Text(flags(record.failure).to_owned()),
            Slot::Status | Slot::StatusLine | Slot::ResponseSize => return None,
        })
    }

    /// The port of the other end: a server's own, or one of the few that a client's kept connections have.
    fn peer_port(&self, record: &SpanRecord, peer: &Pod) -> i64 {
        if matches!(record.part, Part::Client | Part::Wrapper) {
            return i64::from(self.plan.services[peer.service as usize].port.unwrap_or(80));
        }
        let connection = join(u64::from(peer.slot) << 8 | record.id & 3, u64::from(peer.epoch));
        32_768 + (connection % 28_232) as i64
    }

    fn error_type(&self, verdict: Verdict, record: &SpanRecord) -> Option<String> {
        match verdict {
            Verdict::HttpClient { named: true } | Verdict::HttpServer { named: true } if record.status >= 400 => {
                Some(record.status.to_string())
            }
            Verdict::HttpClient { named } | Verdict::HttpServer { named } | Verdict::Exception { named } => {
                let call = &self.plan.calls[record.call as usize];
                named
                    .then(|| self.exception(self.stack_of(record), record.failure, record.cause, call))?
                    .map(|(class, _)| class)
            }
            Verdict::GrpcClient | Verdict::GrpcServer | Verdict::Never => None,
        }
    }

    /// The instrumentation that made the span.
    fn stack_of(&self, record: &SpanRecord) -> Stack {
        let call = &self.plan.calls[record.call as usize];
        let outside = matches!(record.part, Part::Client | Part::Wrapper);
        self.profiles[if outside { call.from } else { call.to } as usize].stack
    }

    /// Statuses speak for themselves and stay without a message; so do exceptions that the service throws.
    fn status_message(&self, verdict: Verdict, record: &SpanRecord) -> String {
        let silent = matches!(record.failure, Failure::None | Failure::Own | Failure::Thrown(_));
        let grpc = matches!(verdict, Verdict::GrpcClient | Verdict::GrpcServer);
        if silent || (record.failure == Failure::Upstream && !grpc) {
            return String::new();
        }
        let call = &self.plan.calls[record.call as usize];
        let words = self.exception(self.stack_of(record), record.failure, record.cause, call);
        words.map_or(String::new(), |(_, message)| message)
    }
}

enum Value {
    Text(String),
    Number(i64),
}

impl Value {
    fn named(self, key: &str) -> KeyValue {
        match self {
            Self::Text(value) => text(key, value),
            Self::Number(value) => int(key, value),
        }
    }
}

/// A server that names its spans by method and route does so for what came; by the method alone when no route matched.
fn server_name(template: &Template, detour: &Detour) -> String {
    if !template.name.contains(' ') {
        return template.name.clone();
    }
    let route = detour.route.as_ref().map(|route| format!(" {route}"));
    format!("{}{}", detour.method, route.unwrap_or_default())
}

/// The attributes of a server span whose request came with another method or path than was asked for.
fn detoured(detour: &Detour, base: &str, attributes: &mut Vec<KeyValue>) {
    let value = |key: &str| match key {
        "http.request.method" | "http.method" => Some(Some(detour.method.clone())),
        "http.route" => Some(detour.route.clone()),
        "url.path" | "http.target" => detour.path.clone().map(Some),
        "http.url" => detour.path.as_ref().map(|path| Some(format!("{base}{path}"))),
        _ => None,
    };
    attributes.retain_mut(|pair| match value(&pair.key) {
        Some(Some(now)) => {
            *pair = text(&pair.key, now);
            true
        }
        Some(None) => false,
        None => true,
    });
}

pub(super) fn fails(verdict: Verdict, record: &SpanRecord) -> bool {
    match verdict {
        Verdict::HttpClient { .. } => record.status >= 400 || record.status == 0,
        Verdict::HttpServer { .. } => record.status >= 500 || record.status == 0,
        Verdict::GrpcClient => grpc_status(record.failure, record.status) != 0,
        // The conventions leave the caller's mistakes (NOT_FOUND and the like) out.
        Verdict::GrpcServer => matches!(grpc_status(record.failure, record.status), 2 | 4 | 12..=15),
        Verdict::Exception { .. } => record.failure != Failure::None,
        Verdict::Never => false,
    }
}

/// The name that the metrics give a span's kind.
pub const fn kind_name(kind: SpanKind) -> &'static str {
    match kind {
        SpanKind::Server => "SPAN_KIND_SERVER",
        SpanKind::Client => "SPAN_KIND_CLIENT",
        SpanKind::Producer => "SPAN_KIND_PRODUCER",
        SpanKind::Consumer => "SPAN_KIND_CONSUMER",
        SpanKind::Internal => "SPAN_KIND_INTERNAL",
        SpanKind::Unspecified => "SPAN_KIND_UNSPECIFIED",
    }
}

const fn reason(status: u16) -> &'static str {
    match status {
        200 => "200 OK",
        201 => "201 Created",
        302 => "302 Moved Temporarily",
        400 => "400 Bad Request",
        404 => "404 Not Found",
        500 => "500 Internal Server Error",
        502 => "502 Bad Gateway",
        503 => "503 Service Unavailable",
        504 => "504 Gateway Timeout",
        _ => "",
    }
}

const fn flags(failure: Failure) -> &'static str {
    match failure {
        Failure::Refused | Failure::Unreachable => "UF",
        Failure::Reset => "UC",
        Failure::Timeout => "UT",
        _ => "-",
    }
}
