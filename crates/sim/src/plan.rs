//! A system's topology turned into flat arrays that the engine walks: services, operations, and the tree of every request.

mod build;
mod caches;
mod offered;

use model::Problem;
use system::{Kind, Language, PathPattern, Protocol, StoreSystem, Telemetry, Topology};

use crate::engine::Time;
use crate::profile::{Client, Profile};
use crate::request::Failure;

pub use self::build::ROWS;
pub use self::offered::Offered;

/// Position in [`Plan::services`].
pub type ServiceId = u16;
/// Position in [`Plan::operations`].
pub type OperationId = u32;
/// Position in [`Plan::calls`].
pub type CallId = u32;
/// Position in [`Plan::routes`].
pub type RouteId = u32;

/// Position in [`Plan::caches`].
pub type CacheId = u32;
/// Position in [`Plan::queues`].
pub type QueueId = u32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    Deployment,
    StatefulSet,
}

#[derive(Debug)]
pub struct ServicePlan {
    pub name: String,
    pub label: String,
    pub container: String,
    pub dns_name: String,
    /// `service.name` of its telemetry.
    pub reported_name: String,
    /// Port of the container, and of the Kubernetes Service in front of it.
    pub port: Option<u16>,
    pub service_port: Option<u16>,
    pub kind: Kind,
    pub language: Language,
    pub protocol: Protocol,
    pub jvm: bool,
    pub image: String,
    pub workload: Workload,
    pub replicas: u16,
    pub profile: Profile,
    /// Talks to a relational database through a pool of connections.
    pub has_database: bool,
    /// Takes messages from a broker.
    pub listens: bool,
    /// The registry by which its clients find it by address.
    pub registry: Option<ServiceId>,
    /// Its connections to others, in the order of its pods' channels.
    pub routes: Vec<RouteId>,
    /// Calls that its process makes before it is ready, and again and again in the background.
    pub startup: Vec<CallId>,
    pub watch: Vec<CallId>,
}

/// How a call travels and who answers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallKind {
    Http,
    Grpc,
    Thrift,
    /// A statement or a command to a data store.
    Sql,
    Mongo,
    Redis,
    Memcached,
    /// A message handed to a broker.
    Publish,
    /// The handling of a message that the broker delivers.
    Process,
}

impl CallKind {
    /// A request that code of the callee answers.
    pub const fn is_remote(self) -> bool {
        matches!(self, Self::Http | Self::Grpc | Self::Thrift)
    }

    pub const fn is_store(self) -> bool {
        matches!(self, Self::Sql | Self::Mongo | Self::Redis | Self::Memcached)
    }

    pub const fn is_publish(self) -> bool {
        matches!(self, Self::Publish)
    }

    /// Whether the caller sees a failure. HTTP has statuses from 400 on, gRPC numbers other than 0, Thrift 1 for an
    /// exception that the callee declares.
    pub fn failed(self, outcome: Failure, status: u16) -> bool {
        outcome != Failure::None
            || match self {
                Self::Http => status >= 400,
                Self::Grpc | Self::Thrift => status != 0,
                _ => false,
            }
    }
}

/// One thing that a service does for its callers; for a data store, one statement of one client.
#[derive(Debug)]
pub struct OperationPlan {
    /// Who answers; for a data store, the client that sends the statement.
    pub service: ServiceId,
    pub kind: CallKind,
    /// `METHOD /route`, `package.Service/Method`, `verb table`, or the queue.
    pub name: String,
    /// HTTP method, the procedure's method, or the verb.
    pub method: String,
    /// Route, the procedure's service, table, or queue.
    pub route: String,
    pub pattern: Option<PathPattern>,
    /// HTTP status of a success.
    pub success: u16,
    pub store: Option<StoreSystem>,
    pub database: String,
    /// Name of the span, where the data gives one.
    pub span: Option<String>,
    /// Changes data.
    pub writes: bool,
    /// First of the locks of the rows that a statement changes, positions below [`Plan::locks`].
    pub lock: Option<u32>,
    /// `(class, method)` of the code that answers.
    pub code: Vec<(String, String)>,
    /// Median own work in CPU-nanoseconds and the spread of its logarithm.
    pub work: f64,
    pub sigma: f64,
    pub request_bytes: u32,
    pub response_bytes: u32,
}

