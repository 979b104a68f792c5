//! Whole boards: what counts, what does not, and which interval stands beside it.
#![expect(clippy::unwrap_used, reason = "a test's helper fails like the test itself")]

use std::collections::BTreeMap;

use model::{Answer, Level, Onset};
use score::{Board, Case, Difficulty, Environment, EnvironmentBoard, Method, Options, Outcome, Row, Rule, View, board};

fn case(pack: &str, family: &str, point: &str, seed: u64) -> Case {
    Case {
        pack: pack.to_owned(),
        system: "ts".to_owned(),
        family: family.to_owned(),
        point: point.to_owned(),
        environment: Environment::Simulated,
        seed: Some(seed),
        completed: true,
        exposed: true,
        valid: true,
        detected: true,
        truth_roots: vec!["root".to_owned()],
        truth_public: vec!["root".to_owned(), "peer".to_owned()],
        truth_levels: BTreeMap::new(),
        candidates: 12,
        difficulty: Difficulty::default(),
    }
}

/// The root at this rank; `None` leaves it out.
fn outcome(algorithm: &str, pack: &str, rank: Option<usize>) -> Outcome {
    let name = |at: usize| if Some(at) == rank { "root".to_owned() } else { format!("other-{at}") };
    let answer = |at: usize| Answer { level: Level::Service, name: name(at), rank: at as u32, score: None };
    Outcome {
        algorithm: algorithm.to_owned(),
        pack: pack.to_owned(),
        answers: Some((1..=8).map(answer).collect()),
        reason: None,
        seconds: 0.5,
        peak_memory: None,
        onset: Onset::Known,
        unconfined: false,
    }
}

fn failed(algorithm: &str, pack: &str, reason: &str) -> Outcome {
    Outcome { answers: None, reason: Some(reason.to_owned()), ..outcome(algorithm, pack, None) }
}

fn simulated(board: &Board) -> &EnvironmentBoard {
    board.environment(Environment::Simulated).unwrap()
}

fn row<'a>(view: &'a View, algorithm: &str) -> &'a Row {
    view.rows.iter().find(|row| row.algorithm == algorithm).unwrap()
}

fn near(found: f64, expect: f64) {
    assert!((found - expect).abs() < 1e-9, "{found} is not {expect}");
}

/// Four packs of one family at four points: ranks 1, 3, none, 6.
fn golden() -> (Vec<Case>, Vec<Outcome>) {
    let packs = ["a", "b", "c", "d"];
    let cases = packs.iter().zip(1..).map(|(pack, seed)| case(pack, "network", pack, seed)).collect();
    let ranks = [Some(1), Some(3), None, Some(6)];
    (cases, packs.iter().zip(ranks).map(|(pack, rank)| outcome("nsigma", pack, rank)).collect())
}

#[test]
fn the_golden_ranks_give_the_golden_board() {
    let (cases, outcomes) = golden();
    let board = board(&cases, &outcomes, &Options::default());
    let view = &simulated(&board).ranking;
    let scores = &row(view, "nsigma").scores;
    for (estimate, expect) in
        [(&scores.ac1, 0.25), (&scores.ac3, 0.5), (&scores.ac5, 0.5), (&scores.avg5, 0.4), (&scores.mrr, 0.375)]
    {
        near(estimate.value, expect);
    }
    near(view.chance.avg5, 0.25);
    assert_eq!((view.packs, view.clusters, view.cells), (4, 4, 1));
    // Four packs: exact for what is a proportion, and no interval for the rest.
    assert_eq!(scores.ac1.method, Method::Exact);
    near((scores.ac1.low.unwrap() * 1e4).round() / 1e4, 0.0063);
    near((scores.ac1.high.unwrap() * 1e4).round() / 1e4, 0.8059);
    assert_eq!((scores.mrr.low, scores.mrr.note.as_deref()), (None, Some("n too small")));
}

