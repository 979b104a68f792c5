//! Sending OTLP to any receiver, over gRPC or HTTP, and telling what became of every record.
//!
//! A receiver that is busy is waited for, as long as it asks for; what it refuses for good is counted and not sent again
//! (OTLP 1.x, "Failures" and "Throttling"). Calls block: the sender is a load generator and goes no faster than it is let.

mod reasons;
mod split;
mod transport;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use model::{ErrorKind, Problem, Result};

use crate::Export;
use crate::otlp::{ExportLogsServiceRequest, ExportMetricsServiceRequest, ExportTraceServiceRequest};
pub use reasons::Reasons;
pub use transport::OtlpProtocol;
use transport::{Answer, Transport};

/// Largest message, in bytes; receivers take 4 MiB where nobody changed that.
const LARGEST: usize = 2 * 1024 * 1024;
/// First and longest pause before another try, where the receiver asks for none.
const PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Where to send.
#[derive(Debug, Clone)]
pub struct OtlpTarget {
    /// `http://HOST:PORT` or `https://HOST:PORT`, without the path of a signal.
    pub endpoint: String,
    /// By port and scheme when absent: 4317 and `grpc://` are gRPC, everything else is HTTP.
    pub protocol: Option<OtlpProtocol>,
    /// Sent with every request, for receivers that ask who calls.
    pub headers: Vec<(String, String)>,
    /// Longest time that one request may take.
    pub timeout: Duration,
    /// Time that a receiver is waited for that takes nothing; when it has passed, a last try is made.
    pub patience: Duration,
}

/// What became of the records of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delivery {
    /// The receiver took them.
    pub sent: u64,
    /// The receiver refused them for good.
    pub refused: u64,
}

/// What was sent so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SendReport {
    pub records: BTreeMap<Export, Delivery>,
    /// Requests that were answered, and bytes of them before compression.
    pub requests: u64,
    pub bytes: u64,
    /// Tries that the receiver put off or did not answer.
    pub retried: u64,
    /// Time spent waiting for another try.
    pub waited: Duration,
    /// Why records were refused.
    pub reasons: Reasons,
}

impl SendReport {
    pub fn refused(&self) -> u64 {
        self.records.values().map(|delivery| delivery.refused).sum()
    }
}

/// A connection to one receiver.
pub struct OtlpClient {
    transport: Transport,
    place: String,
    patience: Duration,
    report: SendReport,
}

impl OtlpClient {
    /// No call is made. Calls must come from a thread that may block; gRPC works on `runtime`.
    ///
    /// # Errors
    /// `otlp.endpoint_malformed`, `otlp.header_malformed`, `otlp.tls_unsupported`.
    pub fn new(target: OtlpTarget, runtime: &tokio::runtime::Handle) -> Result<Self> {
        let place = target.endpoint.clone();
        let patience = target.patience;
        Ok(Self { transport: Transport::new(target, runtime)?, place, patience, report: SendReport::default() })
    }

    pub const fn protocol(&self) -> OtlpProtocol {
        self.transport.protocol()
    }

    pub const fn report(&self) -> &SendReport {
        &self.report
    }

    /// # Errors
    /// `otlp.unreachable` and `otlp.busy` when the receiver took nothing for longer than the patience.
    pub fn traces(&mut self, request: &ExportTraceServiceRequest) -> Result<()> {
        split::traces(request, LARGEST, &mut |bytes, records| self.send(Export::Traces, bytes, records))
    }

    /// # Errors
    /// As [`Self::traces`].
    pub fn metrics(&mut self, request: &ExportMetricsServiceRequest) -> Result<()> {
        split::metrics(request, LARGEST, &mut |bytes, records| self.send(Export::Metrics, bytes, records))
    }

    /// # Errors
    /// As [`Self::traces`].
    pub fn logs(&mut self, request: &ExportLogsServiceRequest) -> Result<()> {
        split::logs(request, LARGEST, &mut |bytes, records| self.send(Export::Logs, bytes, records))
    }

    /// One message, until the receiver has taken or refused it, or the patience is over. The last try comes when it is over, which
    /// may be before the time that the receiver asked for.
    fn send(&mut self, export: Export, body: Vec<u8>, records: u64) -> Result<()> {
        let (started, mut pause) = (Instant::now(), PAUSE);
        loop {
            match self.transport.send(export, &body) {
                Answer::Taken { refused, message } => {
                    self.report.requests += 1;
                    self.report.bytes += body.len() as u64;
                    self.count(export, records, refused.min(records), &message);
                    return Ok(());
                }
                Answer::Refused(message) => {
                    self.report.requests += 1;
                    self.count(export, records, records, &message);
                    return Ok(());
                }
                Answer::Later { after, message, reached } => {
                    let left = self.patience.saturating_sub(started.elapsed());
                    if left.is_zero() {
                        return Err(self.gave_up(&message, reached, started.elapsed()));
                    }
                    let wait = after.unwrap_or(pause).min(left);
                    self.report.retried += 1;
                    self.report.waited += wait;
                    std::thread::sleep(wait);
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    fn count(&mut self, export: Export, records: u64, refused: u64, message: &str) {
        let delivery = self.report.records.entry(export).or_default();
        delivery.sent += records - refused;
        delivery.refused += refused;
        self.report.reasons.note(message, refused);
    }

    fn gave_up(&self, message: &str, reached: bool, after: Duration) -> Problem {
        let (code, words) = if reached {
            ("otlp.busy", "the OTLP receiver put the telemetry off again and again")
        } else {
            ("otlp.unreachable", "the OTLP receiver does not answer")
        };
        Problem::new(ErrorKind::Unavailable, code, words)
            .place(self.place.clone())
            .found(format!("{message} (tried for {:.1} s)", after.as_secs_f64()))
            .expected(format!("an answer over {}", self.protocol().as_str()))
            .fix("check the address and the protocol; gRPC is usually on port 4317, HTTP on 4318")
    }
}
