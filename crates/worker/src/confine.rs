//! What is agreed between the worker and the process that keeps a command apart (`aegis confine ORDER`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use api::algorithm::Network;
use serde::{Deserialize, Serialize};

/// Where the command sees its input, below it the datapack's name.
pub const INPUT: &str = "/data";
/// Where the command sees its output folder: the only place that outlives it.
pub const OUTPUT: &str = "/output";
/// A folder of its own, in memory, gone with it.
pub const HOME: &str = "/tmp";

/// How the last words of a process begin that could not become the command.
pub const NOT_STARTED: &str = "cannot be started: ";

/// One command that is to be run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    pub command: Vec<String>,
    /// All that its environment holds.
    pub env: BTreeMap<String, String>,
    /// The open part of the datapack, shown read-only as [`INPUT`] and the datapack's name.
    pub input: PathBuf,
    pub datapack: String,
    /// Shown as [`OUTPUT`].
    pub output: PathBuf,
    /// A folder for this process itself: `stdout`, `stderr`, `report.json`.
    pub work: PathBuf,
    pub seconds: u64,
    pub memory_mib: u64,
    pub network: Network,
    /// Where the server listens, `127.0.0.1:PORT`, for [`Network::Server`].
    pub server: Option<String>,
    /// With every right of the server, on the paths as they are.
    pub no_isolation: bool,
}

/// How it ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    pub end: End,
    pub seconds: f64,
    /// Largest resident memory of all its processes together, bytes.
    pub peak_memory: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum End {
    Exited { code: i32 },
    Killed { signal: i32 },
    TimedOut,
    OutOfMemory,
}

impl Order {
    pub fn report(&self) -> PathBuf {
        self.work.join("report.json")
    }

    pub fn stdout(&self) -> PathBuf {
        self.work.join("stdout")
    }

    pub fn stderr(&self) -> PathBuf {
        self.work.join("stderr")
    }
}
