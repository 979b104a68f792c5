//! What the parts of a system are made of when its data does not say: threads, limits, speeds, sizes.
//!
//! The values follow the defaults of the products (Tomcat, Caddy, the JDK, gRPC's servers, the data stores) and published
//! measurements of them; they are the same for every service of one kind, and no fault or algorithm has a say in them. A
//! system's own values (`simulation.yaml`) come before them.

pub mod client;

use system::{Kind, Language, Protocol, Service, ServiceBehaviour};

use crate::engine::{SECOND, Time};

pub use self::client::Client;

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
    /// Threads that can run at once: one where an event loop or an interpreter's lock allows no more.
    pub parallel: f64,
    /// CPU limit and request in cores.
    pub cpu_limit: f64,
    pub cpu_request: f64,
    /// CPU that the idle process uses, in cores.
    pub cpu_idle: f64,
    /// Memory limit, resident set without heap, and what one request under way holds, in bytes.
    pub memory_limit: f64,
    pub memory_base: f64,
    pub memory_per_request: f64,
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
    parallel: f64::INFINITY,
    // Limit and work follow from what the service is; see `of`.
    cpu_limit: 0.0,
    cpu_request: 0.1,
    cpu_idle: 0.002,
    memory_limit: 512.0 * MIB,
    memory_base: 40.0 * MIB,
    memory_per_request: 64.0 * 1024.0,
    heap: None,
    start: (1.0, 3.0),
    cold: (1.2, 1.6),
    warm_time: 5.0,
    work_ms: (0.0, 0.0),
    work_cv: 0.8,
    patience: None,
    idle_connections: 2,
};

/// C++ behind `TThreadedServer`: a thread for each connection, natively compiled, little memory.
const NATIVE: Profile = Profile { memory_base: 16.0 * MIB, start: (0.5, 1.5), cold: (1.05, 1.2), ..BASE };

