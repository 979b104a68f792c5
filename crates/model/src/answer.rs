//! What an algorithm answers: a ranked list of suspects.

use serde::{Deserialize, Serialize};

/// The granularity of a suspect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    Service,
    Pod,
    Container,
    Metric,
    Function,
    Span,
}

impl Level {
    pub const ALL: [Self; 6] = [Self::Service, Self::Pod, Self::Container, Self::Metric, Self::Function, Self::Span];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Pod => "pod",
            Self::Container => "container",
            Self::Metric => "metric",
            Self::Function => "function",
            Self::Span => "span",
        }
    }
}

/// One suspect. Ranks are exactly 1..n within one answer list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub level: Level,
    pub name: String,
    pub rank: u32,
    /// The method's own score, larger is more suspect. Equal scores are a tie, whatever the ranks say.
    pub score: Option<f64>,
}
