//! What each instrumentation writes about itself: its SDK, its runtime, the names of its scopes, its threads.

pub mod http;
pub mod message;
pub mod rpc;
pub mod statement;
pub mod store;

use std::fmt;

use system::{ServiceTelemetry, Stack};
use telemetry::otlp::common::InstrumentationScope;

use crate::plan::{CallPlan, OperationPlan, ServicePlan};
use crate::rng::{join, name_key};

/// An SDK as `telemetry.sdk.*` names it, and the runtime under it as `process.runtime.*` does.
pub struct Sdk {
    pub language: &'static str,
    pub version: &'static str,
    pub distribution: Option<(&'static str, &'static str)>,
    /// Name, version, description.
    pub runtime: Option<(&'static str, &'static str, &'static str)>,
}

const JAVA_17: (&str, &str, &str) =
    ("OpenJDK Runtime Environment", "17.0.13+11-LTS", "Eclipse Adoptium OpenJDK 64-Bit Server VM 17.0.13+11-LTS");
const JAVA_21: (&str, &str, &str) =
    ("OpenJDK Runtime Environment", "21.0.5+11-LTS", "Eclipse Adoptium OpenJDK 64-Bit Server VM 21.0.5+11-LTS");

const fn java(agent: &'static str, runtime: (&'static str, &'static str, &'static str)) -> Sdk {
    let distribution = Some(("opentelemetry-java-instrumentation", agent));
    Sdk { language: "java", version: "1.44.1", distribution, runtime: Some(runtime) }
}

const fn plain(language: &'static str, version: &'static str) -> Sdk {
    Sdk { language, version, distribution: None, runtime: None }
}

/// `None`: the spans do not come from an OpenTelemetry SDK.
pub const fn sdk(stack: Stack) -> Option<Sdk> {
    Some(match stack {
        Stack::SpringAgent => java(AGENT, JAVA_17),
        Stack::JerseyAgent | Stack::JavaAgent | Stack::HelidonAgent => java(AGENT, JAVA_21),
        Stack::Go | Stack::Caddy => plain("go", "1.38.0"),
        Stack::Node | Stack::Next => {
            Sdk { runtime: Some(("nodejs", "22.12.0", "Node.js")), ..plain("nodejs", "1.30.1") }
        }
        Stack::Python => {
            Sdk { runtime: Some(("cpython", "3.12.8", "3.12.8 (main, Dec 3 2024)")), ..plain("python", "1.36.0") }
        }
        Stack::Dotnet => Sdk { runtime: Some((".NET", "8.0.11", ".NET 8.0.11")), ..plain("dotnet", "1.12.0") },
        Stack::Cpp | Stack::Envoy => plain("cpp", "1.18.0"),
        Stack::NginxOtel => plain("cpp", "1.11.0"),
        Stack::Rust => plain("rust", "0.31.0"),
        Stack::Ruby => Sdk {
            runtime: Some(("ruby", "3.4.1", "ruby 3.4.1 (2024-12-25) [x86_64-linux-musl]")),
            ..plain("ruby", "1.8.0")
        },
        Stack::Php => Sdk { runtime: Some(("cli", "8.4.1", "")), ..plain("php", "1.7.0") },
        Stack::NginxOpentracing | Stack::None => return None,
    })
}

/// Version of the Java agent, which its scopes carry too.
const AGENT: &str = "2.11.0";

pub const fn is_java(stack: Stack) -> bool {
    matches!(stack, Stack::SpringAgent | Stack::JerseyAgent | Stack::HelidonAgent | Stack::JavaAgent)
}

/// The scopes of one service's spans, in the order in which templates asked for them.
#[derive(Debug, Default)]
pub struct Scopes {
    pub list: Vec<InstrumentationScope>,
}

impl Scopes {
    pub fn number(&mut self, name: &str, version: &str) -> u8 {
        let known = self.list.iter().position(|scope| scope.name == name);
        known.unwrap_or_else(|| {
            let (name, version) = (name.to_owned(), version.to_owned());
            self.list.push(InstrumentationScope { name, version, ..InstrumentationScope::default() });
            self.list.len() - 1
        }) as u8
    }

    /// A module of the Java agent.
    pub fn agent(&mut self, module: &str) -> u8 {
        self.number(&format!("io.opentelemetry.{module}"), &format!("{AGENT}-alpha"))
    }
}

/// One call with both of its ends, as templates are made from it.
pub struct Ends<'a> {
    pub call: &'a CallPlan,
    pub operation: &'a OperationPlan,
    pub from: &'a ServicePlan,
    pub to: &'a ServicePlan,
    pub caller: &'a ServiceTelemetry,
    pub callee: &'a ServiceTelemetry,
}

impl Ends<'_> {
    /// Port that the client dials.
    pub fn port(&self, default: u16) -> i64 {
        i64::from(self.to.service_port.or(self.to.port).unwrap_or(default))
    }

    /// The name that the caller's code gives to the span around this call.
    pub fn named_by_caller(&self) -> Option<&str> {
        self.caller.spans.get(&self.operation.name).map(String::as_str)
    }
}

/// The virtual address of a service inside the cluster, which clients see as their peer.
pub fn cluster_ip(service: &str) -> String {
    let key = join(name_key(service), 96);
    format!("10.96.{}.{}", key >> 8 & 0xff, 1 + (key & 0xff) % 254)
}

/// The thread that works on a request of one process; it is shown by its name.
pub struct Thread {
    stack: Stack,
    key: u64,
}

impl Thread {
    pub fn of(stack: Stack, trace: u64, slot: u16) -> Self {
        Self { stack, key: join(trace, 0x7ead ^ u64::from(slot)) }
    }

    /// Its place in the pool of workers.
    const fn place(&self) -> i64 {
        1 + (self.key % 10) as i64
    }

    pub const fn number(&self) -> i64 {
        match self.stack {
            Stack::SpringAgent => 38 + self.place(),
            Stack::JerseyAgent => 41 + self.place(),
            Stack::HelidonAgent => 60 + (self.key % 4000) as i64,
            _ => 30 + self.place(),
        }
    }
}

impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key;
        match self.stack {
            Stack::SpringAgent | Stack::JerseyAgent => write!(f, "http-nio-8080-exec-{}", self.place()),
            Stack::HelidonAgent => write!(f, "[{:#010x} {:#010x}] WebServer socket", key as u32, (key >> 32) as u32),
            _ => write!(f, "grpc-default-executor-{}", key % 6),
        }
    }
}

/// What a client of this kind calls itself.
pub fn user_agent(stack: Stack, from: &ServicePlan) -> &'static str {
    match (stack, from.kind, from.language) {
        (Stack::SpringAgent, ..) => "Java/17.0.13",
        (Stack::HelidonAgent, ..) => "Java-http-client/21.0.5",
        (Stack::JerseyAgent, ..) => "Jersey/3.1.9 (HttpUrlConnection 21.0.5)",
        (Stack::Go, ..) => "Go-http-client/1.1",
        (Stack::Caddy, ..) => "Caddy/2.8.4",
        (Stack::Python, ..) => "python-requests/2.32.3",
        (Stack::Php, ..) => "GuzzleHttp/7",
        (_, system::Kind::Loadgen, system::Language::Python) => "python-requests/2.32.3",
        (_, system::Kind::Loadgen, system::Language::Java) => "Apache-HttpClient/4.5.14 (Java/17.0.13)",
        _ => "",
    }
}
