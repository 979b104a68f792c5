//! Log records to rows.

use crate::Accepted;
use crate::attributes;
use crate::convert::{Count, Origin, Route, TimeBounds, optional_id};
use crate::otlp::ExportLogsServiceRequest;
use crate::otlp::common::any_value::Value;
use crate::otlp::logs::{LogRecord, ResourceLogs};
use crate::refusal::{Refusal, Tally};
use crate::table::Logs;

/// The largest severity number that OTLP defines.
const SEVERITIES: i32 = 24;

pub(crate) fn logs(
    request: &ExportLogsServiceRequest,
    bounds: &TimeBounds,
    route: &mut impl Route,
) -> (Accepted, Tally) {
    let mut count = Count::default();
    let mut scratch = String::new();
    for group in &request.resource_logs {
        match Origin::of(group.resource.as_ref()) {
            Ok(origin) => resource(group, &origin, bounds, route, &mut count, &mut scratch),
            Err(refusal) => {
                count.tally.add(refusal, group.scope_logs.iter().map(|scope| scope.log_records.len() as u64).sum());
            }
        }
    }
    count.finish()
}

fn resource(
    group: &ResourceLogs,
    origin: &Origin<'_>,
    bounds: &TimeBounds,
    route: &mut impl Route,
    count: &mut Count,
    scratch: &mut String,
) {
    let rows = &mut route.tables(origin.namespace).logs;
    let ids = (rows.resource.intern(&origin.json), rows.service.intern(origin.service));
    for log in group.scope_logs.iter().flat_map(|scope| &scope.log_records) {
        count.record(push(log, ids, bounds, rows, scratch));
    }
}

fn push(
    log: &LogRecord,
    (resource, service): (u32, u32),
    bounds: &TimeBounds,
    rows: &mut Logs,
    scratch: &mut String,
) -> Result<(), Refusal> {
    // OTLP: a source that knows no event time leaves it zero, and the time of observation stands in.
    let nanos = if log.time_unix_nano == 0 { log.observed_time_unix_nano } else { log.time_unix_nano };
    let time = bounds.check(nanos)?;
    let trace = optional_id(&log.trace_id, Refusal::TraceId)?;
    let span = optional_id(&log.span_id, Refusal::SpanId)?;
    if !(0..=SEVERITIES).contains(&log.severity_number) {
        return Err(Refusal::Severity);
    }

    rows.time.push(time);
    rows.trace.push(trace);
    rows.span.push(span);
    rows.severity.push(&log.severity_text);
    rows.severity_number.push(log.severity_number as u8);
    rows.service.push_id(service);
    rows.resource.push_id(resource);
    match log.body.as_ref().and_then(|body| body.value.as_ref()) {
        Some(Value::StringValue(text)) => rows.body.push(text),
        _ => rows.body.push(&attributes::text(log.body.as_ref())),
    }
    scratch.clear();
    attributes::write_object(&log.attributes, scratch);
    rows.attributes.push(scratch);
    Ok(())
}
