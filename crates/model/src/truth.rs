//! Ground truth: what really was made to fail, at the levels that an algorithm may be asked about.

use serde::{Deserialize, Serialize};

use crate::Level;

/// How a service takes part in a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The acting side: where the fault is applied. Only a root counts as a hit.
    Root,
    /// The other end of a link, or the healthy party of a client-side fault.
    Peer,
}

/// One service that takes part in a fault, with what belongs to it. All lists may be empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TruthEntry {
    /// Which fault of the run's batch it belongs to, counted from 0.
    #[serde(default)]
    pub fault: u32,
    pub role: Role,
    pub service: String,
    #[serde(default)]
    pub pod: Vec<String>,
    #[serde(default)]
    pub container: Vec<String>,
    /// Metric families of the public vocabulary: `cpu memory network_latency http_latency sql_latency`.
    #[serde(default)]
    pub metric: Vec<String>,
    /// `Class.method`.
    #[serde(default)]
    pub function: Vec<String>,
    #[serde(default)]
    pub span: Vec<String>,
}

/// The ground truth of one run: one entry per service and injection.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Truth {
    pub entries: Vec<TruthEntry>,
}

impl Truth {
    /// The acting services, each once, in order of appearance.
    pub fn roots(&self) -> Vec<&str> {
        self.services(|role| role == Role::Root)
    }

    /// Every service of the public label, each once, in order of appearance.
    pub fn public(&self) -> Vec<&str> {
        self.services(|_| true)
    }

    /// What fails at a level below the service, in the entries of the acting side: each once, in order of appearance.
    pub fn at(&self, level: Level) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for entry in self.entries.iter().filter(|entry| entry.role == Role::Root) {
            let of_level = match level {
                Level::Service => std::slice::from_ref(&entry.service),
                Level::Pod => &entry.pod,
                Level::Container => &entry.container,
                Level::Metric => &entry.metric,
                Level::Function => &entry.function,
                Level::Span => &entry.span,
            };
            names.extend(of_level.iter().map(String::as_str));
        }
        let mut seen = std::collections::HashSet::new();
        names.retain(|name| seen.insert(*name));
        names
    }

    fn services(&self, wanted: impl Fn(Role) -> bool) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for entry in self.entries.iter().filter(|entry| wanted(entry.role)) {
            if !names.contains(&entry.service.as_str()) {
                names.push(&entry.service);
            }
        }
        names
    }
}
