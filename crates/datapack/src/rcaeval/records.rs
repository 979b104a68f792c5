//! Reading a case's spans and log records.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, TimestampNanosecondArray, UInt8Array, UInt64Array};
use csv::StringRecord;
use model::{ErrorKind, Problem, Result};
use serde_json::json;

use super::wide::{malformed, table};
use super::{SPAN_KIND, SPAN_STATUS};
use crate::schema::Signal;

const KINDS: [&str; 6] = ["Unspecified", "Internal", "Server", "Client", "Producer", "Consumer"];
const OUTCOMES: [&str; 3] = ["Unset", "Ok", "Error"];

/// A span of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanRow {
    /// Nanoseconds since the Unix epoch.
    pub time: i64,
    pub duration: u64,
    pub trace: String,
    pub span: String,
    /// Empty for a root.
    pub parent: String,
    pub service: String,
    pub name: String,
    /// The status code as the case has it: HTTP's, or one of another system.
    pub status: String,
    /// OpenTelemetry's, where the case says them.
    pub kind: Option<String>,
    pub outcome: Option<String>,
}

/// A log record of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRow {
    pub time: i64,
    pub service: String,
    pub level: String,
    pub body: String,
}

/// # Errors
/// `import.column_missing`, `import.cell_malformed`, `import.id_malformed`, `import.table_malformed`.
pub fn spans(path: &Path) -> Result<Vec<SpanRow>> {
    let mut rows = Vec::new();
    let mut lines = Lines::open(path, &["traceID", "spanID", "serviceName", "startTime", "duration"])?;
    while lines.next()? {
        let names = [lines.cell("operationName"), lines.cell("methodName")];
        let parent = lines.cell("parentSpanID");
        let root = matches!(parent, "" | "nan" | "NaN");
        rows.push(SpanRow {
            time: lines.number::<i64>("startTime")?.saturating_mul(1000),
            duration: lines.number::<u64>("duration")?.saturating_mul(1000),
            trace: lines.id("traceID", 32)?,
            span: lines.id("spanID", 16)?,
            parent: if root { String::new() } else { lines.id("parentSpanID", 16)? },
            service: lines.cell("serviceName").to_owned(),
            name: names.into_iter().find(|name| !name.is_empty()).unwrap_or_default().to_owned(),
            status: lines.cell("statusCode").to_owned(),
            kind: lines.one_of(SPAN_KIND, &KINDS)?,
            outcome: lines.one_of(SPAN_STATUS, &OUTCOMES)?,
        });
    }
    Ok(rows)
}

/// # Errors
/// `import.column_missing`, `import.cell_malformed`, `import.table_malformed`.
pub fn logs(path: &Path) -> Result<Vec<LogRow>> {
    let mut rows = Vec::new();
    let mut lines = Lines::open(path, &["timestamp", "container_name", "message"])?;
    while lines.next()? {
        rows.push(LogRow {
            time: lines.number("timestamp")?,
            service: lines.cell("container_name").to_owned(),
            level: lines.cell("level").to_uppercase(),
            body: lines.cell("message").to_owned(),
        });
    }
    Ok(rows)
}

/// The lines of a CSV file by their columns' names.
struct Lines<'a> {
    path: &'a Path,
    reader: csv::Reader<std::fs::File>,
    header: StringRecord,
    record: StringRecord,
}

impl<'a> Lines<'a> {
    fn open(path: &'a Path, needed: &[&str]) -> Result<Self> {
        let mut reader = csv::Reader::from_path(path).map_err(table(path))?;
        let header = reader.headers().map_err(table(path))?.clone();
        if let Some(missing) = needed.iter().find(|name| header.iter().all(|known| known != **name)) {
            return Err(Problem::new(ErrorKind::Invalid, "import.column_missing", "the file lacks a column")
                .place(format!("{}: {missing}", path.display()))
                .found(header.iter().collect::<Vec<_>>().join(", "))
                .expected(needed.join(", ")));
        }
        Ok(Self { path, reader, header, record: StringRecord::new() })
    }

    fn next(&mut self) -> Result<bool> {
        self.reader.read_record(&mut self.record).map_err(table(self.path))
    }

