//! The tables of a datapack, declared once: the writer, the reader, the validator and the contract derive from here.
//!
//! The names are those of the OpenTelemetry exporter for ClickHouse. The types are fixed: plain UTF-8, instants in
//! nanoseconds UTC, unsigned durations, double values; a reader that guesses types has nothing to guess.

use std::fmt;
use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use model::Window;
use serde::{Deserialize, Serialize};

/// The kinds of telemetry of a datapack, by the stem of their files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    Traces,
    /// Derived from the exported traces, never read from a source.
    TraceIdTs,
    Logs,
    Metrics,
    MetricsSum,
    MetricsHistogram,
}

impl Signal {
    pub const ALL: [Self; 6] =
        [Self::Traces, Self::TraceIdTs, Self::Logs, Self::Metrics, Self::MetricsSum, Self::MetricsHistogram];

    /// The signals that a [`Source`](crate::Source) is asked for.
    pub const SOURCED: [Self; 5] = [Self::Traces, Self::Logs, Self::Metrics, Self::MetricsSum, Self::MetricsHistogram];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::TraceIdTs => "trace_id_ts",
            Self::Logs => "logs",
            Self::Metrics => "metrics",
            Self::MetricsSum => "metrics_sum",
            Self::MetricsHistogram => "metrics_histogram",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|signal| signal.as_str() == text)
    }

    /// The file of this signal in one window: `normal_traces.parquet`, ...
    pub fn file(self, window: Window) -> String {
        format!("{}_{}.parquet", window.as_str(), self.as_str())
    }

    pub fn table(self) -> &'static Table {
        &TABLES[self as usize]
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Window and signal of each of the twelve files.
pub fn files() -> impl Iterator<Item = (Window, Signal)> {
    Window::BOTH.into_iter().flat_map(|window| Signal::ALL.into_iter().map(move |signal| (window, signal)))
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An instant, nanoseconds since the Unix epoch, UTC.
    Time,
    Text,
    /// Lower-case hexadecimal, empty when there is none. Never searched for words.
    Id,
    /// A JSON object whose values are strings, as text.
    Json,
    U8,
    U64,
    I32,
    F64,
    ListU64,
    ListF64,
}

impl Kind {
    pub fn data_type(self) -> DataType {
        let list = |item| DataType::List(Arc::new(Field::new("element", item, false)));
        match self {
            Self::Time => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
            Self::Text | Self::Id | Self::Json => DataType::Utf8,
            Self::U8 => DataType::UInt8,
            Self::U64 => DataType::UInt64,
            Self::I32 => DataType::Int32,
            Self::F64 => DataType::Float64,
            Self::ListU64 => list(DataType::UInt64),
            Self::ListF64 => list(DataType::Float64),
        }
    }

    pub(crate) const fn describe(self) -> &'static str {
        match self {
            Self::Time => "timestamp(ns, UTC)",
            Self::Text => "utf8",
            Self::Id => "utf8, lower-case hex",
            Self::Json => "utf8, JSON object of strings",
            Self::U8 => "uint8",
            Self::U64 => "uint64",
            Self::I32 => "int32",
            Self::F64 => "float64",
            Self::ListU64 => "list of uint64",
            Self::ListF64 => "list of float64",
        }
    }

    pub(crate) const fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Json)
    }
}

/// Who fails when a column is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// The public converter to flat columns, and with it the public detector and algorithms.
    Converter,
    /// The frames of the built-in detector and algorithms.
    Frames,
}

impl Reader {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Converter => "converter",
            Self::Frames => "frames",
        }
    }
}

/// One column of one table.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
    pub nullable: bool,
    pub needed_by: &'static [Reader],
    pub doc: &'static str,
}

/// One kind of file.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    pub signal: Signal,
    /// What one row is.
    pub row: &'static str,
    pub columns: &'static [Column],
    /// The total order of the rows, most significant column first. It names every column, so only equal rows tie.
    pub order: &'static [&'static str],
}

impl Table {
    pub fn schema(&self) -> SchemaRef {
        SCHEMAS[self.signal as usize].clone()
    }

    pub fn index(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|known| known.name == column)
    }

    /// The instant by which a row belongs to a window.
    pub fn time_column(&self) -> usize {
        self.index(self.order[0]).expect("the order names columns of the table")
    }
}

static SCHEMAS: LazyLock<[SchemaRef; 6]> = LazyLock::new(|| {
    Signal::ALL.map(|signal| {
        let columns = signal.table().columns;
        let field = |column: &Column| Field::new(column.name, column.kind.data_type(), column.nullable);
        Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
    })
});

const BOTH: &[Reader] = &[Reader::Converter, Reader::Frames];
const CONVERTER: &[Reader] = &[Reader::Converter];
const FRAMES: &[Reader] = &[Reader::Frames];
const NONE: &[Reader] = &[];

const fn column(name: &'static str, kind: Kind, needed_by: &'static [Reader], doc: &'static str) -> Column {
    Column { name, kind, nullable: false, needed_by, doc }
}

const fn optional(name: &'static str, kind: Kind, needed_by: &'static [Reader], doc: &'static str) -> Column {
    Column { name, kind, nullable: true, needed_by, doc }
}

const POINT: &[Column] = &[
    column("TimeUnix", Kind::Time, BOTH, "when the point was observed"),
    column("MetricName", Kind::Text, BOTH, ""),
    column("MetricDescription", Kind::Text, NONE, ""),
    column("Value", Kind::F64, BOTH, "in `MetricUnit`"),
    column("ServiceName", Kind::Text, FRAMES, "mesh workload, deployment, stateful set or sender, the first there is"),
    column("MetricUnit", Kind::Text, NONE, "UCUM code as sent"),
    column("ResourceAttributes", Kind::Json, BOTH, "who sent it"),
    column("Attributes", Kind::Json, FRAMES, "which series of the metric it is"),
];

