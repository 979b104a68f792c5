//! Building the flat arrays from the typed data of a system.

use std::collections::HashMap;

use model::{ErrorKind, Problem};
use system::{Kind, Phase, Protocol, Service, Step, Topology};

use super::{
    CallId, CallKind, CallPlan, EndpointPlan, JourneyPlan, OperationId, OperationPlan, Plan, QueueId, QueuePlan,
    RequestPlan, RetryPlan, RouteId, RoutePlan, ServiceId, ServicePlan, Workload, caches,
};
use crate::engine::{MILLI, Time};
use crate::profile::{self, client};
use crate::rng::{Draw, Stream, name_key, sigma_of_cv};

/// A statement that writes costs more than one that reads by index: log and locks.
const WRITE_FACTOR: f64 = 1.8;
/// Rows of a table among which writes spread; two writes of one row wait for each other.
pub const ROWS: u32 = 64;
/// Spring AMQP's prefetch, and Kafka's `max.poll.records`.
const PREFETCH: u32 = 250;
const POLL: u32 = 500;

pub fn plan(code: &str, label_key: &str, topology: &Topology) -> Result<Plan, Problem> {
    let mut builder = Builder::new(code, label_key, topology);
    for journey in &topology.journeys {
        let mut requests = Vec::with_capacity(journey.requests.len());
        for request in &journey.requests {
            requests.push(RequestPlan { think_s: request.think_s, root: builder.call(&request.root)? });
        }
        let plan = JourneyPlan { name: journey.name.clone(), weight: journey.weight, requests };
        builder.plan.journeys.push(plan);
    }
    builder.background()?;
    Ok(builder.plan)
}

struct Builder<'a> {
    topology: &'a Topology,
    plan: Plan,
    services: HashMap<String, ServiceId>,
    operations: HashMap<(ServiceId, CallKind, String), OperationId>,
    links: HashMap<(ServiceId, ServiceId), u32>,
    routes: HashMap<(ServiceId, ServiceId, CallKind), RouteId>,
    locks: HashMap<(ServiceId, String, String), u32>,
}

impl<'a> Builder<'a> {
    fn new(code: &str, label_key: &str, topology: &'a Topology) -> Self {
        let enabled = || topology.services.iter().filter(|service| !service.disabled);
        let services: HashMap<String, ServiceId> =
            enabled().enumerate().map(|(at, service)| (service.name.clone(), at as ServiceId)).collect();
        let plan = Plan {
            code: code.to_owned(),
            label_key: label_key.to_owned(),
            telemetry: topology.telemetry.clone(),
            services: enabled().map(|service| service_plan(topology, &services, service)).collect(),
            operations: Vec::new(),
            endpoints: endpoints(topology, &services),
            calls: Vec::new(),
            routes: Vec::new(),
            caches: Vec::new(),
            queues: Vec::new(),
            locks: 0,
            journeys: Vec::new(),
            links: Vec::new(),
        };
        Self {
            topology,
            plan,
            services,
            operations: HashMap::new(),
            links: HashMap::new(),
            routes: HashMap::new(),
            locks: HashMap::new(),
        }
    }

    fn call(&mut self, step: &Step) -> Result<CallId, Problem> {
        let kind = call_kind(step);
        let id = self.add(step, kind, &step.to)?;
        let children = self.children(&step.children)?;
        caches::tie(&mut self.plan, self.topology, &children);
        let calls = &self.plan.calls;
        let groups = children.iter().filter(|&&child| {
            let child = &calls[child as usize];
            !child.detached && !child.parallel
        });
        let stretches = groups.count() as u32 + 1;
        let plan = &mut self.plan.calls[id as usize];
        (plan.children, plan.stretches) = (children, stretches);
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
            let publish = match self.publish_of(&made, broker, delivered) {
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
            let queue = self.queue(broker, delivered, step.protocol);
            let call = &mut self.plan.calls[delivered as usize];
            (call.there, call.queue) = (link, Some(queue));
            self.plan.calls[publish as usize].delivers.push(delivered);
        }
        Ok(made)
    }

