//! A small shop with one target for every kind of fault, and what a run with and without the fault shows of it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use ::cluster::Witness;
use fault::{Resolved, Spec, Target, resolve};
use model::SystemCode;
use sim::{Plan, World};
use system::{Catalog, SystemData};

use crate::probe::{Probe, SECOND, Span, environment};

/// The fault is on from `START` to `END`; the run ends at `UNTIL`, in seconds.
pub const START: i64 = 40;
pub const END: i64 = 85;
pub const UNTIL: i64 = 130;
/// While the fault is on and has taken hold.
pub const DURING: (i64, i64) = (START + 1, END);
const LOAD: f64 = 24.0;
const SEED: u64 = 5;

pub static LAB: LazyLock<Arc<SystemData>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/data");
    Catalog::with_folder(&folder).unwrap().get(&SystemCode::parse("lab").unwrap()).unwrap()
});

/// The run without a fault, which all others are compared with.
pub static CONTROL: LazyLock<Probe> = LazyLock::new(|| run(&[]).0);

pub fn fault(capability: &str, service: &str, pairs: &[(&str, &str)]) -> Resolved {
    let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let spec = Spec::from_pairs(capability, service, pairs).unwrap();
    resolve(&spec, &LAB).unwrap_or_else(|problem| panic!("{problem}"))
}

pub fn world() -> World {
    let plan = Plan::new("lab", "app", LAB.topology().unwrap()).unwrap();
    World::new(plan.into(), "lab0", environment(SEED, LOAD))
}

/// A run with these faults on from `START` to `END`, and what their mechanisms say.
pub fn run(faults: &[Resolved]) -> (Probe, Vec<Witness>) {
    let (mut probe, mut world) = (Probe::default(), world());
    world.run(START * SECOND, &mut probe).unwrap();
    for (at, fault) in faults.iter().enumerate() {
        world.start_fault(&format!("f{at}"), fault).unwrap();
    }
    world.run(END * SECOND, &mut probe).unwrap();
    for at in 0..faults.len() {
        world.end_fault(&format!("f{at}")).unwrap();
    }
    world.run(UNTIL * SECOND, &mut probe).unwrap();
    let witnesses = (0..faults.len()).map(|at| world.witness(&format!("f{at}")).unwrap()).collect();
    (probe, witnesses)
}

/// One fault's run beside the control.
pub struct Case {
    pub fault: Resolved,
    pub probe: Probe,
    pub witness: Witness,
}

impl Case {
    pub fn new(fault: Resolved) -> Self {
        Self::of(run(std::slice::from_ref(&fault)), &fault)
    }

    /// A run with several faults, looked at from the last one.
    pub fn of((probe, mut witnesses): (Probe, Vec<Witness>), fault: &Resolved) -> Self {
        Self { fault: fault.clone(), probe, witness: witnesses.pop().unwrap() }
    }

    /// The service that answers what passes the mechanism.
    pub fn server(&self) -> &str {
        match &self.fault.target {
            Target::Link { target, .. } => target,
            Target::Dns { peer, .. } => peer,
            other => other.service(),
        }
    }

    /// Method and path of the requests that pass, where only those of one operation do.
    fn operation(&self) -> Option<(String, String)> {
        match &self.fault.target {
            Target::Http { method, route, .. } => Some((method.clone(), route.clone())),
            Target::JvmMethod { service, class, method } => {
                let mut methods = LAB.topology().unwrap().methods_of(service);
                let serves = methods.find(|known| known.class == *class && known.method == *method).unwrap();
                let (method, route) = serves.serves.as_deref().unwrap().split_once(' ').unwrap();
                Some((method.to_owned(), route.to_owned()))
            }
            _ => None,
        }
    }

    /// Callers' spans of what passes the mechanism, begun in the window.
    pub fn calls<'a>(&self, probe: &'a Probe, window: (i64, i64)) -> Vec<&'a Span> {
        let operation = self.operation();
        let passes = |span: &&Span| {
            let from = match &self.fault.target {
                Target::Link { source, .. } | Target::Dns { service: source, .. } => span.service == *source,
                Target::Table { service, .. } => return span.service == *service && statement(span),
                _ => true,
            };
            let to = span.attributes.get("server.address").is_some_and(|address| address == self.server());
            let asked = operation.as_ref().is_none_or(|(method, route)| {
                let is = |key: &str, wanted: fn(&str, &str) -> bool, value: &str| {
                    span.attributes.get(key).is_some_and(|found| wanted(found, value))
                };
                is("http.request.method", |a, b| a == b, method) && is("url.full", |a, b| a.ends_with(b), route)
            });
            from && to && asked
        };
        let spans = probe.spans.iter().filter(|span| span.kind == Span::CLIENT && begun(span, window));
        spans.filter(passes).collect()
    }

    /// The server's spans of what passes the mechanism, begun in the window.
    pub fn served<'a>(&self, probe: &'a Probe, window: (i64, i64)) -> Vec<&'a Span> {
        let operation = self.operation();
        let asked = |span: &&Span| match &operation {
            Some((method, route)) => span.name == format!("{method} {route}"),
            None => true,
        };
        let spans = probe.spans.iter().filter(|span| span.kind == Span::SERVER && begun(span, window));
        spans.filter(|span| span.service == self.server()).filter(asked).collect()
    }

    /// Of the handlings that made the given calls: the server's span that each call hangs below.
    pub fn handlings<'a>(&self, probe: &'a Probe, calls: &[&Span]) -> Vec<&'a Span> {
        let by_id: HashMap<&[u8], &Span> = probe.spans.iter().map(|span| (span.id.as_slice(), span)).collect();
        let above = |span: &Span| {
            let mut at = by_id.get(span.parent.as_slice())?;
            while at.kind != Span::SERVER {
                at = by_id.get(at.parent.as_slice())?;
            }
            Some(*at)
        };
        calls.iter().filter_map(|call| above(call)).collect()
    }

    /// What the server's handlings of the operation call in turn, begun in the window.
    pub fn below(&self, probe: &Probe, window: (i64, i64)) -> usize {
        let operation = self.operation();
        let client = |span: &&Span| span.kind == Span::CLIENT && span.service == self.server() && begun(span, window);
        let calls: Vec<&Span> = probe.spans.iter().filter(client).collect();
        let handlings = self.handlings(probe, &calls);
        match operation {
            Some((method, route)) => handlings.iter().filter(|span| span.name == format!("{method} {route}")).count(),
            None => calls.iter().filter(|span| !span.failed).count(),
        }
    }
}

/// A statement of the one table.
pub fn statement(span: &Span) -> bool {
    span.attributes.keys().any(|key| key.starts_with("db."))
}

pub fn begun(span: &Span, (from, to): (i64, i64)) -> bool {
    span.start >= from * SECOND && span.start < to * SECOND
}
