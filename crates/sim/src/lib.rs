//! The simulated cluster: a deterministic discrete-event simulation of a system's own topology that speaks OTLP like a real one.
//!
//! [`SimCluster`] is the outside world of a folder; [`World`] is one running system inside it. Faults change mechanisms
//! (links, processors, processes, methods) and nothing else; what the telemetry shows follows from there.

pub mod bench;
mod cluster;
mod effect;
mod emit;
pub mod engine;
mod entrance;
mod faults;
mod gate;
mod journal;
mod life;
mod link;
mod load;
mod node;
mod noise;
mod patience;
mod plan;
mod pod;
mod profile;
mod request;
mod resolver;
mod reuse;
pub mod rng;
mod slot;
mod snapshot;
mod state;
pub mod station;
mod telemetry_out;
mod witness;
mod world;

pub use self::cluster::SimCluster;
pub use emit::{Counts, Sink};
pub use plan::{Offered, Plan};
pub use telemetry_out::{StepSink, Telemetry};
pub use world::{Backlog, World};
