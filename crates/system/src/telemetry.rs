//! How the parts of a system tell what they do: which instrumentation makes their spans, whether their clients are
//! traced, what their logs look like and where their histograms come from. File `telemetry.yaml`.

use std::collections::BTreeMap;

use model::{ErrorKind, Problem};
use serde::{Deserialize, Serialize};

use crate::{Kind, Language, Service, Topology};

/// What makes a process's telemetry. The name says product and framework, because span names, attributes and log
/// lines depend on both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stack {
    /// OpenTelemetry's Java agent in Spring Boot on Tomcat, with Spring Data and micrometer.
    SpringAgent,
    /// The Java agent in Tomcat with Jersey and `EclipseLink`.
    JerseyAgent,
    /// The Java agent in Helidon MP.
    HelidonAgent,
    /// The Java agent in a gRPC server or a Kafka client without a framework.
    JavaAgent,
    /// `otelhttp`, `otelgrpc` and `otelsql` in a Go program.
    Go,
    /// Caddy's `tracing` directive.
    Caddy,
    /// Node's automatic instrumentations, with Express or `grpc-js`.
    Node,
    /// The same under Next.js.
    Next,
    /// Python's instrumentations.
    Python,
    /// .NET's own activities, exported by the SDK.
    Dotnet,
    /// Spans that C++ code makes by hand.
    Cpp,
    Rust,
    Ruby,
    Php,
    /// Envoy's OpenTelemetry tracer.
    Envoy,
    /// `ngx_otel_module`.
    NginxOtel,
    /// nginx's `OpenTracing` module with Jaeger's client, which reaches the store through the collector's Jaeger receiver.
    NginxOpentracing,
    /// Nothing inside the process; only what the cluster and the product's exporter say.
    None,
}

/// Which commands to data stores make a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreSpans {
    #[default]
    None,
    /// All, by the instrumentation of the client's library.
    Library,
    /// Those to which the code gives a name ([`ServiceTelemetry::spans`]).
    Named,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Logs {
    #[default]
    None,
    /// Lines of the container's output, which carry no ids.
    Plain,
    WithTraceIds,
}

/// Where the histograms of request durations come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Histograms {
    #[default]
    None,
    /// From the process itself.
    Native,
    /// From its spans, by the collector, when the system's [`MetricsPath`] has that step.
    Derived,
}

/// Which names the HTTP and RPC attributes have: those before or after the stable conventions of 2023.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conventions {
    Old,
    #[default]
    Stable,
}

/// What the collector adds on the way of metrics. A system whose rows say `derived` and whose path is `bare` has no
/// histograms; where its profile requires them, its packs are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricsPath {
    /// Nothing: processes report their histograms themselves, or there are none.
    #[default]
    Bare,
    /// The span-metrics connector, as a rendered collector configuration prescribes it: calls and durations of spans.
    SpanMetrics,
}

/// When a line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// The handling of an operation begins.
    Entered,
    /// It ended well.
    Answered,
    /// It ended with an error of its own, or because a call failed.
    Failed,
    /// A call of the handling failed, whatever the handling makes of it.
    CallFailed,
    /// The process is up.
    Started,
    /// About once a minute, whatever is asked.
    Background,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

/// One line that a service writes. `{name}` stands for a value of the request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogLine {
    pub at: Moment,
    /// Operation that it belongs to; every one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    pub level: Level,
    pub text: String,
    /// Share of the occasions on which it is written, 0 to 1; always when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
}

/// How one service is instrumented.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceTelemetry {
    pub stack: Stack,
    pub traces: bool,
    /// Its calls to other services make spans of their own.
    pub client_spans: bool,
    pub store_spans: StoreSpans,
    pub logs: Logs,
    pub histograms: Histograms,
    /// Heap, threads, event loop and the like; of a product, what its exporter says.
    pub runtime_metrics: bool,
    pub conventions: Conventions,
    /// Its resource also has `pod.name`, which the chart sets.
    pub pod_name: bool,
    /// Read from code or charts, or chosen; not seen in telemetry.
    pub inferred: bool,
    /// Names that code gives to spans of an operation: of commands that it sends, or of its calls.
    pub spans: BTreeMap<String, String>,
    pub lines: Vec<LogLine>,
}

/// A system's telemetry.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Telemetry {
    pub metrics_path: MetricsPath,
    services: BTreeMap<String, ServiceTelemetry>,
}

