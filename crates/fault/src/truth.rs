//! The ground truth that a fault implies.

use model::{Result, Role, TruthEntry};
use system::{Protocol, SystemData, Topology};

use crate::{Resolved, Target};

/// The labels of one fault: the acting service as root, with the pods that were hit, and the other party as peer.
///
/// The root is where the fault acts: the source of a link, the client of a name or a database. The entries are those of a
/// run's first fault; whoever puts a batch together numbers them.
///
/// # Errors
/// `service.unknown`, `system.no_simulation_data` when the data no longer fits a stored fault.
pub fn truth(fault: &Resolved, system: &SystemData, pods: &[String]) -> Result<Vec<TruthEntry>> {
    let rule = fault.capability().truth;
    let container = match &fault.target {
        Target::Container { container, .. } => container.clone(),
        _ => system.service(fault.service())?.container().to_owned(),
    };
    let mut entries = vec![TruthEntry {
        fault: 0,
        role: Role::Root,
        service: fault.service().to_owned(),
        pod: pods.to_vec(),
        container: vec![container],
        metric: rule.metric.map(str::to_owned).into_iter().collect(),
        function: function(&fault.target).filter(|_| rule.function).into_iter().collect(),
        span: if rule.span { spans(&fault.target, system.topology()?) } else { vec![] },
    }];
    if let Some(peer) = fault.target.peer().filter(|_| rule.peer) {
        entries.push(TruthEntry {
            fault: 0,
            role: Role::Peer,
            service: peer.to_owned(),
            pod: vec![],
            container: vec![system.service(peer)?.container().to_owned()],
            metric: vec![],
            function: vec![],
            span: vec![],
        });
    }
    Ok(entries)
}

fn function(target: &Target) -> Option<String> {
    match target {
        Target::JvmMethod { class, method, .. } => Some(format!("{class}.{method}")),
        _ => None,
    }
}

/// Names of the spans between the two parties, or of the endpoints that the path covers.
fn spans(target: &Target, topology: &Topology) -> Vec<String> {
    match target {
        Target::Http { service, .. } => topology
            .endpoints_of(service)
            .filter(|endpoint| target.covers(endpoint))
            .map(system::Endpoint::operation)
            .collect(),
        Target::Link { source, target: peer } | Target::Dns { service: source, peer, .. } => {
            let mut names = call_spans(topology, source, peer);
            names.extend(call_spans(topology, peer, source));
            names
        }
        Target::Table { service, database, table, operation, .. } => topology
            .statements_of(service)
            .filter(|statement| statement.database == *database && statement.table == *table)
            .filter(|statement| operation.covers(&statement.verb))
            .map(system::Statement::span_name)
            .collect(),
        _ => vec![],
    }
}

fn call_spans(topology: &Topology, from: &str, to: &str) -> Vec<String> {
    let Some(call) = topology.call(from, to) else { return vec![] };
    let name = |operation: &String| match call.protocol {
        Protocol::Sql => topology
            .statement_index(from, operation)
            .map_or_else(|| operation.clone(), |at| topology.statements[at].span_name()),
        _ => operation.clone(),
    };
    call.operations.iter().map(name).collect()
}
