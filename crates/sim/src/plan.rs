//! A system's topology turned into flat arrays that the engine walks: services, operations, and the tree of every request.

use std::collections::HashMap;

use model::{ErrorKind, Problem};
use system::{Kind, Language, PathPattern, Protocol, Step, Topology};

use crate::profile::{self, Profile};
use crate::rng::{Draw, Stream, name_key, sigma_of_cv};

/// Share of look-ups that find the answer in a cache.
const CACHE_HIT: f64 = 0.9;
/// A statement that writes costs more than one that reads by index: log and locks.
const WRITE_FACTOR: f64 = 1.8;

/// Position in [`Plan::services`].
pub type ServiceId = u16;
/// Position in [`Plan::operations`].
pub type OperationId = u32;
/// Position in [`Plan::calls`].
pub type CallId = u32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    Deployment,
    StatefulSet,
}

#[derive(Debug)]
pub struct ServicePlan {
    pub name: String,
    pub label: String,
    pub container: String,
    pub dns_name: String,
    pub port: Option<u16>,
    pub kind: Kind,
    pub language: Language,
    pub jvm: bool,
    pub image: String,
    pub workload: Workload,
    pub replicas: u16,
    pub profile: Profile,
    /// Talks to a relational database through a pool of connections.
    pub has_database: bool,
    pub listens: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    Http,
    /// A statement, through the caller's pool of connections.
    Sql,
    /// A message handed to a broker.
    Publish,
    /// The handling of a message that the broker delivers.
    Process,
}

/// One thing that a service does for its callers; of SQL, one statement of one client.
#[derive(Debug)]
pub struct OperationPlan {
    /// Who answers; of SQL, the client that sends the statement.
    pub service: ServiceId,
    pub kind: CallKind,
    /// `METHOD /route`, `verb table`, or the queue.
    pub name: String,
    pub method: String,
    /// Route, table or queue.
    pub route: String,
    pub pattern: Option<PathPattern>,
    pub database: String,
    /// `(class, method)` of the code that answers.
    pub code: Vec<(String, String)>,
    /// Median own work in CPU-nanoseconds and the spread of its logarithm.
    pub work: f64,
    pub sigma: f64,
    pub request_bytes: u32,
    pub response_bytes: u32,
}

/// One node of a request's tree.
#[derive(Debug)]
pub struct CallPlan {
    pub kind: CallKind,
    pub from: ServiceId,
    pub to: ServiceId,
    pub operation: OperationId,
    /// Calls in order that the handling waits for one after the other.
    pub children: Vec<CallId>,
    /// What the broker delivers after a publish.
    pub delivers: Option<CallId>,
    /// The caller does not wait for the answer.
    pub detached: bool,
    /// Probability that it is made at all.
    pub chance: f64,
    /// Links there and back, positions in [`Plan::links`].
    pub there: u32,
    pub back: u32,
}

#[derive(Debug)]
pub struct RequestPlan {
    pub think_s: f64,
    pub root: CallId,
}

#[derive(Debug)]
pub struct JourneyPlan {
    pub name: String,
    pub weight: f64,
    pub requests: Vec<RequestPlan>,
}

#[derive(Debug)]
pub struct Plan {
    pub code: String,
    pub label_key: String,
    pub services: Vec<ServicePlan>,
    pub operations: Vec<OperationPlan>,
    pub calls: Vec<CallPlan>,
    pub journeys: Vec<JourneyPlan>,
    /// Directed pairs `(from, to)`.
    pub links: Vec<(ServiceId, ServiceId)>,
}

impl Plan {
    /// # Errors
    /// `system.no_simulation_data` when a part of the system has no model yet.
    pub fn new(code: &str, label_key: &str, topology: &Topology) -> Result<Self, Problem> {
        let mut builder = Builder::new(code, label_key, topology);
        for journey in &topology.journeys {
            let mut requests = Vec::with_capacity(journey.requests.len());
            for request in &journey.requests {
                requests.push(RequestPlan { think_s: request.think_s, root: builder.call(&request.root)? });
            }
            let plan = JourneyPlan { name: journey.name.clone(), weight: journey.weight, requests };
            builder.plan.journeys.push(plan);
        }
        Ok(builder.plan)
    }

