//! How much work a service can do, how much its requests need at least, and whether a load can be served at all.

use std::collections::HashMap;

use crate::{Kind, Language, Service, Topology};

/// Journeys per second of a run that names none.
pub const DEFAULT_LOAD: f64 = 20.0;
/// Least share of look-ups that a cache does not answer.
const LEAST_MISSES: f64 = 0.05;

/// What a container may use, and what its operations cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capacity {
    /// CPU limit in cores.
    pub cores: f64,
    /// Median own CPU work of one operation in ms, lowest and highest over operations.
    pub work_ms: (f64, f64),
}

/// A service whose requests need more than it can ever give.
#[derive(Debug, Clone, PartialEq)]
pub struct Overload {
    pub service: String,
    /// Cores that the requests need at least.
    pub needed: f64,
    /// Cores that the service has.
    pub cores: f64,
}

impl Service {
    /// By what the service is: indexed statements of about 1 ms, handlers of some milliseconds in Spring and in scripting
    /// languages, of one to three in compiled ones; a proxy and a broker only pass things on.
    pub fn capacity(&self) -> Capacity {
        let own = self.cpu_millis.map(|millis| f64::from(millis) / 1000.0);
        let of = |cores, work_ms| Capacity { cores: own.unwrap_or(cores), work_ms };
        match (self.kind, self.language) {
            // The users' machine is not the bottleneck.
            (Kind::Loadgen, _) => of(4.0, (1.0, 3.0)),
            (Kind::Gateway, _) => of(2.0, (0.3, 0.6)),
            (Kind::Db | Kind::Cache, _) => of(4.0, (0.5, 1.5)),
            (Kind::Mq, _) => of(1.0, (0.1, 0.3)),
            _ if self.runs_on_jvm() => of(1.0, (2.0, 5.0)),
            (_, Language::Python | Language::Javascript | Language::Typescript | Language::Ruby | Language::Php) => {
                of(1.0, (2.0, 5.0))
            }
            _ => of(1.0, (1.0, 3.0)),
        }
    }
}

impl Topology {
    /// The services that cannot keep up with `load` journeys per second, even when every operation costs the least that
    /// it may cost: what is offered to them grows without end. In the order of the data.
    pub fn overloaded(&self, load: f64) -> Vec<Overload> {
        let weights: f64 = self.journeys.iter().map(|journey| journey.weight).sum();
        let mut calls: HashMap<&str, f64> = HashMap::new();
        for journey in &self.journeys {
            let rate = load * journey.weight / weights;
            for step in journey.steps() {
                let made = if step.on_miss { rate * LEAST_MISSES } else { rate };
                *calls.entry(&step.to).or_default() += made;
            }
        }
        let judge = |service: &Service| {
            let capacity = service.capacity();
            let needed = calls.get(service.name.as_str()).unwrap_or(&0.0) * capacity.work_ms.0 / 1000.0;
            let overload = Overload { service: service.name.clone(), needed, cores: capacity.cores };
            (needed > capacity.cores).then_some(overload)
        };
        self.services.iter().filter(|service| service.kind != Kind::Loadgen).filter_map(judge).collect()
    }
}
