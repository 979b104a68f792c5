//! Benchmark systems as data: registration, detector profile, topology, injectable points and user journeys.
//!
//! Each built-in system is a folder `systems/<code>/` of YAML files that is embedded at build time; a folder of the
//! same layout overrides or adds systems ([`Catalog::with_folder`]). Loading checks every cross reference, so whoever
//! holds a [`Topology`] may rely on it.

mod behaviour;
mod capacity;
mod catalog;
pub mod collector;
mod contract;
mod folder;
mod inspect;
mod journey;
mod lint;
mod pattern;
mod registration;
mod review;
mod spot;
mod telemetry;
mod topology;
mod yaml;

pub use behaviour::{Behaviour, CacheBehaviour, ClientBehaviour, ServiceBehaviour};
pub use capacity::{Capacity, Overload};
pub use catalog::{Catalog, SystemData};
pub use contract::{Carrier, Requirement, Scope};
pub use inspect::{Finding, Report, Severity, lint};
pub use journey::{Journey, Request, Step};
pub use pattern::PathPattern;
pub use registration::{
    ChartSource, DetectorProfile, Entrance, LatencyLimits, PathTemplate, Prerequisite, Profile, Reclaim, Registration,
    Signal,
};
pub use telemetry::{
    Conventions, Histograms, Level, LogLine, Logs, MetricsPath, Moment, ServiceTelemetry, Stack, StoreSpans, Telemetry,
};
pub use topology::{
    Call, Endpoint, Kind, Language, Method, Phase, Protocol, Retry, Rpc, Service, Statement, StoreSystem, Topology,
};
