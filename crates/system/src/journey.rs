//! User journeys: what one user asks for, and the calls that each request causes.
//!
//! The data says once per service and operation which calls its handling makes; a journey names only the requests at
//! the entrance. Loading expands each request to its whole tree, so the same operation behaves alike on every way to it.

use std::collections::{BTreeMap, HashMap};

use model::{ErrorKind, Problem};
use serde::{Deserialize, Serialize};

use crate::{Protocol, Topology};

/// Deepest call chain that is believed; deeper data has a cycle.
const MAX_DEPTH: usize = 24;

/// Most repetitions of one call in one handler that are believed.
const MAX_TIMES: u32 = 50;

/// What one user does, as a sequence of requests from outside.
#[derive(Debug, Clone, PartialEq)]
pub struct Journey {
    pub name: String,
    /// Relative frequency among the system's journeys.
    pub weight: f64,
    pub requests: Vec<Request>,
    /// The composition or the weight is a plausible choice, not a measurement.
    pub inferred: bool,
}

/// One request of a journey.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Mean pause of the user before this request, in seconds.
    pub think_s: f64,
    /// The call from the load generator to the entrance.
    pub root: Step,
}

/// One call and, in order, the calls that its handling makes at the callee.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub from: String,
    pub to: String,
    pub protocol: Protocol,
    /// As in [`crate::Call::operations`].
    pub operation: String,
    /// Position in [`Topology::calls`] of the connection that carries it.
    pub call: usize,
    /// Position in [`Topology::endpoints`] of what answers, for HTTP.
    pub endpoint: Option<usize>,
    /// Position in [`Topology::rpcs`] of what answers, for gRPC and Thrift.
    pub rpc: Option<usize>,
    /// Position in [`Topology::statements`] of the statement, for a data store.
    pub statement: Option<usize>,
    /// The caller does not wait: message flow.
    pub is_async: bool,
    /// The broker that carries it, for message flow between services.
    pub via: Option<String>,
    /// Made only when the nearest cache look-up before it in the same handling missed; without one, when the cache inside
    /// the process did.
    pub on_miss: bool,
    /// Started together with the call before it; the handling goes on when all of them have ended.
    pub parallel: bool,
    /// The handling goes on when it fails.
    pub tolerated: bool,
    pub children: Vec<Self>,
}

impl Journey {
    /// Every step of every request, depth first in call order.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.requests.iter().flat_map(|request| request.root.walk())
    }
}

impl Step {
    /// This step and everything below it, depth first in call order.
    pub fn walk(&self) -> Walk<'_> {
        Walk { stack: vec![self] }
    }
}

/// Depth-first iterator over a tree of steps.
pub struct Walk<'a> {
    stack: Vec<&'a Step>,
}

impl<'a> Iterator for Walk<'a> {
    type Item = &'a Step;

    fn next(&mut self) -> Option<&'a Step> {
        let step = self.stack.pop()?;
        self.stack.extend(step.children.iter().rev());
        Some(step)
    }
}

/// File `journeys.yaml`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    pub format: u32,
    /// Service -> operation -> the calls that its handling makes.
    pub handlers: BTreeMap<String, BTreeMap<String, Vec<CallRow>>>,
    pub journeys: Vec<JourneyRow>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallRow {
    to: String,
    operation: String,
    #[serde(default)]
    on_miss: bool,
    #[serde(default)]
    parallel: bool,
    #[serde(default)]
    tolerated: bool,
    /// The handling does not wait for this one, although it waits for others of the same connection.
    #[serde(default, rename = "async")]
    is_async: bool,
    /// How often it is made, one after the other or, with `parallel`, all at once.
    #[serde(default = "once")]
    times: u32,
}

