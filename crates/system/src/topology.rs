//! The parts of a system and how they call each other, with indexes for simulation and for listing points.

use std::collections::HashMap;

use model::Problem;
use serde::{Deserialize, Serialize};

use crate::{Behaviour, Journey, PathPattern, Telemetry};

/// What a service is written in; `none` is an off-the-shelf product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    Java,
    Go,
    Python,
    Javascript,
    Typescript,
    Cpp,
    Csharp,
    Kotlin,
    Ruby,
    Rust,
    Php,
    Elixir,
    Lua,
    Nginx,
    Envoy,
    Caddy,
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Web,
    Rpc,
    Db,
    Cache,
    /// A message broker.
    Mq,
    Gateway,
    Loadgen,
    /// Works on messages, answers no requests.
    Worker,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    Http,
    Grpc,
    Thrift,
    Sql,
    Redis,
    Mongo,
    Memcached,
    Amqp,
    Kafka,
}

impl Protocol {
    /// Commands to a data store, by a client of it.
    pub const fn is_store(self) -> bool {
        matches!(self, Self::Sql | Self::Redis | Self::Mongo | Self::Memcached)
    }

    /// Remote procedures, `package.Service/Method`.
    pub const fn is_rpc(self) -> bool {
        matches!(self, Self::Grpc | Self::Thrift)
    }

    /// Messages through a broker.
    pub const fn is_message(self) -> bool {
        matches!(self, Self::Amqp | Self::Kafka)
    }
}

/// When a call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// While requests are handled.
    #[default]
    Request,
    /// Once, when the caller's process starts.
    Startup,
    /// At start, and again and again in the background.
    Watch,
}

/// How often a caller tries again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// Attempts after the first.
    pub times: u32,
    /// Pause before the first of them, in milliseconds; it doubles.
    pub back_off_ms: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    pub name: String,
    pub language: Language,
    pub kind: Kind,
    /// What it answers; of a load generator, what it speaks.
    pub protocol: Protocol,
    /// Port that the container listens on; a load generator has none, nor has a worker that only takes messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Product and version of an off-the-shelf service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    /// Name of its main container, where it is not the service's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Value of the system's app label on its pods, where it is not the service's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Name that its clients resolve, where it is not the service's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns_name: Option<String>,
    /// The registry through which its clients find it by address; they never look its name up then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
    /// Port of its Kubernetes Service, where it is not the container's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_port: Option<u16>,
    /// `service.name` of its telemetry, where it is not the service's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_name: Option<String>,
    /// CPU limit of its container in thousandths of a core, where it is not the usual one of its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_millis: Option<u32>,
    /// Runs on a Java virtual machine without being written in Java.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub jvm: bool,
    /// Deployed, but no request was ever seen to reach it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idle: bool,
    /// Part of the chart, but switched off in the installed configuration.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// Read from code or charts, not seen in telemetry.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inferred: bool,
}

impl Service {
    pub fn container(&self) -> &str {
        self.container.as_deref().unwrap_or(&self.name)
    }

    /// Value of the system's app label on its pods.
    pub fn label(&self) -> &str {
        self.label.as_deref().unwrap_or(&self.name)
    }

    pub fn dns_name(&self) -> &str {
        self.dns_name.as_deref().unwrap_or(&self.name)
    }

    /// `service.name` of its telemetry.
    pub fn reported_name(&self) -> &str {
        self.reported_name.as_deref().unwrap_or(&self.name)
    }

    pub fn runs_on_jvm(&self) -> bool {
        self.jvm || matches!(self.language, Language::Java | Language::Kotlin)
    }
}

/// One service calls another, or hands it messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    pub from: String,
    pub to: String,
    pub protocol: Protocol,
    /// `METHOD /route` for HTTP, `package.Service/Method` for remote procedures, `verb table` or only `verb` for a data
    /// store, `publish queue`, `consume queue` and `queue process` for a broker.
    pub operations: Vec<String>,
    /// The caller does not wait for an answer.
    pub is_async: bool,
    /// The broker that carries the messages; this edge is then logical.
    pub via: Option<String>,
    pub phase: Phase,
    /// How long the caller waits for an answer, in milliseconds, where its code says so.
    pub timeout_ms: Option<u32>,
    pub retry: Option<Retry>,
    pub inferred: bool,
}

