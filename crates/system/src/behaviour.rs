//! How a system's parts behave where that differs from the usual of their kind: limits, threads, speeds, pools, caches.
//!
//! File `simulation.yaml`. Every row names the source of its values, so that a reader can judge them.

use std::collections::BTreeMap;

use model::{ErrorKind, Problem};
use serde::Deserialize;

use crate::Topology;

/// What is known about the containers of one service; `None` is the usual of its kind.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServiceBehaviour {
    pub replicas: Option<u16>,
    /// Worker threads.
    pub workers: Option<u32>,
    /// Requests that wait for a worker before new connections find no room.
    pub backlog: Option<u32>,
    /// Threads that work on messages.
    pub listeners: Option<u32>,
    /// Cores; its weight against other containers when a node is full is the request.
    pub cpu_limit: Option<f64>,
    pub cpu_request: Option<f64>,
    /// Cores that the idle process uses.
    pub cpu_idle: Option<f64>,
    pub memory_limit_mib: Option<f64>,
    /// Resident set without a heap and without requests.
    pub memory_base_mib: Option<f64>,
    /// What one request under way holds.
    pub memory_per_request_kib: Option<f64>,
    /// `-Xmx` of a Java virtual machine.
    pub heap_mib: Option<f64>,
    /// Seconds from the start of the process until it is ready, lowest and highest.
    pub start_s: Option<[f64; 2]>,
    /// Median own CPU work of an operation in milliseconds, lowest and highest over operations.
    pub work_ms: Option<[f64; 2]>,
    /// Coefficient of variation of that work.
    pub work_cv: Option<f64>,
    /// Median own CPU work of single operations, in milliseconds.
    pub operations: BTreeMap<String, f64>,
}

/// How one service's clients of another keep connections; `None` is the usual of protocol and language.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClientBehaviour {
    pub from: String,
    pub to: String,
    /// Most connections.
    pub connections: Option<u32>,
    /// Idle connections that are kept.
    pub idle: Option<u16>,
    /// Longest wait for a connection.
    pub wait_ms: Option<u32>,
    /// Longest wait for an answer, where the call does not say.
    pub timeout_ms: Option<u32>,
}

/// The keys of look-ups that one service makes, at a store or inside its own process.
#[derive(Debug, Clone, PartialEq)]
pub struct CacheBehaviour {
    pub client: String,
    /// The store's service; `None` is the memory of the client's own processes.
    pub store: Option<String>,
    /// Different keys that are asked for.
    pub keys: u32,
    /// Keys that find room.
    pub entries: u32,
    /// Exponent of Zipf's law for their popularity.
    pub skew: f64,
}

/// A system's behaviour.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Behaviour {
    /// Journeys per second that the system is normally used with.
    pub journeys_per_s: Option<f64>,
    services: BTreeMap<String, ServiceBehaviour>,
    pub clients: Vec<ClientBehaviour>,
    pub caches: Vec<CacheBehaviour>,
}

impl Behaviour {
    /// What is known about a service.
    pub fn of(&self, service: &str) -> Option<&ServiceBehaviour> {
        self.services.get(service)
    }
}

