//! How hard a datapack is: fixed by its fault, its system and what the detector saw, before any algorithm runs.

use std::collections::{BTreeMap, HashMap, VecDeque};

use ::score::Difficulty;
use model::{InjectionId, Result};
use store::{BoardCase, DetectorRow};

use super::App;

/// A loss of the success rate weighs as a change of the duration by ten times its size.
const LOSS: f64 = 10.0;

impl App {
    pub(super) async fn difficulties(
        &self,
        injections: &[BoardCase],
        origin_kind: &str,
    ) -> Result<BTreeMap<InjectionId, Difficulty>> {
        let controls = self.store().controls(origin_kind).await?;
        let mut wanted: Vec<InjectionId> = injections.iter().map(|one| one.injection).collect();
        wanted.extend(injections.iter().filter_map(|one| controls.get(&one.run)));
        let findings = self.store().detector_findings(&wanted).await?;
        let mut distances: HashMap<&str, HashMap<String, u32>> = HashMap::new();
        let mut found = BTreeMap::new();
        for injection in injections {
            let system = injection.system.as_str();
            let distances = distances.entry(system).or_insert_with(|| self.distances(injection));
            let control = controls.get(&injection.run).and_then(|control| findings.get(control));
            let difficulty = Difficulty {
                effect: findings.get(&injection.injection).and_then(|rows| effect(rows, control)),
                distance: injection.truth.roots().iter().filter_map(|root| distances.get(*root)).min().copied(),
            };
            found.insert(injection.injection, difficulty);
        }
        Ok(found)
    }

    /// Calls from the entrance to each service that it reaches. Of a system that is gone nothing is known.
    fn distances(&self, injection: &BoardCase) -> HashMap<String, u32> {
        let Ok(data) = self.catalog().get(&injection.system) else { return HashMap::new() };
        let Some(topology) = &data.topology else { return HashMap::new() };
        let entrance = data.registration.entrance.sli_service.clone();
        let mut distances = HashMap::from([(entrance.clone(), 0)]);
        let mut open = VecDeque::from([entrance]);
        while let Some(service) = open.pop_front() {
            let next = distances[&service] + 1;
            for call in topology.calls_from(&service) {
                if !distances.contains_key(&call.to) {
                    distances.insert(call.to.clone(), next);
                    open.push_back(call.to.clone());
                }
            }
        }
        distances
    }
}

/// The largest change of an endpoint at the entrance: against the same time of the paired control where there is one, and
/// against the normal window else.
pub fn effect(rows: &[DetectorRow], control: Option<&Vec<DetectorRow>>) -> Option<f64> {
    let figure = |row: &DetectorRow, name: &str| row.figures.get(name).copied().flatten();
    let change = |row: &DetectorRow| {
        let (base, window) = match control {
            Some(rows) => (rows.iter().find(|other| other.span_name == row.span_name)?, "abnormal"),
            None => (row, "normal"),
        };
        let before = figure(base, &format!("{window}_avg_duration")).filter(|seconds| *seconds > 0.0);
        let slower = before.zip(figure(row, "abnormal_avg_duration")).map(|(a, b)| (b / a - 1.0).abs());
        let success = figure(base, &format!("{window}_succ_rate"));
        // An endpoint that is gone has lost all of its success.
        let lost = success.map(|a| LOSS * (a - figure(row, "abnormal_succ_rate").unwrap_or(0.0)).max(0.0));
        [slower, lost].into_iter().flatten().max_by(f64::total_cmp)
    };
    rows.iter().filter_map(change).max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(name: &str, figures: &[(&str, f64)]) -> DetectorRow {
        let figures = figures.iter().map(|(name, value)| ((*name).to_owned(), Some(*value))).collect();
        DetectorRow { span_name: name.into(), issues: json!({}), figures }
    }

    #[test]
    fn the_effect_is_the_largest_change_against_the_control_where_there_is_one() {
        let faulty = [
            row(
                "a",
                &[
                    ("normal_avg_duration", 1.0),
                    ("abnormal_avg_duration", 3.0),
                    ("normal_succ_rate", 1.0),
                    ("abnormal_succ_rate", 1.0),
                ],
            ),
            row("b", &[("normal_succ_rate", 1.0), ("abnormal_succ_rate", 0.9)]),
        ];
        let near = |found: Option<f64>, expect: f64| assert!((found.unwrap() - expect).abs() < 1e-9, "{found:?}");
        near(effect(&faulty, None), 2.0);
        // The control was as slow in the same minutes: what is left is the loss.
        let control = vec![
            row("a", &[("abnormal_avg_duration", 3.0), ("abnormal_succ_rate", 1.0)]),
            row("b", &[("abnormal_succ_rate", 1.0)]),
        ];
        near(effect(&faulty, Some(&control)), 1.0);
        near(effect(&[row("gone", &[("normal_succ_rate", 1.0)])], None), LOSS);
        assert_eq!(effect(&[], None), None);
    }
}
