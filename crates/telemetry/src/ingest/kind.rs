//! Requests of another kind than their address says: refused as a whole, because the kinds' protobufs can be mistaken for
//! each other and nothing of them would be kept.

use model::{ErrorKind, Problem, Result};

use super::malformed;
use crate::Export;
use crate::otlp::{ExportLogsServiceRequest, ExportMetricsServiceRequest, ExportTraceServiceRequest, Message};

/// Looks at a request of which no record was kept and `refused` were refused. One without records is good.
///
/// # Errors
/// `otlp.request_of_another_kind`; `otlp.request_malformed` when it is of none and nothing of it was counted.
pub(super) fn check(export: Export, body: &[u8], refused: u64) -> Result<()> {
    if body.is_empty() || is_whole(export, body) {
        return Ok(());
    }
    if let Some(other) = Export::ALL.into_iter().find(|&other| other != export && is_whole(other, body)) {
        return Err(of_another_kind(export, other.as_str()).fix(format!("send it to `/v1/{}`", other.as_str())));
    }
    if refused == 0 { Err(malformed(export, body.len())) } else { Ok(()) }
}

/// The problem of a request that is not what its address says.
pub(crate) fn of_another_kind(export: Export, found: &str) -> Problem {
    Problem::new(
        ErrorKind::Invalid,
        "otlp.request_of_another_kind",
        "an OTLP request is of another kind than its address says",
    )
    .found(format!("an export request for {found}"))
    .expected(format!("an export request for {}", export.as_str()))
}

/// Whether a body is a message of a kind with nothing left over: what a message does not know is lost when it is read.
fn is_whole(export: Export, body: &[u8]) -> bool {
    fn whole<M: Message + Default>(body: &[u8]) -> bool {
        M::decode(body).is_ok_and(|message| message.encoded_len() == body.len())
    }
    match export {
        Export::Traces => whole::<ExportTraceServiceRequest>(body),
        Export::Metrics => whole::<ExportMetricsServiceRequest>(body),
        Export::Logs => whole::<ExportLogsServiceRequest>(body),
    }
}
