//! One line for each view, algorithm, slice and metric: the long form that other programs like best.

use csv::Writer;

use super::views;
use crate::board::EnvironmentBoard;
use crate::estimate::{Estimates, Method};
use crate::ranking::Metric;

const COLUMNS: [&str; 14] = [
    "origin",
    "row",
    "algorithm",
    "in_house",
    "baseline",
    "slice",
    "packs",
    "clusters",
    "metric",
    "value",
    "low",
    "high",
    "interval",
    "chance",
];

/// The board as CSV. Stages of the funnel are lines of the row `funnel`, with their count as value.
pub fn csv(board: &EnvironmentBoard) -> String {
    let mut lines = Lines { origin: board.environment.as_str(), writer: Writer::from_writer(Vec::new()) };
    lines.line(COLUMNS.map(str::to_owned));
    let funnel = board.funnel;
    for (stage, count) in [
        ("submitted", funnel.submitted),
        ("completed", funnel.completed),
        ("exposed", funnel.exposed),
        ("valid", funnel.valid),
        ("scored", funnel.scored),
    ] {
        let mut line = vec![String::new(); COLUMNS.len()];
        (line[0], line[1], line[8], line[9]) = (lines.origin.into(), "funnel".into(), stage.into(), count.to_string());
        lines.line(line);
    }
    for (name, view) in views(board) {
        for row in &view.rows {
            let head = [name, &row.algorithm, flag(row.in_house), flag(row.baseline)];
            lines.estimates(head, "", row.packs, row.clusters, &row.scores, |metric| Some(view.chance.get(metric)));
            let slices = row.by_family.iter().map(|slice| ("family", slice));
            let slices = slices.chain(row.by_system.iter().map(|slice| ("system", slice)));
            for (kind, slice) in slices.chain(row.by_difficulty.iter().map(|slice| ("difficulty", slice))) {
                let cut = format!("{kind}={}", slice.name);
                let chance = |metric| Some(slice.chance.get(metric));
                lines.estimates(head, &cut, slice.packs, slice.clusters, &slice.scores, chance);
            }
        }
    }
    for level in &board.levels {
        for slice in &level.rows {
            let cut = format!("level={}", level.level.as_str());
            let head = ["ranking", &slice.name, "", ""];
            lines.estimates(head, &cut, slice.packs, slice.clusters, &slice.scores, |_| None);
        }
    }
    lines.into_text()
}

const fn flag(set: bool) -> &'static str {
    if set { "yes" } else { "no" }
}

struct Lines<'a> {
    origin: &'a str,
    writer: Writer<Vec<u8>>,
}

impl Lines<'_> {
    fn line(&mut self, fields: impl IntoIterator<Item = String>) {
        self.writer.write_record(fields).expect("every line has as many fields as the first, and memory takes them");
    }

    fn estimates(
        &mut self,
        head: [&str; 4],
        slice: &str,
        packs: usize,
        clusters: usize,
        scores: &Estimates,
        chance: impl Fn(Metric) -> Option<f64>,
    ) {
        let number = |value: Option<f64>| value.map(|value| format!("{value:.6}")).unwrap_or_default();
        for metric in Metric::ALL {
            let estimate = scores.get(metric);
            let interval = match (estimate.method, &estimate.note) {
                (Method::Exact, _) => "exact",
                (Method::Bootstrap, _) => "bootstrap",
                (Method::None, note) => note.as_deref().unwrap_or("none"),
            };
            let [row, algorithm, in_house, baseline] = head.map(str::to_owned);
            self.line([
                self.origin.to_owned(),
                row,
                algorithm,
                in_house,
                baseline,
                slice.to_owned(),
                packs.to_string(),
                clusters.to_string(),
                metric.as_str().to_owned(),
                number(Some(estimate.value)),
                number(estimate.low),
                number(estimate.high),
                interval.to_owned(),
                number(chance(metric)),
            ]);
        }
    }

    fn into_text(self) -> String {
        let bytes = self.writer.into_inner().expect("memory takes everything");
        String::from_utf8(bytes).expect("only text was written")
    }
}
