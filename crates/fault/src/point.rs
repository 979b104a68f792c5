//! Points: every single target of every capability, with its stable id.

use std::collections::{BTreeMap, HashSet};

use model::{Result, SystemCode};
use serde::Serialize;
use sha2::{Digest, Sha256};
use system::{SystemData, Topology};

use crate::target::{candidates, targetable};
use crate::{Family, Requirement, Target, capabilities, capability};

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
    let paths = Paths::new(topology);
    let mut points = Vec::new();
    for row in capabilities() {
        if filter.capability.is_some_and(|name| name != row.name)
            || filter.family.is_some_and(|family| family != row.family)
            || (filter.simulated && !row.simulated)
        {
            continue;
        }
        for service in topology.services.iter().filter(|service| targetable(service)) {
            let needs_jvm = row.requires.contains(&Requirement::Jvm);
            if filter.service.is_some_and(|name| name != service.name) || (needs_jvm && !service.runs_on_jvm()) {
                continue;
            }
            for candidate in candidates(row, topology, service) {
                let on_path = paths.come_by(&candidate.target);
                if candidate.only_with.is_some() || (filter.on_path && !on_path) {
                    continue;
                }
                points.push(Point {
                    id: id(system.code(), row.name, &candidate.target),
                    system: system.code().clone(),
                    service: service.name.clone(),
                    capability: row.name,
                    family: row.family,
                    target: candidate.target.identity(),
                    inferred: candidate.inferred,
                    on_path,
                    simulated: row.simulated,
                });
            }
        }
    }
    Ok(points)
}

/// The id of a point: 16 hexadecimal digits that depend on nothing but system, service, capability and target keys.
pub(crate) fn id(system: &SystemCode, capability: &str, target: &Target) -> String {
    let identity = (system.as_str(), target.service(), capability, target.identity());
    let text = serde_json::to_string(&identity).expect("text and maps of text are always JSON");
    hex::encode(&Sha256::digest(text.as_bytes())[..8])
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
