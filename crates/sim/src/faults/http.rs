//! Faults on messages at the proxy in front of the target's port. gRPC and Thrift servers have no such proxy.

use fault::{Effect, Target};
use model::Problem;
use system::{Language, PathPattern};

use crate::effect::{Mechanism, Tag};
use crate::engine::{MILLI, Time};
use crate::gate::{Body, Detour, Inbound, Outbound, Route, Set};
use crate::plan::{CallId, CallKind, EndpointPlan, OperationId, OperationPlan};
use crate::rng::name_key;
use crate::witness::Holds;
use crate::world::World;

use super::wrong_target;

/// Of the callers that read an answer, so many in a hundred read one given member of it.
const READ_A_MEMBER: u8 = 20;
/// Of the callers that read an answer, so many in a hundred cannot use the answer of another endpoint.
const MISS_THE_ANSWER: u8 = 80;

#[derive(Debug, Clone)]
enum Change {
    In(Inbound),
    Out(Outbound),
    Path(String),
    Method(String),
}

/// Requests of one method and path, or their answers, are changed.
pub struct OnMessage {
    slots: Vec<u16>,
    operations: Vec<OperationId>,
    change: Change,
}

impl OnMessage {
    /// `None` for effects of other families.
    pub fn new(world: &World, target: &Target, effect: &Effect) -> Result<Option<Self>, Problem> {
        let Some(change) = change(effect) else { return Ok(None) };
        let (slots, operations) = (world.networks_to_hit(target.service())?, matching(world, target)?);
        Ok(Some(Self { slots, operations, change }))
    }
}

fn change(effect: &Effect) -> Option<Change> {
    let millis = |ms: &u32| Time::from(*ms) * MILLI;
    Some(match effect {
        Effect::HttpRequestAbort => Change::In(Inbound::Abort),
        Effect::HttpRequestDelay { delay_ms } => Change::In(Inbound::Hold(millis(delay_ms))),
        Effect::HttpRequestReplacePath { new_path } => Change::Path(new_path.clone()),
        Effect::HttpRequestReplaceMethod { new_method } => Change::Method(new_method.clone()),
        Effect::HttpResponseAbort => Change::Out(Outbound::Abort),
        Effect::HttpResponseDelay { delay_ms } => Change::Out(Outbound::Hold(millis(delay_ms))),
        Effect::HttpResponseReplaceCode { status_code } => Change::Out(Outbound::Status(*status_code)),
        Effect::HttpResponseReplaceBody { .. } => Change::Out(Outbound::Body(Body::Unreadable)),
        Effect::HttpResponsePatchBody { patch_json } => Change::Out(Outbound::Body(patched(patch_json))),
        _ => return None,
    })
}

/// A patch changes members. Readers do not mind members that they do not know, and most do not read a given one.
fn patched(patch: &str) -> Body {
    let members: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(patch).expect("the table takes nothing but a JSON object");
    let mut names: Vec<&str> = members.keys().map(String::as_str).collect();
    names.sort_unstable();
    Body::Wrong { key: name_key(&names.join(",")), percent: READ_A_MEMBER }
}

impl Mechanism for OnMessage {
    fn slots(&self) -> &[u16] {
        &self.slots
    }

    fn start(&mut self, world: &mut World, tag: Tag) {
        let holds = Holds::pods(world, &self.slots);
        for &operation in &self.operations {
            let inbound = match &self.change {
                Change::Out(what) => {
                    let set = Set { number: tag.number, meter: tag.meter, holds: holds.clone(), what: *what };
                    world.gates[operation as usize].outbound.push(set);
                    continue;
                }
                Change::In(what) => *what,
                Change::Path(path) => Inbound::Elsewhere(to_path(world, operation, path)),
                Change::Method(method) => Inbound::Elsewhere(to_method(world, operation, method)),
            };
            let set = Set { number: tag.number, meter: tag.meter, holds: holds.clone(), what: inbound };
            world.gates[operation as usize].inbound.push(set);
        }
    }

    fn stop(&mut self, world: &mut World, tag: Tag) {
        for &operation in &self.operations {
            world.gates[operation as usize].clear(tag.number);
        }
    }
}