#[test]
fn failures_and_missing_runs_are_misses_and_are_told() {
    let (cases, mut outcomes) = golden();
    outcomes[0] = failed("nsigma", "a", "timeout");
    outcomes.remove(1);
    let board = board(&cases, &outcomes, &Options::default());
    let row = row(&simulated(&board).ranking, "nsigma");
    assert_eq!((row.failed, row.missing, row.packs), (1, 1, 4));
    assert_eq!(row.reasons["timeout"], 1);
    near(row.scores.ac5.value, 0.0);
    near(row.scores.mrr.value, 1.0 / 24.0);
}

#[test]
fn undetected_packs_count_by_view_and_unexposed_ones_never() {
    let (mut cases, mut outcomes) = golden();
    cases[0].detected = false;
    for (pack, change) in [("e", 0), ("f", 1), ("g", 2)] {
        let mut more = case(pack, "network", pack, 100 + change);
        match change {
            0 => more.exposed = false,
            1 => more.valid = false,
            _ => more.completed = false,
        }
        cases.push(more);
        outcomes.push(outcome("nsigma", pack, Some(1)));
    }
    let mut control = case("h", "none", "", 200);
    control.truth_roots.clear();
    control.truth_public.clear();
    control.detected = false;
    cases.push(control);
    let board = board(&cases, &outcomes, &Options::default());
    let simulated = simulated(&board);
    near(row(&simulated.ranking, "nsigma").scores.ac1.value, 0.25);
    near(row(&simulated.pipeline, "nsigma").scores.ac1.value, 0.0);
    near(row(&simulated.detected_only, "nsigma").scores.ac3.value, 1.0 / 3.0);
    near(simulated.pipeline.chance.avg5, 0.25 * 0.75);
    assert_eq!(simulated.detected_only.packs, 3);
    let funnel = simulated.funnel;
    assert_eq!((funnel.submitted, funnel.completed, funnel.exposed, funnel.valid, funnel.scored), (7, 6, 5, 4, 4));
    let controls = simulated.controls.as_ref().unwrap();
    assert_eq!((controls.packs, controls.false_alarms.value), (1, 0.0));
    assert_eq!(controls.false_alarms.note.as_deref(), Some("fewer than 100 controls"));
}

#[test]
fn the_detector_s_own_rates_have_their_intervals() {
    let (mut cases, outcomes) = golden();
    cases[2].detected = false;
    for number in 0..4 {
        let mut control = case(&format!("control-{number}"), "none", "", 200 + number);
        control.truth_roots.clear();
        control.truth_public.clear();
        control.detected = number == 1;
        cases.push(control);
    }
    let board = board(&cases, &outcomes, &Options::default());
    let simulated = simulated(&board);
    let (controls, misses) = (simulated.controls.as_ref().unwrap(), simulated.misses.as_ref().unwrap());
    for (packs, rate) in [(controls.packs, &controls.false_alarms), (misses.packs, &misses.missed)] {
        assert_eq!((packs, rate.value, rate.method), (4, 0.25, Method::Exact));
        // One of four, Clopper and Pearson.
        assert!((rate.low.unwrap() - 0.0063).abs() < 1e-4 && (rate.high.unwrap() - 0.8059).abs() < 1e-4, "{rate:?}");
    }
}

#[test]
fn each_level_below_the_service_has_its_scores() {
    let (mut cases, mut outcomes) = golden();
    let below = &Level::ALL[1..];
    assert_eq!(below.len(), 5);
    cases[0].truth_levels = below.iter().map(|level| (*level, vec!["culprit".to_owned()])).collect();
    cases[1].truth_levels = cases[0].truth_levels.clone();
    for (level, place) in below.iter().zip(1_u32..) {
        // The nth level names its culprit at place n among the answers of its level.
        let answers = outcomes[0].answers.as_mut().unwrap();
        for at in 1..=place {
            let name = if at == place { "culprit".to_owned() } else { format!("other-{at}") };
            let rank = answers.len() as u32 + 1;
            answers.push(Answer { level: *level, name, rank, score: None });
        }
    }
    let board = board(&cases, &outcomes, &Options::default());
    let levels = &simulated(&board).levels;
    assert_eq!(levels.iter().map(|view| view.level).collect::<Vec<_>>(), below);
    for (view, place) in levels.iter().zip(1_u32..) {
        assert_eq!((view.packs, view.rows.len()), (2, 1), "{:?}", view.level);
        // The other one of the two packs names nothing there, which is a miss.
        near(view.rows[0].scores.mrr.value, 0.5 / f64::from(place));
        near(view.rows[0].scores.ac3.value, if place <= 3 { 0.5 } else { 0.0 });
    }
}

