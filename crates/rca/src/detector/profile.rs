//! The system's own part of the detector's decision, as data.

use model::{ErrorKind, Problem, Result};
use regex_lite::{NoExpand, Regex};
use serde::{Deserialize, Serialize};

/// What differs from system to system. The defaults are those of the public detector; the rest of the decision is fixed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Profile {
    /// The service that a user's request reaches first. A service whose name contains this text counts, so that a
    /// prefix does no harm; empty means none.
    pub entrance: String,
    /// Services that make requests and are no part of the system, by exact name.
    pub load_generators: Vec<String>,
    /// HTTP status codes that count as a success.
    pub success_codes: Vec<u16>,
    /// Latency must grow at least by this factor for the ratio rule.
    pub relative_ratio: f64,
    /// Latency below this many seconds is never an issue by the ratio rule.
    pub min_absolute_latency_s: f64,
    /// Limits for an endpoint that the normal window does not have, seconds.
    pub new_endpoint_limits_s: Limits,
    /// Success rate below which such an endpoint has an issue, 0 to 1.
    pub new_endpoint_success_floor: f64,
    /// Mean latency above which such an endpoint has timed out, seconds.
    pub new_endpoint_timeout_s: f64,
    /// An endpoint has disappeared when at least this many requests were to be expected and none came.
    pub disappeared_min_count: u32,
    /// Applied to span names in order; the first that matches replaces once and ends the search.
    pub path_templates: Vec<PathTemplate>,
    /// Endpoints whose name contains one of these texts are not judged.
    pub ignored: Vec<String>,
}

/// Seconds per statistic.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub avg: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
}

/// Folds the variable part of a span's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathTemplate {
    /// Regular expression that is searched in the name.
    pub pattern: String,
    /// What the matched text becomes, literally.
    pub replacement: String,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            entrance: String::new(),
            load_generators: vec!["loadgenerator".to_owned(), "load-generator".to_owned()],
            success_codes: vec![200],
            relative_ratio: 3.0,
            min_absolute_latency_s: 0.1,
            new_endpoint_limits_s: Limits { avg: 3.0, p90: 7.0, p95: 8.0, p99: 10.0 },
            new_endpoint_success_floor: 0.9,
            new_endpoint_timeout_s: 15.0,
            disappeared_min_count: 10,
            path_templates: Vec::new(),
            ignored: Vec::new(),
        }
    }
}

/// The compiled path templates.
#[derive(Debug, Clone)]
pub(super) struct Paths(Vec<(Regex, String)>);

impl Paths {
    /// # Errors
    /// `detector.template_malformed` for a pattern that is no regular expression.
    pub(super) fn new(templates: &[PathTemplate]) -> Result<Self> {
        let compile = |template: &PathTemplate| {
            let regex = Regex::new(&template.pattern).map_err(|error| {
                Problem::new(ErrorKind::Invalid, "detector.template_malformed", error.to_string())
                    .place("detector profile, path_templates")
                    .found(format!("`{}`", template.pattern))
                    .expected("a regular expression")
            })?;
            Ok((regex, template.replacement.clone()))
        };
        templates.iter().map(compile).collect::<Result<_>>().map(Self)
    }

    pub(super) fn normalize(&self, name: &str) -> String {
        match self.0.iter().find(|(regex, _)| regex.is_match(name)) {
            Some((regex, replacement)) => regex.replace(name, NoExpand(replacement)).into_owned(),
            None => name.to_owned(),
        }
    }
}
