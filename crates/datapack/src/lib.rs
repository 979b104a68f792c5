//! Datapacks: schemas declared once; build, validate, publish, verify, read.
//!
//! - [`schema`]: the tables, from which everything else derives.
//! - [`Builder`]: telemetry of two windows to a checked, published pack.
//! - [`Pack`]: a published pack, its public form, its checksums.
//! - [`load`]: a pack's open part as the frames that algorithms take.
//! - [`diagnose`], [`diff`]: what is right and wrong with a pack; in what two differ.
//! - [`rcaeval`]: the layout of another benchmark, both ways; [`csv_import`]: plain files back into a pack.
//! - [`leak`]: whether an open part gives the answer away.

mod archive;
mod builder;
mod check;
pub mod conclusion;
mod conform;
mod contract;
mod convert;
mod csv_export;
mod csv_file;
pub mod csv_import;
pub mod diagnose;
pub mod diff;
mod disk;
mod export;
mod id;
mod input;
mod inventory;
pub mod leak;
mod load;
mod manifest;
mod meter;
mod order;
mod pack;
mod parquet_file;
pub mod quality;
pub mod rcaeval;
pub mod schema;
mod shown;
mod skew;
mod staging;
pub mod visible;

pub use archive::zip_all;
pub use builder::{Builder, Refusal, Staged};
pub use check::{check_columns, file_size};
pub use conclusion::{ConclusionRow, EndpointFigures};
pub use contract::contract_markdown;
pub use input::{Batches, InMemory, PackInput, Profile, Source, name};
pub use load::{LOAD_GENERATORS, load};
pub use manifest::{Content, FORMAT, Manifest, Provenance, public_ground_truth};
pub use pack::{Bytes, Finding, Pack, PublicFile};
pub use parquet_file::FileRecord;
pub use quality::Quality;
pub use schema::{Signal, Table};
pub use skew::Skew;
pub use visible::Visibility;

/// The run's parameters, in the open part.
pub(crate) const ENV_FILE: &str = "env.json";
/// The cluster's objects, in the open part.
pub(crate) const K8S_FILE: &str = "k8s.json";
/// The injection: its name only in the open part, everything in the sealed one.
pub(crate) const INJECTION_FILE: &str = "injection.json";
