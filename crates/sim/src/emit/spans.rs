//! Span records become OTLP spans.

use std::fmt::{Display, Write as _};

use model::Problem;
use system::Stack;
use telemetry::otlp::ExportTraceServiceRequest;
use telemetry::otlp::common::{InstrumentationScope, KeyValue};
use telemetry::otlp::trace::span::SpanKind;
use telemetry::otlp::trace::status::StatusCode;
use telemetry::otlp::trace::{ResourceSpans, ScopeSpans, Span, Status};

use super::attribute::{rename, rewrite, rewrite_int, rewrite_text, text};
use super::calls::CallText;
use super::failure::grpc_status;
use super::spares::{self, Group, Number};
use super::stack::Thread;
use super::template::{Attribute, Slot, Template, Verdict};
use super::{PARTS, Part, Recorder, Sink, SpanRecord};
use crate::gate::Detour;
use crate::pod::{Pod, write_uuid};
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
        let mut spares = std::mem::take(&mut self.spares);
        let scopes = &self.texts.scopes[pod.service as usize].list;
        let mut groups = std::mem::take(&mut spares.groups);
        groups.resize_with(groups.len().max(scopes.len()), Group::default);
        let mut request = ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans { resource: Some(self.process(pod)), ..ResourceSpans::default() }],
        };
        for batch in records.chunks(BATCH) {
            for record in batch {
                let Some(template) = self.texts.calls[record.call as usize].part(record.part) else { continue };
                let number = record.call * PARTS + record.part as Number;
                let (mut span, prepared) = spares.take(number);
                let whole = self.refill(&mut span, prepared, template, (pod, pods), record);
                let group = &mut groups[usize::from(template.scope)];
                group.spans.push(span);
                group.templates.push(if whole { number } else { spares::NONE });
            }
            let filled = scopes.iter().zip(&mut groups).filter(|(_, group)| !group.spans.is_empty());
            let of_scope = |(scope, group): (&InstrumentationScope, &mut Group)| ScopeSpans {
                scope: Some(scope.clone()),
                spans: std::mem::take(&mut group.spans),
                ..ScopeSpans::default()
            };
            request.resource_spans[0].scope_spans = filled.map(of_scope).collect();
            sink.traces(&request)?;
            let sent = request.resource_spans[0].scope_spans.drain(..);
            for (group, sent) in groups.iter_mut().filter(|group| !group.templates.is_empty()).zip(sent) {
                group.spans = sent.spans;
                let spans = group.spans.drain(..).zip(group.templates.drain(..));
                spans.for_each(|(span, template)| spares.give(template, span));
            }
        }
        spares.mix(BATCH);
        spares.groups = groups;
        self.spares = spares;
        // The buffer keeps its room for the next round.
        records.clear();
        self.buffers[pod.slot as usize].spans = records;
        Ok(())
    }

    /// Writes a record over what a span was before; `prepared` says that it has the template's constant attributes. Returns
    /// whether it has exactly the template's attributes now.
    fn refill(
        &self,
        span: &mut Span,
        prepared: bool,
        template: &Template,
        (pod, pods): (&Pod, &[Pod]),
        record: &SpanRecord,
    ) -> bool {
        let mut whole = self.attributes(&mut span.attributes, prepared, template, (pod, pods), record);
        let detour = record.detour.filter(|_| record.part == Part::Server);
        let detour = detour.map(|number| &self.detours[usize::from(number)]);
        if let Some(detour) = detour {
            detoured(detour, &self.texts.calls[record.call as usize].base, &mut span.attributes);
            whole = false;
        }
        let failed = fails(template.verdict, record);
        if failed && let Some(error) = self.error_type(template.verdict, record) {
            span.attributes.push(text("error.type", error));
            whole = false;
        }
        self.trace_id(record.trace, &mut span.trace_id);
        id(record.id, &mut span.span_id);
        id(record.parent, &mut span.parent_span_id);
        span.flags = 0x101;
        match detour {
            Some(detour) => span.name = server_name(template, detour),
            None if prepared => {}
            None => template.name.clone_into(&mut span.name),
        }
        span.kind = template.kind as i32;
        span.start_time_unix_nano = self.own_stamp(pod, record.start, record.start);
        span.end_time_unix_nano = self.own_stamp(pod, record.end, record.start);
        span.status = failed
            .then(|| Status { code: StatusCode::Error as i32, message: self.status_message(template.verdict, record) });
        whole
    }

    /// Writes the attributes of a record over those that `list` has. Returns whether the template's are all there.
    fn attributes(
        &self,
        list: &mut Vec<KeyValue>,
        prepared: bool,
        template: &Template,
        (pod, pods): (&Pod, &[Pod]),
        record: &SpanRecord,
    ) -> bool {
        let mut in_place = prepared;
        let mut at = 0;
        for attribute in &template.attributes {
            if list.len() == at {
                list.push(KeyValue::default());
            }
            let pair = &mut list[at];
            match attribute {
                Attribute::Constant(_) if in_place => {}
                Attribute::Constant(constant) => rewrite(pair, constant),
                Attribute::Own(key, slot) => {
                    // What is absent moves those behind it.
                    if self.write_slot(pair, *slot, pod, pods.get(record.peer as usize), record).is_none() {
                        in_place = false;
                        continue;
                    }
                    if !in_place {
                        rename(pair, key);
                    }
                }
            }
            at += 1;
        }
        list.truncate(at);
        at == template.attributes.len()
    }

    /// Writes what a record has in a slot; nothing when it has nothing there.
    fn write_slot(
        &self,
        pair: &mut KeyValue,
        slot: Slot,
        pod: &Pod,
        peer: Option<&Pod>,
        record: &SpanRecord,
    ) -> Option<()> {
        let call = &self.texts.calls[record.call as usize];
        let size = |bytes: u32, salt: u64| {
            let spread = join(record.id, salt) % 1000;
            i64::from(bytes) * (850 + spread as i64 * 3 / 10) / 1000
        };
        let operation = || &self.plan.operations[self.plan.calls[record.call as usize].operation as usize];
        let thread = || Thread::of(self.stack(pod), record.trace, pod.slot);
        let answered = record.status > 0;
        match slot {
            Slot::Path => rewrite_text(pair, |text| call.path.write(record.trace, text)),
            Slot::Url => rewrite_text(pair, |text| {
                text.push_str(&call.base);
                call.path.write(record.trace, text);
            }),
            Slot::Status if answered => rewrite_int(pair, i64::from(record.status)),
            Slot::StatusText => rewrite_shown(pair, &record.status),
            Slot::StatusLine if answered => rewrite_text(pair, |text| text.push_str(reason(record.status))),
            Slot::GrpcStatus => rewrite_int(pair, grpc_status(record.failure, record.status)),
            Slot::PeerAddress => {
                let ip = &peer?.ip;
                rewrite_text(pair, |text| text.push_str(ip));
            }
            Slot::PeerPort => rewrite_int(pair, self.peer_port(record, peer?)),
            Slot::Peer => {
                let peer = peer?;
                rewrite_shown(pair, &format_args!("{}:{}", peer.ip, self.peer_port(record, peer)));
            }
            Slot::RequestSize => rewrite_int(pair, size(operation().request_bytes, 1)),
            Slot::ResponseSize if answered => rewrite_int(pair, size(operation().response_bytes, 2)),
            Slot::RequestId => {
                let mut own = Stream::new(record.trace, "request id").at(0);
                rewrite_text(pair, |text| write_uuid(&mut own, text));
            }
            Slot::ThreadId => rewrite_int(pair, thread().number()),
            Slot::ThreadName => rewrite_shown(pair, &thread()),
            Slot::Offset => rewrite_int(pair, record.start / 1_000_000_000 + (join(record.trace, 9) % 7) as i64),
            Slot::ResponseFlags => rewrite_text(pair, |text| text.push_str(flags(record.failure))),
            Slot::Status | Slot::StatusLine | Slot::ResponseSize => return None,
        }
        Some(())
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

/// An identifier as bytes; none for zero.
fn id(number: u64, out: &mut Vec<u8>) {
    out.clear();
    if number != 0 {
        out.extend_from_slice(&number.to_be_bytes());
    }
}

/// Makes the value the text that something is shown as.
fn rewrite_shown(pair: &mut KeyValue, shown: &dyn Display) {
    // Writing to a text cannot fail.
    rewrite_text(pair, |text| write!(text, "{shown}").expect("a text takes everything"));
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
