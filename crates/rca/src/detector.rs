//! The detector: were users harmed? One decision, used for the label and for the pipeline alike.
//!
//! The entrance is chosen once, from the normal window. Each endpoint of it is compared between the windows by the
//! rules of the module `rules`: latency (mean, p90, p95, p99), success rate, presence. Any issue is an anomaly, because each rule
//! has a sample minimum of its own. No issue is `no_anomaly` only when the windows are long enough and the judged
//! endpoints carry most of the traffic; otherwise the data is insufficient.

mod conclusion;
mod endpoint;
mod profile;
mod rules;

use std::collections::BTreeMap;

use model::{Result, Verdict};
use serde_json::{Map, Value, json};

pub use conclusion::{Category, Conclusion, EndpointRow};
pub use endpoint::{Entrance, EntranceRule, Figures};
pub use profile::{Limits, PathTemplate, Profile};

use crate::frame::{Pack, Signals};
pub use crate::minimum::{Minimum, Samples};
use endpoint::Sample;
use profile::Paths;
use rules::{Call, Finding, Kind};

/// What the detector needs to say `no_anomaly`: seconds per window, and requests per endpoint.
pub const MINIMUM: Minimum = Minimum {
    window_s: 30,
    normal_samples: rules::MIN_NORMAL,
    abnormal_samples: rules::MIN_ABNORMAL,
    samples: Samples::Requests,
};

/// Share of the normal window's requests that must belong to judged endpoints before `no_anomaly` is said.
const MIN_JUDGED_SHARE: f64 = 0.5;

/// A detector for one system.
#[derive(Debug, Clone)]
pub struct Detector {
    profile: Profile,
    paths: Paths,
}

impl Detector {
    /// # Errors
    /// `detector.template_malformed` for a path template that is no regular expression.
    pub fn new(profile: Profile) -> Result<Self> {
        let paths = Paths::new(&profile.path_templates)?;
        Ok(Self { profile, paths })
    }

    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Judges a pack. Never fails: too little data is a verdict of its own.
    pub fn judge(&self, pack: &Pack) -> Conclusion {
        if is_empty(&pack.normal) || is_empty(&pack.abnormal) || pack.normal.spans.is_empty() {
            return undecided(Verdict::NoData, "a window holds no spans or nothing at all");
        }
        let Some(entrance) = endpoint::choose(&self.profile, pack) else {
            let reason = format!(
                "no service has {} root spans in the normal window, so there is no entrance to compare",
                endpoint::MIN_ENTRANCE_SPANS
            );
            return undecided(Verdict::InsufficientData, &reason);
        };
        let collect =
            |signals: &Signals| endpoint::samples(&self.profile, &self.paths, pack, &signals.spans, &entrance);
        let (normal, abnormal) = (collect(&pack.normal), collect(&pack.abnormal));
        let scale = pack.windows.abnormal_length().as_secs_f64() / pack.windows.normal_length().as_secs_f64();
        let judged = if abnormal.is_empty() {
            self.unreachable(&entrance, &normal, scale)
        } else {
            self.compare(&normal, &abnormal, scale)
        };
        conclude(pack, entrance, (requests(&normal), requests(&abnormal)), judged)
    }

    /// One row for the whole entrance: nobody got through.
    fn unreachable(&self, entrance: &Entrance, normal: &BTreeMap<String, Sample>, scale: f64) -> Vec<Judged> {
        let spans = requests(normal);
        let Some(mut finding) = rules::missing_endpoint(&self.profile, spans, scale) else { return Vec::new() };
        finding.key = "entrance_unreachable";
        finding.detail = json!({
            "normal_endpoints": normal.len(),
            "normal_spans": spans,
            "abnormal_spans": 0,
            "slo_violated": true,
            "detection_reason": finding.text.clone(),
        });
        let mut whole = Sample::default();
        for sample in normal.values() {
            whole.durations.extend(&sample.durations);
            whole.successes += sample.successes;
        }
        crate::statistics::sort(&mut whole.durations);
        vec![judged_row(entrance.services.join(","), vec![finding], true, whole.figures(), Figures::default())]
    }

