//! What the outside sees: spans, logs and metrics as the real exporters would send them.
//!
//! The engine reports plain facts (a call was handled, a call returned); compact records wait here, pod by pod, until the
//! next export and become OTLP requests then. What each service's instrumentation makes of a fact is prepared once per run
//! from the system's telemetry profile. A process that dies loses the spans that it has not exported; its log lines are
//! read from the node and survive.

pub mod attribute;
mod calls;
mod clock;
mod defaults;
mod failure;
mod histogram;
mod lines;
mod logs;
mod metrics;
pub mod resource;
mod spans;
mod spares;
mod stack;
mod template;

use std::sync::Arc;

use model::{Problem, rfc3339};
use system::{Conventions, Histograms, Kind, ServiceTelemetry, Stack};
use telemetry::otlp::{ExportLogsServiceRequest, ExportMetricsServiceRequest, ExportTraceServiceRequest, Resource};

use crate::engine::{MICRO, SECOND, Time};
use crate::gate::Detour;
use crate::plan::{CallId, CallKind, CallPlan, Plan};
use crate::pod::Pod;
use crate::request::{Cause, Failure, Frame, salt};
use crate::rng::{Draw, Stream, join};

use calls::Texts;
use clock::Skew;
use histogram::{Derived, Meters, Unit};
use lines::Choice;
pub use metrics::{Exporter, Reading};
use spares::Spares;

/// Separates the identifier of the span around a call from the others of the call.
const WRAPPER: u64 = 0xe0;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    Client,
    /// Around the client's span: a mapper, or a user's task.
    Wrapper,
    Server,
    /// The framework's own span inside a handling.
    Inner,
}

/// How many there are.
const PARTS: u32 = 4;

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