impl Telemetry {
    /// What a service that has no row sends: the usual instrumentation of its language.
    pub(crate) fn usual(services: &[Service]) -> Self {
        let services =
            services.iter().map(|service| (service.name.clone(), ServiceTelemetry::usual(service))).collect();
        Self { metrics_path: MetricsPath::Bare, services }
    }

    /// # Panics
    /// For a name that is no service of the topology.
    pub fn of(&self, service: &str) -> &ServiceTelemetry {
        self.services.get(service).expect("every service of the topology has a row")
    }
}

impl ServiceTelemetry {
    fn usual(service: &Service) -> Self {
        let stack = match service.language {
            Language::Java | Language::Kotlin if service.kind == Kind::Web => Stack::SpringAgent,
            Language::Java | Language::Kotlin => Stack::JavaAgent,
            Language::Go => Stack::Go,
            Language::Caddy => Stack::Caddy,
            Language::Javascript | Language::Typescript => Stack::Node,
            Language::Python => Stack::Python,
            Language::Csharp => Stack::Dotnet,
            Language::Cpp => Stack::Cpp,
            Language::Rust => Stack::Rust,
            Language::Ruby => Stack::Ruby,
            Language::Php => Stack::Php,
            Language::Envoy => Stack::Envoy,
            Language::Nginx => Stack::NginxOtel,
            Language::Lua if service.kind == Kind::Gateway => Stack::NginxOpentracing,
            Language::Lua | Language::Elixir | Language::None => Stack::None,
        };
        let traces = stack != Stack::None;
        let pick = |yes| if traces { yes } else { Default::default() };
        Self {
            stack,
            traces,
            client_spans: traces,
            store_spans: if traces { StoreSpans::Library } else { StoreSpans::None },
            logs: if traces { Logs::WithTraceIds } else { Logs::Plain },
            histograms: pick(Histograms::Native),
            runtime_metrics: traces,
            conventions: Conventions::Stable,
            pod_name: false,
            inferred: true,
            spans: BTreeMap::new(),
            lines: Vec::new(),
        }
    }
}

/// File `telemetry.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    format: u32,
    metrics_path: MetricsPath,
    services: Vec<Row>,
    /// Service -> operation -> name of the span that its code makes for it.
    #[serde(default)]
    spans: BTreeMap<String, BTreeMap<String, String>>,
    #[serde(default)]
    logs: Vec<LogRow>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    services: Vec<String>,
    stack: Stack,
    traces: bool,
    #[serde(default)]
    client_spans: bool,
    #[serde(default)]
    store_spans: StoreSpans,
    logs: Logs,
    histograms: Histograms,
    runtime_metrics: bool,
    #[serde(default)]
    conventions: Conventions,
    #[serde(default)]
    pod_name: bool,
    #[serde(default)]
    inferred: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LogRow {
    services: Vec<String>,
    lines: Vec<LogLine>,
}

impl File {
    /// The rows by service; services without a row keep the usual.
    ///
    /// # Errors
    /// Every row that names what is not there, or contradicts itself.
    pub(crate) fn resolve(self, topology: &Topology) -> Result<Telemetry, Vec<Problem>> {
        let mut telemetry = Telemetry::usual(&topology.services);
        telemetry.metrics_path = self.metrics_path;
        let mut findings = Vec::new();
        if self.format != 1 {
            findings.push(finding("format", self.format.to_string(), "1"));
        }
        let mut seen: Vec<String> = Vec::new();
        for (at, row) in self.services.iter().enumerate() {
            let place = format!("services[{at}]");
            if let Some(problem) = row.contradiction() {
                findings.push(problem.place(format!("telemetry.yaml: {place}")));
            }
            for name in &row.services {
                if seen.contains(name) {
                    findings.push(finding(&place, format!("`{name}` twice"), "one row for each service"));
                }
                seen.push(name.clone());
                match telemetry.services.get_mut(name) {
                    Some(service) => row.apply(service),
                    None => findings.push(unknown_service(&place, name, topology)),
                }
            }
        }
        for (name, spans) in self.spans {
            match telemetry.services.get_mut(&name) {
                Some(service) => service.spans = spans,
                None => findings.push(unknown_service("spans", &name, topology)),
            }
        }
        for row in self.logs {
            for name in &row.services {
                match telemetry.services.get_mut(name) {
                    Some(service) => service.lines.extend(row.lines.iter().cloned()),
                    None => findings.push(unknown_service("logs", name, topology)),
                }
            }
        }
        if findings.is_empty() { Ok(telemetry) } else { Err(findings) }
    }
}

