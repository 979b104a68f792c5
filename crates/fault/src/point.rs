//! Points: every single target of every capability, with its stable id.

use std::collections::{BTreeMap, HashSet};

use model::{ErrorKind, Problem, Result, SystemCode};
use serde::Serialize;
use sha2::{Digest, Sha256};
use system::{Service, SystemData, Topology};

use crate::target::{Candidate, candidates, targetable};
use crate::{Capability, Family, Requirement, Target, capabilities, capability};

/// One target of one capability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Point {
    pub id: String,
    pub system: SystemCode,
    pub service: String,
    pub capability: &'static str,
    pub family: Family,
    /// The keys of the target as `Spec::target` takes them.
    pub target: BTreeMap<String, String>,
    /// Read from code or charts, not seen in telemetry.
    pub inferred: bool,
    /// Whether the known journeys of users come by here; elsewhere a fault will hardly be felt.
    pub on_path: bool,
    pub simulated: bool,
}

/// Which points to list. The default lists all.
#[derive(Debug, Clone, Default)]
pub struct Filter<'a> {
    pub service: Option<&'a str>,
    pub capability: Option<&'a str>,
    pub family: Option<Family>,
    pub on_path: bool,
    pub simulated: bool,
}

/// The points of a system, by capability and then in the order of its data.
///
/// # Errors
/// `system.no_simulation_data`; `capability.unknown` or `service.unknown` for a filter that names nothing.
pub fn points(system: &SystemData, filter: &Filter<'_>) -> Result<Vec<Point>> {
    let topology = system.topology()?;
    if let Some(name) = filter.capability {
        capability(name)?;
    }
    if let Some(name) = filter.service {
        system.service(name)?;
    }
    let mut points = Vec::new();
    visit(topology, |row, service, candidate, on_path| {
        let wanted = filter.capability.is_none_or(|name| name == row.name)
            && filter.service.is_none_or(|name| name == service.name)
            && filter.family.is_none_or(|family| family == row.family)
            && (row.simulated || !filter.simulated)
            && (on_path || !filter.on_path);
        // What is meant only when a request says so is part of another row of the data.
        if wanted && candidate.only_with.is_none() {
            points.push(listed(system, row, service, candidate, on_path));
        }
    });
    Ok(points)
}

/// The point of an id, as listings and stored faults name it; those that are meant only on request are found as well.
///
/// # Errors
/// `system.no_simulation_data`, `point.unknown`.
pub fn point(system: &SystemData, id: &str) -> Result<Point> {
    let topology = system.topology()?;
    let mut found = None;
    visit(topology, |row, service, candidate, on_path| {
        let point = listed(system, row, service, candidate, on_path);
        if point.id == id {
            found = Some(point);
        }
    });
    found.ok_or_else(|| {
        Problem::new(ErrorKind::NotFound, "point.unknown", "the system has no such point")
            .place("point")
            .found(format!("`{id}`"))
            .expected(format!("the id of a point of `{}`", system.code()))
            .fix(format!("see `aegisctl point list --system {}`", system.code()))
    })
}

/// Shows every target of every capability, by capability and then in the order of the data.
fn visit(topology: &Topology, mut show: impl FnMut(&'static Capability, &Service, Candidate, bool)) {
    let paths = Paths::new(topology);
    for row in capabilities() {
        let needs_jvm = row.requires.contains(&Requirement::Jvm);
        for service in topology.services.iter().filter(|service| targetable(service)) {
            if needs_jvm && !service.runs_on_jvm() {
                continue;
            }
            for candidate in candidates(row, topology, service) {
                let on_path = paths.come_by(&candidate.target);
                show(row, service, candidate, on_path);
            }
        }
    }
}

fn listed(
    system: &SystemData,
    row: &'static Capability,
    service: &Service,
    candidate: Candidate,
    on_path: bool,
) -> Point {
    Point {
        id: id(system.code(), row.name, &candidate.target),
        system: system.code().clone(),
        service: service.name.clone(),
        capability: row.name,
        family: row.family,
        target: candidate.target.identity(),
        inferred: candidate.inferred || service.inferred,
        on_path,
        simulated: row.simulated,
    }
}

/// The id of a point: the system's code and 48 bits in hexadecimal, which a person can still type and which two points of
/// one system share with a chance of one in a million at 20,000 points. A test over all data says that none do.
pub(crate) fn id(system: &SystemCode, capability: &str, target: &Target) -> String {
    let identity = (system.as_str(), target.service(), capability, essence(target));
    let text = serde_json::to_string(&identity).expect("text and maps of text are always JSON");
    format!("{system}-{}", hex::encode(&Sha256::digest(text.as_bytes())[..6]))
}

/// The system that an id belongs to, if the text has the form of one.
pub fn system_of_point(id: &str) -> Option<SystemCode> {
    let (system, digest) = id.rsplit_once('-')?;
    let is_digest = digest.len() == 12 && digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    SystemCode::parse(system).ok().filter(|_| is_digest)
}

/// What makes a target this one and no other of its service. Ports and container names are not part of it: another
/// version of a chart may give others to the same thing.
fn essence(target: &Target) -> BTreeMap<String, String> {
    let mut keys = target.identity();
    keys.remove("port");
    keys.remove("container");
    keys
}

/// Where the journeys of users come by.
struct Paths<'a> {
    topology: &'a Topology,
    services: HashSet<&'a str>,
    links: HashSet<(&'a str, &'a str)>,
    /// (callee, operation) of requests and messages.
    served: HashSet<(&'a str, &'a str)>,
    /// (client, operation) of statements.
    sent: HashSet<(&'a str, &'a str)>,
}

impl<'a> Paths<'a> {
    fn new(topology: &'a Topology) -> Self {
        let mut paths = Self {
            topology,
            services: HashSet::new(),
            links: HashSet::new(),
            served: HashSet::new(),
            sent: HashSet::new(),
        };
        for step in topology.journeys.iter().flat_map(system::Journey::steps) {
            paths.services.insert(&step.to);
            paths.links.insert((&step.from, &step.to));
            if step.statement.is_some() {
                paths.sent.insert((&step.from, &step.operation));
            } else {
                paths.served.insert((&step.to, &step.operation));
            }
        }
        paths
    }

    fn come_by(&self, target: &Target) -> bool {
        match target {
            Target::Service { service } | Target::Container { service, .. } => self.services.contains(service.as_str()),
            Target::Link { source, target: peer } | Target::Dns { service: source, peer, .. } => {
                self.links.contains(&(source.as_str(), peer.as_str()))
            }
            Target::Http { service, .. } => self
                .topology
                .endpoints_of(service)
                .filter(|endpoint| target.covers(endpoint))
                .any(|endpoint| self.served.contains(&(service.as_str(), endpoint.operation().as_str()))),
            Target::JvmMethod { service, class, method } => self
                .topology
                .methods_of(service)
                .find(|known| known.class == *class && known.method == *method)
                .and_then(|known| known.serves.as_deref())
                .is_some_and(|operation| self.served.contains(&(service.as_str(), operation))),
            Target::Table { service, table, operation, .. } => self.topology.statements_of(service).any(|statement| {
                statement.table == *table
                    && operation.covers(&statement.verb)
                    && self.sent.contains(&(service.as_str(), statement.operation().as_str()))
            }),
        }
    }
}
