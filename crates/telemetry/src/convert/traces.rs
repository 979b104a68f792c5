//! Spans to rows.

use crate::Accepted;
use crate::attributes;
use crate::convert::{Count, Origin, Route, TimeBounds, id, optional_id};
use crate::otlp::ExportTraceServiceRequest;
use crate::otlp::trace::span::SpanKind;
use crate::otlp::trace::status::StatusCode;
use crate::otlp::trace::{ResourceSpans, Span};
use crate::refusal::{Refusal, Tally};
use crate::table::Spans;

pub(crate) fn traces(
    request: &ExportTraceServiceRequest,
    bounds: &TimeBounds,
    route: &mut impl Route,
) -> (Accepted, Tally) {
    let mut count = Count::default();
    let mut scratch = String::new();
    for group in &request.resource_spans {
        match Origin::of(group.resource.as_ref()) {
            Ok(origin) => resource(group, &origin, bounds, route, &mut count, &mut scratch),
            Err(refusal) => {
                count.tally.add(refusal, group.scope_spans.iter().map(|scope| scope.spans.len() as u64).sum());
            }
        }
    }
    count.finish()
}

fn resource(
    group: &ResourceSpans,
    origin: &Origin<'_>,
    bounds: &TimeBounds,
    route: &mut impl Route,
    count: &mut Count,
    scratch: &mut String,
) {
    let rows = &mut route.tables(origin.namespace).traces;
    let ids = (rows.resource.intern(&origin.json), rows.service.intern(origin.service));
    for span in group.scope_spans.iter().flat_map(|scope| &scope.spans) {
        count.record(push(span, ids, bounds, rows, scratch));
    }
}

fn push(
    span: &Span,
    (resource, service): (u32, u32),
    bounds: &TimeBounds,
    rows: &mut Spans,
    scratch: &mut String,
) -> Result<(), Refusal> {
    let trace = id(&span.trace_id, Refusal::TraceId)?;
    let own = id(&span.span_id, Refusal::SpanId)?;
    let parent = optional_id(&span.parent_span_id, Refusal::ParentSpanId)?;
    let time = bounds.check(span.start_time_unix_nano)?;
    let duration = span.end_time_unix_nano.checked_sub(span.start_time_unix_nano).ok_or(Refusal::EndsBeforeStart)?;
    bounds.check(span.end_time_unix_nano)?;
    let kind = kind(span.kind)?;
    let (status, message) = match &span.status {
        Some(status) => (status_code(status.code)?, status.message.as_str()),
        None => ("Unset", ""),
    };
    scratch.clear();
    attributes::write_object(&span.attributes, scratch);

    rows.time.push(time);
    rows.trace.push(trace);
    rows.span.push(own);
    rows.parent.push(parent);
    rows.state.push(&span.trace_state);
    rows.name.push(&span.name);
    rows.kind.push(kind);
    rows.service.push_id(service);
    rows.resource.push_id(resource);
    rows.attributes.push(scratch);
    rows.duration.push(duration);
    rows.status.push(status);
    rows.message.push(message);
    Ok(())
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

fn status_code(code: i32) -> Result<&'static str, Refusal> {
    Ok(match StatusCode::try_from(code).map_err(|_| Refusal::StatusCode)? {
        StatusCode::Unset => "Unset",
        StatusCode::Ok => "Ok",
        StatusCode::Error => "Error",
    })
}
