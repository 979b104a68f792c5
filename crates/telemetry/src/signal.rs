//! Which records there are: five stored signals, three kinds of OTLP request, and the streams that keep them apart.

use std::fmt;

use model::{DataTime, RunId};
use serde::{Deserialize, Serialize};

/// A stored signal: one table and one sort order each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    Traces,
    Logs,
    Gauge,
    Sum,
    Histogram,
}

impl Signal {
    pub const ALL: [Self; 5] = [Self::Traces, Self::Logs, Self::Gauge, Self::Sum, Self::Histogram];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Logs => "logs",
            Self::Gauge => "gauge",
            Self::Sum => "sum",
            Self::Histogram => "histogram",
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A kind of OTLP request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Export {
    Traces,
    Metrics,
    Logs,
}

impl Export {
    pub const ALL: [Self; 3] = [Self::Traces, Self::Metrics, Self::Logs];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
            Self::Logs => "logs",
        }
    }

    /// What one record of this kind is called, in the plural.
    pub(crate) const fn records(self) -> &'static str {
        match self {
            Self::Traces => "spans",
            Self::Metrics => "data points",
            Self::Logs => "log records",
        }
    }
}

/// Records that belong together: a namespace, and for a simulated run the run, whose data time is its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stream {
    /// The Kubernetes namespace; empty for records from the network that name none.
    pub namespace: String,
    /// `None` for what came from the network.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run: Option<RunId>,
}

/// The records of one signal and namespace in `[from, to)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    pub signal: Signal,
    /// Matches `k8s.namespace.name` or `service.namespace` of the record's resource.
    pub namespace: String,
    pub run: Option<RunId>,
    /// Inclusive.
    pub from: DataTime,
    /// Exclusive.
    pub to: DataTime,
}
