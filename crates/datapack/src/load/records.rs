//! Spans and log records as frames.

use std::collections::BTreeSet;
use std::path::Path;

use arrow::datatypes::{TimestampNanosecondType, UInt8Type, UInt64Type};
use model::Result;
use rca::frame::{Log, Names, Span, SpanKind, SpanStatus};

use super::column::{Batch, Projection, read};
use super::{Part, Rows};
use crate::disk::corrupt;
use crate::id;
use crate::schema::Signal;

pub(crate) fn spans(path: &Path) -> Result<Part> {
    let projection = Projection {
        table: Signal::Traces.table(),
        plain: &["Timestamp", "TraceId", "SpanId", "ParentSpanId", "SpanAttributes", "Duration"],
        dictionaries: &["SpanName", "SpanKind", "ServiceName", "StatusCode"],
    };
    let (mut names, mut services, mut spans) = (Names::default(), BTreeSet::new(), Vec::new());
    read(path, projection, |batch| {
        let service = batch.mapped("ServiceName", |text| Ok(names.intern(text)))?;
        let name = batch.mapped("SpanName", |text| Ok(names.intern(text)))?;
        let kind = batch.mapped("SpanKind", |text| kind(text).ok_or_else(|| unknown(batch, "SpanKind", text)))?;
        let status =
            batch.mapped("StatusCode", |text| status(text).ok_or_else(|| unknown(batch, "StatusCode", text)))?;
        let (times, durations) =
            (batch.numbers::<TimestampNanosecondType>("Timestamp"), batch.numbers::<UInt64Type>("Duration"));
        let (traces, ids, parents) = (batch.text("TraceId"), batch.text("SpanId"), batch.text("ParentSpanId"));
        let attributes = batch.text("SpanAttributes");
        let number =
            |column: &str, text: &str| id::parse(text, id::digits(column)).ok_or_else(|| unknown(batch, column, text));
        spans.reserve(batch.rows());
        for row in 0..batch.rows() {
            services.insert(service[row]);
            spans.push(Span {
                time: times.value(row),
                duration: durations.value(row),
                trace: number("TraceId", traces.value(row))?,
                // Sixteen digits are eight bytes.
                id: number("SpanId", ids.value(row))? as u64,
                parent: number("ParentSpanId", parents.value(row))? as u64,
                service: service[row],
                name: name[row],
                kind: kind[row],
                status: status[row],
                http_status: http_status(attributes.value(row)),
            });
        }
        Ok(())
    })?;
    Ok(Part { names, services, rows: Rows::Spans(spans) })
}

pub(super) fn logs(path: &Path) -> Result<Part> {
    let projection = Projection {
        table: Signal::Logs.table(),
        plain: &["Timestamp", "SeverityNumber"],
        dictionaries: &["ServiceName", "Body"],
    };
    let (mut names, mut services, mut logs) = (Names::default(), BTreeSet::new(), Vec::new());
    read(path, projection, |batch| {
        let service = batch.mapped("ServiceName", |text| Ok(names.intern(text)))?;
        let body = batch.mapped("Body", |text| Ok(names.intern(text)))?;
        let times = batch.numbers::<TimestampNanosecondType>("Timestamp");
        let severities = batch.numbers::<UInt8Type>("SeverityNumber");
        services.extend(&service);
        logs.extend((0..batch.rows()).map(|row| Log {
            time: times.value(row),
            service: service[row],
            severity: severities.value(row),
            body: body[row],
        }));
        Ok(())
    })?;
    Ok(Part { names, services, rows: Rows::Logs(logs) })
}

fn unknown(batch: &Batch<'_>, column: &str, text: &str) -> model::Problem {
    corrupt(batch.path, format!("`{text}` in {column}"))
}

pub(crate) fn kind(text: &str) -> Option<SpanKind> {
    Some(match text {
        "Server" => SpanKind::Server,
        "Client" => SpanKind::Client,
        "Internal" => SpanKind::Internal,
        "Producer" => SpanKind::Producer,
        "Consumer" => SpanKind::Consumer,
        "Unspecified" => SpanKind::Unspecified,
        _ => return None,
    })
}

pub(crate) fn status(text: &str) -> Option<SpanStatus> {
    Some(match text {
        "Unset" => SpanStatus::Unset,
        "Ok" => SpanStatus::Ok,
        "Error" => SpanStatus::Error,
        _ => return None,
    })
}

/// The HTTP status in a JSON object of strings, under its old or its new name; zero when there is none.
pub(crate) fn http_status(attributes: &str) -> u16 {
    const KEY_END: &str = "status_code\"";
    let at = attributes.match_indices(KEY_END).find(|(at, _)| {
        let before = attributes[..*at].strip_suffix("response.").unwrap_or(&attributes[..*at]);
        // A quote inside a value is escaped, so a key is what follows a brace or a comma.
        before.strip_suffix("\"http.").is_some_and(|rest| rest.trim_end().ends_with(['{', ',']))
    });
    let Some((at, _)) = at else { return 0 };
    let value = attributes[at + KEY_END.len()..].trim_start_matches([' ', ':', '"']);
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    value[..digits].parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_generations_of_the_http_status_are_read() {
        let check = |text, expect| assert_eq!(http_status(text), expect, "{text}");
        check(r#"{"http.status_code":"503"}"#, 503);
        check(r#"{"a":"b","http.response.status_code":"200","z":""}"#, 200);
        check(r#"{"a": "b", "http.status_code": 404}"#, 404);
        check(r#"{"rpc.grpc.status_code":"14"}"#, 0);
        check(r#"{"rpc.grpc.status_code":"14","http.status_code":"500"}"#, 500);
        check(r#"{"log":"{\"http.status_code\":\"500\"}"}"#, 0);
        check(r#"{"http.status_code":"none"}"#, 0);
        check("{}", 0);
    }
}
