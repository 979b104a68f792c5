//! Telemetry: OTLP in, sorted columns out.
//!
//! Records come from the simulator ([`SignalStore::step`]) or from the network ([`Ingest`], [`serve`]), go through one path
//! of validation and conversion, and lie in the [`SignalStore`] as sorted, compressed segments by stream and signal until a datapack
//! reads a window of them ([`SignalStore::read`]).

mod attribute;
mod attributes;
mod census;
mod chunk;
mod clickhouse;
mod column;
mod convert;
mod disk;
mod grpc;
mod http;
mod ingest;
mod journal;
mod json;
mod limits;
mod listen;
pub mod load;
pub mod otlp;
mod otlp_client;
mod receive;
mod refusal;
mod reply;
mod rows;
mod rpc;
mod segment;
mod signal;
mod status;
mod step;
mod store;
mod table;
mod upkeep;
mod wire;

pub use census::{Group, Present, Trait};
pub use clickhouse::ClickHouse;
pub use convert::TimeBounds;
pub use ingest::Ingest;
pub use limits::Limits;
pub use listen::{Listen, Listening, serve};
pub use otlp_client::{Delivery, OtlpClient, OtlpProtocol, OtlpTarget, Reasons, SendReport};
pub use refusal::Accepted;
pub use rows::Rows;
pub use signal::{Export, Query, Signal, Stream};
pub use status::{Kept, KindStatus, NamespaceStatus, Queue, Status};
pub use step::{StepStats, StepWriter};
pub use store::{Options, SignalStore, Stats};
pub use upkeep::Keep;