const POINT_ORDER: &[&str] = &[
    "TimeUnix",
    "MetricName",
    "ServiceName",
    "ResourceAttributes",
    "Attributes",
    "Value",
    "MetricUnit",
    "MetricDescription",
];

static TABLES: [Table; 6] = [
    Table {
        signal: Signal::Traces,
        row: "a span that began in the window",
        columns: &[
            column("Timestamp", Kind::Time, BOTH, "when the span began"),
            column("TraceId", Kind::Id, BOTH, "32 digits"),
            column("SpanId", Kind::Id, BOTH, "16 digits"),
            column("ParentSpanId", Kind::Id, BOTH, "16 digits; empty for a root span"),
            column("TraceState", Kind::Text, NONE, ""),
            column("SpanName", Kind::Text, BOTH, ""),
            column("SpanKind", Kind::Text, BOTH, "Server, Client, Internal, Producer, Consumer or Unspecified"),
            column("ServiceName", Kind::Text, BOTH, ""),
            column("ResourceAttributes", Kind::Json, CONVERTER, "who sent it"),
            column("SpanAttributes", Kind::Json, BOTH, "among them the HTTP status, under its old or its new name"),
            column("Duration", Kind::U64, BOTH, "nanoseconds"),
            column("StatusCode", Kind::Text, BOTH, "Unset, Ok or Error"),
            column("StatusMessage", Kind::Text, NONE, ""),
        ],
        order: &[
            "Timestamp",
            "TraceId",
            "SpanId",
            "ParentSpanId",
            "ServiceName",
            "SpanName",
            "SpanKind",
            "Duration",
            "StatusCode",
            "StatusMessage",
            "TraceState",
            "ResourceAttributes",
            "SpanAttributes",
        ],
    },
    Table {
        signal: Signal::TraceIdTs,
        row: "a trace with spans in the window's traces file, and in no other",
        columns: &[
            column("TraceId", Kind::Id, NONE, "32 digits"),
            column("Start", Kind::Time, NONE, "when its first span began, down to the whole second"),
            column("End", Kind::Time, NONE, "when its last span began, down to the whole second"),
        ],
        order: &["Start", "TraceId", "End"],
    },
    Table {
        signal: Signal::Logs,
        row: "a log record of the window; events of Kubernetes are left out",
        columns: &[
            column("Timestamp", Kind::Time, BOTH, ""),
            column("TimestampTime", Kind::Time, NONE, "`Timestamp` down to the whole second"),
            column("TraceId", Kind::Id, CONVERTER, "32 digits; empty when there is none"),
            column("SpanId", Kind::Id, CONVERTER, "16 digits; empty when there is none"),
            column("SeverityText", Kind::Text, CONVERTER, ""),
            column("SeverityNumber", Kind::U8, FRAMES, "OpenTelemetry's number; 0 when unset"),
            column("ServiceName", Kind::Text, BOTH, ""),
            column("Body", Kind::Text, BOTH, ""),
            column("ResourceAttributes", Kind::Json, CONVERTER, "who sent it"),
            column("LogAttributes", Kind::Json, NONE, ""),
        ],
        order: &[
            "Timestamp",
            "TraceId",
            "SpanId",
            "ServiceName",
            "SeverityNumber",
            "SeverityText",
            "Body",
            "ResourceAttributes",
            "LogAttributes",
            "TimestampTime",
        ],
    },
    Table { signal: Signal::Metrics, row: "a gauge point of the window", columns: POINT, order: POINT_ORDER },
    Table { signal: Signal::MetricsSum, row: "a sum point of the window", columns: POINT, order: POINT_ORDER },
    Table {
        signal: Signal::MetricsHistogram,
        row: "a histogram point of the window",
        columns: &[
            column("TimeUnix", Kind::Time, BOTH, "when the point was observed"),
            column("MetricName", Kind::Text, BOTH, ""),
            column("ServiceName", Kind::Text, BOTH, "as for the other metrics"),
            column("MetricUnit", Kind::Text, NONE, "UCUM code as sent"),
            column("ResourceAttributes", Kind::Json, BOTH, "who sent it"),
            column("Attributes", Kind::Json, BOTH, "which series of the metric it is"),
            column("Count", Kind::U64, BOTH, ""),
            optional("Sum", Kind::F64, BOTH, "in `MetricUnit`"),
            column("BucketCounts", Kind::ListU64, NONE, "one more than the bounds, or empty"),
            column("ExplicitBounds", Kind::ListF64, NONE, "ascending, in `MetricUnit`"),
            optional("Min", Kind::F64, BOTH, "in `MetricUnit`"),
            optional("Max", Kind::F64, BOTH, "in `MetricUnit`"),
            column("AggregationTemporality", Kind::I32, FRAMES, "1 delta, 2 cumulative"),
        ],
        order: &[
            "TimeUnix",
            "MetricName",
            "ServiceName",
            "ResourceAttributes",
            "Attributes",
            "Count",
            "Sum",
            "BucketCounts",
            "ExplicitBounds",
            "Min",
            "Max",
            "AggregationTemporality",
            "MetricUnit",
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_is_total_and_starts_with_an_instant() {
        for signal in Signal::ALL {
            let table = signal.table();
            assert_eq!(table.signal, signal);
            let mut ordered: Vec<&str> = table.order.to_vec();
            let mut names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
            ordered.sort_unstable();
            names.sort_unstable();
            assert_eq!(ordered, names, "{signal}");
            assert_eq!(table.columns[table.time_column()].kind, Kind::Time);
        }
    }
}
