//! From OTLP requests to rows: the one path of validation, whether a request came over the network or from the simulator.
//!
//! A record is either taken whole or refused with a counted reason; a request is never refused for one of its records.

mod logs;
mod metrics;
mod traces;

use model::DataTime;

use crate::attributes;
use crate::otlp::{
    ExportLogsServiceRequest, ExportMetricsServiceRequest, ExportTraceServiceRequest, Message, Resource,
};
use crate::refusal::{Refusal, Tally};
use crate::table::Tables;
use crate::{Accepted, Export};

/// The resource attribute that Kubernetes' collectors set.
pub(crate) const K8S_NAMESPACE: &str = "k8s.namespace.name";
/// The resource attribute that an application may set itself.
pub(crate) const SERVICE_NAMESPACE: &str = "service.namespace";

/// The longest namespace that is kept apart (that of a DNS name).
const NAMESPACE_LIMIT: usize = 253;

/// What a record's timestamp must be within; half-open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeBounds {
    pub earliest: DataTime,
    pub latest: DataTime,
}

impl Default for TimeBounds {
    /// The years 2000 to 2099.
    fn default() -> Self {
        Self { earliest: DataTime::from_seconds(946_684_800), latest: DataTime::from_seconds(4_102_444_800) }
    }
}

impl TimeBounds {
    fn check(&self, nanos: u64) -> Result<i64, Refusal> {
        let time = i64::try_from(nanos).map_err(|_| Refusal::Time)?;
        if self.contains(DataTime(time)) { Ok(time) } else { Err(Refusal::Time) }
    }

    pub(crate) fn contains(&self, time: DataTime) -> bool {
        self.earliest <= time && time < self.latest
    }
}

/// Where the rows of a resource go.
pub(crate) trait Route {
    /// `namespace` is the resource's `k8s.namespace.name`, else its `service.namespace`, else empty.
    fn tables(&mut self, namespace: &str) -> &mut Tables;
}

/// A simulated step keeps everything in the tables of its own stream.
impl Route for Tables {
    fn tables(&mut self, _: &str) -> &mut Tables {
        self
    }
}

/// A decoded request of any kind.
pub(crate) enum Request {
    Traces(ExportTraceServiceRequest),
    Metrics(ExportMetricsServiceRequest),
    Logs(ExportLogsServiceRequest),
}

impl Request {
    pub fn decode(export: Export, bytes: &[u8]) -> Result<Self, prost::DecodeError> {
        Ok(match export {
            Export::Traces => Self::Traces(ExportTraceServiceRequest::decode(bytes)?),
            Export::Metrics => Self::Metrics(ExportMetricsServiceRequest::decode(bytes)?),
            Export::Logs => Self::Logs(ExportLogsServiceRequest::decode(bytes)?),
        })
    }

    pub fn export(&self) -> Export {
        match self {
            Self::Traces(_) => Export::Traces,
            Self::Metrics(_) => Export::Metrics,
            Self::Logs(_) => Export::Logs,
        }
    }

    pub fn convert(&self, bounds: &TimeBounds, route: &mut impl Route) -> (Accepted, Tally) {
        match self {
            Self::Traces(request) => traces(request, bounds, route),
            Self::Metrics(request) => metrics(request, bounds, route),
            Self::Logs(request) => logs(request, bounds, route),
        }
    }
}

pub(crate) use logs::logs;
pub(crate) use metrics::metrics;
pub(crate) use traces::traces;

/// What is the same for all records of a resource, made once.
struct Origin<'a> {
    json: String,
    service: &'a str,
    namespace: &'a str,
    /// The deployment or stateful set, for metrics.
    workload: &'a str,
}

impl<'a> Origin<'a> {
    fn of(resource: Option<&'a Resource>) -> Result<Self, Refusal> {
        let list = resource.map_or(&[][..], |resource| &resource.attributes);
        let first = |keys: [&str; 2]| {
            keys.into_iter().find_map(|key| attributes::find(list, key).filter(|text| !text.is_empty())).unwrap_or("")
        };
        let namespace = first([K8S_NAMESPACE, SERVICE_NAMESPACE]);
        if namespace.len() > NAMESPACE_LIMIT {
            return Err(Refusal::Namespace);
        }
        let mut json = String::with_capacity(512);
        attributes::write_object(list, &mut json);
        Ok(Self {
            json,
            service: attributes::find(list, "service.name").unwrap_or(""),
            namespace,
            workload: first(["k8s.deployment.name", "k8s.statefulset.name"]),
        })
    }
}

/// Counts the outcomes of one request.
#[derive(Default)]
struct Count {
    accepted: u64,
    tally: Tally,
}

impl Count {
    fn record(&mut self, outcome: Result<(), Refusal>) {
        match outcome {
            Ok(()) => self.accepted += 1,
            Err(refusal) => self.tally.add(refusal, 1),
        }
    }

    fn finish(self) -> (Accepted, Tally) {
        (Accepted::new(self.accepted, &self.tally), self.tally)
    }
}

/// An id of exactly `N` bytes that is not all zero.
fn id<const N: usize>(bytes: &[u8], refusal: Refusal) -> Result<[u8; N], Refusal> {
    let id: [u8; N] = bytes.try_into().map_err(|_| refusal)?;
    if id == [0; N] { Err(refusal) } else { Ok(id) }
}

/// An id that may be absent, which is no bytes or all zero.
fn optional_id<const N: usize>(bytes: &[u8], refusal: Refusal) -> Result<[u8; N], Refusal> {
    if bytes.is_empty() { Ok([0; N]) } else { bytes.try_into().map_err(|_| refusal) }
}