#[test]
fn repeats_of_a_seed_are_one_sample() {
    let cases: Vec<Case> =
        ["a", "b", "c"].iter().zip([1, 1, 2]).map(|(pack, seed)| case(pack, "network", "p", seed)).collect();
    let outcomes: Vec<Outcome> =
        ["a", "b", "c"].iter().zip([Some(1), Some(1), None]).map(|(pack, rank)| outcome("x", pack, rank)).collect();
    let board = board(&cases, &outcomes, &Options::default());
    let view = &simulated(&board).ranking;
    assert_eq!((view.packs, view.clusters), (2, 1));
    near(row(view, "x").scores.ac1.value, 0.5);
}

#[test]
fn environments_stay_apart() {
    let (mut cases, mut outcomes) = golden();
    let mut real = case("z", "network", "z", 9);
    real.environment = Environment::Cluster;
    cases.push(real);
    outcomes.push(outcome("nsigma", "z", Some(1)));
    let board = board(&cases, &outcomes, &Options::default());
    near(row(&simulated(&board).ranking, "nsigma").scores.ac1.value, 0.25);
    let cluster = board.environment(Environment::Cluster).unwrap();
    near(row(&cluster.ranking, "nsigma").scores.ac1.value, 1.0);
    assert_eq!(cluster.ranking.packs, 1);
}

#[test]
fn the_rule_decides_what_a_hit_is() {
    let cases = [case("a", "network", "p", 1)];
    let mut answers = outcome("x", "a", None);
    answers.answers.as_mut().unwrap()[0].name = "peer".to_owned();
    let value = |rule| {
        let board = board(&cases, std::slice::from_ref(&answers), &Options { rule, ..Options::default() });
        row(&simulated(&board).ranking, "x").scores.ac1.value
    };
    near(value(Rule::Root), 0.0);
    near(value(Rule::Public), 1.0);
}

/// Two families; the first has ten points with two seeds each, the second has one point with four seeds.
fn campaign() -> (Vec<Case>, Vec<Outcome>) {
    let (mut cases, mut outcomes) = (Vec::new(), Vec::new());
    for index in 0..24_u64 {
        let pack = format!("p{index:02}");
        let (family, point) = if index < 20 { ("network", format!("n{}", index / 2)) } else { ("pod", "x".to_owned()) };
        cases.push(case(&pack, family, &point, index));
        outcomes.push(outcome("good", &pack, Some(if index % 4 == 3 { 4 } else { 1 })));
        outcomes.push(outcome("poor", &pack, (index % 6 == 0).then_some(2)));
        outcomes.push(outcome("perfect", &pack, Some(1)));
        outcomes.push(outcome("twin", &pack, Some(if index % 4 == 3 { 4 } else { 1 })));
    }
    (cases, outcomes)
}

#[test]
fn large_boards_have_bootstrap_intervals_and_exact_ends() {
    let (cases, outcomes) = campaign();
    let board = board(&cases, &outcomes, &Options { in_house: vec!["good".to_owned()], ..Options::default() });
    let view = &simulated(&board).ranking;
    assert_eq!((view.packs, view.clusters, view.cells), (24, 11, 2));
    let good = row(view, "good");
    assert!(good.in_house && !row(view, "poor").in_house);
    for estimate in [&good.scores.ac1, &good.scores.avg5, &good.scores.mrr] {
        assert_eq!(estimate.method, Method::Bootstrap);
        let (low, high) = (estimate.low.unwrap(), estimate.high.unwrap());
        assert!(low < estimate.value && estimate.value < high && high <= 1.0, "{estimate:?}");
    }
    // The macro mean weighs both families alike, however many packs they have.
    let families: Vec<f64> = good.by_family.iter().map(|slice| slice.scores.ac1.value).collect();
    near(good.scores.ac1.value, families.iter().sum::<f64>() / 2.0);
    assert_eq!(good.by_family.iter().map(|slice| slice.packs).collect::<Vec<_>>(), [20, 4]);
    let perfect = &row(view, "perfect").scores;
    assert_eq!((perfect.ac1.method, perfect.mrr.method), (Method::Exact, Method::Exact));
    near((perfect.ac1.low.unwrap() * 1e4).round() / 1e4, 0.8575);
    assert_eq!(view.rows[0].algorithm, "perfect");
}

