//! The folder layout of the RCAEval benchmark, both ways.
//!
//! ```text
//! <system>/<service>_<fault>/<run>/data.csv          a row a second: `time` and one column for each `<service>_<metric>`
//!                                  metrics.parquet   the same
//!                                  logs.csv          timestamp in nanoseconds, container_name, message, level, …
//!                                  traces.csv        startTime and duration in microseconds, …
//!                                  inject_time.txt   Unix seconds
//! ```
//! The truth is in the folder's name: the service that the fault acts on, and the fault; several services are joined by `+`,
//! and `none_none` is a run without a fault.
//!
//! Our own export adds two columns at the end of `traces.csv`, `spanKind` and `spanStatus`, which other programs do not ask for,
//! and `export.json`, which says what of the pack the layout has no place for.

mod export;
mod import;
mod records;
mod wide;

pub use export::Exported;
pub(crate) use import::there;
pub use import::{Case, Import, Imported, cases, import};
pub(crate) use wide::{malformed, table};

const INJECT_TIME: &str = "inject_time.txt";
const METRICS: [&str; 5] = ["data.csv", "simple_metrics.csv", "metrics.csv", "metrics.parquet", "metrics.json"];
const LOGS: &str = "logs.csv";
const TRACES: &str = "traces.csv";
const TIME: &str = "time";
const SPAN_KIND: &str = "spanKind";
const SPAN_STATUS: &str = "spanStatus";
/// Beside the case: what was left out of it.
const LEFT_OUT: &str = "export.json";
/// Service and fault of a run without a fault.
const NONE: &str = "none";