    fn compare(
        &self,
        normal: &BTreeMap<String, Sample>,
        abnormal: &BTreeMap<String, Sample>,
        scale: f64,
    ) -> Vec<Judged> {
        let gone = normal.iter().filter(|(name, _)| !abnormal.contains_key(*name)).filter_map(|(name, sample)| {
            let finding = rules::missing_endpoint(&self.profile, sample.count(), scale)?;
            Some(judged_row(name.clone(), vec![finding], true, sample.figures(), Figures::default()))
        });
        let present = abnormal.iter().map(|(name, sample)| match normal.get(name) {
            Some(before) => self.both(name, before, sample),
            None => {
                let figures = sample.figures();
                let findings = rules::new_endpoint(&self.profile, &figures);
                let enough = findings.is_some();
                judged_row(name.clone(), findings.unwrap_or_default(), enough, Figures::default(), figures)
            }
        });
        let mut rows: Vec<Judged> = gone.chain(present).collect();
        rows.sort_by(|a, b| a.row.span_name.cmp(&b.row.span_name));
        rows
    }

    fn both(&self, name: &str, normal: &Sample, abnormal: &Sample) -> Judged {
        let figures = abnormal.figures();
        let calls = rules::STATISTICS
            .iter()
            .map(|statistic| rules::latency(statistic, &self.profile, normal, &figures))
            .chain([rules::success_rate(normal, abnormal)]);
        let (mut findings, mut enough) = (Vec::new(), false);
        for call in calls {
            enough |= call != Call::Undecided;
            if let Call::Issue(finding) = call {
                findings.push(finding);
            }
        }
        judged_row(name.to_owned(), findings, enough, normal.figures(), figures)
    }
}

/// A row with its issues in words.
struct Judged {
    row: EndpointRow,
    texts: Vec<String>,
}

fn judged_row(span_name: String, findings: Vec<Finding>, judged: bool, normal: Figures, abnormal: Figures) -> Judged {
    let category = category(&findings);
    let texts = findings.iter().map(|finding| format!("{span_name}: {}", finding.text)).collect();
    let issues: Map<String, Value> =
        findings.into_iter().map(|finding| (finding.key.to_owned(), finding.detail)).collect();
    Judged { row: EndpointRow { span_name, issues, category, judged, normal, abnormal }, texts }
}

fn category(findings: &[Finding]) -> Category {
    let has = |kind| findings.iter().any(|finding| finding.kind == kind);
    match (has(Kind::Presence), has(Kind::Latency), has(Kind::SuccessRate)) {
        (true, _, _) => Category::Unreachable,
        (_, true, true) => Category::BothLatencyAndSuccessRate,
        (_, true, false) => Category::LatencyOnly,
        (_, false, true) => Category::SuccessRateOnly,
        (_, false, false) => Category::NoIssues,
    }
}

fn conclude(pack: &Pack, entrance: Entrance, requests: (usize, usize), judged: Vec<Judged>) -> Conclusion {
    let known: usize = judged.iter().filter(|judged| judged.row.judged).map(|judged| judged.row.normal.count).sum();
    let judged_share = known as f64 / requests.0.max(1) as f64;
    let evidence: Vec<String> = judged.iter().flat_map(|judged| judged.texts.clone()).collect();
    let rows: Vec<EndpointRow> = judged.into_iter().map(|judged| judged.row).collect();
    let harmed = rows.iter().filter(|row| !row.issues.is_empty()).count();
    let (verdict, reason) = if harmed > 0 {
        (Verdict::Anomaly, format!("{harmed} of {} endpoints have an issue", rows.len()))
    } else if !MINIMUM.allows(&pack.windows) {
        (Verdict::InsufficientData, format!("no issue, but a window is shorter than {} s", MINIMUM.window_s))
    } else if judged_share < MIN_JUDGED_SHARE {
        let share = judged_share * 100.0;
        (Verdict::InsufficientData, format!("no issue, but only {share:.0} % of the requests could be judged"))
    } else {
        (Verdict::NoAnomaly, format!("none of {} endpoints has an issue", rows.len()))
    };
    Conclusion {
        verdict,
        reason,
        entrance: Some(entrance),
        normal_requests: requests.0,
        abnormal_requests: requests.1,
        judged_share,
        rows,
        evidence,
    }
}

fn undecided(verdict: Verdict, reason: &str) -> Conclusion {
    Conclusion {
        verdict,
        reason: reason.to_owned(),
        entrance: None,
        normal_requests: 0,
        abnormal_requests: 0,
        judged_share: 0.0,
        rows: Vec::new(),
        evidence: Vec::new(),
    }
}

fn requests(samples: &BTreeMap<String, Sample>) -> usize {
    samples.values().map(Sample::count).sum()
}

fn is_empty(signals: &Signals) -> bool {
    signals.spans.is_empty()
        && signals.logs.is_empty()
        && signals.gauges.is_empty()
        && signals.sums.is_empty()
        && signals.histograms.is_empty()
}