/// File `simulation.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    format: u32,
    #[serde(default)]
    load: Option<LoadRow>,
    #[serde(default)]
    services: Vec<ServiceRow>,
    #[serde(default)]
    clients: Vec<ClientRow>,
    #[serde(default)]
    caches: Vec<CacheRow>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LoadRow {
    journeys_per_s: f64,
    source: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceRow {
    services: Vec<String>,
    source: String,
    #[serde(default)]
    replicas: Option<u16>,
    #[serde(default)]
    workers: Option<u32>,
    #[serde(default)]
    backlog: Option<u32>,
    #[serde(default)]
    listeners: Option<u32>,
    #[serde(default)]
    cpu_limit: Option<f64>,
    #[serde(default)]
    cpu_request: Option<f64>,
    #[serde(default)]
    cpu_idle: Option<f64>,
    #[serde(default)]
    memory_limit_mib: Option<f64>,
    #[serde(default)]
    memory_base_mib: Option<f64>,
    #[serde(default)]
    memory_per_request_kib: Option<f64>,
    #[serde(default)]
    heap_mib: Option<f64>,
    #[serde(default)]
    start_s: Option<[f64; 2]>,
    #[serde(default)]
    work_ms: Option<[f64; 2]>,
    #[serde(default)]
    work_cv: Option<f64>,
    #[serde(default)]
    operations: BTreeMap<String, f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientRow {
    from: Vec<String>,
    to: Vec<String>,
    source: String,
    #[serde(default)]
    connections: Option<u32>,
    #[serde(default)]
    idle: Option<u16>,
    #[serde(default)]
    wait_ms: Option<u32>,
    #[serde(default)]
    timeout_ms: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CacheRow {
    client: String,
    #[serde(default)]
    store: Option<String>,
    keys: u32,
    entries: u32,
    skew: f64,
    source: String,
}

impl File {
    /// The rows by what they are about; a later row about a service adds to an earlier one.
    ///
    /// # Errors
    /// Every row that names what is not there, gives no source, or a value with which nothing could run.
    pub(crate) fn resolve(self, topology: &Topology) -> Result<Behaviour, Vec<Problem>> {
        let mut check = Check { topology, findings: Vec::new() };
        if self.format != 1 {
            check.report("format", &self.format.to_string(), "1");
        }
        let mut behaviour = Behaviour::default();
        if let Some(load) = &self.load {
            check.source("load", &load.source);
            check.range("load.journeys_per_s", Some(load.journeys_per_s), 0.001, 2000.0);
            behaviour.journeys_per_s = Some(load.journeys_per_s);
        }
        for (at, row) in self.services.iter().enumerate() {
            check.service_row(&format!("services[{at}]"), row);
            for name in &row.services {
                row.add_to(behaviour.services.entry(name.clone()).or_default());
            }
        }
        for (at, row) in self.clients.iter().enumerate() {
            check.client_row(&format!("clients[{at}]"), row);
            behaviour.clients.extend(row.each());
        }
        for (at, row) in self.caches.iter().enumerate() {
            check.cache_row(&format!("caches[{at}]"), row);
            behaviour.caches.push(CacheBehaviour {
                client: row.client.clone(),
                store: row.store.clone(),
                keys: row.keys,
                entries: row.entries,
                skew: row.skew,
            });
        }
        if check.findings.is_empty() { Ok(behaviour) } else { Err(check.findings) }
    }
}

impl ServiceRow {
    fn add_to(&self, service: &mut ServiceBehaviour) {
        fn set<T: Copy>(place: &mut Option<T>, value: Option<T>) {
            *place = value.or(*place);
        }
        set(&mut service.replicas, self.replicas);
        set(&mut service.workers, self.workers);
        set(&mut service.backlog, self.backlog);
        set(&mut service.listeners, self.listeners);
        set(&mut service.cpu_limit, self.cpu_limit);
        set(&mut service.cpu_request, self.cpu_request);
        set(&mut service.cpu_idle, self.cpu_idle);
        set(&mut service.memory_limit_mib, self.memory_limit_mib);
        set(&mut service.memory_base_mib, self.memory_base_mib);
        set(&mut service.memory_per_request_kib, self.memory_per_request_kib);
        set(&mut service.heap_mib, self.heap_mib);
        set(&mut service.start_s, self.start_s);
        set(&mut service.work_ms, self.work_ms);
        set(&mut service.work_cv, self.work_cv);
        service.operations.extend(self.operations.iter().map(|(name, ms)| (name.clone(), *ms)));
    }
}

impl ClientRow {
    fn each(&self) -> impl Iterator<Item = ClientBehaviour> + '_ {
        let pairs = self.from.iter().flat_map(|from| self.to.iter().map(move |to| (from, to)));
        pairs.map(|(from, to)| ClientBehaviour {
            from: from.clone(),
            to: to.clone(),
            connections: self.connections,
            idle: self.idle,
            wait_ms: self.wait_ms,
            timeout_ms: self.timeout_ms,
        })
    }
}

struct Check<'a> {
    topology: &'a Topology,
    findings: Vec<Problem>,
}

impl Check<'_> {
    fn service_row(&mut self, place: &str, row: &ServiceRow) {
        self.source(place, &row.source);
        self.known(place, &row.services);
        self.range(&format!("{place}.replicas"), row.replicas.map(f64::from), 1.0, 50.0);
        self.range(&format!("{place}.workers"), row.workers.map(f64::from), 1.0, 1e6);
        self.range(&format!("{place}.listeners"), row.listeners.map(f64::from), 1.0, 1e4);
        self.range(&format!("{place}.cpu_limit"), row.cpu_limit, 0.001, 256.0);
        self.range(&format!("{place}.cpu_request"), row.cpu_request, 0.001, 256.0);
        self.range(&format!("{place}.cpu_idle"), row.cpu_idle, 0.0, 256.0);
        for (name, value) in [
            ("memory_limit_mib", row.memory_limit_mib),
            ("memory_base_mib", row.memory_base_mib),
            ("memory_per_request_kib", row.memory_per_request_kib),
            ("heap_mib", row.heap_mib),
        ] {
            self.range(&format!("{place}.{name}"), value, 0.5, 4e6);
        }
        self.range(&format!("{place}.work_cv"), row.work_cv, 0.0, 5.0);
        for (name, pair, most) in [("start_s", row.start_s, 3600.0), ("work_ms", row.work_ms, 60_000.0)] {
            self.range(&format!("{place}.{name}"), pair.map(|pair| pair[0]), 1e-4, most);
            self.range(&format!("{place}.{name}"), pair.map(|pair| pair[1]), pair.map_or(0.0, |p| p[0]), most);
        }
        for (name, &ms) in &row.operations {
            self.range(&format!("{place}.operations.{name}"), Some(ms), 1e-4, 60_000.0);
            let answers = |service: &String| {
                self.topology
                    .calls_to(service)
                    .chain(self.topology.calls_from(service))
                    .any(|call| call.operations.contains(name))
            };
            if !row.services.iter().any(answers) {
                self.report(&format!("{place}.operations"), &format!("`{name}`"), "an operation of the service");
            }
        }
    }

    fn client_row(&mut self, place: &str, row: &ClientRow) {
        self.source(place, &row.source);
        self.known(place, &row.from);
        self.known(place, &row.to);
        self.range(&format!("{place}.connections"), row.connections.map(f64::from), 1.0, 1e6);
        self.range(&format!("{place}.timeout_ms"), row.timeout_ms.map(f64::from), 1.0, 4e6);
        for pair in row.each() {
            if self.topology.call(&pair.from, &pair.to).is_none() {
                self.report(place, &format!("{} -> {}", pair.from, pair.to), "a call in topology.yaml");
            }
        }
    }

    fn cache_row(&mut self, place: &str, row: &CacheRow) {
        self.source(place, &row.source);
        self.known(place, [&row.client].into_iter().chain(row.store.as_ref()));
        self.range(&format!("{place}.keys"), Some(f64::from(row.keys)), 1.0, 4_000_000.0);
        self.range(&format!("{place}.entries"), Some(f64::from(row.entries)), 1.0, 4_000_000.0);
        self.range(&format!("{place}.skew"), Some(row.skew), 0.0, 3.0);
    }

    fn source(&mut self, place: &str, text: &str) {
        if text.trim().is_empty() {
            self.report(&format!("{place}.source"), "nothing", "where the values come from");
        }
    }

    fn known<'s>(&mut self, place: &str, names: impl IntoIterator<Item = &'s String>) {
        for name in names {
            if self.topology.service(name).is_none() {
                let known = self.topology.services.iter().map(|service| service.name.as_str());
                let problem = Problem::unknown("system.data_inconsistent", "service", name, known);
                self.findings.push(problem.place(format!("simulation.yaml: {place}")));
            }
        }
    }

    fn range(&mut self, place: &str, value: Option<f64>, low: f64, high: f64) {
        if let Some(value) = value
            && !(low..=high).contains(&value)
        {
            self.report(place, &value.to_string(), &format!("{low} to {high}"));
        }
    }

    fn report(&mut self, place: &str, found: &str, expected: &str) {
        self.findings.push(
            Problem::new(
                ErrorKind::Invalid,
                "system.data_inconsistent",
                "the behaviour does not fit what the other files say, or is out of range",
            )
            .place(format!("simulation.yaml: {place}"))
            .found(found.to_owned())
            .expected(expected.to_owned()),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalog, yaml};

    #[test]
    fn what_does_not_fit_is_refused_and_later_rows_add() {
        let catalog = Catalog::builtin().unwrap();
        let system = catalog.get(&model::SystemCode::parse("ts").unwrap()).unwrap();
        let read = |rows: &str| {
            let file: File = yaml::read("simulation.yaml", &format!("format: 1\n{rows}")).unwrap();
            file.resolve(system.topology().unwrap())
        };
        let refused = |row: &str| read(row).unwrap_err().remove(0).to_string();
        assert!(refused("services: [{services: [ts-ordr-service], source: x}]").contains("ts-order-service"));
        assert!(refused("services: [{services: [mysql], source: x, cpu_limit: 0}]").contains("cpu_limit"));
        assert!(refused("services: [{services: [mysql], source: ' '}]").contains("source"));
        assert!(refused("services: [{services: [mysql], source: x, operations: {nothing: 1.0}}]").contains("nothing"));
        assert!(refused("clients: [{from: [mysql], to: [rabbitmq], source: x}]").contains("mysql -> rabbitmq"));
        let both = read(
            "services: [{services: [mysql, rabbitmq], source: x, cpu_limit: 2, workers: 7}, {services: [mysql], source: y, cpu_limit: 3}]",
        );
        let both = both.unwrap();
        let mysql = both.of("mysql").unwrap();
        assert_eq!((mysql.cpu_limit, mysql.workers), (Some(3.0), Some(7)));
        assert_eq!(both.of("rabbitmq").unwrap().cpu_limit, Some(2.0));
    }
}
