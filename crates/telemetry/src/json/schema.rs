//! The messages of OTLP as far as rows are made of them: names, numbers and types of their fields.
//!
//! Source: opentelemetry-proto 1.x.

use crate::Export;

/// One field of a message.
pub(crate) struct Field {
    /// In camel case, as JSON has it.
    pub name: &'static str,
    pub number: u32,
    pub kind: Kind,
    pub repeated: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Text,
    /// A trace or span id: bytes, in hex rather than base64.
    Id,
    Bytes,
    Bool,
    Double,
    /// As a varint.
    Int64,
    UInt32,
    Fixed64,
    SFixed64,
    Enum(&'static [(&'static str, u64)]),
    Message(&'static &'static [Field]),
}

const fn one(name: &'static str, number: u32, kind: Kind) -> Field {
    Field { name, number, kind, repeated: false }
}

const fn many(name: &'static str, number: u32, kind: Kind) -> Field {
    Field { name, number, kind, repeated: true }
}

use Kind::{Bool, Bytes, Double, Enum, Fixed64, Id, Int64, Message, SFixed64, Text, UInt32};

/// The fields of an export request.
pub(crate) fn request(export: Export) -> &'static [Field] {
    match export {
        Export::Traces => TRACES,
        Export::Metrics => METRICS,
        Export::Logs => LOGS,
    }
}

static TRACES: &[Field] = &[many("resourceSpans", 1, Message(&RESOURCE_SPANS))];
static METRICS: &[Field] = &[many("resourceMetrics", 1, Message(&RESOURCE_METRICS))];
static LOGS: &[Field] = &[many("resourceLogs", 1, Message(&RESOURCE_LOGS))];

static RESOURCE: &[Field] = &[many("attributes", 1, Message(&KEY_VALUE))];

static RESOURCE_SPANS: &[Field] =
    &[one("resource", 1, Message(&RESOURCE)), many("scopeSpans", 2, Message(&SCOPE_SPANS))];
static SCOPE_SPANS: &[Field] = &[many("spans", 2, Message(&SPAN))];
static SPAN: &[Field] = &[
    one("traceId", 1, Id),
    one("spanId", 2, Id),
    one("traceState", 3, Text),
    one("parentSpanId", 4, Id),
    one("name", 5, Text),
    one("kind", 6, Enum(KINDS)),
    one("startTimeUnixNano", 7, Fixed64),
    one("endTimeUnixNano", 8, Fixed64),
    many("attributes", 9, Message(&KEY_VALUE)),
    one("status", 15, Message(&STATUS)),
];
static STATUS: &[Field] = &[one("message", 2, Text), one("code", 3, Enum(CODES))];

static RESOURCE_LOGS: &[Field] = &[one("resource", 1, Message(&RESOURCE)), many("scopeLogs", 2, Message(&SCOPE_LOGS))];
static SCOPE_LOGS: &[Field] = &[many("logRecords", 2, Message(&LOG_RECORD))];
static LOG_RECORD: &[Field] = &[
    one("timeUnixNano", 1, Fixed64),
    one("severityNumber", 2, Enum(SEVERITIES)),
    one("severityText", 3, Text),
    one("body", 5, Message(&ANY_VALUE)),
    many("attributes", 6, Message(&KEY_VALUE)),
    one("traceId", 9, Id),
    one("spanId", 10, Id),
    one("observedTimeUnixNano", 11, Fixed64),
];

static RESOURCE_METRICS: &[Field] =
    &[one("resource", 1, Message(&RESOURCE)), many("scopeMetrics", 2, Message(&SCOPE_METRICS))];
static SCOPE_METRICS: &[Field] = &[many("metrics", 2, Message(&METRIC))];
static METRIC: &[Field] = &[
    one("name", 1, Text),
    one("description", 2, Text),
    one("unit", 3, Text),
    one("gauge", 5, Message(&GAUGE)),
    one("sum", 7, Message(&SUM)),
    one("histogram", 9, Message(&HISTOGRAM)),
    one("exponentialHistogram", 10, Message(&REFUSED)),
    one("summary", 11, Message(&REFUSED)),
];
static GAUGE: &[Field] = &[many("dataPoints", 1, Message(&NUMBER))];
static SUM: &[Field] = &[
    many("dataPoints", 1, Message(&NUMBER)),
    one("aggregationTemporality", 2, Enum(TEMPORALITIES)),
    one("isMonotonic", 3, Bool),
];
static HISTOGRAM: &[Field] =
    &[many("dataPoints", 1, Message(&HISTOGRAM_POINT)), one("aggregationTemporality", 2, Enum(TEMPORALITIES))];
