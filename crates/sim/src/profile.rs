//! What the parts of a system are made of when its data does not say: threads, limits, speeds, sizes.
//!
//! The values follow the defaults of the products (Tomcat, `HikariCP`, Caddy, the JDK) and published measurements of
//! them; they are the same for every service of one kind, and no fault or algorithm has a say in them.

pub mod client;

use system::{Kind, Language, Service};

pub use self::client::Client;

use crate::engine::{SECOND, Time};

pub const MIB: f64 = 1024.0 * 1024.0;

/// A garbage-collected heap (JDK, G1).
#[derive(Debug, Clone, Copy)]
pub struct Heap {
    /// `-Xmx`.
    pub max: f64,
    /// Allocation between two young collections.
    pub young: f64,
    /// Live data after start.
    pub live: f64,
    /// Mean allocation of one request, in bytes.
    pub per_request: f64,
}

/// How one container of a service behaves.
#[derive(Debug, Clone, Copy)]
pub struct Profile {
    /// Worker threads; `u32::MAX` is unbounded.
    pub workers: u32,
    /// Requests that wait for a worker before new connections find no room.
    pub backlog: u32,
    /// Threads that work on messages.
    pub listeners: u32,
    /// CPU limit in cores.
    pub cpu_limit: f64,
    /// CPU that the idle process uses, in cores.
    pub cpu_idle: f64,
    /// Memory limit and resident set without heap, in bytes.
    pub memory_limit: f64,
    pub memory_base: f64,
    pub heap: Option<Heap>,
    /// Seconds from process start to ready, lowest and highest.
    pub start: (f64, f64),
    /// How much slower the first requests are, lowest and highest; decays with `warm_time`.
    pub cold: (f64, f64),
    pub warm_time: f64,
    /// Median own CPU work of one operation in ms, lowest and highest over operations, and its coefficient of variation.
    pub work_ms: (f64, f64),
    pub work_cv: f64,
    /// How long a caller of this kind waits for an answer; `None` waits for ever.
    pub patience: Option<Time>,
    /// Idle connections kept per peer.
    pub idle_connections: u16,
}

const BASE: Profile = Profile {
    workers: u32::MAX,
    backlog: u32::MAX,
    listeners: 1,
    // Both follow from what the service is; see `of`.
    cpu_limit: 0.0,
    cpu_idle: 0.002,
    memory_limit: 512.0 * MIB,
    memory_base: 40.0 * MIB,
    heap: None,
    start: (1.0, 3.0),
    cold: (1.2, 1.6),
    warm_time: 5.0,
    work_ms: (0.0, 0.0),
    work_cv: 0.8,
    patience: None,
    idle_connections: 2,
};

/// Spring Boot in embedded Tomcat: 200 threads, accept queue 100, `HttpURLConnection` keeps 5 idle connections.
const SPRING: Profile = Profile {
    workers: 200,
    backlog: 100,
    cpu_idle: 0.008,
    memory_limit: 1024.0 * MIB,
    memory_base: 280.0 * MIB,
    heap: Some(Heap { max: 512.0 * MIB, young: 96.0 * MIB, live: 90.0 * MIB, per_request: 0.7 * MIB }),
    start: (20.0, 45.0),
    cold: (3.0, 6.0),
    warm_time: 15.0,
    idle_connections: 5,
    ..BASE
};

/// A reverse proxy that gives its upstream 60 s.
const GATEWAY: Profile = Profile { patience: Some(60 * SECOND), idle_connections: 32, ..BASE };

/// Users with a patience of 30 s; their machine is not the bottleneck.
const LOADGEN: Profile = Profile { patience: Some(30 * SECOND), idle_connections: 100, ..BASE };

/// A relational database: a thread per connection; indexed statements of about 1 ms.
const DATABASE: Profile = Profile {
    cpu_idle: 0.03,
    memory_limit: 4096.0 * MIB,
    memory_base: 900.0 * MIB,
    start: (10.0, 20.0),
    cold: (2.0, 4.0),
    warm_time: 20.0,
    work_cv: 1.0,
    ..BASE
};

const BROKER: Profile = Profile { cpu_idle: 0.02, memory_base: 140.0 * MIB, start: (8.0, 15.0), work_cv: 0.5, ..BASE };

const SCRIPT: Profile = Profile { workers: 40, backlog: 100, memory_base: 80.0 * MIB, start: (2.0, 6.0), ..BASE };

pub fn of(service: &Service) -> Profile {
    let capacity = service.capacity();
    let usual = match (service.kind, service.language) {
        (Kind::Loadgen, _) => LOADGEN,
        (Kind::Gateway, _) => GATEWAY,
        (Kind::Db | Kind::Cache, _) => DATABASE,
        (Kind::Mq, _) => BROKER,
        _ if service.runs_on_jvm() => SPRING,
        (_, Language::Python | Language::Javascript | Language::Typescript | Language::Ruby | Language::Php) => SCRIPT,
        _ => BASE,
    };
    Profile { cpu_limit: capacity.cores, work_ms: capacity.work_ms, ..usual }
}
