//! User journeys: what one user asks for, and the calls that each request causes.
//!
//! The data says once per service and operation which calls its handling makes; a journey names only the requests at
//! the entrance. Loading expands each request to its whole tree, so the same operation behaves alike on every way to it.

use std::collections::{BTreeMap, HashMap, HashSet};

use model::{ErrorKind, Problem, nearest};
use serde::{Deserialize, Serialize};

use crate::{Protocol, Topology};

/// Deepest call chain that is believed.
const MAX_DEPTH: usize = 48;
/// Most calls of one user that are believed; ours make some hundreds.
const MAX_STEPS: usize = 20_000;

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

impl CallRow {
    /// The call that a user's request is.
    fn request(entrance: &str, request: &RequestRow) -> Self {
        Self {
            to: entrance.to_owned(),
            operation: request.operation.clone(),
            on_miss: false,
            parallel: false,
            tolerated: false,
            is_async: false,
            times: 1,
        }
    }
}

impl File {
    /// The journeys as trees.
    ///
    /// # Errors
    /// Every handler, call and request that refers to something that is not there, and every cycle.
    pub(crate) fn resolve(&self, topology: &Topology) -> Result<Vec<Journey>, Vec<Problem>> {
        let mut resolver = Resolver { topology, handlers: self.handler_index(), findings: Vec::new(), steps: 0 };
        if self.format != 1 {
            resolver.report("format", "the file's format is not known", "1");
        }
        resolver.check_handlers(&self.handlers);
        resolver.check_cycles();
        if self.journeys.is_empty() {
            resolver.report("journeys", "there is no journey", "at least one journey");
        }
        let Some((generator, entrance)) = entrance(topology) else {
            resolver.report(
                "journeys",
                "nothing makes requests: no load generator calls a service",
                "one load generator with one call in topology.yaml",
            );
            return Err(resolver.findings);
        };
        let mut names = HashSet::new();
        for row in &self.journeys {
            if !names.insert(&row.name) {
                let problem = Problem::new(ErrorKind::Invalid, "system.name_repeated", "the name is declared twice");
                let problem = problem.place(format!("journeys.yaml: journeys.{}", row.name));
                resolver.findings.push(problem.found(format!("`{}`", row.name)).expected("one declaration"));
            }
            resolver.check_journey(row, generator, entrance);
        }
        // What holds together can be expanded, and only that.
        let mut journeys = Vec::with_capacity(self.journeys.len());
        if resolver.findings.is_empty() {
            journeys.extend(self.journeys.iter().filter_map(|row| resolver.journey(row, generator, entrance)));
        }
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
    /// Steps of the journey that is being expanded.
    steps: usize,
}

/// An operation of a service.
type Served<'a> = (&'a str, &'a str);

impl<'a> Resolver<'a> {
    fn check_handlers(&mut self, handlers: &BTreeMap<String, BTreeMap<String, Vec<CallRow>>>) {
        for (service, operations) in handlers {
            if self.topology.service(service).is_none() {
                let problem = crate::lint::unknown_service(self.topology, service);
                self.findings.push(problem.place(format!("journeys.yaml: handlers.{service}")));
                continue;
            }
            for (operation, calls) in operations {
                let place = format!("handlers.{service}.{operation}");
                let served = self.topology.endpoint_index(service, operation).is_some()
                    || self.topology.rpc_index(service, operation).is_some()
                    || self.topology.calls_to(service).any(|call| call.operations.contains(operation));
                if !served {
                    let message = "the service does not answer the operation that it handles";
                    self.unserved(&place, operation, message, "an endpoint or an operation of a call");
                }
                for call in calls {
                    self.check_call(&place, service, call);
                }
            }
        }
    }

    /// Whether a call can be made at all.
    fn check_call(&mut self, place: &str, from: &str, row: &CallRow) {
        let (to, operation) = (row.to.as_str(), row.operation.as_str());
        let here = format!("{place}: {to} `{operation}`");
        if !(1..=MAX_TIMES).contains(&row.times) {
            self.report(&format!("{here}: times"), "the number of repetitions is out of range", "1 to 50");
        }
        if self.topology.service(to).is_none() {
            self.findings
                .push(crate::lint::unknown_service(self.topology, to).place(format!("journeys.yaml: {place}.{to}")));
            return;
        }
        let Some(call) = self.topology.call(from, to) else {
            self.report(&here, &format!("`{from}` does not call `{to}`"), "a call between them in topology.yaml");
            return;
        };
        if call.phase != crate::Phase::Request {
            self.report(&here, "the call is not made while requests are handled", "a call of phase `request`");
        }
        if !call.operations.iter().any(|known| known == operation) {
            let known = call.operations.join(", ");
            self.unserved(&here, operation, "the call in topology.yaml does not list the operation", &known);
        } else if call.protocol == Protocol::Http && self.topology.endpoint_index(to, operation).is_none() {
            self.unserved(&here, operation, "nobody serves the operation", "an endpoint in points.yaml");
        } else if call.protocol.is_rpc() && self.topology.rpc_index(to, operation).is_none() {
            self.unserved(&here, operation, "nobody serves the operation", "a remote procedure in points.yaml");
        } else if call.protocol.is_store() && self.topology.statement_index(from, operation).is_none() {
            self.unserved(&here, operation, "the statement is not known", "a statement in points.yaml");
        }
    }

    fn unserved(&mut self, place: &str, operation: &str, message: &str, expected: &str) {
        let problem = Problem::new(ErrorKind::Invalid, "system.operation_unserved", message)
            .place(format!("journeys.yaml: {place}"))
            .found(format!("`{operation}`"))
            .expected(expected);
        let known = expected.split(", ");
        self.findings.push(match nearest(operation, known) {
            Some(near) => problem.fix(format!("did you mean `{near}`?")),
            None => problem,
        });
    }

