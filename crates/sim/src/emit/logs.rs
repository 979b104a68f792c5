//! Log records become OTLP log records, with the texts that such services write.

use std::fmt::Write as _;

use model::{DataTime, rfc3339};
use system::{Level, Logs, Stack};
use telemetry::otlp::ExportLogsServiceRequest;
use telemetry::otlp::common::any_value::Value;
use telemetry::otlp::common::{AnyValue, InstrumentationScope, KeyValue};
use telemetry::otlp::logs::{LogRecord as OtlpLog, ResourceLogs, ScopeLogs, SeverityNumber};

use super::attribute::text;
use super::failure::java_trace;
use super::lines::{CATEGORIES, PRODUCTS, Pattern, Piece, Var, number};
use super::stack::{Thread, is_java, user_agent};
use super::{LogRecord, Recorder, resource};
use crate::engine::SECOND;
use crate::pod::Pod;
use crate::rng::{Stream, join};

impl Recorder {
    /// All log lines that wait, pod by pod.
    pub(super) fn take_logs(&mut self, pods: &[Pod]) -> Option<ExportLogsServiceRequest> {
        let mut resource_logs = std::mem::take(&mut self.buried);
        for pod in pods {
            resource_logs.extend(self.logs_of(pod));
        }
        (!resource_logs.is_empty()).then_some(ExportLogsServiceRequest { resource_logs })
    }

    pub(super) fn logs_of(&mut self, pod: &Pod) -> Option<ResourceLogs> {
        let records = std::mem::take(&mut self.buffers[pod.slot as usize].logs);
        if records.is_empty() {
            return None;
        }
        self.counts.logs += records.len() as u64;
        let service = &self.plan.services[pod.service as usize];
        let plain = self.profiles[pod.service as usize].logs == Logs::Plain;
        // The container's output is read from the node: it knows the container and nothing of the process.
        let of = if plain { resource::of_container(&self.namespace, service, pod) } else { self.process(pod) };
        let mut scopes: Vec<(&str, Vec<OtlpLog>)> = Vec::new();
        for record in &records {
            let pattern = &self.texts.book.patterns[record.pattern as usize];
            let logger = if plain { "" } else { pattern.logger.as_str() };
            let log = self.log(pod, record, pattern, plain);
            match scopes.iter_mut().find(|(name, _)| *name == logger) {
                Some((_, list)) => list.push(log),
                None => scopes.push((logger, vec![log])),
            }
        }
        let scope_logs = scopes
            .into_iter()
            .map(|(name, log_records)| {
                let scope = InstrumentationScope { name: name.to_owned(), ..InstrumentationScope::default() };
                ScopeLogs { scope: Some(scope), log_records, ..ScopeLogs::default() }
            })
            .collect();
        Some(ResourceLogs { resource: Some(of), scope_logs, ..ResourceLogs::default() })
    }

    fn log(&self, pod: &Pod, record: &LogRecord, pattern: &Pattern, plain: bool) -> OtlpLog {
        let stack = self.stack(pod);
        let mut body = String::with_capacity(96);
        for piece in &pattern.pieces {
            match piece {
                Piece::Text(part) => body.push_str(part),
                Piece::Value(var) => self.fill(&mut body, *var, pod, record),
            }
        }
        let time = self.own_stamp(pod, record.at, record.at);
        let traced = !plain && record.trace != 0;
        let mut trace_id = Vec::new();
        if traced {
            self.trace_id(record.trace, &mut trace_id);
        }
        OtlpLog {
            time_unix_nano: time,
            observed_time_unix_nano: self.stamp(pod, record.at),
            severity_number: severity(pattern.level) as i32,
            severity_text: severity_text(pattern.level, stack).to_owned(),
            body: Some(AnyValue { value: Some(Value::StringValue(body)) }),
            attributes: if plain {
                self.output(pod, pattern.level)
            } else {
                self.log_attributes(pod, record, pattern, stack)
            },
            trace_id,
            span_id: if traced { record.span.to_be_bytes().to_vec() } else { Vec::new() },
            flags: u32::from(traced),
            ..OtlpLog::default()
        }
    }