/// One HTTP operation that a service answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    pub service: String,
    pub method: String,
    /// The route as the service's framework writes it, with `{name}` for variable segments: `http.route` and span name.
    pub route: String,
    /// The same with `*`, to match real requests with.
    pub pattern: PathPattern,
    pub port: u16,
    /// Name of the server's span, where it is not `METHOD /route`.
    pub span: Option<String>,
    /// Status code of a success: 200, or what forms (302) and creations (201) answer.
    pub status: u16,
    pub inferred: bool,
}

impl Endpoint {
    /// `METHOD /route`, as calls, steps and the server's span name it.
    pub fn operation(&self) -> String {
        format!("{} {}", self.method, self.route)
    }

    /// Name of the server's span.
    pub fn span_name(&self) -> String {
        self.span.clone().unwrap_or_else(|| self.operation())
    }
}

/// One remote procedure that a service answers, over gRPC or Thrift.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rpc {
    pub service: String,
    /// `package.Service/Method`.
    pub operation: String,
    /// Name of the server's span, where it is not the operation's (or, for Thrift, its method's).
    pub span: Option<String>,
    pub inferred: bool,
}

/// What a data store is, by the values of the semantic conventions' `db.system.name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreSystem {
    Mysql,
    Postgresql,
    Mongodb,
    Redis,
    Memcached,
}

impl StoreSystem {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mysql => "mysql",
            Self::Postgresql => "postgresql",
            Self::Mongodb => "mongodb",
            Self::Redis => "redis",
            Self::Memcached => "memcached",
        }
    }

    pub const fn protocol(self) -> Protocol {
        match self {
            Self::Mysql | Self::Postgresql => Protocol::Sql,
            Self::Mongodb => Protocol::Mongo,
            Self::Redis => Protocol::Redis,
            Self::Memcached => Protocol::Memcached,
        }
    }
}

/// One kind of statement or command that a service sends to a data store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// The client.
    pub service: String,
    /// The data store's service.
    pub instance: String,
    pub system: StoreSystem,
    /// Empty for caches, which have none.
    pub database: String,
    /// Table or collection; empty for caches.
    pub table: String,
    /// `select`, `insert`, `find`, `hget`, ...
    pub verb: String,
    pub inferred: bool,
}

impl Statement {
    /// `verb table`, or only `verb` for a cache, as calls and steps name it.
    pub fn operation(&self) -> String {
        if self.table.is_empty() { self.verb.clone() } else { format!("{} {}", self.verb, self.table) }
    }

    /// Name of the client's span, by the semantic conventions for databases: `SELECT ts.orders`.
    pub fn span_name(&self) -> String {
        match self.system {
            StoreSystem::Mysql | StoreSystem::Postgresql => {
                format!("{} {}.{}", self.verb.to_uppercase(), self.database, self.table)
            }
            StoreSystem::Mongodb => format!("{} {}.{}", self.verb, self.database, self.table),
            StoreSystem::Redis | StoreSystem::Memcached => self.verb.to_uppercase(),
        }
    }
}

/// One method of a service on a Java virtual machine that requests can reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Method {
    pub service: String,
    /// Full class name.
    pub class: String,
    pub method: String,
    /// The operation whose handling runs this method, where it is known.
    pub serves: Option<String>,
}

/// A system's parts. Every name in it refers to something that exists; see [`crate::Catalog`].
#[derive(Debug)]
pub struct Topology {
    pub services: Vec<Service>,
    pub calls: Vec<Call>,
    pub endpoints: Vec<Endpoint>,
    pub rpcs: Vec<Rpc>,
    pub statements: Vec<Statement>,
    pub methods: Vec<Method>,
    pub journeys: Vec<Journey>,
    pub telemetry: Telemetry,
    pub behaviour: Behaviour,
    index: Index,
}

/// Positions in the lists above.
#[derive(Debug, Default)]
struct Index {
    service: HashMap<String, usize>,
    call: HashMap<(String, String), usize>,
    endpoint: HashMap<(String, String), usize>,
    rpc: HashMap<(String, String), usize>,
    statement: HashMap<(String, String), usize>,
}

/// The lists of a topology before journeys are resolved against them.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub services: Vec<Service>,
    pub calls: Vec<Call>,
    pub endpoints: Vec<Endpoint>,
    pub rpcs: Vec<Rpc>,
    pub statements: Vec<Statement>,
    pub methods: Vec<Method>,
}

