//! Log records to rows.

use crate::attribute::{Attributes, Value};
use crate::attributes;
use crate::convert::{Done, Origin, Pass, Records, Route, message_group, optional_id, wire_group};
use crate::otlp::ExportLogsServiceRequest;
use crate::otlp::logs::LogRecord;
use crate::refusal::Refusal;
use crate::table::{Logs, Tables};
use crate::wire::{self, Field, Fields, Malformed};

/// The largest severity number that OTLP defines.
const SEVERITIES: i32 = 24;

/// A log record, its attributes apart.
struct Log<'a> {
    time: u64,
    observed: u64,
    severity: i32,
    severity_text: &'a str,
    body: Value<'a>,
    trace: &'a [u8],
    span: &'a [u8],
}

/// Takes a request from inside this process.
pub(crate) fn logs(mut pass: Pass<'_>, request: &ExportLogsServiceRequest, route: &mut impl Route) -> Done {
    for group in &request.resource_logs {
        let logs = group.scope_logs.iter().flat_map(|scope| &scope.log_records);
        message_group::<Sink<'_>>(&mut pass, group.resource.as_ref(), logs, route);
    }
    pass.finish()
}

/// Takes the log records of a resource as they came over the wire.
pub(crate) fn group(pass: &mut Pass<'_>, group: &[u8], route: &mut impl Route) -> Result<(), Malformed> {
    wire_group::<Sink<'_>>(pass, group, route)
}

impl<'a> Log<'a> {
    fn of(log: &'a LogRecord) -> Self {
        Self {
            time: log.time_unix_nano,
            observed: log.observed_time_unix_nano,
            severity: log.severity_number,
            severity_text: &log.severity_text,
            body: Value::of(log.body.as_ref()),
            trace: &log.trace_id,
            span: &log.span_id,
        }
    }

    fn read(pass: &Pass<'_>, record: &'a [u8], list: &mut Attributes<'a>) -> Result<Self, Refusal> {
        list.clear();
        let mut log =
            Self { time: 0, observed: 0, severity: 0, severity_text: "", body: Value::Empty, trace: &[], span: &[] };
        let mut fields = Fields::of(record);
        while let Some(field) = fields.next()? {
            match field {
                (1, Field::Fixed64(time)) => log.time = time,
                (2, Field::Varint(number)) => log.severity = number as i32,
                (3, Field::Bytes(text)) => log.severity_text = wire::text(text)?,
                (5, Field::Bytes(body)) => log.body = Value::read(body, pass.limits.text_bytes)?,
                (6, Field::Bytes(pair)) => list.read(pair, pass.limits)?,
                (9, Field::Bytes(id)) => log.trace = id,
                (10, Field::Bytes(id)) => log.span = id,
                (11, Field::Fixed64(time)) => log.observed = time,
                _ => {}
            }
        }
        Ok(log)
    }
}

/// The rows of one resource.
struct Sink<'t> {
    rows: &'t mut Logs,
    resource: u32,
    service: u32,
    json: String,
}

impl<'t> Records<'t> for Sink<'t> {
    type Message = LogRecord;

    fn new(tables: &'t mut Tables, origin: &Origin<'_>) -> Self {
        let rows = &mut tables.logs;
        let (resource, service) = (rows.resource.intern(&origin.json), rows.service.intern(origin.service));
        Self { rows, resource, service, json: String::new() }
    }

    fn message<'m>(
        &mut self,
        pass: &mut Pass<'_>,
        log: &'m LogRecord,
        list: &mut Attributes<'m>,
    ) -> Result<(), Refusal> {
        list.set(&log.attributes, pass.limits)?;
        self.push(pass, &Log::of(log), list)
    }

    fn wire<'w>(&mut self, pass: &mut Pass<'_>, record: &'w [u8], list: &mut Attributes<'w>) -> Result<(), Refusal> {
        let log = Log::read(pass, record, list)?;
        self.push(pass, &log, list)
    }
}

impl Sink<'_> {
    fn push(&mut self, pass: &mut Pass<'_>, log: &Log<'_>, list: &mut Attributes<'_>) -> Result<(), Refusal> {
        // OTLP: a source that knows no event time leaves it zero, and the time of observation stands in.
        let time = pass.times.check(if log.time == 0 { log.observed } else { log.time })?;
        let trace = optional_id(log.trace, Refusal::TraceId)?;
        let span = optional_id(log.span, Refusal::SpanId)?;
        if !(0..=SEVERITIES).contains(&log.severity) {
            return Err(Refusal::Severity);
        }
        let severity_text = pass.text(log.severity_text)?;
        if log.body.length() > pass.limits.text_bytes {
            return Err(Refusal::TextLength);
        }
        pass.keys(list.list())?;
        self.json.clear();
        attributes::write_object(list, &mut self.json);

        let rows = &mut *self.rows;
        rows.time.push(time);
        rows.trace.push(trace);
        rows.span.push(span);
        rows.severity.push(severity_text);
        rows.severity_number.push(log.severity as u8);
        rows.service.push_id(self.service);
        rows.resource.push_id(self.resource);
        match &log.body {
            Value::Text(text) => rows.body.push(text),
            other => rows.body.push(&attributes::text(other)),
        }
        rows.attributes.push(&self.json);
        Ok(())
    }
}