/// Points that are counted as refused, whatever is in them.
static REFUSED: &[Field] = &[many("dataPoints", 1, Message(&NOTHING))];
static NOTHING: &[Field] = &[];
static NUMBER: &[Field] = &[
    one("startTimeUnixNano", 2, Fixed64),
    one("timeUnixNano", 3, Fixed64),
    one("asDouble", 4, Double),
    one("asInt", 6, SFixed64),
    many("attributes", 7, Message(&KEY_VALUE)),
    one("flags", 8, UInt32),
];
static HISTOGRAM_POINT: &[Field] = &[
    one("startTimeUnixNano", 2, Fixed64),
    one("timeUnixNano", 3, Fixed64),
    one("count", 4, Fixed64),
    one("sum", 5, Double),
    many("bucketCounts", 6, Fixed64),
    many("explicitBounds", 7, Double),
    many("attributes", 9, Message(&KEY_VALUE)),
    one("flags", 10, UInt32),
    one("min", 11, Double),
    one("max", 12, Double),
];

static KEY_VALUE: &[Field] = &[one("key", 1, Text), one("value", 2, Message(&ANY_VALUE))];
static ANY_VALUE: &[Field] = &[
    one("stringValue", 1, Text),
    one("boolValue", 2, Bool),
    one("intValue", 3, Int64),
    one("doubleValue", 4, Double),
    one("arrayValue", 5, Message(&ARRAY_VALUE)),
    one("kvlistValue", 6, Message(&KEY_VALUE_LIST)),
    one("bytesValue", 7, Bytes),
];
static ARRAY_VALUE: &[Field] = &[many("values", 1, Message(&ANY_VALUE))];
static KEY_VALUE_LIST: &[Field] = &[many("values", 1, Message(&KEY_VALUE))];

static KINDS: &[(&str, u64)] = &[
    ("SPAN_KIND_UNSPECIFIED", 0),
    ("SPAN_KIND_INTERNAL", 1),
    ("SPAN_KIND_SERVER", 2),
    ("SPAN_KIND_CLIENT", 3),
    ("SPAN_KIND_PRODUCER", 4),
    ("SPAN_KIND_CONSUMER", 5),
];
static CODES: &[(&str, u64)] = &[("STATUS_CODE_UNSET", 0), ("STATUS_CODE_OK", 1), ("STATUS_CODE_ERROR", 2)];
static TEMPORALITIES: &[(&str, u64)] = &[
    ("AGGREGATION_TEMPORALITY_UNSPECIFIED", 0),
    ("AGGREGATION_TEMPORALITY_DELTA", 1),
    ("AGGREGATION_TEMPORALITY_CUMULATIVE", 2),
];
static SEVERITIES: &[(&str, u64)] = &[
    ("SEVERITY_NUMBER_UNSPECIFIED", 0),
    ("SEVERITY_NUMBER_TRACE", 1),
    ("SEVERITY_NUMBER_TRACE2", 2),
    ("SEVERITY_NUMBER_TRACE3", 3),
    ("SEVERITY_NUMBER_TRACE4", 4),
    ("SEVERITY_NUMBER_DEBUG", 5),
    ("SEVERITY_NUMBER_DEBUG2", 6),
    ("SEVERITY_NUMBER_DEBUG3", 7),
    ("SEVERITY_NUMBER_DEBUG4", 8),
    ("SEVERITY_NUMBER_INFO", 9),
    ("SEVERITY_NUMBER_INFO2", 10),
    ("SEVERITY_NUMBER_INFO3", 11),
    ("SEVERITY_NUMBER_INFO4", 12),
    ("SEVERITY_NUMBER_WARN", 13),
    ("SEVERITY_NUMBER_WARN2", 14),
    ("SEVERITY_NUMBER_WARN3", 15),
    ("SEVERITY_NUMBER_WARN4", 16),
    ("SEVERITY_NUMBER_ERROR", 17),
    ("SEVERITY_NUMBER_ERROR2", 18),
    ("SEVERITY_NUMBER_ERROR3", 19),
    ("SEVERITY_NUMBER_ERROR4", 20),
    ("SEVERITY_NUMBER_FATAL", 21),
    ("SEVERITY_NUMBER_FATAL2", 22),
    ("SEVERITY_NUMBER_FATAL3", 23),
    ("SEVERITY_NUMBER_FATAL4", 24),
];