/// How often a caller tries again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPlan {
    /// Attempts after the first.
    pub times: u8,
    /// Pause before the first of them; it doubles.
    pub back_off: Time,
}

/// One node of a request's tree.
#[derive(Debug)]
pub struct CallPlan {
    pub kind: CallKind,
    pub from: ServiceId,
    pub to: ServiceId,
    pub operation: OperationId,
    pub route: RouteId,
    /// Calls that the handling makes, in order.
    pub children: Vec<CallId>,
    /// What the broker delivers after a publish.
    pub delivers: Vec<CallId>,
    /// The caller does not wait for the answer.
    pub detached: bool,
    /// Started together with the call before it; the handling goes on when all of them have ended.
    pub parallel: bool,
    /// The handling goes on when it fails.
    pub tolerated: bool,
    /// Made only when a look-up missed, and the cache that was asked.
    pub on_miss: bool,
    pub cache: Option<CacheId>,
    /// The cache in which this call looks a key up, and the one that it puts the key into.
    pub looks_up: Option<CacheId>,
    pub fills: Option<CacheId>,
    /// The queue that a delivery comes from.
    pub queue: Option<QueueId>,
    /// How long the caller waits for the answer.
    pub timeout: Option<Time>,
    pub retry: Option<RetryPlan>,
    /// Stretches of own work: one before each call that is waited for, and one after the last.
    pub stretches: u32,
    /// Links there and back, positions in [`Plan::links`].
    pub there: u32,
    pub back: u32,
}

/// The connections of one service to another.
#[derive(Debug)]
pub struct RoutePlan {
    pub from: ServiceId,
    pub to: ServiceId,
    pub kind: CallKind,
    /// Position among the caller's routes.
    pub place: u16,
    pub client: Client,
}

/// One HTTP endpoint of a service, whether any journey asks for it or not.
#[derive(Debug)]
pub struct EndpointPlan {
    pub service: ServiceId,
    pub method: String,
    pub route: String,
    pub pattern: PathPattern,
    pub port: u16,
}

/// Keys that one service looks up in one place.
#[derive(Debug)]
pub struct CachePlan {
    pub client: ServiceId,
    /// The store; `None` is the memory of the client's own processes.
    pub store: Option<ServiceId>,
    /// What is read instead when a key is not there.
    pub reads: OperationId,
    pub keys: u32,
    pub entries: u32,
    pub skew: f64,
}

/// Messages of one queue or topic on their way to one consuming service.
#[derive(Debug)]
pub struct QueuePlan {
    pub broker: ServiceId,
    pub consumer: ServiceId,
    pub name: String,
    /// A log that consumers poll for batches, instead of a queue that pushes.
    pub is_log: bool,
    /// Most messages that a consumer holds unacknowledged, or takes with one poll.
    pub most: u32,
}

#[derive(Debug)]
pub struct RequestPlan {
    pub think_s: f64,
    pub root: CallId,
}

#[derive(Debug)]
pub struct JourneyPlan {
    pub name: String,
    pub weight: f64,
    pub requests: Vec<RequestPlan>,
}

#[derive(Debug)]
pub struct Plan {
    pub code: String,
    pub label_key: String,
    /// How each service is instrumented, by its name.
    pub telemetry: Telemetry,
    pub services: Vec<ServicePlan>,
    pub operations: Vec<OperationPlan>,
    pub endpoints: Vec<EndpointPlan>,
    pub calls: Vec<CallPlan>,
    pub routes: Vec<RoutePlan>,
    pub caches: Vec<CachePlan>,
    pub queues: Vec<QueuePlan>,
    /// Locks of rows in all data stores.
    pub locks: u32,
    pub journeys: Vec<JourneyPlan>,
    /// Directed pairs `(from, to)`.
    pub links: Vec<(ServiceId, ServiceId)>,
}

impl Plan {
    /// # Errors
    /// `system.no_simulation_data` when a part of the system has no model.
    pub fn new(code: &str, label_key: &str, topology: &Topology) -> Result<Self, Problem> {
        build::plan(code, label_key, topology)
    }

    pub fn service(&self, name: &str) -> Option<ServiceId> {
        self.services.iter().position(|service| service.name == name).map(|at| at as ServiceId)
    }

    pub fn link(&self, from: ServiceId, to: ServiceId) -> Option<u32> {
        self.links.iter().position(|&pair| pair == (from, to)).map(|at| at as u32)
    }
}
