//! How clients keep their connections: one shared, or one per call from a pool; what they do when none is there.

use system::{ClientBehaviour, Kind, Language};

use crate::engine::{MILLI, SECOND, Time};
use crate::plan::{CallKind, ServicePlan};

/// The client side of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client {
    /// All calls share one connection, as streams or as a pipeline; else each call takes one.
    pub shared: bool,
    /// Most connections at a time; `u32::MAX` is unbounded.
    pub connections: u32,
    /// Longest wait for a connection of a bounded pool; `None` waits for ever.
    pub wait: Option<Time>,
    /// Idle connections that are kept.
    pub idle: u16,
    /// Goes on trying to connect until the wait is over, instead of failing at the first refusal.
    pub persistent: bool,
    /// After a failed attempt every call fails at once until the next one, whose delay grows from this one on.
    pub reconnect: Option<Time>,
    /// How long a call waits for its answer where the system's data does not say.
    pub timeout: Option<Time>,
}

const PLAIN: Client = Client {
    shared: false,
    connections: u32::MAX,
    wait: None,
    idle: 2,
    persistent: false,
    reconnect: None,
    timeout: None,
};

/// gRPC: HTTP/2 over one connection, fail-fast, a new attempt after 1 s growing by 1.6 to 120 s (gRPC connection
/// backoff protocol); no deadline unless the code sets one.
const GRPC: Client = Client { shared: true, reconnect: Some(SECOND), ..PLAIN };

/// `HikariCP`: 10 connections, 30 s wait; it goes on connecting meanwhile.
const HIKARI: Client = Client { connections: 10, wait: Some(30 * SECOND), idle: 10, persistent: true, ..PLAIN };

/// `DeathStarBench`'s Thrift `ClientPool` and its pools to stores: 512 connections, 10 s wait (`service-config.json`).
const DEATH_STAR: Client = Client { connections: 512, wait: Some(10 * SECOND), idle: 512, ..PLAIN };

/// The connections of a service to another one, by protocol and by what the client is written in.
pub fn of(kind: CallKind, from: &ServicePlan, to: &ServicePlan) -> Client {
    match kind {
        CallKind::Grpc => GRPC,
        CallKind::Thrift => DEATH_STAR,
        CallKind::Sql => sql(from),
        CallKind::Mongo => mongo(from),
        CallKind::Redis => redis(from),
        CallKind::Memcached => memcached(from),
        // Messages go over a channel that is always open.
        CallKind::Publish | CallKind::Process => PLAIN,
        CallKind::Http => http(from, to),
    }
}

/// A client with what its system's data says.
pub fn over(usual: Client, known: &ClientBehaviour) -> Client {
    let millis = |ms: Option<u32>| ms.map(|ms| Time::from(ms) * MILLI);
    Client {
        connections: known.connections.unwrap_or(usual.connections),
        idle: known.idle.unwrap_or(usual.idle),
        wait: millis(known.wait_ms).or(usual.wait),
        timeout: millis(known.timeout_ms).or(usual.timeout),
        ..usual
    }
}

fn http(from: &ServicePlan, to: &ServicePlan) -> Client {
    let idle = from.profile.idle_connections;
    // Envoy's circuit breaker: 1024 connections and 1024 waiting requests per cluster.
    if from.language == Language::Envoy && to.kind != Kind::Loadgen {
        return Client { connections: 1024, wait: Some(15 * SECOND), idle, ..PLAIN };
    }
    Client { idle, ..PLAIN }
}

fn sql(from: &ServicePlan) -> Client {
    match from.language {
        _ if from.jvm => HIKARI,
        // Npgsql: 100 connections, 15 s.
        Language::Csharp => Client { connections: 100, wait: Some(15 * SECOND), idle: 100, ..PLAIN },
        // `database/sql`: no bound, two idle ones are kept.
        _ => PLAIN,
    }
}

/// The Go driver: 100 connections, waits for ever; selects a server for up to 30 s. `mongoc`: as the configuration says.
fn mongo(from: &ServicePlan) -> Client {
    match from.language {
        Language::Cpp => Client { persistent: true, wait: Some(30 * SECOND), ..DEATH_STAR },
        _ => Client { connections: 100, wait: Some(30 * SECOND), idle: 100, persistent: true, ..PLAIN },
    }
}

/// `StackExchange.Redis`, `ioredis`: one pipelined connection, 5 s for an answer. `redis-plus-plus`: a pool.
fn redis(from: &ServicePlan) -> Client {
    match from.language {
        Language::Cpp => DEATH_STAR,
        _ => Client { shared: true, reconnect: Some(SECOND), timeout: Some(5 * SECOND), ..PLAIN },
    }
}

/// `gomemcache`: two idle connections, half a second for an answer. `libmemcached`: a pool.
fn memcached(from: &ServicePlan) -> Client {
    match from.language {
        Language::Cpp => DEATH_STAR,
        _ => Client { timeout: Some(500 * MILLI), ..PLAIN },
    }
}
