//! What the outside sees: spans, logs and metrics as the real exporters would send them.
//!
//! The engine reports plain facts (a call was handled, a call returned); compact records wait here, pod by pod, until the
//! next export and become OTLP requests then. A process that dies loses the spans that it has not exported; its log lines
//! are read from the node and survive.

pub mod attribute;
mod failure;
mod histogram;
mod logs;
mod metrics;
mod resource;
mod spans;
mod text;

use std::sync::Arc;

use model::Problem;
use telemetry::otlp::{ExportLogsServiceRequest, ExportMetricsServiceRequest, ExportTraceServiceRequest};

use crate::engine::{MICRO, Time};
use crate::gate::Detour;
use crate::plan::{CallId, CallKind, Plan};
use crate::pod::Pod;
use crate::request::{Cause, Failure, Frame, salt};
use crate::rng::{Stream, join};

use histogram::Meters;
pub use metrics::{Exporter, Reading};
use text::CallText;

/// Where telemetry goes.
pub trait Sink {
    /// # Errors
    /// When the receiver cannot take it; the step is to be repeated.
    fn traces(&mut self, request: &ExportTraceServiceRequest) -> Result<(), Problem>;
    /// # Errors
    /// As above.
    fn metrics(&mut self, request: &ExportMetricsServiceRequest) -> Result<(), Problem>;
    /// # Errors
    /// As above.
    fn logs(&mut self, request: &ExportLogsServiceRequest) -> Result<(), Problem>;
}

/// Which span of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Client,
    Server,
    /// The framework's own span inside a handling: controller or repository.
    Inner,
}

struct SpanRecord {
    trace: u64,
    id: u64,
    parent: u64,
    start: Time,
    end: Time,
    call: CallId,
    part: Part,
    status: u16,
    failure: Failure,
    cause: Option<Cause>,
    peer: u16,
    /// What answered in the place of the call's handler.
    detour: Option<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// An operation was entered.
    Entered,
    /// A handling ended with an exception.
    Failed,
    /// An access-log line of a gateway.
    Access,
    /// A process is up, this many nanoseconds after its start.
    Started(Time),
}

/// A clock that is off for a while.
struct Skew {
    number: u32,
    slot: u16,
    from: Time,
    until: Time,
    offset: Time,
}

struct LogRecord {
    at: Time,
    trace: u64,
    span: u64,
    key: u64,
    call: CallId,
    line: Line,
    status: u16,
    failure: Failure,
    cause: Option<Cause>,
    lasted: Time,
}

/// What waits for export on one pod's place.
#[derive(Default)]
struct Buffer {
    spans: Vec<SpanRecord>,
    logs: Vec<LogRecord>,
    meters: Meters,
}

/// Numbers of operations from here on are detours.
const DETOURS: u32 = 1 << 24;

/// Counts of what was handed over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub spans: u64,
    pub logs: u64,
    pub points: u64,
}

pub struct Recorder {
    plan: Arc<Plan>,
    namespace: String,
    /// Data time of the run's time zero.
    origin: i64,
    ids: Stream,
    texts: Vec<CallText>,
    buffers: Vec<Buffer>,
    metrics: Vec<telemetry::otlp::metrics::ResourceMetrics>,
    /// Lines of pods that are gone.
    buried: Vec<telemetry::otlp::logs::ResourceLogs>,
    /// How far each node's clock is off.
    clock_errors: Vec<Time>,
    /// Class and message of what advice throws.
    throwables: Vec<(String, String)>,
    /// What answers requests that were sent elsewhere.
    pub(crate) detours: Vec<Detour>,
    skews: Vec<Skew>,
    pub(crate) counts: Counts,
}