impl Topology {
    /// The topology, with every cross reference that does not hold; it is of use only when there is none.
    pub(crate) fn new(parts: Parts, journeys: crate::journey::File) -> (Self, Vec<Problem>) {
        let mut topology = Self {
            index: Index::new(&parts),
            telemetry: Telemetry::usual(&parts.services),
            behaviour: Behaviour::default(),
            services: parts.services,
            calls: parts.calls,
            endpoints: parts.endpoints,
            rpcs: parts.rpcs,
            statements: parts.statements,
            methods: parts.methods,
            journeys: Vec::new(),
        };
        let mut findings = crate::lint::check(&topology);
        match journeys.resolve(&topology) {
            Ok(journeys) => topology.journeys = journeys,
            Err(more) => findings.extend(more),
        }
        (topology, findings)
    }

    pub fn service(&self, name: &str) -> Option<&Service> {
        self.service_index(name).map(|at| &self.services[at])
    }

    /// Position in [`Self::services`].
    pub fn service_index(&self, name: &str) -> Option<usize> {
        self.index.service.get(name).copied()
    }

    pub fn call(&self, from: &str, to: &str) -> Option<&Call> {
        self.index.call.get(&key(from, to)).map(|&at| &self.calls[at])
    }

    /// Position in [`Self::endpoints`] of the operation `METHOD /route` of a service.
    pub fn endpoint_index(&self, service: &str, operation: &str) -> Option<usize> {
        self.index.endpoint.get(&key(service, operation)).copied()
    }

    /// Position in [`Self::calls`].
    pub fn call_index(&self, from: &str, to: &str) -> Option<usize> {
        self.index.call.get(&key(from, to)).copied()
    }

    /// Position in [`Self::rpcs`] of the operation `package.Service/Method` of a service.
    pub fn rpc_index(&self, service: &str, operation: &str) -> Option<usize> {
        self.index.rpc.get(&key(service, operation)).copied()
    }

    /// Position in [`Self::statements`] of the operation `verb table` of a client.
    pub fn statement_index(&self, service: &str, operation: &str) -> Option<usize> {
        self.index.statement.get(&key(service, operation)).copied()
    }

    pub fn endpoints_of<'a>(&'a self, service: &'a str) -> impl Iterator<Item = &'a Endpoint> {
        self.endpoints.iter().filter(move |endpoint| endpoint.service == service)
    }

    pub fn rpcs_of<'a>(&'a self, service: &'a str) -> impl Iterator<Item = &'a Rpc> {
        self.rpcs.iter().filter(move |rpc| rpc.service == service)
    }

    pub fn statements_of<'a>(&'a self, service: &'a str) -> impl Iterator<Item = &'a Statement> {
        self.statements.iter().filter(move |statement| statement.service == service)
    }

    pub fn methods_of<'a>(&'a self, service: &'a str) -> impl Iterator<Item = &'a Method> {
        self.methods.iter().filter(move |method| method.service == service)
    }

    pub fn calls_from<'a>(&'a self, service: &'a str) -> impl Iterator<Item = &'a Call> {
        self.calls.iter().filter(move |call| call.from == service)
    }

    pub fn calls_to<'a>(&'a self, service: &'a str) -> impl Iterator<Item = &'a Call> {
        self.calls.iter().filter(move |call| call.to == service)
    }

    /// The services whose names this one resolves: the ends of its direct calls and the brokers of its messages, but not
    /// those that it finds by address in a registry.
    pub fn resolves<'a>(&'a self, service: &str) -> Vec<&'a Service> {
        let mut peers: Vec<&Service> = Vec::new();
        for call in self.calls.iter().filter(|call| call.from == service) {
            let peer = call.via.as_deref().unwrap_or(&call.to);
            if let Some(peer) = self.service(peer)
                && peer.registry.is_none()
                && !peers.iter().any(|known| known.name == peer.name)
            {
                peers.push(peer);
            }
        }
        peers
    }
}

impl Index {
    fn new(parts: &Parts) -> Self {
        fn positions<T, K: std::hash::Hash + Eq>(items: &[T], key: impl Fn(&T) -> K) -> HashMap<K, usize> {
            items.iter().enumerate().map(|(at, item)| (key(item), at)).collect()
        }
        Self {
            service: positions(&parts.services, |service| service.name.clone()),
            call: positions(&parts.calls, |call| key(&call.from, &call.to)),
            rpc: positions(&parts.rpcs, |rpc| key(&rpc.service, &rpc.operation)),
            endpoint: positions(&parts.endpoints, |endpoint| key(&endpoint.service, &endpoint.operation())),
            statement: positions(&parts.statements, |statement| key(&statement.service, &statement.operation())),
        }
    }
}

fn key(first: &str, second: &str) -> (String, String) {
    (first.to_owned(), second.to_owned())
}
