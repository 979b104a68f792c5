//! BARO as a whole: it finds the onset by itself and scores every metric against what came before.

use model::{Answer, Result};

use super::metric_columns::{highest, varies};
use super::{About, Algorithm, Input, Minimum, Samples, suspects};
use crate::causal::bocpd::{change_points, scaled};
use crate::frame::Pack;
use crate::minimum::insufficient;
use crate::wide::Wide;

const MINIMUM: Minimum = Minimum { window_s: 30, normal_samples: 20, abnormal_samples: 1, samples: Samples::Requests };

/// Columns at most in which a change is looked for: the time grows with their square.
const WATCHED: usize = 20;
/// Rows that the scorer needs before a change.
const BEFORE: usize = 10;

pub struct BaroBocpd;

impl Algorithm for BaroBocpd {
    fn name(&self) -> &'static str {
        "baro-bocpd"
    }

    fn about(&self) -> About {
        About {
            summary: "baro from an onset of its own: the first change point of latencies and errors",
            source: "BARO (Pham, Ha, Zhang, FSE 2024): multivariate Bayesian online change-point detection with a constant \
                     hazard of 1/50, then RobustScorer",
            input: &[Input::Metrics, Input::Traces],
            shapes: "the wide table, rows (one a second) x columns (one for each metric series, and latency, workload and errors of each service); made small by its written rule",
            units: "times in seconds, values in the metric's unit; score in interquartile ranges of what came before the change",
            complexity: "O(rows² · watched columns² + points log points)",
            minimum: MINIMUM,
            deviations: &[
                "changes are looked for in at most 20 columns of latencies and errors, those that vary most beside their size",
                "a change within the first ten rows is not taken, because nothing could be compared with what came before",
                "the columns are those of the wide table; one that is constant before or after the change is left out",
                "a service is answered once, at its best column",
            ],
            control: false,
            in_house: false,
        }
    }

    fn rank(&self, pack: &Pack, _seed: u64) -> Result<Vec<Answer>> {
        MINIMUM.check(self.name(), &pack.windows)?;
        let table = Wide::build(pack);
        let watched = watched(&table);
        if watched.is_empty() || table.times.len() < 2 * BEFORE {
            return Err(insufficient(self.name(), "no latency and no error count varies"));
        }
        let found = change_points(&watched).into_iter().find(|row| *row >= BEFORE);
        let Some(onset) = found else {
            return Err(suspects::no_suspect(self.name(), "latencies and errors have no change point"));
        };
        let scores = table.columns.iter().filter_map(|column| {
            let (before, after) = column.values.split_at(onset);
            let service = pack.names.find(&column.service)?;
            (varies(before) && varies(after)).then(|| (service, super::baro::score(before, highest(after))))
        });
        suspects::ranked(self.name(), pack, scores.collect::<Vec<_>>())
    }
}

fn watched(table: &Wide) -> Vec<Vec<f64>> {
    let felt = |name: &str| name.ends_with("_latency-90") || name.ends_with("_error");
    let mut columns: Vec<(f64, &[f64])> = table
        .columns
        .iter()
        .filter(|column| felt(&column.name) && varies(&column.values))
        .map(|column| {
            let size = crate::statistics::mean(&column.values).abs().max(f64::MIN_POSITIVE);
            (crate::statistics::deviation(&column.values, 0) / size, column.values.as_slice())
        })
        .collect();
    columns.sort_by(|a, b| b.0.total_cmp(&a.0));
    columns.truncate(WATCHED);
    columns.into_iter().map(|(_, values)| scaled(values)).collect()
}