    /// The last publish to the broker that has not brought this consumer its message yet.
    fn publish_of(&self, made: &[CallId], broker: ServiceId, delivered: CallId) -> Option<CallId> {
        let calls = &self.plan.calls;
        let to = calls[delivered as usize].to;
        made.iter().rev().copied().find(|&id| {
            let call = &calls[id as usize];
            let reaches = call.delivers.iter().any(|&other| calls[other as usize].to == to);
            call.kind == CallKind::Publish && call.to == broker && !reaches
        })
    }

    fn queue(&mut self, broker: ServiceId, delivered: CallId, protocol: Protocol) -> QueueId {
        let call = &self.plan.calls[delivered as usize];
        let (consumer, name) = (call.to, self.plan.operations[call.operation as usize].route.clone());
        let queues = &mut self.plan.queues;
        let same = |queue: &QueuePlan| queue.broker == broker && queue.consumer == consumer && queue.name == name;
        let known = queues.iter().position(same).unwrap_or_else(|| {
            let is_log = protocol == Protocol::Kafka;
            queues.push(QueuePlan { broker, consumer, name, is_log, most: if is_log { POLL } else { PREFETCH } });
            queues.len() - 1
        });
        known as QueueId
    }

    /// What processes call at their start and in the background.
    fn background(&mut self) -> Result<(), Problem> {
        for (at, call) in self.topology.calls.iter().enumerate() {
            let both = self.services.contains_key(&call.from) && self.services.contains_key(&call.to);
            if call.phase == Phase::Request || !both || call.protocol.is_message() {
                continue;
            }
            for operation in &call.operations {
                let step = Step {
                    from: call.from.clone(),
                    to: call.to.clone(),
                    protocol: call.protocol,
                    operation: operation.clone(),
                    call: at,
                    endpoint: self.topology.endpoint_index(&call.to, operation),
                    rpc: self.topology.rpc_index(&call.to, operation),
                    statement: self
                        .topology
                        .statement_index(&call.from, operation)
                        .filter(|_| call.protocol.is_store()),
                    is_async: false,
                    via: None,
                    on_miss: false,
                    parallel: false,
                    tolerated: false,
                    children: Vec::new(),
                };
                let id = self.call(&step)?;
                let from = &mut self.plan.services[self.plan.calls[id as usize].from as usize];
                from.startup.push(id);
                if call.phase == Phase::Watch {
                    from.watch.push(id);
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, step: &Step, kind: CallKind, to: &str) -> Result<CallId, Problem> {
        let from = self.service(&step.from, step)?;
        let to = self.service(to, step)?;
        let operation = self.operation(step, kind, from, to);
        let (there, back) = (self.link(from, to), self.link(to, from));
        let call = &self.topology.calls[step.call];
        let waits = kind.is_remote() || kind.is_store();
        let route = self.route(from, to, kind);
        let usual = self.plan.routes[route as usize].client.timeout;
        let patience = self.plan.services[from as usize].profile.patience.filter(|_| kind.is_remote());
        self.plan.calls.push(CallPlan {
            kind,
            from,
            to,
            operation,
            route,
            children: Vec::new(),
            delivers: Vec::new(),
            detached: step.is_async && waits,
            parallel: step.parallel,
            tolerated: step.tolerated,
            on_miss: step.on_miss,
            cache: None,
            looks_up: None,
            fills: None,
            queue: None,
            timeout: call.timeout_ms.filter(|_| waits).map(|ms| Time::from(ms) * MILLI).or(usual).or(patience),
            retry: call.retry.filter(|_| waits).map(|retry| RetryPlan {
                times: retry.times.min(u32::from(u8::MAX)) as u8,
                back_off: Time::from(retry.back_off_ms) * MILLI,
            }),
            stretches: 1,
            there,
            back,
        });
        Ok(self.plan.calls.len() as CallId - 1)
    }

    fn service(&self, name: &str, step: &Step) -> Result<ServiceId, Problem> {
        self.services.get(name).copied().ok_or_else(|| {
            Problem::new(ErrorKind::Missing, "system.no_simulation_data", "a call leads to a part that is switched off")
                .place(format!("system {}: {} -> {}", self.plan.code, step.from, step.to))
                .found(format!("`{}` at `{name}`", step.operation))
                .expected("a service that is enabled")
        })
    }

    fn link(&mut self, from: ServiceId, to: ServiceId) -> u32 {
        *self.links.entry((from, to)).or_insert_with(|| {
            self.plan.links.push((from, to));
            self.plan.links.len() as u32 - 1
        })
    }

    fn route(&mut self, from: ServiceId, to: ServiceId, kind: CallKind) -> RouteId {
        if let Some(&known) = self.routes.get(&(from, to, kind)) {
            return known;
        }
        let id = self.plan.routes.len() as RouteId;
        let (caller, callee) = (&self.plan.services[from as usize], &self.plan.services[to as usize]);
        let rows = &self.topology.behaviour.clients;
        let known = rows.iter().filter(|row| row.from == caller.name && row.to == callee.name);
        let client = known.fold(client::of(kind, caller, callee), client::over);
        let routes = &mut self.plan.services[from as usize].routes;
        self.plan.routes.push(RoutePlan { from, to, kind, place: routes.len() as u16, client });
        routes.push(id);
        self.routes.insert((from, to, kind), id);
        id
    }

    fn operation(&mut self, step: &Step, kind: CallKind, from: ServiceId, to: ServiceId) -> OperationId {
        let owner = if kind.is_store() { from } else { to };
        let key = (owner, kind, step.operation.clone());
        if let Some(&known) = self.operations.get(&key) {
            return known;
        }
        let id = self.plan.operations.len() as OperationId;
        let mut operation = self.describe(step, kind, owner, to);
        operation.lock = operation.writes.then(|| self.lock(to, &operation));
        self.plan.operations.push(operation);
        self.operations.insert(key, id);
        id
    }

    /// The locks of the rows of a table, which all clients share.
    fn lock(&mut self, store: ServiceId, operation: &OperationPlan) -> u32 {
        let key = (store, operation.database.clone(), operation.route.clone());
        let locks = &mut self.plan.locks;
        *self.locks.entry(key).or_insert_with(|| {
            *locks += ROWS;
            *locks - ROWS
        })
    }

    fn describe(&self, step: &Step, kind: CallKind, owner: ServiceId, to: ServiceId) -> OperationPlan {
        let owner_name = &self.plan.services[owner as usize].name;
        let server = &self.plan.services[to as usize].profile;
        let (method, route) = parts(&step.operation, kind);
        // A property of the system, not of the run: the same for every seed.
        let mut draw = Stream::new(name_key(&self.plan.code), owner_name).at(name_key(&step.operation));
        let writes = kind.is_store() && !reads(&method);
        let usual_ms = log_between(&mut draw, server.work_ms) * if writes { WRITE_FACTOR } else { 1.0 };
        let known = |service: &str| self.topology.behaviour.of(service)?.operations.get(&step.operation).copied();
        let work_ms = known(&self.plan.services[to as usize].name).or_else(|| known(owner_name)).unwrap_or(usual_ms);
        let statement = step.statement.map(|at| &self.topology.statements[at]);
        let rpc = step.rpc.map(|at| &self.topology.rpcs[at]);
        let code = self.topology.methods_of(owner_name);
        OperationPlan {
            service: owner,
            kind,
            name: step.operation.clone(),
            pattern: step.endpoint.map(|at| self.topology.endpoints[at].pattern.clone()),
            success: step.endpoint.map_or(200, |at| self.topology.endpoints[at].status),
            store: statement.map(|statement| statement.system),
            database: statement.map_or(String::new(), |statement| statement.database.clone()),
            span: rpc.and_then(|rpc| rpc.span.clone()).or_else(|| statement.map(system::Statement::span_name)),
            writes,
            lock: None,
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

fn endpoints(topology: &Topology, services: &HashMap<String, ServiceId>) -> Vec<EndpointPlan> {
    let known = |endpoint: &system::Endpoint| {
        Some(EndpointPlan {
            service: *services.get(&endpoint.service)?,
            method: endpoint.method.clone(),
            route: endpoint.route.clone(),
            pattern: endpoint.pattern.clone(),
            port: endpoint.port,
        })
    };
    topology.endpoints.iter().filter_map(known).collect()
}

fn service_plan(topology: &Topology, ids: &HashMap<String, ServiceId>, service: &Service) -> ServicePlan {
    let stateful = matches!(service.kind, Kind::Db | Kind::Mq | Kind::Cache);
    ServicePlan {
        name: service.name.clone(),
        label: service.label().to_owned(),
        container: service.container().to_owned(),
        dns_name: service.dns_name().to_owned(),
        reported_name: service.reported_name().to_owned(),
        port: service.port,
        service_port: service.service_port.or(service.port),
        kind: service.kind,
        language: service.language,
        protocol: service.protocol,
        jvm: service.runs_on_jvm(),
        image: service.product.as_deref().map_or_else(|| service.name.clone(), |product| product.replace(' ', ":")),
        workload: if stateful { Workload::StatefulSet } else { Workload::Deployment },
        replicas: topology.behaviour.of(&service.name).and_then(|known| known.replicas).unwrap_or(1),
        profile: profile::of(service, topology.behaviour.of(&service.name)),
        has_database: topology.statements_of(&service.name).any(|s| s.system.protocol() == Protocol::Sql),
        listens: topology.calls_from(&service.name).any(|call| {
            call.protocol.is_message() && call.operations.iter().any(|operation| operation.starts_with("consume"))
        }),
        registry: service.registry.as_ref().and_then(|name| ids.get(name).copied()),
        routes: Vec::new(),
        startup: Vec::new(),
        watch: Vec::new(),
    }
}

const fn call_kind(step: &Step) -> CallKind {
    match step.protocol {
        Protocol::Http => CallKind::Http,
        Protocol::Grpc => CallKind::Grpc,
        Protocol::Thrift => CallKind::Thrift,
        Protocol::Sql => CallKind::Sql,
        Protocol::Mongo => CallKind::Mongo,
        Protocol::Redis => CallKind::Redis,
        Protocol::Memcached => CallKind::Memcached,
        Protocol::Amqp | Protocol::Kafka if step.is_async => CallKind::Process,
        Protocol::Amqp | Protocol::Kafka => CallKind::Publish,
    }
}

/// Verbs of the stores' commands that change nothing.
fn reads(verb: &str) -> bool {
    const READING: [&str; 16] = [
        "select",
        "query",
        "find",
        "aggregate",
        "count",
        "get",
        "gets",
        "mget",
        "get_multi",
        "hget",
        "hgetall",
        "hmget",
        "zrange",
        "zrevrange",
        "smembers",
        "exists",
    ];
    READING.iter().any(|known| verb.eq_ignore_ascii_case(known))
}

/// Method and route, service and method of a procedure, verb and table, or nothing and the queue.
fn parts(operation: &str, kind: CallKind) -> (String, String) {
    let (first, rest) = operation.split_once(' ').unwrap_or((operation, ""));
    match kind {
        CallKind::Http | CallKind::Mongo | CallKind::Redis | CallKind::Memcached => (first.to_owned(), rest.to_owned()),
        CallKind::Grpc | CallKind::Thrift => {
            let (service, method) = operation.rsplit_once('/').unwrap_or(("", operation));
            (method.to_owned(), service.to_owned())
        }
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