#[test]
fn comparisons_are_paired_and_corrected() {
    let (cases, outcomes) = campaign();
    let board = board(&cases, &outcomes, &Options::default());
    let comparisons = &simulated(&board).comparisons;
    assert_eq!(comparisons.len(), 6);
    let find = |first: &str, second: &str| {
        comparisons.iter().find(|pair| pair.first == first && pair.second == second).unwrap()
    };
    let better = find("good", "poor");
    assert!(better.difference > 0.0 && better.exact && better.p < 0.01 && better.p <= better.p_holm, "{better:?}");
    assert_eq!(better.win + better.tie + better.loss, 24);
    let equal = find("good", "twin");
    assert_eq!((equal.difference, equal.p, equal.tie), (0.0, 1.0, 24));
}

#[test]
fn a_board_does_not_depend_on_the_order_of_its_input_and_survives_json() {
    let (cases, outcomes) = campaign();
    let first = board(&cases, &outcomes, &Options::default());
    let (mut cases, mut outcomes) = (cases, outcomes);
    cases.reverse();
    outcomes.reverse();
    let second = board(&cases, &outcomes, &Options::default());
    let text = serde_json::to_string(&first).unwrap();
    assert_eq!(text, serde_json::to_string(&second).unwrap());
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["environments"][0]["environment"], "simulated");
    assert_eq!(value["environments"][0]["ranking"]["rows"][0]["ac1"]["value"], 1.0);
    let back: Board = serde_json::from_str(&text).unwrap();
    assert_eq!(back.environments[0].funnel, first.environments[0].funnel);
}

