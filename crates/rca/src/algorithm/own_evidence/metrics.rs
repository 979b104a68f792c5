//! Metrics that changed on one service and not on the others.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Marks;
use crate::frame::{Pack, Point, Signals};
use crate::statistics::{deviation, mean, quantile, sort};

/// Services with a metric, from which on they can be compared.
const COMPARED: usize = 4;
/// An outlier of that many robust deviations is as strong as evidence gets.
const STRONGEST: f64 = 40.0;
/// What a fall counts beside a rise of the same size.
const FALL: f64 = 0.3;
/// Standard errors of the normal window's mean that are no change.
const WAVERING: f64 = 3.0;
/// Outliers below that are how services differ anyway.
const USUAL: f64 = 4.0;

/// Per service the mean of its two largest outliers, on a logarithmic scale from 0 to 1.
pub fn evidence(pack: &Pack, candidates: &[u32]) -> Marks {
    let (before, after) = (Levels::new(&pack.normal), Levels::new(&pack.abnormal));
    let mut outliers: HashMap<u32, Vec<f64>> = HashMap::new();
    for (metric, services) in &before.0 {
        let now = after.0.get(metric);
        let typical = typical(services);
        let changes: Vec<(u32, f64)> = candidates
            .iter()
            .filter_map(|service| {
                let usual = services.get(service)?;
                let now = now.and_then(|now| now.get(service));
                Some((*service, change(usual, now, typical)))
            })
            .collect();
        if changes.len() >= COMPARED {
            for (service, size) in compare(&changes) {
                outliers.entry(service).or_default().push(size);
            }
        }
    }
    let mark = |mut sizes: Vec<f64>| {
        sizes.sort_by(|a, b| b.total_cmp(a));
        sizes.truncate(2);
        let strength = |size: &f64| ((size / USUAL).max(1.0).ln() / (STRONGEST / USUAL).ln()).min(1.0);
        sizes.iter().map(strength).sum::<f64>() / 2.0
    };
    outliers.into_iter().map(|(service, sizes)| (service, mark(sizes))).collect()
}

/// Services of which a pod, container or process began anew in the abnormal window: its uptime is shorter than the time
/// since the onset, and before the onset it was not.
pub fn renewed(pack: &Pack) -> Marks {
    let onset = pack.windows.abnormal_start.0;
    let is_uptime = |point: &&Point| pack.names.get(point.metric).ends_with(".uptime");
    let old: BTreeSet<(u32, u32)> = [&pack.normal.gauges, &pack.normal.sums]
        .into_iter()
        .flatten()
        .filter(is_uptime)
        .map(|point| (point.metric, point.service))
        .collect();
    let young = [&pack.abnormal.gauges, &pack.abnormal.sums]
        .into_iter()
        .flatten()
        .filter(is_uptime)
        .filter(|point| point.value * 1e9 < (point.time - onset) as f64);
    young.filter(|point| old.contains(&(point.metric, point.service))).map(|point| (point.service, 1.0)).collect()
}

/// By metric and service: what gauges show, and what counters grow by per second.
struct Levels(BTreeMap<u32, HashMap<u32, Vec<f64>>>);

impl Levels {
    fn new(signals: &Signals) -> Self {
        let mut levels: BTreeMap<u32, HashMap<u32, Vec<f64>>> = BTreeMap::new();
        let mut take = |point: &Point, value: f64| {
            levels.entry(point.metric).or_default().entry(point.service).or_default().push(value);
        };
        signals.gauges.iter().filter(|point| point.value.is_finite()).for_each(|point| take(point, point.value));
        let mut last: HashMap<u32, (i64, f64)> = HashMap::new();
        for point in signals.sums.iter().filter(|point| point.value.is_finite()) {
            if let Some((time, value)) = last.insert(point.series, (point.time, point.value))
                && point.time > time
            {
                // A counter that fell began anew.
                let grown = if point.value < value { point.value } else { point.value - value };
                take(point, grown * 1e9 / (point.time - time) as f64);
            }
        }
        Self(levels)
    }
}

/// The median over services of the size of their mean level.
fn typical(services: &HashMap<u32, Vec<f64>>) -> f64 {
    let mut sizes: Vec<f64> = services.values().map(|values| mean(values).abs()).collect();
    sort(&mut sizes);
    quantile(&sizes, 0.5)
}

/// How the logarithm of the mean level changed, beyond what it wavers by within the normal window. A tenth of what is
/// typical keeps small levels from large ratios; without points the level is zero.
fn change(usual: &[f64], now: Option<&Vec<f64>>, typical: f64) -> f64 {
    let floor = 0.1 * typical + 1e-9;
    let size = |value: f64| (value.abs() + floor).ln();
    let each: Vec<f64> = usual.iter().map(|value| size(*value)).collect();
    let changed = size(now.map_or(0.0, |values| mean(values))) - size(mean(usual));
    let wavering = WAVERING * deviation(&each, 1) / (usual.len() as f64).sqrt();
    changed.signum() * (changed.abs() - wavering).max(0.0)
}

/// How far each change is from the median of all, in robust deviations; one of them is at least a tenth. A fall counts
/// less than a rise: whoever is asked less does less.
fn compare(changes: &[(u32, f64)]) -> Vec<(u32, f64)> {
    let mut sorted: Vec<f64> = changes.iter().map(|(_, change)| *change).collect();
    sort(&mut sorted);
    let centre = quantile(&sorted, 0.5);
    let mut away: Vec<f64> = sorted.iter().map(|change| (change - centre).abs()).collect();
    sort(&mut away);
    let spread = (1.4826 * quantile(&away, 0.5)).max(0.1);
    let size = |away: f64| if away < 0.0 { FALL * -away } else { away };
    changes.iter().map(|(service, change)| (*service, size(change - centre) / spread)).collect()
}
