//! What is registered about a system: how its namespaces look, what is installed, and how its health is judged.

use model::{ErrorKind, Problem, Result, SystemCode};
use regex_lite::Regex;
use serde::{Deserialize, Serialize};

/// The shape of a system, independent of any one slot. File `system.yaml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registration {
    /// Version of the file format; 1.
    pub format: u32,
    pub code: SystemCode,
    pub display_name: String,
    /// Regular expression that matches exactly the namespaces of this system's slots.
    pub namespace_pattern: String,
    /// Regular expression with two groups: the code and the slot's number.
    pub extract_pattern: String,
    /// Key of the pod label whose value names the service.
    pub app_label_key: String,
    /// Seconds between readiness and the first measured window.
    pub warmup_s: u32,
    pub reclaim: Reclaim,
    pub chart: ChartSource,
    /// What must run on the cluster before the system's own chart is installed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prerequisites: Vec<Prerequisite>,
    pub entrance: Entrance,
    pub profile: Profile,
}

/// What happens to a slot before the next run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reclaim {
    /// The release and the namespace are removed and installed anew.
    Full,
    /// Deployments other than data stores are restarted; the release and its data stay.
    Soft,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChartSource {
    pub name: String,
    /// Classic repository (`https://`) or registry (`oci://`).
    pub repository: String,
    /// Versions whose behaviour is described by this data, oldest first.
    pub known_versions: Vec<String>,
}

/// A chart that serves all slots of a system and lives in a namespace of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prerequisite {
    /// Name of its release.
    pub name: String,
    pub chart: String,
    /// Classic repository (`https://`) or registry (`oci://`).
    pub repository: String,
    pub namespace: String,
    /// Constraint as Helm writes it, such as `>=3.4`.
    pub version: String,
    /// What of the system does not work without it.
    pub why: String,
}

/// Where load enters the system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entrance {
    /// First service that a user's request reaches.
    pub service: String,
    pub load_generator: String,
    /// Service whose root spans are the service level indicator.
    pub sli_service: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    pub detector: DetectorProfile,
    /// Applied to entrance span names in order; the first match replaces, once.
    pub path_templates: Vec<PathTemplate>,
    /// Signals that must hold rows in both windows; an empty one refuses the pack.
    pub required_signals: Vec<Signal>,
    /// Seconds between two points of a metric; 15 where the data say nothing, as in the systems' own collectors.
    #[serde(default = "metric_interval_s")]
    pub metric_interval_s: u64,
}

const fn metric_interval_s() -> u64 {
    15
}

/// Thresholds of the detector's decision, per endpoint of the entrance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DetectorProfile {
    /// HTTP status codes that count as a success.
    pub success_codes: Vec<u16>,
    /// Latency grew at least by this factor.
    pub relative_ratio: f64,
    /// Latency below this is never an anomaly, in seconds.
    pub min_absolute_latency_s: f64,
    /// Limits for an endpoint that has no normal window to compare with, in seconds.
    pub new_endpoint_limits_s: LatencyLimits,
    /// Success rate below which an endpoint without a normal window is an anomaly, 0 to 1.
    pub new_endpoint_success_floor: f64,
    /// Average latency above which an endpoint without a normal window is an anomaly at once, in seconds.
    pub new_endpoint_timeout_s: f64,
    /// Requests in the normal window from which an endpoint that is gone in the abnormal window is an anomaly.
    pub disappeared_min_count: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyLimits {
    pub avg: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
}

/// Variable segments of entrance span names folded into one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathTemplate {
    /// Regular expression that is searched in the span's name.
    pub pattern: String,
    /// What the matched text becomes.
    pub replacement: String,
}

/// The kinds of telemetry that a datapack holds, by the stem of its file names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    Traces,
    TraceIdTs,
    Logs,
    Metrics,
    MetricsSum,
    MetricsHistogram,
}

impl Signal {
    pub const ALL: [Self; 6] =
        [Self::Traces, Self::TraceIdTs, Self::Logs, Self::Metrics, Self::MetricsSum, Self::MetricsHistogram];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::TraceIdTs => "trace_id_ts",
            Self::Logs => "logs",
            Self::Metrics => "metrics",
            Self::MetricsSum => "metrics_sum",
            Self::MetricsHistogram => "metrics_histogram",
        }
    }
}