    /// Empty where there is no such column.
    fn cell(&self, name: &str) -> &str {
        let at = self.header.iter().position(|known| known == name);
        at.and_then(|at| self.record.get(at)).unwrap_or_default().trim()
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<T> {
        let text = self.cell(name);
        // A whole number that went through a table with gaps has become `123.0`.
        text.strip_suffix(".0").unwrap_or(text).parse().map_err(|_| malformed(self.path, self.line(), name, text))
    }

    /// One of these words; nothing where there is none.
    fn one_of(&self, name: &str, words: &[&str]) -> Result<Option<String>> {
        match self.cell(name) {
            "" => Ok(None),
            text if words.contains(&text) => Ok(Some(text.to_owned())),
            text => Err(malformed(self.path, self.line(), name, text).expected(words.join(", "))),
        }
    }

    /// An id with as many digits as the format wants; shorter ones get zeros in front.
    fn id(&self, name: &str, digits: usize) -> Result<String> {
        let text = self.cell(name).to_ascii_lowercase();
        let good = (1..=digits).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if good {
            return Ok(format!("{text:0>digits$}"));
        }
        Err(Problem::new(ErrorKind::Invalid, "import.id_malformed", "an id is malformed")
            .place(format!("{}:{}: {name}", self.path.display(), self.line()))
            .found(format!("`{text}`"))
            .expected(format!("up to {digits} hexadecimal digits")))
    }

    fn line(&self) -> u64 {
        self.record.position().map_or(0, csv::Position::line)
    }
}

/// A resource that names its service and nothing else: nothing else is known.
pub fn resource(service: &str) -> String {
    json!({ "service.name": service }).to_string()
}

pub fn span_batch(rows: &[&SpanRow]) -> RecordBatch {
    let text = |of: fn(&SpanRow) -> String| texts(rows.iter().map(|row| of(row)));
    batch(
        Signal::Traces,
        vec![
            ("Timestamp", instants(rows.iter().map(|row| row.time))),
            ("TraceId", text(|row| row.trace.clone())),
            ("SpanId", text(|row| row.span.clone())),
            ("ParentSpanId", text(|row| row.parent.clone())),
            ("TraceState", text(|_| String::new())),
            ("SpanName", text(|row| row.name.clone())),
            ("SpanKind", text(|row| row.kind.clone().unwrap_or_else(|| "Unspecified".into()))),
            ("ServiceName", text(|row| row.service.clone())),
            ("ResourceAttributes", text(|row| resource(&row.service))),
            ("SpanAttributes", text(|row| attributes(&row.status))),
            ("Duration", Arc::new(rows.iter().map(|row| row.duration).collect::<UInt64Array>())),
            ("StatusCode", text(|row| row.outcome.clone().unwrap_or_else(|| status(&row.status).into()))),
            ("StatusMessage", text(|_| String::new())),
        ],
    )
}

pub fn log_batch(rows: &[&LogRow]) -> RecordBatch {
    const SECOND: i64 = 1_000_000_000;
    let text = |of: fn(&LogRow) -> String| texts(rows.iter().map(|row| of(row)));
    batch(
        Signal::Logs,
        vec![
            ("Timestamp", instants(rows.iter().map(|row| row.time))),
            ("TimestampTime", instants(rows.iter().map(|row| row.time.div_euclid(SECOND) * SECOND))),
            ("TraceId", text(|_| String::new())),
            ("SpanId", text(|_| String::new())),
            ("SeverityText", text(|row| row.level.clone())),
            ("SeverityNumber", Arc::new(rows.iter().map(|row| severity(&row.level)).collect::<UInt8Array>())),
            ("ServiceName", text(|row| row.service.clone())),
            ("Body", text(|row| row.body.clone())),
            ("ResourceAttributes", text(|row| resource(&row.service))),
            ("LogAttributes", text(|_| "{}".into())),
        ],
    )
}

pub fn texts(texts: impl Iterator<Item = String>) -> ArrayRef {
    Arc::new(texts.map(Some).collect::<StringArray>())
}

pub fn instants(times: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(TimestampNanosecondArray::from_iter_values(times).with_timezone("UTC"))
}

pub fn batch(signal: Signal, columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(signal.table().schema(), arrays).expect("the columns are those of the table, in its order")
}

/// The HTTP status, when the number is one.
fn attributes(status: &str) -> String {
    let number = status.strip_suffix(".0").unwrap_or(status);
    match number.parse::<u16>() {
        Ok(100..=599) => json!({ "http.status_code": number }).to_string(),
        _ => "{}".into(),
    }
}

/// OpenTelemetry's status: HTTP counts from 400 on, other systems of numbers have zero for success.
fn status(status: &str) -> &'static str {
    match status.strip_suffix(".0").unwrap_or(status).parse::<u16>() {
        Ok(0 | 100..=399) => "Ok",
        Ok(_) => "Error",
        Err(_) if status.eq_ignore_ascii_case("ok") => "Ok",
        Err(_) if status.to_ascii_lowercase().contains("error") => "Error",
        Err(_) => "Unset",
    }
}

/// OpenTelemetry's number for a level's name; 0 for one that it does not know.
fn severity(level: &str) -> u8 {
    match level {
        "TRACE" => 1,
        "DEBUG" => 5,
        "INFO" => 9,
        "WARN" | "WARNING" => 13,
        "ERROR" => 17,
        "FATAL" | "CRITICAL" => 21,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_in_each_system_of_numbers() {
        for (text, expect) in [
            ("200", "Ok"),
            ("0", "Ok"),
            ("404", "Error"),
            ("14", "Error"),
            ("503.0", "Error"),
            ("OK", "Ok"),
            ("", "Unset"),
        ] {
            assert_eq!(status(text), expect, "{text}");
        }
        assert_eq!(attributes("503.0"), r#"{"http.status_code":"503"}"#);
        assert_eq!(attributes("14"), "{}");
    }
}
