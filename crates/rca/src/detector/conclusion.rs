//! What the detector says, and its public form, `conclusion.csv`.

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

    /// The issues as JSON text; `{}` when there is none.
    pub fn issues_text(&self) -> String {
        serde_json::to_string(&self.issues).expect("a map of JSON values is JSON")
    }

    /// The row's numbers, in the order of the last ten columns; a rate that does not exist is zero, as the public
    /// form has it.
    pub fn numbers(&self) -> [f64; 10] {
        let (a, n) = (&self.abnormal, &self.normal);
        let rate = |figures: &Figures| figures.succ_rate.unwrap_or(0.0);
        [a.avg, n.avg, rate(a), rate(n), a.p90, n.p90, a.p95, n.p95, a.p99, n.p99]
    }
}

impl Conclusion {
    /// `conclusion.csv`, with its header; `None` without rows.
    pub fn csv(&self) -> Option<String> {
        if self.rows.is_empty() {
            return None;
        }
        let mut text = EndpointRow::COLUMNS.join(",");
        text.push('\n');
        for row in &self.rows {
            text.push_str(&quoted(&row.span_name));
            text.push(',');
            text.push_str(&quoted(&row.issues_text()));
            for number in row.numbers() {
                text.push(',');
                text.push_str(&number.to_string());
            }
            text.push('\n');
        }
        Some(text)
    }
}

/// A field by RFC 4180.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}
