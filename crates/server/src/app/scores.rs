//! From `score`'s board to the one of the wire.

use ::score::{Comparison as Compared, EnvironmentBoard, Estimate, Method, Row, Scores, View as Counted};
use api::board::{Board, BoardRow, Chance, Comparison, Controls, Figure, Funnel, View};

/// How the figures are defined, in short; the long form is the project's page on scoring.
const DEFINITION: &str = "AC@k: the first hit is among the first k of the ranking; Avg@5: mean of AC@1 to AC@5; MRR: 1 / rank of the \
                          first hit; no answer and no hit count as 0. Figures are macro means over system x fault \
                          family with 95 % intervals; packs of one seed at one point are one sample.";

/// One environment's scores. Rows are `ranking`, `pipeline` and `detected only`.
pub fn board(rule: &str, scored: Option<&EnvironmentBoard>, origin: &str, only: Option<&str>) -> Board {
    let views = scored.map_or_else(Vec::new, |scored| {
        vec![("ranking", &scored.ranking), ("pipeline", &scored.pipeline), ("detected only", &scored.detected_only)]
    });
    let views: Vec<(&str, &Counted)> =
        views.into_iter().filter(|(name, _)| only.is_none_or(|only| only == *name)).collect();
    let funnel = scored.map(|scored| scored.funnel);
    let count = |pick: fn(&::score::Funnel) -> usize| funnel.as_ref().map_or(0, |funnel| int(pick(funnel)));
    Board {
        origin: origin.to_owned(),
        rule: rule.to_owned(),
        onset: "known".to_owned(),
        definition: DEFINITION.to_owned(),
        funnel: Funnel {
            submitted: count(|funnel| funnel.submitted),
            completed: count(|funnel| funnel.completed),
            exposed: count(|funnel| funnel.exposed),
            valid: count(|funnel| funnel.valid),
            scored: count(|funnel| funnel.scored),
        },
        views: views.iter().map(|(name, view)| self::view(name, view)).collect(),
        rows: views.iter().flat_map(|(name, view)| view.rows.iter().map(|row| self::row(name, row))).collect(),
        comparisons: scored.map_or_else(Vec::new, |scored| scored.comparisons.iter().map(comparison).collect()),
        excluded: Vec::new(),
        controls: scored.and_then(|scored| scored.controls.as_ref()).map_or_else(Controls::default, controls),
        notes: scored.map_or_else(Vec::new, |scored| scored.notes.clone()),
    }
}

fn int(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn controls(controls: &::score::Controls) -> Controls {
    #[expect(clippy::cast_precision_loss, reason = "the number of packs is far below 2^52")]
    let alarms = (controls.false_alarms.value * controls.packs as f64).round();
    #[expect(clippy::cast_possible_truncation, reason = "at most the number of packs")]
    let false_alarms = alarms as i32;
    Controls { packs: int(controls.packs), false_alarms }
}

fn view(name: &str, view: &Counted) -> View {
    let Scores { ac1, ac3, ac5, avg5, mrr } = view.chance;
    View {
        row: name.to_owned(),
        packs: int(view.packs),
        clusters: int(view.clusters),
        cells: int(view.cells),
        chance: Chance { ac1, ac3, ac5, avg5, mrr },
    }
}

fn row(name: &str, row: &Row) -> BoardRow {
    let baseline = rca::algorithm::algorithm(&row.algorithm).is_ok_and(|method| method.about().control);
    BoardRow {
        row: name.to_owned(),
        algorithm: row.algorithm.clone(),
        version: "builtin".to_owned(),
        in_house: row.in_house,
        baseline,
        packs: int(row.packs),
        clusters: int(row.clusters),
        failures: int(row.failed),
        missing: int(row.missing),
        seconds: row.seconds,
        ac1: figure(&row.scores.ac1),
        ac3: figure(&row.scores.ac3),
        ac5: figure(&row.scores.ac5),
        avg5: figure(&row.scores.avg5),
        mrr: figure(&row.scores.mrr),
    }
}

fn figure(estimate: &Estimate) -> Figure {
    let interval = match (estimate.method, &estimate.note) {
        (Method::Exact, _) => "exact".to_owned(),
        (Method::Bootstrap, _) => "bootstrap".to_owned(),
        (Method::None, note) => note.clone().unwrap_or_else(|| "no interval".to_owned()),
    };
    Figure { value: estimate.value, low: estimate.low, high: estimate.high, interval }
}

fn comparison(compared: &Compared) -> Comparison {
    Comparison {
        first: compared.first.clone(),
        second: compared.second.clone(),
        metric: compared.metric.as_str().to_owned(),
        difference: compared.difference,
        p: compared.p,
        p_holm: compared.p_holm,
        wins: int(compared.win),
        ties: int(compared.tie),
        losses: int(compared.loss),
    }
}
