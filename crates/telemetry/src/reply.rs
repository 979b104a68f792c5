//! The messages with which a receiver answers: export responses, and `google.rpc.Status` for what was not taken.
//!
//! Source: OTLP specification 1.x, sections "Full Success", "Partial Success", "Failures" and "OTLP/HTTP Response";
//! `google/rpc/status.proto`, `google/rpc/error_details.proto`.

use std::time::Duration;

use model::{ErrorKind, Problem};
use prost::Message;
use serde_json::{Value, json};

use crate::otlp::{
    ExportLogsPartialSuccess, ExportLogsServiceResponse, ExportMetricsPartialSuccess, ExportMetricsServiceResponse,
    ExportTracePartialSuccess, ExportTraceServiceResponse,
};
use crate::receive::RETRY;
use crate::{Accepted, Export, rpc};

/// What a refusal is in the two transports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused {
    pub http: u16,
    pub grpc: tonic::Code,
    /// When the sender may try again; `None` when that would not help.
    pub retry: Option<Duration>,
}

impl Refused {
    pub fn of(problem: &Problem) -> Self {
        use tonic::Code;
        let (http, grpc, retry) = match (&*problem.code, problem.kind) {
            ("otlp.request_too_large", _) => (413, Code::ResourceExhausted, None),
            ("otlp.content_type_unsupported" | "otlp.encoding_unsupported", _) => (415, Code::Unimplemented, None),
            ("otlp.path_unknown", _) => (404, Code::NotFound, None),
            ("otlp.method_wrong", _) => (405, Code::Unimplemented, None),
            ("otlp.request_slow", _) => (408, Code::DeadlineExceeded, None),
            (_, ErrorKind::Invalid) => (400, Code::InvalidArgument, None),
            (_, ErrorKind::Busy) => (429, Code::Unavailable, Some(RETRY)),
            // The sender keeps the records and tries again.
            (_, ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Missing) => {
                (503, Code::Unavailable, Some(RETRY))
            }
            _ => (500, Code::Internal, None),
        };
        Self { http, grpc, retry }
    }
}

/// The answer to a request of which everything or a part was taken, as protobuf.
pub(crate) fn taken(export: Export, accepted: &Accepted) -> Vec<u8> {
    let rejected = i64::try_from(accepted.refused_total()).expect("a request holds fewer than 2^63 records");
    let error_message = accepted.message(export);
    let partial = rejected > 0;
    match export {
        Export::Traces => {
            let partial_success =
                partial.then_some(ExportTracePartialSuccess { rejected_spans: rejected, error_message });
            ExportTraceServiceResponse { partial_success }.encode_to_vec()
        }
        Export::Metrics => {
            let partial_success =
                partial.then_some(ExportMetricsPartialSuccess { rejected_data_points: rejected, error_message });
            ExportMetricsServiceResponse { partial_success }.encode_to_vec()
        }
        Export::Logs => {
            let partial_success =
                partial.then_some(ExportLogsPartialSuccess { rejected_log_records: rejected, error_message });
            ExportLogsServiceResponse { partial_success }.encode_to_vec()
        }
    }
}

/// The same as JSON.
pub(crate) fn taken_json(export: Export, accepted: &Accepted) -> Value {
    let rejected = accepted.refused_total();
    if rejected == 0 {
        return json!({});
    }
    let count = match export {
        Export::Traces => "rejectedSpans",
        Export::Metrics => "rejectedDataPoints",
        Export::Logs => "rejectedLogRecords",
    };
    json!({ "partialSuccess": { count: rejected.to_string(), "errorMessage": accepted.message(export) } })
}

/// The status of a refused request, as protobuf.
pub(crate) fn status(refused: Refused, problem: &Problem) -> Vec<u8> {
    rpc::Status::new(refused.grpc as i32, problem.to_string(), refused.retry).encode_to_vec()
}

/// The same as JSON.
pub(crate) fn status_json(refused: Refused, problem: &Problem) -> Value {
    let details: Vec<Value> = refused
        .retry
        .map(|retry| json!({ "@type": rpc::RETRY_INFO, "retryDelay": format!("{}s", retry.as_secs_f64()) }))
        .into_iter()
        .collect();
    json!({ "code": refused.grpc as i32, "message": problem.to_string(), "details": details })
}
