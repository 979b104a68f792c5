//! Spans to rows.

use crate::attribute::Attributes;
use crate::attributes;
use crate::convert::{Done, Origin, Pass, Records, Route, id, message_group, optional_id, wire_group};
use crate::otlp::ExportTraceServiceRequest;
use crate::otlp::trace;
use crate::otlp::trace::span::SpanKind;
use crate::otlp::trace::status::StatusCode;
use crate::refusal::Refusal;
use crate::table::{Spans, Tables};
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
        let spans = group.scope_spans.iter().flat_map(|scope| &scope.spans);
        message_group::<Sink<'_>>(&mut pass, group.resource.as_ref(), spans, route);
    }
    pass.finish()
}

/// Takes the spans of a resource as they came over the wire.
pub(crate) fn group(pass: &mut Pass<'_>, group: &[u8], route: &mut impl Route) -> Result<(), Malformed> {
    wire_group::<Sink<'_>>(pass, group, route)
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

impl<'t> Records<'t> for Sink<'t> {
    type Message = trace::Span;

    fn new(tables: &'t mut Tables, origin: &Origin<'_>) -> Self {
        let rows = &mut tables.traces;
        let (resource, service) = (rows.resource.intern(&origin.json), rows.service.intern(origin.service));
        Self { rows, resource, service, json: String::new() }
    }

    fn message<'m>(
        &mut self,
        pass: &mut Pass<'_>,
        span: &'m trace::Span,
        list: &mut Attributes<'m>,
    ) -> Result<(), Refusal> {
        list.set(&span.attributes, pass.limits)?;
        self.push(pass, &Span::of(span), list)
    }

    fn wire<'w>(&mut self, pass: &mut Pass<'_>, record: &'w [u8], list: &mut Attributes<'w>) -> Result<(), Refusal> {
        let span = Span::read(pass, record, list)?;
        self.push(pass, &span, list)
    }
}

impl Sink<'_> {
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
        // Neighbours hardly ever have the same ones.
        let attributes = rows.attributes.intern(&self.json);
        rows.attributes.push_id(attributes);
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