/// .NET: tiered compilation makes the first calls slow; the connection pool to a host is unbounded.
const DOTNET: Profile = Profile {
    cpu_idle: 0.004,
    memory_base: 75.0 * MIB,
    start: (2.0, 5.0),
    cold: (2.0, 4.0),
    warm_time: 10.0,
    idle_connections: 16,
    ..BASE
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

/// A Java gRPC server: a cached pool of threads without a bound; it starts faster than an application server.
const JAVA_RPC: Profile = Profile {
    workers: u32::MAX,
    backlog: u32::MAX,
    memory_limit: 512.0 * MIB,
    memory_base: 110.0 * MIB,
    heap: Some(Heap { max: 160.0 * MIB, young: 40.0 * MIB, live: 30.0 * MIB, per_request: 0.2 * MIB }),
    start: (5.0, 12.0),
    ..SPRING
};

/// A reverse proxy that gives its upstream 60 s.
const GATEWAY: Profile = Profile { patience: Some(60 * SECOND), idle_connections: 32, start: (0.5, 1.5), ..BASE };

/// Users with a patience of 30 s; their machine is not the bottleneck.
const LOADGEN: Profile =
    Profile { memory_limit: 2048.0 * MIB, patience: Some(30 * SECOND), idle_connections: 100, ..BASE };

/// A relational database: a thread per connection; indexed statements of about 1 ms.
const DATABASE: Profile = Profile {
    cpu_request: 1.0,
    cpu_idle: 0.03,
    memory_limit: 4096.0 * MIB,
    memory_base: 900.0 * MIB,
    start: (10.0, 20.0),
    cold: (2.0, 4.0),
    warm_time: 20.0,
    work_cv: 1.0,
    ..BASE
};

/// A document store: a thread per connection; finds by index in a few tenths of a millisecond.
const DOCUMENTS: Profile =
    Profile { memory_base: 160.0 * MIB, memory_limit: 1024.0 * MIB, start: (2.0, 6.0), ..DATABASE };

/// Redis: one thread executes all commands, in microseconds.
const REDIS: Profile = Profile {
    workers: 1,
    parallel: 1.0,
    memory_base: 9.0 * MIB,
    memory_per_request: 16.0 * 1024.0,
    start: (0.3, 1.0),
    cold: (1.0, 1.05),
    work_cv: 0.5,
    ..BASE
};

/// Memcached: four worker threads.
const MEMCACHED: Profile = Profile { workers: 4, parallel: 4.0, memory_limit: 256.0 * MIB, ..REDIS };

const BROKER: Profile = Profile { cpu_idle: 0.02, memory_base: 140.0 * MIB, start: (8.0, 15.0), work_cv: 0.5, ..BASE };

/// Kafka runs on a Java virtual machine and takes longer.
const LOG_BROKER: Profile =
    Profile { memory_limit: 1024.0 * MIB, memory_base: 420.0 * MIB, start: (10.0, 25.0), ..BROKER };

/// Python: threads of a pool (`gunicorn`, `futures`), one of which has the interpreter at a time.
const PYTHON: Profile =
    Profile { workers: 40, backlog: 100, parallel: 1.0, memory_base: 80.0 * MIB, start: (2.0, 6.0), ..BASE };

/// Node: an event loop takes every request at once and runs one at a time.
const NODE: Profile =
    Profile { parallel: 1.0, memory_base: 70.0 * MIB, start: (1.5, 4.0), cold: (1.5, 3.0), warm_time: 8.0, ..BASE };

/// Ruby and PHP: a pool of processes or threads.
const SCRIPT: Profile = Profile { workers: 16, backlog: 128, memory_base: 60.0 * MIB, start: (2.0, 6.0), ..BASE };

/// The profile of a service: what is usual, and over it what its system says.
pub fn of(service: &Service, behaviour: Option<&ServiceBehaviour>) -> Profile {
    let capacity = service.capacity();
    let usual = Profile { cpu_limit: capacity.cores, work_ms: capacity.work_ms, ..usual(service) };
    behaviour.map_or(usual, |behaviour| over(usual, behaviour))
}

fn usual(service: &Service) -> Profile {
    match (service.kind, service.language) {
        (Kind::Loadgen, _) => LOADGEN,
        (Kind::Gateway, _) => GATEWAY,
        (Kind::Db | Kind::Cache, _) => match service.protocol {
            Protocol::Redis => REDIS,
            Protocol::Memcached => MEMCACHED,
            Protocol::Mongo => DOCUMENTS,
            _ => DATABASE,
        },
        (Kind::Mq, _) if service.protocol == Protocol::Kafka => LOG_BROKER,
        (Kind::Mq, _) => BROKER,
        (Kind::Rpc, _) if service.runs_on_jvm() && service.protocol == Protocol::Grpc => JAVA_RPC,
        _ if service.runs_on_jvm() => SPRING,
        (_, Language::Cpp | Language::Rust) => NATIVE,
        (_, Language::Csharp) => DOTNET,
        (_, Language::Python) => PYTHON,
        (_, Language::Javascript | Language::Typescript) => NODE,
        (_, Language::Ruby | Language::Php) => SCRIPT,
        _ => BASE,
    }
}

fn over(usual: Profile, known: &ServiceBehaviour) -> Profile {
    let mib = |value: Option<f64>, usual: f64| value.map_or(usual, |mib| mib * MIB);
    let pair = |value: Option<[f64; 2]>, usual| value.map_or(usual, |[low, high]| (low, high));
    Profile {
        workers: known.workers.unwrap_or(usual.workers),
        backlog: known.backlog.unwrap_or(usual.backlog),
        listeners: known.listeners.unwrap_or(usual.listeners),
        cpu_limit: known.cpu_limit.unwrap_or(usual.cpu_limit),
        cpu_request: known.cpu_request.or(known.cpu_limit).unwrap_or(usual.cpu_request),
        cpu_idle: known.cpu_idle.unwrap_or(usual.cpu_idle),
        memory_limit: mib(known.memory_limit_mib, usual.memory_limit),
        memory_base: mib(known.memory_base_mib, usual.memory_base),
        memory_per_request: known.memory_per_request_kib.map_or(usual.memory_per_request, |kib| kib * 1024.0),
        heap: usual.heap.map(|heap| known.heap_mib.map_or(heap, |max| scaled(heap, max * MIB))),
        start: pair(known.start_s, usual.start),
        work_ms: pair(known.work_ms, usual.work_ms),
        work_cv: known.work_cv.unwrap_or(usual.work_cv),
        ..usual
    }
}

/// A heap of another size: its generations keep their shares, but a small one is not filled by its live data.
fn scaled(heap: Heap, max: f64) -> Heap {
    let factor = max / heap.max;
    Heap { max, young: heap.young * factor, live: (heap.live * factor).min(heap.live), per_request: heap.per_request }
}
