//! The spans and log lines of each call, made once per run from the plan and the system's telemetry profile.

use system::{Kind, Moment, Stack, Telemetry};
use telemetry::otlp::trace::span::SpanKind;

use super::lines::{Book, Choice};
use super::stack::{Ends, Scopes, http, message, rpc, store};
use super::template::{Path, Template};
use crate::plan::{CallId, CallKind, CallPlan, Plan, ServicePlan};

/// What a call leaves behind. A part without a template makes no span.
#[derive(Default)]
pub struct CallText {
    /// The caller's span of the call, and the one around it.
    pub client: Option<Template>,
    pub wrapper: Option<Template>,
    /// The callee's span, and the framework's own inside it.
    pub server: Option<Template>,
    pub inner: Option<Template>,
    /// `scheme://host:port` of the callee.
    pub base: String,
    pub path: Path,
    /// Lines of the callee by moment, and of the caller when the call fails.
    pub entered: Vec<Choice>,
    pub answered: Vec<Choice>,
    pub failed: Vec<Choice>,
    pub call_failed: Vec<Choice>,
}

/// All calls of a plan, with the scopes of every service and the book of lines.
pub struct Texts {
    pub calls: Vec<CallText>,
    pub scopes: Vec<Scopes>,
    /// Names and kinds of the spans of each service.
    pub groups: Vec<Vec<(String, SpanKind)>>,
    pub book: Book,
    /// By service.
    pub started: Vec<Vec<Choice>>,
    pub background: Vec<Vec<Choice>>,
}

impl Texts {
    pub fn new(plan: &Plan, telemetry: &Telemetry) -> Self {
        let mut texts = Self {
            calls: Vec::with_capacity(plan.calls.len()),
            scopes: plan.services.iter().map(|_| Scopes::default()).collect(),
            groups: plan.services.iter().map(|_| Vec::new()).collect(),
            book: Book::default(),
            started: Vec::new(),
            background: Vec::new(),
        };
        let callers = parents(plan);
        for (at, call) in plan.calls.iter().enumerate() {
            let mut made = texts.call(plan, telemetry, at as CallId, call, callers[at]);
            texts.group(&mut made, call);
            texts.calls.push(made);
        }
        for service in &plan.services {
            let profile = telemetry.of(&service.name);
            texts.started.push(texts.book.of_service(service, profile, Moment::Started));
            texts.background.push(texts.book.of_service(service, profile, Moment::Background));
        }
        texts
    }

    fn group(&mut self, made: &mut CallText, call: &CallPlan) {
        let outside = made.client.iter_mut().chain(&mut made.wrapper).map(|template| (call.from, template));
        let inside = made.server.iter_mut().chain(&mut made.inner).map(|template| (call.to, template));
        for (service, template) in outside.chain(inside) {
            let groups = &mut self.groups[service as usize];
            let known = groups.iter().position(|(name, kind)| *name == template.name && *kind == template.kind);
            template.group = known.unwrap_or_else(|| {
                groups.push((template.name.clone(), template.kind));
                groups.len() - 1
            }) as u16;
        }
    }

    fn call(
        &mut self,
        plan: &Plan,
        telemetry: &Telemetry,
        id: CallId,
        call: &CallPlan,
        caller: Option<CallId>,
    ) -> CallText {
        let (from, to) = (&plan.services[call.from as usize], &plan.services[call.to as usize]);
        let operation = &plan.operations[call.operation as usize];
        let ends = Ends { call, operation, from, to, caller: telemetry.of(&from.name), callee: telemetry.of(&to.name) };
        let mut made = CallText { path: Path::new(&operation.route), base: base(to), ..CallText::default() };
        // Statements differ from handler to handler.
        let asks =
            caller.map_or("", |caller| plan.operations[plan.calls[caller as usize].operation as usize].name.as_str());
        let out = &mut self.scopes[call.from as usize];
        if ends.caller.client_spans {
            match call.kind {
                CallKind::Http => {
                    made.client = Some(http::client(&ends, out));
                    made.wrapper = http::task(&ends, out);
                }
                CallKind::Grpc | CallKind::Thrift => made.client = Some(rpc::client(&ends, out)),
                CallKind::Publish => made.client = Some(message::publish(&ends, out)),
                _ => {}
            }
        }
        if call.kind.is_store() {
            (made.client, made.wrapper) = store::spans(&ends, asks, out);
        } else if ends.callee.traces {
            let inside = &mut self.scopes[call.to as usize];
            match call.kind {
                CallKind::Http => {
                    made.server = Some(http::server(&ends, inside));
                    made.inner = http::inner(&ends, inside);
                }
                CallKind::Grpc | CallKind::Thrift => made.server = Some(rpc::server(&ends, inside)),
                CallKind::Process => {
                    let broker = plan.calls.iter().find(|other| other.delivers.contains(&id));
                    let broker = broker.map(|publish| &plan.services[publish.to as usize]);
                    made.server = Some(message::process(&ends, broker, inside));
                }
                _ => {}
            }
        }
        if !call.kind.is_store() && call.kind != CallKind::Publish {
            made.entered = self.book.of_call(&ends, Moment::Entered);
            made.answered = self.book.of_call(&ends, Moment::Answered);
            made.failed = self.book.of_call(&ends, Moment::Failed);
        }
        made.call_failed = self.book.of_call(&ends, Moment::CallFailed);
        made
    }
}

/// The call whose handling makes each call.
fn parents(plan: &Plan) -> Vec<Option<CallId>> {
    let mut parents = vec![None; plan.calls.len()];
    for (at, call) in plan.calls.iter().enumerate() {
        call.children.iter().chain(&call.delivers).for_each(|&child| parents[child as usize] = Some(at as CallId));
    }
    parents
}

fn base(to: &ServicePlan) -> String {
    let port = to.service_port.or(to.port).unwrap_or(80);
    if port == 80 { format!("http://{}", to.dns_name) } else { format!("http://{}:{port}", to.dns_name) }
}

/// Whether a service's access log is what it writes about requests.
pub fn logs_accesses(service: &ServicePlan, stack: Stack) -> bool {
    service.kind == Kind::Gateway || matches!(stack, Stack::Caddy | Stack::Envoy | Stack::NginxOtel)
}