    /// What the reader of container output adds.
    fn output(&self, pod: &Pod, level: Level) -> Vec<KeyValue> {
        let container = &self.plan.services[pod.service as usize].container;
        let stream = if level >= Level::Error { "stderr" } else { "stdout" };
        let path =
            format!("/var/log/pods/{}_{}_{}/{container}/{}.log", self.namespace, pod.name, pod.uid, pod.restarts);
        vec![text("log.file.path", path), text("log.iostream", stream), text("logtag", "F")]
    }

    fn log_attributes(&self, pod: &Pod, record: &LogRecord, pattern: &Pattern, stack: Stack) -> Vec<KeyValue> {
        let mut attributes = Vec::new();
        if is_java(stack) {
            let worker = || Thread::of(stack, record.trace, pod.slot).to_string();
            let name = if record.trace == 0 { "main".to_owned() } else { worker() };
            attributes.push(text("thread.name", name));
            attributes.push(text("code.namespace", pattern.logger.as_str()));
        }
        if pattern.throws
            && let Some((class, message)) = self.words_of(record, stack)
        {
            let code = &self.plan.operations[self.plan.calls[record.call as usize].operation as usize].code;
            let found = code.iter().find(|(class, _)| class.ends_with("Impl")).or(code.first());
            let (logger, function) =
                found.map_or(("Application", "handle"), |(class, method)| (class.as_str(), method.as_str()));
            attributes.push(text("exception.stacktrace", java_trace(&class, &message, logger, function, stack)));
            attributes.push(text("exception.type", class));
            attributes.push(text("exception.message", message));
        }
        attributes
    }

    fn words_of(&self, record: &LogRecord, stack: Stack) -> Option<super::failure::Words> {
        self.exception(stack, record.failure, record.cause, &self.plan.calls[record.call as usize])
    }