impl Row {
    fn apply(&self, service: &mut ServiceTelemetry) {
        *service = ServiceTelemetry {
            stack: self.stack,
            traces: self.traces,
            client_spans: self.client_spans,
            store_spans: self.store_spans,
            logs: self.logs,
            histograms: self.histograms,
            runtime_metrics: self.runtime_metrics,
            conventions: self.conventions,
            pod_name: self.pod_name,
            inferred: self.inferred,
            spans: BTreeMap::new(),
            lines: Vec::new(),
        };
    }

    /// What cannot be: spans or derived histograms of a service that is not traced, traced ids in its logs.
    fn contradiction(&self) -> Option<Problem> {
        let spans = self.client_spans || self.store_spans != StoreSpans::None;
        let (found, expected) = if !self.traces && spans {
            ("client or store spans without traces", "no spans of a service that is not traced")
        } else if !self.traces && self.logs == Logs::WithTraceIds {
            ("logs with trace ids without traces", "`plain` logs of a service that is not traced")
        } else if !self.traces && self.histograms == Histograms::Derived {
            ("histograms derived from spans that are not made", "histograms `none` or `native`")
        } else if self.stack == Stack::None && self.traces {
            ("traces without an instrumentation", "a stack other than `none`")
        } else {
            return None;
        };
        Some(problem(found.to_owned(), expected))
    }
}

fn problem(found: String, expected: &str) -> Problem {
    Problem::new(
        ErrorKind::Invalid,
        "system.data_inconsistent",
        "the telemetry profile does not fit what the other files say",
    )
    .found(found)
    .expected(expected)
}

fn finding(place: &str, found: String, expected: &str) -> Problem {
    problem(found, expected).place(format!("telemetry.yaml: {place}"))
}

fn unknown_service(place: &str, name: &str, topology: &Topology) -> Problem {
    crate::lint::unknown_service(topology, name).place(format!("telemetry.yaml: {place}.{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalog, yaml};

    /// All eight files read, and those whose system has a topology fit it.
    #[test]
    fn the_built_in_files_are_whole() {
        let files = [
            ("ts", include_str!("../../../systems/ts/telemetry.yaml")),
            ("otel-demo", include_str!("../../../systems/otel-demo/telemetry.yaml")),
            ("ob", include_str!("../../../systems/ob/telemetry.yaml")),
            ("sockshop", include_str!("../../../systems/sockshop/telemetry.yaml")),
            ("hs", include_str!("../../../systems/hs/telemetry.yaml")),
            ("sn", include_str!("../../../systems/sn/telemetry.yaml")),
            ("media", include_str!("../../../systems/media/telemetry.yaml")),
            ("teastore", include_str!("../../../systems/teastore/telemetry.yaml")),
        ];
        for (code, text) in files {
            let file: File = yaml::read(code, text).unwrap();
            assert!(file.services.iter().all(|row| row.contradiction().is_none()), "{code}");
            let system = Catalog::builtin().unwrap().get(&model::SystemCode::parse(code).unwrap()).unwrap();
            let Some(topology) = &system.topology else { continue };
            let named: Vec<&String> = file.services.iter().flat_map(|row| &row.services).collect();
            for service in topology.services.iter().filter(|service| !service.disabled) {
                assert!(named.contains(&&service.name), "{code}: {} has no row", service.name);
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let catalog = Catalog::builtin().unwrap();
        let system = catalog.get(&model::SystemCode::parse("ts").unwrap()).unwrap();
        let refused = |row: &str| {
            let text = format!("format: 1\nmetrics_path: bare\nservices:\n- {row}\n");
            let file: File = yaml::read("telemetry.yaml", &text).unwrap();
            file.resolve(system.topology().unwrap()).unwrap_err().remove(0)
        };
        let rest = "logs: none, histograms: none, runtime_metrics: false";
        let unknown = refused(&format!("{{services: [ts-ordr-service], stack: none, traces: false, {rest}}}"));
        assert!(unknown.to_string().contains("ts-order-service"), "{unknown}");
        let silent = refused(&format!("{{services: [mysql], stack: none, traces: false, client_spans: true, {rest}}}"));
        assert!(silent.to_string().contains("without traces"), "{silent}");
        let twice = refused(&format!("{{services: [mysql, mysql], stack: none, traces: false, {rest}}}"));
        assert!(twice.to_string().contains("twice"), "{twice}");
    }
}
