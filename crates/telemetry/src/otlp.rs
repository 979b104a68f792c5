//! The OTLP request and record types, re-exported so that no other crate depends on the protocol's own crates.

pub use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsPartialSuccess, ExportLogsServiceRequest, ExportLogsServiceResponse, logs_service_client,
};
pub use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceRequest, ExportMetricsServiceResponse, metrics_service_client,
};
pub use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse, trace_service_client,
};
/// `AnyValue`, `KeyValue`, `InstrumentationScope`, ...
pub use opentelemetry_proto::tonic::common::v1 as common;
/// `ResourceLogs`, `ScopeLogs`, `LogRecord`, `SeverityNumber`, ...
pub use opentelemetry_proto::tonic::logs::v1 as logs;
/// `ResourceMetrics`, `ScopeMetrics`, `Metric`, `NumberDataPoint`, `HistogramDataPoint`, ...
pub use opentelemetry_proto::tonic::metrics::v1 as metrics;
pub use opentelemetry_proto::tonic::resource::v1::Resource;
/// `ResourceSpans`, `ScopeSpans`, `Span`, `Status`, ...
pub use opentelemetry_proto::tonic::trace::v1 as trace;
/// Encoding and decoding of these messages.
pub use prost::Message;