impl Registration {
    /// Checks what types cannot: the format's version, every regular expression, and that they fit the code. The place
    /// of a finding is the key.
    pub(crate) fn check(&self) -> Vec<Problem> {
        let mut findings = Vec::new();
        if self.format != 1 {
            let problem = Problem::new(ErrorKind::Invalid, "system.format_unknown", "the file's format is not known");
            findings.push(problem.place("format").found(self.format.to_string()).expected("1"));
        }
        let templates = self.profile.path_templates.iter();
        for template in templates {
            findings.extend(compile(&template.pattern).err().map(|problem| problem.place("profile.path_templates")));
        }
        let first_slot = format!("{}0", self.code);
        match compile(&self.namespace_pattern) {
            Ok(pattern) if !pattern.is_match(&first_slot) => {
                findings.push(self.misses("namespace_pattern", &self.namespace_pattern, "matches"));
            }
            Ok(pattern) => findings.extend(self.too_wide("namespace_pattern", &pattern)),
            Err(problem) => findings.push(problem.place("namespace_pattern")),
        }
        match compile(&self.extract_pattern) {
            Ok(pattern) if Self::extracted(&pattern, &first_slot) != Some((self.code.as_str(), 0)) => {
                findings.push(self.misses("extract_pattern", &self.extract_pattern, "finds code and number in"));
            }
            Ok(pattern) => findings.extend(self.too_wide("extract_pattern", &pattern)),
            Err(problem) => findings.push(problem.place("extract_pattern")),
        }
        findings
    }

    /// A pattern that takes namespaces for slots which are none: those of the cluster, of others, or with something more in their
    /// name.
    fn too_wide(&self, key: &str, pattern: &Regex) -> Option<Problem> {
        let code = &self.code;
        let strangers = [
            "default".to_owned(),
            "kube-system".to_owned(),
            code.to_string(),
            format!("x-{code}0"),
            format!("{code}0-x"),
            format!("{code}-0"),
        ];
        let taken = strangers.iter().find(|name| pattern.is_match(name))?;
        let problem = Problem::new(
            ErrorKind::Invalid,
            "system.pattern_too_wide",
            "the pattern takes namespaces for slots of the system that are none",
        );
        Some(
            problem
                .place(key)
                .found(format!("`{pattern}` matches `{taken}`"))
                .expected("the code and a number, and nothing before or after them")
                .fix(self.right(key)),
        )
    }

    /// The pattern that fits.
    fn right(&self, key: &str) -> String {
        let code = &self.code;
        if key == "extract_pattern" { format!(r"`^({code})(\d+)$`") } else { format!(r"`^{code}\d+$`") }
    }

    /// A slot of another system that this one's patterns take for their own.
    pub(crate) fn taken_from(&self, other: &Self) -> Option<(&'static str, String)> {
        let patterns = [("namespace_pattern", &self.namespace_pattern), ("extract_pattern", &self.extract_pattern)];
        let slots = [0, 1, 10].map(|number| format!("{}{number}", other.code));
        patterns.into_iter().find_map(|(key, pattern)| {
            let pattern = compile(pattern).ok()?;
            slots.iter().find(|slot| pattern.is_match(slot)).map(|slot| (key, slot.clone()))
        })
    }

    fn misses(&self, key: &str, pattern: &str, verb: &str) -> Problem {
        let code = &self.code;
        Problem::new(
            ErrorKind::Invalid,
            "system.pattern_misses_code",
            "the pattern does not fit the system's own slots",
        )
        .place(key)
        .found(format!("`{pattern}`"))
        .expected(format!("a pattern that {verb} `{code}0`"))
        .fix(self.right(key))
    }

    /// The slot's number if `namespace` is one of this system's.
    pub fn slot_number(&self, namespace: &str) -> Option<u32> {
        let pattern = compile(&self.extract_pattern).ok()?;
        Some(Self::extracted(&pattern, namespace)?.1)
    }

    /// Code and number of a slot, by the two groups of the pattern.
    fn extracted<'a>(pattern: &Regex, namespace: &'a str) -> Option<(&'a str, u32)> {
        let found = pattern.captures(namespace)?;
        Some((found.get(1)?.as_str(), found.get(2)?.as_str().parse().ok()?))
    }
}

fn compile(pattern: &str) -> Result<Regex> {
    Regex::new(pattern).map_err(|error| {
        Problem::new(ErrorKind::Invalid, "system.pattern_malformed", "a regular expression does not compile")
            .found(format!("`{pattern}`: {error}"))
    })
}
