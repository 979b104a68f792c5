//! Where users enter, and what they got there: entrance selection and per-endpoint samples.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::profile::{Paths, Profile};
use crate::frame::{Pack, Span, SpanStatus};
use crate::statistics::{mean, quantile, sort, tidy};

/// Root spans that an entrance needs in the normal window.
pub(super) const MIN_ENTRANCE_SPANS: usize = 10;

/// How the entrance was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntranceRule {
    /// The load generators' own requests.
    LoadGenerator,
    /// The entrance service of the profile.
    EntranceService,
    /// The service with most root spans, because the first two have too few.
    Busiest,
}

/// The services whose root spans stand for the users, chosen once from the normal window and used for both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entrance {
    pub rule: EntranceRule,
    /// Ascending.
    pub services: Vec<String>,
}

/// `None` when no service has enough root spans in the normal window.
pub(super) fn choose(profile: &Profile, pack: &Pack) -> Option<Entrance> {
    let mut counts: HashMap<u32, usize> = HashMap::new();
    for span in pack.normal.spans.iter().filter(|span| span.parent == 0) {
        *counts.entry(span.service).or_default() += 1;
    }
    // Ascending by name, so that the busiest of equals is the first by name.
    let mut roots: Vec<(&str, usize)> =
        counts.into_iter().map(|(service, count)| (pack.names.get(service), count)).collect();
    roots.sort_unstable();
    let group = |rule, belongs: &dyn Fn(&str) -> bool| {
        let members = roots.iter().filter(|(name, _)| belongs(name));
        let enough = members.clone().map(|(_, count)| count).sum::<usize>() >= MIN_ENTRANCE_SPANS;
        enough.then(|| Entrance { rule, services: members.map(|(name, _)| (*name).to_owned()).collect() })
    };
    let busiest = || {
        let (name, _) = roots.iter().rev().max_by_key(|(_, count)| *count)?;
        group(EntranceRule::Busiest, &|other| other == *name)
    };
    group(EntranceRule::LoadGenerator, &|name| profile.load_generators.iter().any(|known| known == name))
        .or_else(|| {
            let entrance = profile.entrance.as_str();
            group(EntranceRule::EntranceService, &|name| !entrance.is_empty() && name.contains(entrance))
        })
        .or_else(busiest)
}

/// One endpoint's requests in one window.
#[derive(Debug, Clone, Default)]
pub(super) struct Sample {
    /// Seconds, ascending.
    pub durations: Vec<f64>,
    pub successes: u64,
}

impl Sample {
    pub(super) fn count(&self) -> usize {
        self.durations.len()
    }

    pub(super) fn figures(&self) -> Figures {
        let count = self.count();
        Figures {
            count,
            avg: tidy(mean(&self.durations)),
            p90: tidy(quantile(&self.durations, 0.90)),
            p95: tidy(quantile(&self.durations, 0.95)),
            p99: tidy(quantile(&self.durations, 0.99)),
            succ_rate: (count > 0).then(|| tidy(self.successes as f64 / count as f64)),
        }
    }
}

/// An endpoint's figures in one window: durations in seconds. Without requests they mean nothing: read them through
/// [`Figures::measured`].
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Requests.
    pub count: usize,
    pub avg: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    /// 0 to 1; `None` without requests.
    pub succ_rate: Option<f64>,
}

impl Figures {
    /// The figures, where there was anything to measure.
    pub fn measured(&self) -> Option<&Self> {
        (self.count > 0).then_some(self)
    }
}

/// The entrance's samples of one window by normalised span name.
pub(super) fn samples(
    profile: &Profile,
    paths: &Paths,
    pack: &Pack,
    spans: &[Span],
    entrance: &Entrance,
) -> BTreeMap<String, Sample> {
    let services: Vec<u32> = entrance.services.iter().filter_map(|name| pack.names.find(name)).collect();
    // Names repeat thousands of times: each is normalised once.
    let mut by_name: HashMap<u32, Sample> = HashMap::new();
    for span in spans.iter().filter(|span| span.parent == 0 && services.contains(&span.service)) {
        let sample = by_name.entry(span.name).or_default();
        sample.durations.push(span.duration as f64 / 1e9);
        sample.successes += u64::from(succeeded(profile, span));
    }
    let mut endpoints: BTreeMap<String, Sample> = BTreeMap::new();
    for (name, sample) in by_name {
        let name = paths.normalize(pack.names.get(name));
        if profile.ignored.iter().any(|text| name.contains(text)) {
            continue;
        }
        let merged = endpoints.entry(name).or_default();
        merged.durations.extend(sample.durations);
        merged.successes += sample.successes;
    }
    endpoints.values_mut().for_each(|sample| sort(&mut sample.durations));
    endpoints
}

/// The HTTP status decides where there is one. Without one the span's status does, where unset is no error, as
/// OpenTelemetry defines it; leaving it out would hide every endpoint whose instrumentation only marks errors.
fn succeeded(profile: &Profile, span: &Span) -> bool {
    match span.http_status {
        0 => span.status != SpanStatus::Error,
        status => profile.success_codes.contains(&status),
    }
}