    pub fn service(&self, name: &str) -> Option<ServiceId> {
        self.services.iter().position(|service| service.name == name).map(|at| at as ServiceId)
    }

    pub fn link(&self, from: ServiceId, to: ServiceId) -> Option<u32> {
        self.links.iter().position(|&pair| pair == (from, to)).map(|at| at as u32)
    }
}

struct Builder<'a> {
    topology: &'a Topology,
    plan: Plan,
    services: HashMap<String, ServiceId>,
    operations: HashMap<(ServiceId, String), OperationId>,
    links: HashMap<(ServiceId, ServiceId), u32>,
}

impl<'a> Builder<'a> {
    fn new(code: &str, label_key: &str, topology: &'a Topology) -> Self {
        let mut services = Vec::new();
        let mut index = HashMap::new();
        for service in topology.services.iter().filter(|service| !service.disabled) {
            index.insert(service.name.clone(), services.len() as ServiceId);
            let stateful = matches!(service.kind, Kind::Db | Kind::Mq | Kind::Cache);
            services.push(ServicePlan {
                name: service.name.clone(),
                label: service.label().to_owned(),
                container: service.container().to_owned(),
                dns_name: service.dns_name().to_owned(),
                port: service.port,
                kind: service.kind,
                language: service.language,
                jvm: service.runs_on_jvm(),
                image: service.product.as_deref().map_or_else(|| service.name.clone(), |p| p.replace(' ', ":")),
                workload: if stateful { Workload::StatefulSet } else { Workload::Deployment },
                replicas: 1,
                profile: profile::of(service),
                has_database: topology.statements_of(&service.name).next().is_some(),
                listens: topology.calls_from(&service.name).any(|call| {
                    call.protocol == Protocol::Amqp && call.operations.iter().any(|op| op.starts_with("consume"))
                }),
            });
        }
        let plan = Plan {
            code: code.to_owned(),
            label_key: label_key.to_owned(),
            services,
            operations: Vec::new(),
            calls: Vec::new(),
            journeys: Vec::new(),
            links: Vec::new(),
        };
        Self { topology, plan, services: index, operations: HashMap::new(), links: HashMap::new() }
    }

    fn call(&mut self, step: &Step) -> Result<CallId, Problem> {
        let kind = call_kind(step).ok_or_else(|| unsupported(&self.plan.code, step))?;
        let id = self.add(step, kind, &step.to)?;
        let children = self.children(&step.children)?;
        self.plan.calls[id as usize].children = children;
        Ok(id)
    }

    /// The calls of one handler. A message flow hangs on the publish that starts it.
    fn children(&mut self, steps: &[Step]) -> Result<Vec<CallId>, Problem> {
        let mut made = Vec::with_capacity(steps.len());
        for step in steps {
            let Some(broker) = step.via.as_deref().filter(|_| step.is_async) else {
                made.push(self.call(step)?);
                continue;
            };
            let delivered = self.call(step)?;
            let broker = self.service(broker, step)?;
            let open = made.iter().rev().copied().find(|&id: &CallId| {
                let call = &self.plan.calls[id as usize];
                call.kind == CallKind::Publish && call.to == broker && call.delivers.is_none()
            });
            let publish = match open {
                Some(publish) => publish,
                None => {
                    let name = self.plan.services[broker as usize].name.clone();
                    let publish = self.add(step, CallKind::Publish, &name)?;
                    made.push(publish);
                    publish
                }
            };
            let to = self.plan.calls[delivered as usize].to;
            let link = self.link(broker, to);
            self.plan.calls[delivered as usize].there = link;
            self.plan.calls[publish as usize].delivers = Some(delivered);
        }
        Ok(made)
    }

    fn add(&mut self, step: &Step, kind: CallKind, to: &str) -> Result<CallId, Problem> {
        let from = self.service(&step.from, step)?;
        let to = self.service(to, step)?;
        let operation = self.operation(step, kind, from, to);
        let (there, back) = (self.link(from, to), self.link(to, from));
        self.plan.calls.push(CallPlan {
            kind,
            from,
            to,
            operation,
            children: Vec::new(),
            delivers: None,
            detached: step.is_async && kind == CallKind::Http,
            chance: if step.on_miss { 1.0 - CACHE_HIT } else { 1.0 },
            there,
            back,
        });
        Ok(self.plan.calls.len() as CallId - 1)
    }

