//! Log records become OTLP log records, with the texts that such services write.

use system::Language;
use telemetry::otlp::ExportLogsServiceRequest;
use telemetry::otlp::common::any_value::Value;
use telemetry::otlp::common::{AnyValue, InstrumentationScope};
use telemetry::otlp::logs::{LogRecord as OtlpLog, ResourceLogs, ScopeLogs, SeverityNumber};

use super::attribute::text;
use super::text::{simple, thread};
use super::{Line, LogRecord, Recorder, resource};
use crate::engine::SECOND;
use crate::plan::CallKind;
use crate::pod::Pod;

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
        let log_records = records.iter().map(|record| self.log(pod, record)).collect();
        let service = &self.plan.services[pod.service as usize];
        let scope = InstrumentationScope { name: service.name.clone(), ..InstrumentationScope::default() };
        Some(ResourceLogs {
            resource: Some(resource::of_process(&self.namespace, service, pod)),
            scope_logs: vec![ScopeLogs { scope: Some(scope), log_records, ..ScopeLogs::default() }],
            ..ResourceLogs::default()
        })
    }

    fn log(&self, pod: &Pod, record: &LogRecord) -> OtlpLog {
        let call = &self.texts[record.call as usize];
        let mut attributes = Vec::with_capacity(2);
        let (severity, body) = match record.line {
            Line::Entered => {
                attributes.push(text("thread.name", thread(record.key)));
                let subject = crate::rng::join(record.trace, 5) >> 32;
                let function = &call.function;
                (SeverityNumber::Info, format!("[{function}][{}] request {subject:08x} received", call.server_name))
            }
            Line::Failed => {
                attributes.push(text("thread.name", thread(record.key)));
                (SeverityNumber::Error, self.failure_text(record))
            }
            Line::Access => {
                let seconds = record.lasted as f64 / SECOND as f64;
                let path = call.path.fill(record.trace);
                let method = call.server_name.split(' ').next().unwrap_or("GET");
                let body = format!(
                    r#"{{"logger":"http.log.access","msg":"handled request","method":"{method}","uri":"{path}","status":{},"duration":{seconds:.6}}}"#,
                    record.status
                );
                (if record.status >= 500 { SeverityNumber::Error } else { SeverityNumber::Info }, body)
            }
            Line::Started(took) => {
                let (name, seconds) = (&self.plan.services[pod.service as usize].name, took as f64 / SECOND as f64);
                (SeverityNumber::Info, format!("Started {name} in {seconds:.3} seconds"))
            }
        };
        if let (Some(logger), Line::Entered | Line::Failed) = (&call.logger, record.line) {
            attributes.push(text("code.namespace", logger.as_str()));
        }
        let time = self.own_stamp(pod, record.at, record.at);
        OtlpLog {
            time_unix_nano: time,
            observed_time_unix_nano: self.stamp(pod, record.at),
            severity_number: severity as i32,
            severity_text: if severity == SeverityNumber::Error { "ERROR" } else { "INFO" }.to_owned(),
            body: Some(AnyValue { value: Some(Value::StringValue(body)) }),
            attributes,
            trace_id: if record.trace == 0 { Vec::new() } else { self.trace_id(record.trace) },
            span_id: if record.span == 0 { Vec::new() } else { record.span.to_be_bytes().to_vec() },
            flags: u32::from(record.trace != 0),
            ..OtlpLog::default()
        }
    }

    fn failure_text(&self, record: &LogRecord) -> String {
        let call = &self.texts[record.call as usize];
        let (class, message) = self.exception(Language::Java, record.failure, record.cause).unwrap_or_default();
        let logger = call.logger.as_deref().unwrap_or_default();
        if self.plan.calls[record.call as usize].kind == CallKind::Process {
            return format!(
                "Execution of Rabbit message listener failed. {class}: {message}\n\tat {logger}.{}",
                call.function
            );
        }
        format!(
            "Servlet.service() for servlet [dispatcherServlet] in context with path [] threw exception [Request processing \
             failed: {class}: {message}] with root cause\n{class}: {message}\n\tat {logger}.{}({}.java)",
            call.function,
            simple(logger),
        )
    }
}
