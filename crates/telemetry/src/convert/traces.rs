//! Spans to rows.

use crate::attribute::Attributes;
use crate::attributes;
use crate::convert::{Done, Origin, Pass, Route, id, optional_id};
use crate::otlp::ExportTraceServiceRequest;
use crate::otlp::trace::span::SpanKind;
use crate::otlp::trace::status::StatusCode;
use crate::otlp::trace::{self, ResourceSpans};
use crate::refusal::Refusal;
use crate::table::Spans;
use crate::wire::{self, Field, Fields, Malformed};

/// A span, its attributes apart.
#[derive(Default)]
struct Span<'a> {
    trace: &'a [u8],
    span: &'a [u8],
    parent: &'a [u8],
    state: &'a str,
    name: &'a str,
    kind: i32,
    start: u64,
    end: u64,
    code: i32,
    message: &'a str,
}

/// Takes a request from inside this process.
pub(crate) fn traces(mut pass: Pass<'_>, request: &ExportTraceServiceRequest, route: &mut impl Route) -> Done {
    for group in &request.resource_spans {
        message_group(&mut pass, group, route);
    }
    pass.finish()
}

fn message_group(pass: &mut Pass<'_>, group: &ResourceSpans, route: &mut impl Route) {
    let spans = group.scope_spans.iter().flat_map(|scope| &scope.spans);
    let mut list = Attributes::default();
    let origin = match Origin::message(pass, &mut list, group.resource.as_ref()) {
        Ok(origin) => origin,
        Err(refusal) => {
            pass.refuse(refusal, spans.count() as u64);
            return pass.leave(Err(refusal));
        }
    };
    let mut sink = Sink::new(&mut route.tables(origin.namespace).traces, &origin);
    for span in spans {
        let outcome = match list.set(&span.attributes, pass.limits) {
            Ok(()) => sink.push(pass, &Span::of(span), &mut list),
            Err(refusal) => Err(refusal),
        };
        pass.record(outcome);
    }
    pass.leave(Ok(origin.namespace));
}

/// Takes the spans of a resource as they came over the wire.
pub(crate) fn group(pass: &mut Pass<'_>, group: &[u8], route: &mut impl Route) -> Result<(), Malformed> {
    let mut list = Attributes::default();
    let origin = match Origin::wire(pass, &mut list, group) {
        Ok(origin) => origin,
        Err(refusal) => {
            wire::records(group, |_| pass.refuse(refusal, 1))?;
            pass.leave(Err(refusal));
            return Ok(());
        }
    };
    let mut sink = Sink::new(&mut route.tables(origin.namespace).traces, &origin);
    wire::records(group, |record| {
        let outcome = if pass.refused_earlier() {
            Err(Refusal::Malformed)
        } else {
            Span::read(pass, record, &mut list).and_then(|span| sink.push(pass, &span, &mut list))
        };
        pass.record(outcome);
    })?;
    pass.leave(Ok(origin.namespace));
    Ok(())
}

impl<'a> Span<'a> {
    fn of(span: &'a trace::Span) -> Self {
        let (code, message) = span.status.as_ref().map_or((0, ""), |status| (status.code, &status.message));
        Self {
            trace: &span.trace_id,
            span: &span.span_id,
            parent: &span.parent_span_id,
            state: &span.trace_state,
            name: &span.name,
            kind: span.kind,
            start: span.start_time_unix_nano,
            end: span.end_time_unix_nano,
            code,
            message,
        }
    }

    fn read(pass: &Pass<'_>, record: &'a [u8], list: &mut Attributes<'a>) -> Result<Self, Refusal> {
        list.clear();
        let mut span = Self::default();
        let mut fields = Fields::of(record);
        while let Some(field) = fields.next()? {
            match field {
                (1, Field::Bytes(id)) => span.trace = id,
                (2, Field::Bytes(id)) => span.span = id,
                (3, Field::Bytes(text)) => span.state = wire::text(text)?,
                (4, Field::Bytes(id)) => span.parent = id,
                (5, Field::Bytes(text)) => span.name = wire::text(text)?,
                (6, Field::Varint(kind)) => span.kind = kind as i32,
                (7, Field::Fixed64(time)) => span.start = time,
                (8, Field::Fixed64(time)) => span.end = time,
                (9, Field::Bytes(pair)) => list.read(pair, pass.limits)?,
                (15, Field::Bytes(status)) => span.status(status)?,
                _ => {}
            }
        }
        Ok(span)
    }

    fn status(&mut self, status: &'a [u8]) -> Result<(), Refusal> {
        let mut fields = Fields::of(status);
        while let Some(field) = fields.next()? {
            match field {
                (2, Field::Bytes(text)) => self.message = wire::text(text)?,
                (3, Field::Varint(code)) => self.code = code as i32,
                _ => {}
            }
        }
        Ok(())
    }
}

/// The rows of one resource.
struct Sink<'t> {
    rows: &'t mut Spans,
    resource: u32,
    service: u32,
    json: String,
}

impl<'t> Sink<'t> {
    fn new(rows: &'t mut Spans, origin: &Origin<'_>) -> Self {
        let (resource, service) = (rows.resource.intern(&origin.json), rows.service.intern(origin.service));
        Self { rows, resource, service, json: String::new() }
    }

    #[inline]
    fn push(&mut self, pass: &mut Pass<'_>, span: &Span<'_>, list: &mut Attributes<'_>) -> Result<(), Refusal> {
        let trace = id(span.trace, Refusal::TraceId)?;
        let own = id(span.span, Refusal::SpanId)?;
        let parent = optional_id(span.parent, Refusal::ParentSpanId)?;
        let time = pass.times.check(span.start)?;
        let duration = span.end.checked_sub(span.start).ok_or(Refusal::EndsBeforeStart)?;
        pass.times.check(span.end)?;
        let kind = kind(span.kind)?;
        let status = status(span.code)?;
        let (name, state, message) = (pass.text(span.name)?, pass.text(span.state)?, pass.text(span.message)?);
        pass.keys(list.list())?;
        self.json.clear();
        attributes::write_object(list, &mut self.json);

        let rows = &mut *self.rows;
        rows.time.push(time);
        rows.trace.push(trace);
        rows.span.push(own);
        rows.parent.push(parent);
        rows.state.push(state);
        rows.name.push(name);
        rows.kind.push(kind);
        rows.service.push_id(self.service);
        rows.resource.push_id(self.resource);
        rows.attributes.push(&self.json);
        rows.duration.push(duration);
        rows.status.push(status);
        rows.message.push(message);
        Ok(())
    }
}

fn kind(kind: i32) -> Result<&'static str, Refusal> {
    Ok(match SpanKind::try_from(kind).map_err(|_| Refusal::SpanKind)? {
        SpanKind::Unspecified => "Unspecified",
        SpanKind::Internal => "Internal",
        SpanKind::Server => "Server",
        SpanKind::Client => "Client",
        SpanKind::Producer => "Producer",
        SpanKind::Consumer => "Consumer",
    })
}

fn status(code: i32) -> Result<&'static str, Refusal> {
    Ok(match StatusCode::try_from(code).map_err(|_| Refusal::StatusCode)? {
        StatusCode::Unset => "Unset",
        StatusCode::Ok => "Ok",
        StatusCode::Error => "Error",
    })
}
