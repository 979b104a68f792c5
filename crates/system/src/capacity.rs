//! How much work a service can do, how much its requests need at least, and whether a load can be served at all.

use std::collections::HashMap;

use crate::{Kind, Language, Protocol, Service, Topology};

/// Journeys per second of a system whose data name none.
const UNNAMED_LOAD: f64 = 20.0;
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
    /// By what the service is: indexed statements of about 1 ms, handlers of some milliseconds in Spring, of one to three
    /// in Go, of less where code is compiled natively; caches answer in microseconds, proxies and brokers pass things on.
    pub fn capacity(&self) -> Capacity {
        let own = self.cpu_millis.map(|millis| f64::from(millis) / 1000.0);
        let of = |cores, work_ms| Capacity { cores: own.unwrap_or(cores), work_ms };
        match (self.kind, self.protocol, self.language) {
            // The users' machine is not the bottleneck.
            (Kind::Loadgen, ..) => of(4.0, (1.0, 3.0)),
            (Kind::Gateway, ..) => of(2.0, (0.3, 0.6)),
            (Kind::Db | Kind::Cache, Protocol::Redis | Protocol::Memcached, _) => of(1.0, (0.015, 0.05)),
            (Kind::Db | Kind::Cache, Protocol::Mongo, _) => of(2.0, (0.25, 0.8)),
            (Kind::Db | Kind::Cache, ..) => of(4.0, (0.5, 1.5)),
            (Kind::Mq, ..) => of(1.0, (0.1, 0.3)),
            (Kind::Rpc, Protocol::Grpc, _) if self.runs_on_jvm() => of(1.0, (0.5, 2.0)),
            _ if self.runs_on_jvm() => of(1.0, (2.0, 5.0)),
            (_, _, Language::Cpp | Language::Rust) => of(1.0, (0.2, 0.8)),
            (_, _, Language::Csharp | Language::Javascript | Language::Typescript) => of(1.0, (0.6, 2.0)),
            _ => of(1.0, (1.0, 3.0)),
        }
    }
}

impl Topology {
    /// Journeys per second that the system is normally used with, which a run has unless it names others.
    pub fn usual_load(&self) -> f64 {
        self.behaviour.journeys_per_s.unwrap_or(UNNAMED_LOAD)
    }

    /// The services that cannot keep up with `load` journeys per second, even when every operation costs the least that
    /// it may cost: what is offered to them grows without end. In the order of the data.
    pub fn overloaded(&self, load: f64) -> Vec<Overload> {
        let weights: f64 = self.journeys.iter().map(|journey| journey.weight).sum();
        let mut needs: HashMap<&str, f64> = HashMap::new();
        for journey in &self.journeys {
            let rate = load * journey.weight / weights;
            for step in journey.steps() {
                let made = if step.on_miss { rate * LEAST_MISSES } else { rate };
                *needs.entry(&step.to).or_default() +=
                    made * self.least_work_ms(&step.from, &step.to, &step.operation) / 1000.0;
            }
        }
        let judge = |service: &Service| {
            let known = self.behaviour.of(&service.name);
            let pods = f64::from(known.and_then(|known| known.replicas).unwrap_or(1));
            let cores = known.and_then(|known| known.cpu_limit).unwrap_or(service.capacity().cores) * pods;
            let needed = needs.get(service.name.as_str()).copied().unwrap_or_default();
            (needed > cores).then(|| Overload { service: service.name.clone(), needed, cores })
        };
        self.services.iter().filter(|service| service.kind != Kind::Loadgen).filter_map(judge).collect()
    }

    /// The least median work of an operation at its callee, in milliseconds.
    fn least_work_ms(&self, from: &str, to: &str, operation: &str) -> f64 {
        let known = |service: &str| self.behaviour.of(service)?.operations.get(operation).copied();
        let range = || self.behaviour.of(to)?.work_ms.map(|[low, _]| low);
        let usual = || self.service(to).map_or(0.0, |service| service.capacity().work_ms.0);
        known(to).or_else(|| known(from)).or_else(range).unwrap_or_else(usual)
    }
}