    /// Calls that come back to where they began: the request would go round for ever, whatever time-outs its callers have.
    fn check_cycles(&mut self) {
        let mut starts: Vec<Served<'a>> = self.handlers.keys().copied().collect();
        starts.sort_unstable();
        let mut done: HashSet<Served<'a>> = HashSet::new();
        for start in starts {
            self.search(start, &mut done);
        }
    }

    /// Depth first without recursion: data may nest as deeply as it likes.
    fn search(&mut self, start: Served<'a>, done: &mut HashSet<Served<'a>>) {
        let mut way: Vec<(Served<'a>, usize)> = vec![(start, 0)];
        while let Some((here, next)) = way.last_mut() {
            let (here, at) = (*here, *next);
            let rows: &'a [CallRow] = self.handlers.get(&here).copied().unwrap_or_default();
            let Some(row) = rows.get(at).filter(|_| !done.contains(&here)) else {
                done.insert(here);
                way.pop();
                continue;
            };
            if let Some((_, next)) = way.last_mut() {
                *next += 1;
            }
            let callee: Served<'a> = (row.to.as_str(), row.operation.as_str());
            match way.iter().position(|(known, _)| *known == callee) {
                Some(begin) => self.cycle(way[begin..].iter().map(|(served, _)| *served).chain([callee])),
                None => way.push((callee, 0)),
            }
        }
    }

    fn cycle(&mut self, way: impl Iterator<Item = Served<'a>>) {
        let way: Vec<Served<'a>> = way.collect();
        let (service, operation) = way[way.len().saturating_sub(2)];
        let words: Vec<String> = way.iter().map(|(service, operation)| format!("{service} `{operation}`")).collect();
        self.findings.push(
            Problem::new(ErrorKind::Invalid, "system.calls_cyclic", "the calls go round in a cycle that nothing ends")
                .place(format!("journeys.yaml: handlers.{service}.{operation}"))
                .found(words.join(" -> "))
                .expected("calls that come to an end; a time-out would only cut each round short")
                .fix("take the last call out, or give it an operation whose handling calls less"),
        );
    }

    fn check_journey(&mut self, row: &JourneyRow, generator: &str, entrance: &str) {
        let place = format!("journeys.{}", row.name);
        if !(row.weight > 0.0 && row.weight.is_finite()) {
            let problem =
                Problem::new(ErrorKind::Invalid, "system.weight_not_positive", "the weight is not a positive number");
            let problem = problem.place(format!("journeys.yaml: {place}.weight")).found(row.weight.to_string());
            self.findings.push(problem.expected("a number above 0"));
        }
        if row.requests.is_empty() {
            self.report(&place, "the journey has no request", "at least one request");
        }
        for request in &row.requests {
            if !(0.0..=600.0).contains(&request.think_s) {
                self.report(&format!("{place}.think_s"), "the pause is out of range", "0 to 600 seconds");
            }
            self.check_call(&place, generator, &CallRow::request(entrance, request));
        }
    }

    /// A journey as trees. `None` when it is too large; that is told then.
    fn journey(&mut self, row: &JourneyRow, generator: &str, entrance: &str) -> Option<Journey> {
        self.steps = 0;
        let mut step = |request: &RequestRow| {
            let root = self.step(generator, &CallRow::request(entrance, request), 0)?;
            Some(Request { think_s: request.think_s, root })
        };
        let requests: Option<Vec<Request>> = row.requests.iter().map(&mut step).collect();
        if requests.is_none() {
            let problem =
                Problem::new(ErrorKind::Invalid, "system.journey_too_large", "the journey makes too many calls");
            let problem = problem.place(format!("journeys.yaml: journeys.{}", row.name));
            self.findings.push(
                problem
                    .found(format!(
                        "more than {MAX_STEPS} calls of one user, or more than {MAX_DEPTH} below each other"
                    ))
                    .expected(format!("at most {MAX_STEPS}"))
                    .fix("look for handlers whose `times` multiply each other"),
            );
        }
        Some(Journey { name: row.name.clone(), weight: row.weight, requests: requests?, inferred: row.inferred })
    }

    /// A call and everything that its handling calls. What is asked here was checked before; `None` is beyond the bound.
    fn step(&mut self, from: &str, row: &CallRow, depth: usize) -> Option<Step> {
        self.steps += 1;
        if self.steps > MAX_STEPS || depth > MAX_DEPTH {
            return None;
        }
        let (to, operation) = (row.to.as_str(), row.operation.as_str());
        let position = self.topology.call_index(from, to)?;
        let call = &self.topology.calls[position];
        let rows: &'a [CallRow] = self.handlers.get(&(to, operation)).copied().unwrap_or_default();
        let mut children = Vec::with_capacity(rows.len());
        for row in rows {
            for _ in 0..row.times {
                children.push(self.step(to, row, depth + 1)?);
            }
        }
        Some(Step {
            from: from.to_owned(),
            to: to.to_owned(),
            protocol: call.protocol,
            operation: operation.to_owned(),
            call: position,
            endpoint: self.topology.endpoint_index(to, operation),
            rpc: self.topology.rpc_index(to, operation).filter(|_| call.protocol.is_rpc()),
            statement: self.topology.statement_index(from, operation).filter(|_| call.protocol.is_store()),
            is_async: call.is_async || row.is_async,
            via: call.via.clone(),
            on_miss: row.on_miss,
            parallel: row.parallel,
            tolerated: row.tolerated,
            children,
        })
    }

    fn report(&mut self, place: &str, message: &str, expected: &str) {
        self.findings.push(
            Problem::new(ErrorKind::Invalid, "system.data_inconsistent", message)
                .place(format!("journeys.yaml: {place}"))
                .expected(expected),
        );
    }
}