struct LogRecord {
    at: Time,
    trace: u64,
    span: u64,
    key: u64,
    call: CallId,
    /// Position in the book of patterns.
    pattern: u32,
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
    /// Counts that the collector keeps of this pod's spans.
    derived: Derived,
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
    /// By service.
    profiles: Vec<ServiceTelemetry>,
    span_metrics: bool,
    texts: Texts,
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
    spares: Spares,
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
        Self {
            profiles: plan.services.iter().map(|service| plan.telemetry.of(&service.name).clone()).collect(),
            span_metrics: plan.telemetry.metrics_path == system::MetricsPath::SpanMetrics,
            texts: Texts::new(&plan, &plan.telemetry),
            plan,
            namespace,
            origin,
            ids,
            buffers: (0..pods).map(|_| Buffer::default()).collect(),
            metrics: Vec::new(),
            buried: Vec::new(),
            clock_errors,
            throwables: Vec::new(),
            detours: Vec::new(),
            skews: Vec::new(),
            spares: Spares::default(),
            counts: Counts::default(),
        }
    }

    /// Identifier of the span that the calls of a handling hang on. A service without spans hands on what it got.
    pub fn inner_span(&self, frame: &Frame) -> u64 {
        let text = &self.texts.calls[frame.call as usize];
        match (&text.server, &text.inner) {
            (Some(_), Some(_)) => self.ids.id(join(frame.key, salt::INNER)),
            (Some(_), None) => self.ids.id(join(frame.key, salt::SERVER)),
            (None, _) => self.received_span(frame),
        }
    }

    /// Identifier of the span that reaches the callee with the call.
    fn received_span(&self, frame: &Frame) -> u64 {
        let process = self.plan.calls[frame.call as usize].kind == CallKind::Process;
        let client = !process && self.texts.calls[frame.asked() as usize].client.is_some();
        if client { self.ids.id(join(frame.key, salt::CLIENT)) } else { frame.parent_span }
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

    /// A handling begins.
    pub fn entered(&mut self, now: Time, frame: &Frame) {
        if !self.texts.calls[frame.call as usize].entered.is_empty() && !self.by_framework(frame) {
            self.write(now, frame, frame.pod, |text| &text.entered);
        }
    }

    /// A handling ended.
    pub fn handled(&mut self, now: Time, frame: &Frame) {
        let &CallPlan { kind, to, operation, .. } = &self.plan.calls[frame.call as usize];
        let failed = frame.failure != Failure::None;
        // No handler of the service runs on a detour; an access log has it all the same.
        let by_framework = self.by_framework(frame);
        if !by_framework || self.plan.services[to as usize].kind == Kind::Gateway {
            self.write(now, frame, frame.pod, |text| if failed { &text.failed } else { &text.answered });
        }
        if let Some(unit) = self.measures(to, kind) {
            let meters = &mut self.buffers[frame.pod as usize].meters;
            let answered = frame.marks.detour.map_or(operation, |detour| DETOURS + u32::from(detour));
            meters.server(answered, frame.status, now - frame.served, unit);
        }
        let text = &self.texts.calls[frame.call as usize];
        if text.server.is_none() {
            return;
        }
        let server = self.ids.id(join(frame.key, salt::SERVER));
        let span = SpanRecord {
            trace: frame.trace,
            id: server,
            parent: self.received_span(frame),
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
        let inner = (text.inner.is_some() && !by_framework).then(|| {
            // Filters run in the first and the last stretch of own work, so every call lies between them.
            let key = join(frame.key, salt::INNER);
            let mut share = self.ids.at(key);
            SpanRecord {
                id: self.ids.id(key),
                parent: server,
                start: frame.served + (frame.work * share.between(0.03, 0.25)) as Time,
                end: now - (frame.work * share.between(0.02, 0.15)) as Time,
                part: Part::Inner,
                ..span
            }
        });
        let buffer = &mut self.buffers[frame.pod as usize];
        buffer.spans.extend(inner);
        buffer.spans.push(span);
    }

    /// A call came back to its caller, or failed.
    pub fn called(&mut self, now: Time, frame: &Frame) {
        let asked = frame.asked();
        let &CallPlan { kind, from, .. } = &self.plan.calls[asked as usize];
        if kind.failed(frame.outcome, frame.status) {
            self.write(now, frame, frame.caller, |text| &text.call_failed);
        }
        let got_connection = frame.outcome != Failure::PoolTimeout;
        let mut overhead = self.ids.at(join(frame.key, WRAPPER));
        if let Some(unit) = self.measures(from, kind) {
            let failure = (frame.outcome != Failure::None).then_some(frame.outcome);
            let meters = &mut self.buffers[frame.caller as usize].meters;
            meters.client((asked, frame.status, failure), now - frame.start, unit);
        }
        if kind == CallKind::Sql && got_connection {
            // The pool hands a free connection over in microseconds.
            let handed_over = (overhead.between(0.8, 9.0) * MICRO as f64) as Time;
            let waited = frame.served - frame.start + handed_over;
            let meters = &mut self.buffers[frame.caller as usize].meters;
            meters.connection(waited, (now - frame.served - handed_over).max(0));
        }
        let text = &self.texts.calls[asked as usize];
        let (has_client, has_wrapper) = (text.client.is_some(), text.wrapper.is_some());
        if !has_client {
            return;
        }
        let mut span = SpanRecord {
            trace: frame.trace,
            id: self.ids.id(join(frame.key, salt::CLIENT)),
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
        let buffer = &mut self.buffers[frame.caller as usize];
        if kind == CallKind::Sql {
            span.start = frame.served;
        }
        if has_wrapper {
            let id = self.ids.id(join(frame.key, WRAPPER));
            let lasted = span.end - span.start;
            // Driver and mapper need some time on both sides.
            let mut side = |micros: f64| ((overhead.between(0.1, 1.0) * micros * MICRO as f64) as Time).min(lasted / 8);
            buffer.spans.push(SpanRecord { id, part: Part::Wrapper, start: frame.start, ..span });
            (span.parent, span.start, span.end) = (id, span.start + side(160.0), now - side(90.0));
        }
        if got_connection {
            buffer.spans.push(span);
        }
    }

    /// The unit in which a service's own meters time such requests; `None`: they do not.
    fn measures(&self, service: u16, kind: CallKind) -> Option<Unit> {
        let profile = &self.profiles[service as usize];
        if profile.histograms != Histograms::Native {
            return None;
        }
        match kind {
            CallKind::Http if profile.conventions == Conventions::Old => Some(Unit::Millis),
            CallKind::Http => Some(Unit::Seconds),
            CallKind::Grpc if profile.stack == Stack::Dotnet => Some(Unit::Seconds),
            CallKind::Grpc if !matches!(profile.stack, Stack::Node | Stack::Next | Stack::Python) => Some(Unit::Millis),
            _ => None,
        }
    }

    /// A collection stopped the process on this place.
    pub fn collection(&mut self, slot: u16, lasted: Time, full: bool) {
        self.buffers[slot as usize].meters.collection(lasted, full);
    }

    /// A process is up.
    pub fn started(&mut self, now: Time, service: u16, slot: u16, took: Time) {
        let choices = &self.texts.started[service as usize];
        let logs = &mut self.buffers[slot as usize].logs;
        for (place, pattern) in lines::chosen(choices, now as u64).enumerate() {
            // One line after the other, a few milliseconds apart.
            logs.push(LogRecord {
                lasted: took,
                ..LogRecord::of_process(now + place as Time * 3_700_000, pattern, now as u64)
            });
        }
    }

    /// What a process writes now and then, about four times looked at in a minute.
    fn background(&mut self, now: Time, pod: &Pod, draw: &mut Draw) {
        let choices: &[Choice] = &self.texts.background[pod.service as usize];
        for choice in choices {
            if draw.chance(choice.share * 0.25) {
                let at = now - (draw.unit() * 5.0 * SECOND as f64) as Time;
                let record = LogRecord::of_process(at.max(0), choice.pattern, draw.key());
                self.buffers[pod.slot as usize].logs.push(record);
            }
        }
    }

    /// The process on this place is gone, and what it had not exported.
    pub fn lose(&mut self, slot: u16) {
        let buffer = &mut self.buffers[slot as usize];
        buffer.spans.clear();
        buffer.meters = Meters::default();
    }

    /// The pod is about to be replaced: its lines keep its name, and its series end.
    pub fn bury(&mut self, pod: &Pod) {
        let logs = self.logs_of(pod);
        self.buried.extend(logs);
        self.buffers[pod.slot as usize].derived = Derived::default();
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

    /// Writes the lines of a moment of a call on the place of one of its ends.
    fn write(&mut self, now: Time, frame: &Frame, slot: u16, of: impl Fn(&calls::CallText) -> &Vec<Choice>) {
        let inside = slot == frame.pod;
        let call = if inside { frame.call } else { frame.asked() };
        let choices = of(&self.texts.calls[call as usize]);
        if choices.is_empty() {
            return;
        }
        let outcome = Cause { call, failure: frame.outcome, status: frame.status };
        let record = LogRecord {
            at: now,
            trace: frame.trace,
            span: if inside { self.inner_span(frame) } else { frame.parent_span },
            key: frame.key,
            call,
            pattern: 0,
            status: frame.status,
            // What its caller writes of a failed call is what it would throw on.
            failure: if inside { frame.failure } else { Failure::Upstream },
            cause: if inside { frame.cause } else { Some(outcome) },
            lasted: now - frame.served,
        };
        let logs = &mut self.buffers[slot as usize].logs;
        logs.extend(lines::chosen(choices, frame.key).map(|pattern| LogRecord { pattern, ..record }));
    }

    /// Writes the identifier of a trace over what `out` has.
    fn trace_id(&self, trace: u64, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.ids.id(join(trace, salt::TRACE)).to_be_bytes());
        out.extend_from_slice(&trace.to_be_bytes());
    }

    fn stack(&self, pod: &Pod) -> Stack {
        self.profiles[pod.service as usize].stack
    }

    /// The resource of the process on a pod.
    fn process(&self, pod: &Pod) -> Resource {
        let start_time = rfc3339((self.origin + resource::created(pod)).div_euclid(SECOND), 0);
        let (service, profile) = (&self.plan.services[pod.service as usize], &self.profiles[pod.service as usize]);
        resource::of_process(&self.namespace, service, profile, pod, &start_time)
    }
}

impl LogRecord {
    /// A line that belongs to no request.
    const fn of_process(at: Time, pattern: u32, key: u64) -> Self {
        Self { at, trace: 0, span: 0, key, call: 0, pattern, status: 0, failure: Failure::None, cause: None, lasted: 0 }
    }
}