    fn service(&self, name: &str, step: &Step) -> Result<ServiceId, Problem> {
        self.services.get(name).copied().ok_or_else(|| unsupported(&self.plan.code, step))
    }

    fn link(&mut self, from: ServiceId, to: ServiceId) -> u32 {
        *self.links.entry((from, to)).or_insert_with(|| {
            self.plan.links.push((from, to));
            self.plan.links.len() as u32 - 1
        })
    }

    fn operation(&mut self, step: &Step, kind: CallKind, from: ServiceId, to: ServiceId) -> OperationId {
        let owner = if kind == CallKind::Sql { from } else { to };
        let name = format!("{} {}", kind_key(kind), step.operation);
        if let Some(&known) = self.operations.get(&(owner, name.clone())) {
            return known;
        }
        let id = self.plan.operations.len() as OperationId;
        let operation = self.describe(step, kind, owner, to);
        self.plan.operations.push(operation);
        self.operations.insert((owner, name), id);
        id
    }

    fn describe(&self, step: &Step, kind: CallKind, owner: ServiceId, to: ServiceId) -> OperationPlan {
        let owner_name = &self.plan.services[owner as usize].name;
        let server = &self.plan.services[to as usize].profile;
        let (method, route) = parts(&step.operation, kind);
        // A property of the system, not of the run: the same for every seed.
        let mut draw = Stream::new(name_key(&self.plan.code), owner_name).at(name_key(&step.operation));
        let writes = kind == CallKind::Sql && !method.eq_ignore_ascii_case("select");
        let work_ms = log_between(&mut draw, server.work_ms) * if writes { WRITE_FACTOR } else { 1.0 };
        let code = self.topology.methods_of(owner_name);
        OperationPlan {
            service: owner,
            kind,
            name: step.operation.clone(),
            pattern: step.endpoint.map(|at| self.topology.endpoints[at].pattern.clone()),
            database: step.statement.map_or(String::new(), |at| self.topology.statements[at].database.clone()),
            code: code
                .filter(|code| code.serves.as_deref() == Some(step.operation.as_str()))
                .map(|code| (code.class.clone(), code.method.clone()))
                .collect(),
            method,
            route,
            work: work_ms * 1e6,
            sigma: sigma_of_cv(server.work_cv),
            request_bytes: log_between(&mut draw, (250.0, 900.0)) as u32,
            response_bytes: log_between(&mut draw, (300.0, 12_000.0)) as u32,
        }
    }
}

fn call_kind(step: &Step) -> Option<CallKind> {
    match step.protocol {
        Protocol::Http => Some(CallKind::Http),
        Protocol::Sql => Some(CallKind::Sql),
        Protocol::Amqp if step.is_async => Some(CallKind::Process),
        Protocol::Amqp => Some(CallKind::Publish),
        _ => None,
    }
}

const fn kind_key(kind: CallKind) -> &'static str {
    match kind {
        CallKind::Http => "http",
        CallKind::Sql => "sql",
        CallKind::Publish => "publish",
        CallKind::Process => "process",
    }
}

/// Method and route, verb and table, or nothing and the queue.
fn parts(operation: &str, kind: CallKind) -> (String, String) {
    let (first, rest) = operation.split_once(' ').unwrap_or((operation, ""));
    match kind {
        CallKind::Http => (first.to_owned(), rest.to_owned()),
        CallKind::Sql => (first.to_ascii_uppercase(), rest.to_owned()),
        CallKind::Publish => {
            ("publish".to_owned(), operation.trim_start_matches("publish ").trim_end_matches(" process").to_owned())
        }
        CallKind::Process => ("process".to_owned(), operation.trim_end_matches(" process").to_owned()),
    }
}

fn log_between(draw: &mut Draw, (low, high): (f64, f64)) -> f64 {
    low * (high / low).powf(draw.unit())
}

fn unsupported(code: &str, step: &Step) -> Problem {
    Problem::new(ErrorKind::Missing, "system.no_simulation_data", "a part of the system cannot be simulated yet")
        .place(format!("system {code}: {} -> {}", step.from, step.to))
        .found(format!("`{}` over {:?}", step.operation, step.protocol))
        .expected("HTTP, SQL and AMQP between enabled services")
}
