//! Telemetry: OTLP in, sorted columns out.
//!
//! Records come from the simulator ([`SignalStore::step`]) or from the network ([`Ingest`], [`serve_grpc`]), go through one path
//! of validation and conversion, and lie in the [`SignalStore`] as sorted, compressed segments by stream and signal until a datapack
//! reads a window of them ([`SignalStore::read`]).

mod attributes;
mod chunk;
mod column;
mod convert;
mod disk;
mod grpc;
mod ingest;
mod journal;
pub mod otlp;
mod refusal;
mod rows;
mod segment;
mod signal;
mod status;
mod step;
mod store;
mod table;

pub use convert::TimeBounds;
pub use grpc::serve_grpc;
pub use ingest::Ingest;
pub use refusal::Accepted;
pub use rows::Rows;
pub use signal::{Export, Query, Signal, Stream};
pub use status::{KindStatus, Status};
pub use step::{StepStats, StepWriter};
pub use store::{Options, SignalStore, Stats};
