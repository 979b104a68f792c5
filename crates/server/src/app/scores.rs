//! From `score`'s board to the one of the wire.

use ::score::{
    Comparison as Compared, Environment, EnvironmentBoard, Estimate, LevelView, Method, RobustnessRow, Row, Rule,
    Scores, Slice as Cut, View as Counted,
};
use api::board::{
    Board, BoardRow, Chance, Comparison, Controls, Figure, Flip, Funnel, Level, LevelRow, Robustness, Slice, View,
};

/// How the figures are defined, in short; the long form is the project's page on scoring.
const DEFINITION: &str = "AC@k: the first hit is among the first k of the ranking; Avg@5: mean of AC@1 to AC@5; MRR: 1 / rank of the \
                          first hit; no answer and no hit count as 0. Figures are macro means over system x fault \
                          family with 95 % intervals; packs of one seed at one point are one sample.";

/// One environment's scores. Rows are `ranking`, `pipeline` and `detected only`.
pub fn board(rule: Rule, scored: Option<&EnvironmentBoard>, environment: Environment, only: Option<&str>) -> Board {
    let views = scored.map_or_else(Vec::new, |scored| {
        vec![("ranking", &scored.ranking), ("pipeline", &scored.pipeline), ("detected only", &scored.detected_only)]
    });
    let views: Vec<(&str, &Counted)> =
        views.into_iter().filter(|(name, _)| only.is_none_or(|only| only == *name)).collect();
    let funnel = scored.map(|scored| scored.funnel);
    let count = |pick: fn(&::score::Funnel) -> usize| funnel.as_ref().map_or(0, |funnel| int(pick(funnel)));
    Board {
        origin: environment.as_str().to_owned(),
        rule: rule.as_str().to_owned(),
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
        levels: scored.map_or_else(Vec::new, |scored| scored.levels.iter().map(level).collect()),
        robustness: scored.map_or_else(Vec::new, |scored| scored.robustness.iter().map(robustness).collect()),
        flips: scored.map_or_else(Vec::new, |scored| scored.flips.iter().map(flip).collect()),
        excluded: Vec::new(),
        controls: scored.map_or_else(Controls::default, controls),
        notes: scored.map_or_else(Vec::new, |scored| scored.notes.clone()),
    }
}

pub fn int(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn controls(board: &EnvironmentBoard) -> Controls {
    #[expect(clippy::cast_precision_loss, reason = "the number of packs is far below 2^52")]
    #[expect(clippy::cast_possible_truncation, reason = "at most the number of packs")]
    let count = |share: &Estimate, packs: usize| (share.value * packs as f64).round() as i32;
    let mut controls = Controls::default();
    if let Some(found) = &board.controls {
        controls.packs = int(found.packs);
        controls.false_alarms = count(&found.false_alarms, found.packs);
        controls.false_alarm_rate = Some(figure(&found.false_alarms));
    }
    if let Some(found) = &board.misses {
        controls.faulty = int(found.packs);
        controls.misses = count(&found.missed, found.packs);
        controls.miss_rate = Some(figure(&found.missed));
    }
    controls
}

fn view(name: &str, view: &Counted) -> View {
    View {
        row: name.to_owned(),
        packs: int(view.packs),
        clusters: int(view.clusters),
        cells: int(view.cells),
        chance: chance(&view.chance),
    }
}

const fn chance(scores: &Scores) -> Chance {
    let Scores { ac1, ac3, ac5, avg3, avg5, mrr, .. } = *scores;
    Chance { ac1, ac3, ac5, avg3, avg5, mrr }
}

fn row(name: &str, row: &Row) -> BoardRow {
    let (algorithm, version) = row.algorithm.split_once(':').unwrap_or((&row.algorithm, super::algorithm::BUILTIN));
    let cuts = [
        ("family", &row.by_family),
        ("system", &row.by_system),
        ("difficulty", &row.by_difficulty),
        ("roots", &row.by_roots),
    ];
    BoardRow {
        row: name.to_owned(),
        algorithm: algorithm.to_owned(),
        version: version.to_owned(),
        in_house: row.in_house,
        baseline: row.baseline,
        packs: int(row.packs),
        clusters: int(row.clusters),
        failures: int(row.failed),
        missing: int(row.missing),
        seconds: row.seconds,
        peak_memory: row.peak_memory,
        not_isolated: int(row.unconfined),
        reasons: row.reasons.iter().map(|(reason, count)| (reason.clone(), int(*count))).collect(),
        ac1: figure(&row.scores.ac1),
        ac3: figure(&row.scores.ac3),
        ac5: figure(&row.scores.ac5),
        avg3: figure(&row.scores.avg3),
        avg5: figure(&row.scores.avg5),
        mrr: figure(&row.scores.mrr),
        slices: cuts.into_iter().flat_map(|(by, cuts)| cuts.iter().map(move |cut| slice(by, cut))).collect(),
    }
}

fn slice(by: &str, cut: &Cut) -> Slice {
    let scores = &cut.scores;
    Slice {
        by: by.to_owned(),
        name: cut.name.clone(),
        packs: int(cut.packs),
        clusters: int(cut.clusters),
        chance: chance(&cut.chance),
        ac1: figure(&scores.ac1),
        ac3: figure(&scores.ac3),
        ac5: figure(&scores.ac5),
        avg3: figure(&scores.avg3),
        avg5: figure(&scores.avg5),
        mrr: figure(&scores.mrr),
        precision3: figure(&scores.precision3),
        precision5: figure(&scores.precision5),
        recall3: figure(&scores.recall3),
        recall5: figure(&scores.recall5),
    }
}

fn level(view: &LevelView) -> Level {
    let row = |cut: &Cut| LevelRow {
        algorithm: cut.name.clone(),
        ac1: figure(&cut.scores.ac1),
        ac3: figure(&cut.scores.ac3),
        ac5: figure(&cut.scores.ac5),
        avg3: figure(&cut.scores.avg3),
        avg5: figure(&cut.scores.avg5),
        mrr: figure(&cut.scores.mrr),
    };
    Level { level: view.level.as_str().to_owned(), packs: int(view.packs), rows: view.rows.iter().map(row).collect() }
}

fn robustness(row: &RobustnessRow) -> Robustness {
    Robustness {
        algorithm: row.algorithm.clone(),
        packs: int(row.packs),
        known: figure(&row.known),
        early: row.early.as_ref().map(figure),
        late: row.late.as_ref().map(figure),
        detected: row.detected.as_ref().map(figure),
    }
}

fn flip(flip: &::score::Flip) -> Flip {
    Flip {
        pack: flip.pack.clone(),
        system: flip.system.clone(),
        family: flip.family.clone(),
        right: flip.right.clone(),
        wrong: flip.wrong.clone(),
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

pub fn comparison(compared: &Compared) -> Comparison {
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
