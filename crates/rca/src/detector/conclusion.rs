//! What the detector says. Its public form, `conclusion.csv`, is written where datapacks are.

use model::Verdict;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::endpoint::{Entrance, Figures};

/// The detector's answer for one pack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conclusion {
    /// `anomaly`, `no_anomaly`, `insufficient_data` or `no_data`. The one decision: a label and the pipeline read this.
    pub verdict: Verdict,
    /// The verdict's ground in one sentence.
    pub reason: String,
    /// `None` when no entrance was found.
    pub entrance: Option<Entrance>,
    /// Requests at the entrance.
    pub normal_requests: usize,
    pub abnormal_requests: usize,
    /// Share of the normal window's requests whose endpoint could be judged, 0 to 1.
    pub judged_share: f64,
    /// One row per endpoint of the abnormal window and per endpoint that disappeared, by name.
    pub rows: Vec<EndpointRow>,
    /// One sentence per issue, `endpoint: what is wrong`.
    pub evidence: Vec<String>,
}

/// One endpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndpointRow {
    /// Normalised span name; the entrance's name when it is unreachable.
    pub span_name: String,
    /// Empty when the endpoint has no issue. Numbers are finite; what does not exist is null.
    pub issues: Map<String, Value>,
    pub category: Category,
    /// Whether there was enough data to judge the endpoint.
    pub judged: bool,
    pub normal: Figures,
    pub abnormal: Figures,
}

/// What kind of harm an endpoint shows; the labels are those of the public detector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    NoIssues,
    LatencyOnly,
    SuccessRateOnly,
    BothLatencyAndSuccessRate,
    /// The endpoint or the whole entrance is gone.
    Unreachable,
}

impl EndpointRow {
    /// The columns of `conclusion.csv`, in order. Durations in seconds, rates from 0 to 1.
    pub const COLUMNS: [&'static str; 12] = [
        "SpanName",
        "Issues",
        "AbnormalAvgDuration",
        "NormalAvgDuration",
        "AbnormalSuccRate",
        "NormalSuccRate",
        "AbnormalP90",
        "NormalP90",
        "AbnormalP95",
        "NormalP95",
        "AbnormalP99",
        "NormalP99",
    ];
}