#[test]
fn a_board_is_printed_with_its_funnel_in_every_form() {
    let (mut cases, mut outcomes) = campaign();
    for case in &mut cases[20..] {
        case.truth_roots = vec!["root".to_owned(), "other-2".to_owned()];
        case.difficulty = Difficulty { effect: Some(2.0), distance: Some(3) };
    }
    cases[0].truth_levels = BTreeMap::from([(Level::Pod, vec!["root-0".to_owned()])]);
    let pod = Answer { level: Level::Pod, name: "root-0".to_owned(), rank: 9, score: None };
    outcomes
        .iter_mut()
        .find(|one| one.algorithm == "good" && one.pack == "p00")
        .unwrap()
        .answers
        .as_mut()
        .unwrap()
        .push(pod);
    outcomes[0].unconfined = true;
    let early = |one: &Outcome| Outcome { onset: Onset::Early, answers: None, ..one.clone() };
    outcomes.extend(outcomes.iter().filter(|one| one.algorithm == "good").map(early).collect::<Vec<_>>());
    let options = Options { baselines: vec!["poor".to_owned(), "random".to_owned()], ..Options::default() };
    let board = board(&cases, &outcomes, &options);
    let board = simulated(&board);

    assert_eq!(board.levels.len(), 1);
    assert_eq!((board.levels[0].packs, board.levels[0].rows[0].name.as_str()), (1, "good"));
    near(board.levels[0].rows[0].scores.ac1.value, 1.0);
    let robust = &board.robustness[0];
    assert_eq!((robust.algorithm.as_str(), robust.early.as_ref().unwrap().value), ("good", 0.0));
    assert!(robust.known.value > 0.5 && robust.late.is_none());
    // `perfect` and `good` differ wherever the latter has rank 4.
    assert!(board.flips.iter().all(|flip| flip.right == "perfect") && board.flips.len() == 6, "{:?}", board.flips);
    let good = row(&board.ranking, "good");
    let several = good.by_roots.iter().find(|slice| slice.name == "several roots").unwrap();
    assert_eq!(several.packs, 4);
    near(several.scores.recall5.value, 1.0);
    near(several.scores.precision5.value, 0.4);
    assert!(good.by_difficulty.iter().any(|slice| slice.name == "distance: 3 calls or more" && slice.packs == 4));
    assert!(row(&board.ranking, "poor").baseline && good.unconfined == 1);
    assert!(board.notes.iter().any(|note| note.contains("baselines ran on none of the packs: random")));
    // One that ran on nothing has a row that says so, last, and is compared with nobody.
    let last = board.ranking.rows.last().unwrap();
    assert!(last.algorithm == "random" && last.not_run() && last.baseline && last.missing == cases.len());
    assert_eq!((last.scores.avg5.value, last.scores.avg5.low, last.by_family[0].scores.mrr.low), (0.0, None, None));
    assert!(!row(&board.ranking, "poor").not_run());
    assert!(board.comparisons.iter().all(|pair| pair.first != "random" && pair.second != "random"));

    let markdown = score::render::markdown(board, Rule::Root);
    for part in [
        "24 submitted",
        "poor (baseline)",
        "by chance",
        "Level pod",
        "15 s early",
        "Several roots",
        "flip",
        "random (baseline) | 0 | 24 | not run",
    ] {
        assert!(markdown.contains(part), "{part}: {markdown}");
    }
    let csv = score::render::csv(board);
    let columns = csv.lines().next().unwrap().split(',').count();
    assert!(csv.lines().all(|line| line.split(',').count() == columns), "no field needs quotes here");
    assert!(csv.contains("simulated,funnel,,,,,,,scored,24"), "{}", &csv[..400]);
    let svg = score::render::svg(board, Rule::Root);
    assert!(svg.starts_with("<svg ") && svg.contains("24 submitted") && svg.contains("Avg@5 by fault family"));
    assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    // One row did not run, and says so in each of three plots.
    let rows = board.ranking.rows.len() - 1;
    assert_eq!(svg.matches(">not run</text>").count(), 3);
    assert_eq!(svg.matches("<circle ").count(), 2 * rows, "a point for each algorithm in each of two plots");
    assert_eq!(svg.matches("stroke-width=\"2\"").count(), 2 * rows, "and its interval");
    let families = board.ranking.rows[0].by_family.len();
    assert_eq!(svg.matches("<rect ").count(), 1 + rows * families, "the ground, and a cell for each family");
    assert!(svg.contains("Cases that flip between"), "{svg}");
    let png = score::render::png(&svg).unwrap();
    // The signature and the first block of a PNG, whose width is twice the drawing's (ISO 15948, 5.2 and 11.2.2).
    assert_eq!(png[..16], *b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    assert_eq!(u32::from_be_bytes(png[16..20].try_into().unwrap()), 2 * (220 + 520 + 2 * 16));
    // The letters are there: a picture without a font is many times smaller.
    let blank = score::render::png(&svg.replace("<text", "<desc").replace("</text", "</desc")).unwrap();
    assert!(png.len() > 2 * blank.len(), "{} and {} bytes", png.len(), blank.len());
}

#[test]
fn two_evaluations_are_compared_algorithm_by_algorithm() {
    let (cases, outcomes) = campaign();
    let cases: Vec<&Case> = cases.iter().collect();
    let worse: Vec<Outcome> = outcomes
        .iter()
        .filter(|one| one.algorithm != "poor")
        .map(|one| Outcome { answers: one.answers.clone().filter(|_| one.algorithm != "good"), ..one.clone() })
        .collect();
    let paired = score::paired(&cases, &outcomes, &worse, &Options::default());
    let names: Vec<&str> = paired.comparisons.iter().map(|pair| pair.first.as_str()).collect();
    assert_eq!((paired.packs, names), (24, vec!["good", "perfect", "twin"]));
    let good = &paired.comparisons[0];
    assert!(good.difference > 0.5 && good.p_holm < 0.01 && good.loss == 0, "{good:?}");
    assert_eq!((paired.comparisons[1].tie, paired.comparisons[1].p), (24, 1.0));
}