const fn once() -> u32 {
    1
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JourneyRow {
    name: String,
    weight: f64,
    requests: Vec<RequestRow>,
    #[serde(default)]
    inferred: bool,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RequestRow {
    operation: String,
    #[serde(default)]
    think_s: f64,
}

impl File {
    /// The journeys as trees.
    ///
    /// # Errors
    /// Every handler, call and request that refers to something that is not there, and every cycle.
    pub(crate) fn resolve(&self, topology: &Topology) -> Result<Vec<Journey>, Vec<Problem>> {
        let mut resolver = Resolver { topology, handlers: self.handler_index(), findings: Vec::new() };
        resolver.check_handlers(&self.handlers);
        if self.journeys.is_empty() {
            resolver.report("journeys", "there is no journey", "at least one journey");
        }
        let Some((generator, entrance)) = entrance(topology) else {
            resolver.report("services", "no load generator calls a service", "one load generator with one call");
            return Err(resolver.findings);
        };
        let journeys = self.journeys.iter().map(|row| resolver.journey(row, generator, entrance)).collect();
        if resolver.findings.is_empty() { Ok(journeys) } else { Err(resolver.findings) }
    }

    fn handler_index(&self) -> HashMap<(&str, &str), &[CallRow]> {
        self.handlers
            .iter()
            .flat_map(|(service, operations)| {
                operations.iter().map(|(operation, calls)| ((service.as_str(), operation.as_str()), calls.as_slice()))
            })
            .collect()
    }
}

/// The load generator and the service that it calls.
fn entrance(topology: &Topology) -> Option<(&str, &str)> {
    let generator = topology.services.iter().find(|service| service.kind == crate::Kind::Loadgen)?;
    let call = topology.calls_from(&generator.name).next()?;
    Some((&generator.name, &call.to))
}

struct Resolver<'a> {
    topology: &'a Topology,
    handlers: HashMap<(&'a str, &'a str), &'a [CallRow]>,
    findings: Vec<Problem>,
}

impl<'a> Resolver<'a> {
    fn check_handlers(&mut self, handlers: &BTreeMap<String, BTreeMap<String, Vec<CallRow>>>) {
        for (service, operations) in handlers {
            for operation in operations.keys() {
                let served = self.topology.endpoint_index(service, operation).is_some()
                    || self.topology.rpc_index(service, operation).is_some()
                    || self.topology.calls_to(service).any(|call| call.operations.contains(operation));
                if !served {
                    self.report(
                        &format!("handlers.{service}.{operation}"),
                        "the service does not answer it",
                        "an endpoint or an operation of a call",
                    );
                }
            }
        }
    }

    fn journey(&mut self, row: &JourneyRow, generator: &str, entrance: &str) -> Journey {
        let place = format!("journeys.{}", row.name);
        if !(row.weight > 0.0 && row.weight.is_finite()) {
            self.report(&format!("{place}.weight"), "the weight is not a positive number", "a number above 0");
        }
        if row.requests.is_empty() {
            self.report(&place, "the journey has no request", "at least one request");
        }
        let mut requests = Vec::with_capacity(row.requests.len());
        for request in &row.requests {
            if !(0.0..=600.0).contains(&request.think_s) {
                self.report(&format!("{place}.think_s"), "the pause is out of range", "0 to 600 seconds");
            }
            let row = CallRow {
                to: entrance.to_owned(),
                operation: request.operation.clone(),
                on_miss: false,
                parallel: false,
                tolerated: false,
                is_async: false,
                times: 1,
            };
            if let Some(root) = self.step(&place, generator, &row, 0) {
                requests.push(Request { think_s: request.think_s, root });
            }
        }
        Journey { name: row.name.clone(), weight: row.weight, requests, inferred: row.inferred }
    }

    fn step(&mut self, place: &str, from: &str, row: &CallRow, depth: usize) -> Option<Step> {
        let (to, operation) = (row.to.as_str(), row.operation.as_str());
        let here = format!("{place}: {from} -> {to} `{operation}`");
        if depth > MAX_DEPTH {
            self.report(&here, "the calls go round in a cycle", "a tree of calls");
            return None;
        }
        let Some(position) = self.topology.call_index(from, to) else {
            self.report(&here, "the services are not connected", "a call in topology.yaml");
            return None;
        };
        let call = &self.topology.calls[position];
        if call.phase != crate::Phase::Request {
            self.report(&here, "the connection is not used while requests are handled", "a call of phase `request`");
            return None;
        }
        let endpoint = self.topology.endpoint_index(to, operation);
        if !call.operations.iter().any(|known| known == operation) {
            self.report(&here, "the connection does not carry the operation", "one of the call's operations");
            return None;
        }
        if call.protocol == Protocol::Http && endpoint.is_none() {
            self.report(&here, "the service does not answer the operation", "an endpoint in points.yaml");
            return None;
        }
        let rpc = self.topology.rpc_index(to, operation).filter(|_| call.protocol.is_rpc());
        if call.protocol.is_rpc() && rpc.is_none() {
            self.report(&here, "the service does not answer the operation", "a remote procedure in points.yaml");
            return None;
        }
        let statement = self.topology.statement_index(from, operation).filter(|_| call.protocol.is_store());
        if call.protocol.is_store() && statement.is_none() {
            self.report(&here, "the statement is not known", "a statement in points.yaml");
            return None;
        }
        let rows: &'a [CallRow] = self.handlers.get(&(to, operation)).copied().unwrap_or_default();
        let children = self.children(place, to, rows, depth + 1);
        Some(Step {
            from: from.to_owned(),
            to: to.to_owned(),
            protocol: call.protocol,
            operation: operation.to_owned(),
            call: position,
            endpoint,
            rpc,
            statement,
            is_async: call.is_async || row.is_async,
            via: call.via.clone(),
            on_miss: row.on_miss,
            parallel: row.parallel,
            tolerated: row.tolerated,
            children,
        })
    }

    /// The calls of one handler, those that are made several times repeated.
    fn children(&mut self, place: &str, from: &str, rows: &[CallRow], depth: usize) -> Vec<Step> {
        let mut children = Vec::with_capacity(rows.len());
        for row in rows {
            if !(1..=MAX_TIMES).contains(&row.times) {
                let here = format!("{place}: {from} -> {} `{}`: times", row.to, row.operation);
                self.report(&here, "the number of repetitions is out of range", "1 to 50");
                continue;
            }
            if let Some(step) = self.step(place, from, row, depth) {
                children.extend(std::iter::repeat_n(step, row.times as usize));
            }
        }
        children
    }

    fn report(&mut self, place: &str, message: &str, expected: &str) {
        self.findings.push(
            Problem::new(ErrorKind::Invalid, "system.data_inconsistent", message)
                .place(format!("journeys.yaml: {place}"))
                .expected(expected),
        );
    }
}