impl Recorder {
    pub fn new(
        plan: Arc<Plan>,
        namespace: String,
        origin: i64,
        ids: Stream,
        pods: usize,
        clock_errors: Vec<Time>,
    ) -> Self {
        let texts = plan.calls.iter().map(|call| CallText::new(&plan, call)).collect();
        Self {
            plan,
            namespace,
            origin,
            ids,
            texts,
            buffers: (0..pods).map(|_| Buffer::default()).collect(),
            metrics: Vec::new(),
            buried: Vec::new(),
            clock_errors,
            throwables: Vec::new(),
            detours: Vec::new(),
            skews: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Identifier of the span that the calls of a handling hang on.
    pub fn inner_span(&self, frame: &Frame) -> u64 {
        let inner = self.texts[frame.call as usize].inner.is_some();
        self.ids.id(join(frame.key, if inner { salt::INNER } else { salt::SERVER }))
    }

    fn traces(&self, service: u16) -> bool {
        !matches!(self.plan.services[service as usize].language, system::Language::None)
    }

    /// The number of a throwable.
    pub fn throwable(&mut self, class: &str, message: &str) -> u16 {
        let pair = (class.to_owned(), message.to_owned());
        let known = self.throwables.iter().position(|other| *other == pair);
        known.unwrap_or_else(|| {
            self.throwables.push(pair);
            self.throwables.len() - 1
        }) as u16
    }

    /// The number of a detour.
    pub fn detour(&mut self, detour: Detour) -> u16 {
        let known = self.detours.iter().position(|other| *other == detour);
        known.unwrap_or_else(|| {
            self.detours.push(detour);
            self.detours.len() - 1
        }) as u16
    }

    /// Whether no handler of the service runs for the call.
    fn by_framework(&self, frame: &Frame) -> bool {
        frame.marks.detour.is_some_and(|number| self.detours[usize::from(number)].status.is_some())
    }

    /// From now on the clock that the processes on these places read is off.
    pub fn skew(&mut self, number: u32, now: Time, slots: &[u16], offset: Time) {
        let skew = |&slot: &u16| Skew { number, slot, from: now, until: Time::MAX, offset };
        self.skews.extend(slots.iter().map(skew));
    }

    /// The clock is right again.
    pub fn right(&mut self, number: u32, now: Time) {
        self.end_skews(now, |skew| skew.number == number);
    }

    /// Another process reads the node's clock.
    pub fn restarted(&mut self, slot: u16, now: Time) {
        self.end_skews(now, |skew| skew.slot == slot);
    }

    fn end_skews(&mut self, now: Time, which: impl Fn(&Skew) -> bool) {
        let live = self.skews.iter_mut().filter(|skew| skew.until == Time::MAX && which(skew));
        live.for_each(|skew| skew.until = now);
    }

    /// How far the clock of a process was off at an instant.
    fn off(&self, slot: u16, at: Time) -> Time {
        let skews = self.skews.iter().filter(|skew| skew.slot == slot && (skew.from..skew.until).contains(&at));
        skews.map(|skew| skew.offset).sum()
    }

    /// A handling begins.
    pub fn entered(&mut self, now: Time, frame: &Frame) {
        if self.texts[frame.call as usize].logger.is_some() && !self.by_framework(frame) {
            let log = self.line(now, frame, Line::Entered);
            self.buffers[frame.pod as usize].logs.push(log);
        }
    }

    /// A handling ended.
    pub fn handled(&mut self, now: Time, frame: &Frame) {
        let call = &self.plan.calls[frame.call as usize];
        let text = &self.texts[frame.call as usize];
        if !self.traces(call.to) {
            return;
        }
        let client = if call.kind == CallKind::Process { frame.parent_span } else { self.client_id(frame) };
        let server = self.ids.id(join(frame.key, salt::SERVER));
        let mut span = SpanRecord {
            trace: frame.trace,
            id: server,
            parent: client,
            start: frame.served,
            end: now,
            call: frame.call,
            part: Part::Server,
            status: frame.status,
            failure: frame.failure,
            cause: frame.cause,
            peer: frame.caller,
            detour: frame.marks.detour,
        };
        // No handler of the service runs on a detour.
        let has_inner = text.inner.is_some() && !self.by_framework(frame);
        let failed = if frame.failure != Failure::None && text.logger.is_some() {
            Some(self.line(now, frame, Line::Failed))
        } else if text.access_log {
            Some(self.line(now, frame, Line::Access))
        } else {
            None
        };
        let (kind, operation, status) = (call.kind, call.operation, frame.status);
        let buffer = &mut self.buffers[frame.pod as usize];
        if has_inner {
            // Filters run in the first and the last stretch of own work, so every call lies between them.
            let key = join(frame.key, salt::INNER);
            let mut share = self.ids.at(key);
            let inner = SpanRecord {
                id: self.ids.id(key),
                parent: server,
                start: frame.served + (frame.work * share.between(0.03, 0.25)) as Time,
                end: now - (frame.work * share.between(0.02, 0.15)) as Time,
                part: Part::Inner,
                ..span
            };
            buffer.spans.push(inner);
        }
        if kind == CallKind::Http {
            let answered = frame.marks.detour.map_or(operation, |detour| DETOURS + u32::from(detour));
            buffer.meters.server(answered, status, now - frame.served);
        }
        span.part = Part::Server;
        buffer.spans.push(span);
        buffer.logs.extend(failed);
    }

    /// A call came back to its caller, or failed.
    pub fn called(&mut self, now: Time, frame: &Frame) {
        let asked = frame.asked();
        let call = &self.plan.calls[asked as usize];
        if !self.traces(call.from) {
            return;
        }
        let client = self.client_id(frame);
        let mut span = SpanRecord {
            trace: frame.trace,
            id: client,
            parent: frame.parent_span,
            start: frame.start,
            end: now,
            call: asked,
            part: Part::Client,
            status: frame.status,
            failure: frame.outcome,
            cause: None,
            peer: frame.pod,
            detour: None,
        };
        let has_inner = self.texts[asked as usize].inner.is_some();
        let buffer = &mut self.buffers[frame.caller as usize];
        match call.kind {
            CallKind::Sql => {
                let key = join(frame.key, salt::INNER);
                let mut overhead = self.ids.at(key);
                // The pool hands a free connection over in microseconds; driver and mapper need some more on both sides.
                let handed_over = (overhead.between(0.8, 9.0) * MICRO as f64) as Time;
                let waited = frame.served - frame.start + handed_over;
                let lasted = now - frame.served;
                let got_connection = frame.outcome != Failure::PoolTimeout;
                if got_connection {
                    buffer.meters.connection(waited, (lasted - handed_over).max(0));
                }
                span.start = frame.served;
                if has_inner {
                    let id = self.ids.id(key);
                    buffer.spans.push(SpanRecord { id, part: Part::Inner, start: frame.start, ..span });
                    let mut side =
                        |micros: f64| ((overhead.between(0.1, 1.0) * micros * MICRO as f64) as Time).min(lasted / 8);
                    (span.parent, span.start, span.end) = (id, frame.served + side(160.0), now - side(90.0));
                }
                if got_connection {
                    buffer.spans.push(span);
                }
            }
            CallKind::Http => {
                let failure = (frame.outcome != Failure::None).then_some(frame.outcome);
                buffer.meters.client(asked, frame.status, failure, now - frame.start);
                buffer.spans.push(span);
            }
            _ => buffer.spans.push(span),
        }
    }

    /// A collection stopped the process on this place.
    pub fn collection(&mut self, slot: u16, lasted: Time, full: bool) {
        self.buffers[slot as usize].meters.collection(lasted, full);
    }

    /// A process is up.
    pub fn started(&mut self, now: Time, slot: u16, took: Time) {
        self.buffers[slot as usize].logs.push(LogRecord {
            at: now,
            trace: 0,
            span: 0,
            key: 0,
            call: 0,
            line: Line::Started(took),
            status: 0,
            failure: Failure::None,
            cause: None,
            lasted: took,
        });
    }

    /// The process on this place is gone, and what it had not exported.
    pub fn lose(&mut self, slot: u16) {
        let buffer = &mut self.buffers[slot as usize];
        buffer.spans.clear();
        buffer.meters = Meters::default();
    }

    /// The pod is about to be replaced: its lines keep its name.
    pub fn bury(&mut self, pod: &Pod) {
        let logs = self.logs_of(pod);
        self.buried.extend(logs);
    }

    /// Hands over everything that waits.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn flush(&mut self, pods: &[Pod], sink: &mut dyn Sink) -> Result<(), Problem> {
        for pod in pods {
            self.export_spans(pod, pods, sink)?;
        }
        if let Some(request) = self.take_logs(pods) {
            sink.logs(&request)?;
        }
        if !self.metrics.is_empty() {
            let resource_metrics = std::mem::take(&mut self.metrics);
            sink.metrics(&ExportMetricsServiceRequest { resource_metrics })?;
        }
        Ok(())
    }

    fn client_id(&self, frame: &Frame) -> u64 {
        self.ids.id(join(frame.key, salt::CLIENT))
    }

    fn line(&self, now: Time, frame: &Frame, line: Line) -> LogRecord {
        LogRecord {
            at: now,
            trace: frame.trace,
            span: self.inner_span(frame),
            key: frame.key,
            call: frame.call,
            line,
            status: frame.status,
            failure: frame.failure,
            cause: frame.cause,
            lasted: now - frame.served,
        }
    }

    /// The stamp that a process in the pod gives to `at` when it read its clock at `read`: SDKs read it at the start of a
    /// span and count on from there with a clock that no setting moves.
    fn own_stamp(&self, pod: &Pod, at: Time, read: Time) -> u64 {
        self.stamp(pod, at + self.off(pod.slot, read))
    }

    /// The stamp that a clock on the pod's node gives.
    fn stamp(&self, pod: &Pod, at: Time) -> u64 {
        (self.origin + at + self.clock_errors[pod.node as usize]).max(0) as u64
    }

    fn trace_id(&self, trace: u64) -> Vec<u8> {
        let mut id = Vec::with_capacity(16);
        id.extend_from_slice(&self.ids.id(join(trace, salt::TRACE)).to_be_bytes());
        id.extend_from_slice(&trace.to_be_bytes());
        id
    }
}