/// The operations of the target whose requests match method, path and port.
fn matching(world: &World, target: &Target) -> Result<Vec<OperationId>, Problem> {
    let Target::Http { service, method, path, port, .. } = target else { return Err(wrong_target("an HTTP endpoint")) };
    let id = world.service_named(service)?;
    let covers = |pattern: &PathPattern| pattern == path || path.matches(pattern.as_str());
    let listens = |pattern: &PathPattern| {
        let mut endpoints = world.plan.endpoints.iter();
        endpoints.any(|endpoint| endpoint.service == id && endpoint.pattern == *pattern && endpoint.port == *port)
    };
    let matches = world.plan.operations.iter().enumerate().filter(|(_, operation)| {
        operation.kind == CallKind::Http
            && operation.service == id
            && operation.method.eq_ignore_ascii_case(method)
            && operation.pattern.as_ref().is_some_and(|pattern| covers(pattern) && listens(pattern))
    });
    Ok(matches.map(|(at, _)| at as OperationId).collect())
}

/// What the service makes of the same request with another path.
fn to_path(world: &mut World, operation: OperationId, path: &str) -> Route {
    let asked = &world.plan.operations[operation as usize];
    let here = |route: &&EndpointPlan| route.service == asked.service && route.pattern.matches(path);
    let matched = world.plan.endpoints.iter().filter(here).count();
    let same = world.plan.endpoints.iter().position(|route| here(&route) && route.method == asked.method);
    let detour = Detour { method: asked.method.clone(), path: Some(path.to_owned()), ..nothing() };
    if let Some(at) = same {
        return handler(world, at, detour);
    }
    // Spring's handler of static files is asked last, for every path.
    let spring = world.plan.services[asked.service as usize].jvm;
    let (status, route) = if matched > 0 { (405, None) } else { (404, spring.then(|| "/**".to_owned())) };
    Route::Detour(world.recorder.detour(Detour { route, status: Some(status), ..detour }))
}

/// What the service makes of the same request with another method.
fn to_method(world: &mut World, operation: OperationId, method: &str) -> Route {
    let asked = &world.plan.operations[operation as usize];
    let other = world.plan.endpoints.iter().position(|route| {
        route.service == asked.service
            && route.method.eq_ignore_ascii_case(method)
            && asked.pattern.as_ref() == Some(&route.pattern)
    });
    let language = world.plan.services[asked.service as usize].language;
    let scripted = matches!(language, Language::Javascript | Language::Typescript);
    let detour = Detour { method: method.to_owned(), route: Some(asked.route.clone()), ..nothing() };
    let detour = match (method, other) {
        // The handler of GET answers, and the body stays away.
        ("HEAD", _) if asked.method == "GET" => Detour { body: Body::Unreadable, ..detour },
        // Frameworks answer with the methods that there are.
        ("OPTIONS", _) => Detour { status: Some(200), body: Body::Unreadable, ..detour },
        (_, Some(_)) if has_body(method) && !has_body(&asked.method) => Detour { status: Some(400), ..detour },
        (_, Some(at)) => return handler(world, at, detour),
        (_, None) => Detour { route: None, status: Some(if scripted { 404 } else { 405 }), ..detour },
    };
    Route::Detour(world.recorder.detour(detour))
}

const fn nothing() -> Detour {
    Detour { method: String::new(), path: None, route: None, status: None, body: Body::Right }
}

fn has_body(method: &str) -> bool {
    matches!(method, "POST" | "PUT" | "PATCH")
}

/// The handler of another route: as the plan knows it, or one without calls of its own where no journey comes by.
fn handler(world: &mut World, route: usize, detour: Detour) -> Route {
    let route = &world.plan.endpoints[route];
    let serves = |operation: &OperationPlan| {
        operation.kind == CallKind::Http
            && operation.service == route.service
            && operation.method == route.method
            && operation.pattern.as_ref() == Some(&route.pattern)
    };
    let mut calls = world.plan.calls.iter();
    let body = Body::Wrong { key: name_key(&route.route), percent: MISS_THE_ANSWER };
    match calls.position(|call| serves(&world.plan.operations[call.operation as usize])) {
        Some(call) => Route::Known(call as CallId, body),
        None => {
            let route = Some(route.route.clone());
            Route::Detour(world.recorder.detour(Detour { route, status: Some(200), body, ..detour }))
        }
    }
}