    /// Writing to a text cannot fail.
    fn fill(&self, body: &mut String, var: Var, pod: &Pod, record: &LogRecord) {
        let call = &self.plan.calls[record.call as usize];
        let operation = &self.plan.operations[call.operation as usize];
        let texts = &self.texts.calls[record.call as usize];
        let value = |salt: u64| number(join(record.trace, record.key), salt);
        let same = |salt: u64| number(record.trace, salt);
        let uuid = |place: u64| crate::pod::uuid(&mut Stream::new(record.trace, "path").at(place));
        let at = self.origin + record.at;
        let stamp = || {
            let whole = rfc3339(at.div_euclid(SECOND), 0);
            format!("{}.{:03}Z", whole.trim_end_matches('Z'), at.rem_euclid(SECOND) / 1_000_000)
        };
        let seconds = record.lasted as f64 / SECOND as f64;
        let written = match var {
            Var::Uuid => write!(body, "{}", uuid(1)),
            Var::Uuid2 => write!(body, "{}", uuid(2)),
            Var::Id => write!(body, "{}", same(1) >> 1),
            Var::Hex8 => write!(body, "{:08x}", same(2) as u32),
            Var::User => write!(body, "user_{}", 1 + same(3) % 962),
            Var::N => write!(body, "{}", value(4) % 1000),
            Var::K => write!(body, "{}", 1 + value(5) % 9),
            Var::Count => write!(body, "{}", 1000 + value(6) % 48_000),
            Var::Ms => write!(body, "{}", record.lasted / 1_000_000),
            Var::Seconds => write!(body, "{seconds:.6}"),
            Var::Took => write!(body, "{seconds:.3}"),
            Var::Status => write!(body, "{}", record.status),
            Var::Method => write!(body, "{}", operation.method),
            Var::Path => {
                texts.path.write(record.trace, body);
                Ok(())
            }
            Var::Route => write!(body, "{}", operation.route),
            Var::Operation => write!(body, "{}", operation.name),
            Var::Peer => {
                let failed = record.cause.map_or(call.to, |cause| self.plan.calls[cause.call as usize].to);
                write!(body, "{}", self.plan.services[failed as usize].dns_name)
            }
            Var::Error => {
                write!(body, "{}", self.words_of(record, self.stack(pod)).map_or(String::new(), |words| words.1))
            }
            Var::Class => {
                write!(body, "{}", self.words_of(record, self.stack(pod)).map_or(String::new(), |words| words.0))
            }
            Var::Date => {
                let day = at.div_euclid(SECOND) + (1 + same(7) % 27) as i64 * 86_400;
                write!(body, "{}", &rfc3339(day, 0)[..10])
            }
            Var::Price => write!(body, "{}", 5 + same(8) % 295),
            Var::Nanos => write!(body, "{}0000000", 10 + same(9) % 90),
            Var::Nanos3 => write!(body, "{:03}", value(10) % 1000),
            Var::Iso => write!(body, "{}", stamp()),
            Var::Clf => write!(body, "{}", clf(at)),
            Var::SlashClock => write!(body, "{}", stamp()[..19].replace('-', "/").replace('T', " ")),
            Var::Epoch => write!(body, "{:.6}", at as f64 / SECOND as f64),
            Var::EpochS => write!(body, "{}", at / SECOND),
            Var::EpochMs => write!(body, "{}", at / 1_000_000),
            Var::Pod => write!(body, "{}", pod.name),
            Var::Ip => write!(body, "10.244.{}.{}", 1 + same(11) % 4, 2 + same(12) % 250),
            Var::Agent => {
                let from = &self.plan.services[call.from as usize];
                let agent = user_agent(self.profiles[call.from as usize].stack, from);
                write!(body, "{}", if agent.is_empty() { "-" } else { agent })
            }
            Var::RequestBytes => write!(body, "{}", u64::from(operation.request_bytes) * (80 + value(13) % 40) / 100),
            Var::ResponseBytes => write!(body, "{}", u64::from(operation.response_bytes) * (80 + value(14) % 40) / 100),
            Var::Product => write!(body, "{}", PRODUCTS[(same(15) % PRODUCTS.len() as u64) as usize]),
            Var::Product4 => {
                let first = value(16) as usize % PRODUCTS.len();
                let four = (0..4).map(|at| PRODUCTS[(first + 2 * at + 1) % PRODUCTS.len()]);
                write!(body, "'{}'", four.collect::<Vec<_>>().join("', '"))
            }
            Var::Category => write!(body, "{}", CATEGORIES[(same(17) % CATEGORIES.len() as u64) as usize]),
            Var::Lat => write!(body, "{:.6}", 37.7 + (same(18) % 481) as f64 / 1000.0),
            Var::Lon => write!(body, "{:.6}", -122.4 + (same(19) % 325) as f64 / 1000.0),
            Var::Trace => {
                let mut id = Vec::with_capacity(16);
                self.trace_id(record.trace, &mut id);
                write!(body, "{}", hex::encode(id))
            }
            Var::Span => write!(body, "{:016x}", record.span),
        };
        debug_assert!(written.is_ok(), "a text takes everything");
    }
}

/// The time form of web servers' access logs.
fn clf(at: i64) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let iso = rfc3339(DataTime(at).seconds(), 0);
    let month =
        iso[5..7].parse::<usize>().ok().and_then(|month| MONTHS.get(month.wrapping_sub(1))).copied().unwrap_or("Jan");
    format!("{}/{month}/{}:{} +0000", &iso[8..10], &iso[..4], &iso[11..19])
}

const fn severity(level: Level) -> SeverityNumber {
    match level {
        Level::Trace => SeverityNumber::Trace,
        Level::Debug => SeverityNumber::Debug,
        Level::Info => SeverityNumber::Info,
        Level::Warn => SeverityNumber::Warn,
        Level::Error => SeverityNumber::Error,
    }
}

const fn severity_text(level: Level, stack: Stack) -> &'static str {
    match (stack, level) {
        (Stack::Dotnet, Level::Trace) => "Trace",
        (Stack::Dotnet, Level::Debug) => "Debug",
        (Stack::Dotnet, Level::Info) => "Information",
        (Stack::Dotnet, Level::Warn) => "Warning",
        (Stack::Dotnet, Level::Error) => "Error",
        (Stack::Node, Level::Info) => "info",
        (Stack::Node, Level::Warn) => "warn",
        (Stack::Node, Level::Error) => "error",
        (_, Level::Trace) => "TRACE",
        (_, Level::Debug) => "DEBUG",
        (_, Level::Info) => "INFO",
        (_, Level::Warn) => "WARN",
        (_, Level::Error) => "ERROR",
    }
}
