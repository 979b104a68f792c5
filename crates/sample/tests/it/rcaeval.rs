//! Every variant `@rcaeval` gives the ranking that RCAEval gives, on the same tables of at least 40 packs.
//!
//! Both sides get the same files: the wide table made small by its written rule (60 columns for the methods that score
//! columns one by one, 20 for PC; for Granger, whose peer needs a second for fifty pairs, 20 of one pack of each system and 6 of
//! the others), and the spans of at most 200 traces. Equal scores stand in the order of the columns; scores that are equal but for rounding are ties, which the
//! program orders by its rounding, so there only the members of a tie are compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use model::Window;
use rayon::prelude::*;
use rca::frame::Pack;
use rca::rcaeval::{self, ANSWERED, COLUMNS, GRAPH_COLUMNS, Operations, Ranking, tied};
use rca::wide::Wide;
use sample::{Faults, Order, parameters};
use serde_json::Value;
use system::Catalog;
use testkit::{Tool, tool};

/// Packs of each of the eight systems. All families come up, because each system starts at another capability.
const PACKS: usize = 6;
/// How far apart the first capabilities of two systems are.
const APART: usize = 5;
const TRACES: usize = 200;
const GRANGER_COLUMNS: usize = 6;

/// What the program is asked for.
const METHODS: &str = "nsigma,baro,tracerca,microrank,pdiagnose,pc_pagerank,pc_randomwalk,circa,granger_pagerank";

/// One pack's tables, and what ours says about them: by method the names, best first, and their scores.
struct Case {
    folder: PathBuf,
    family: String,
    /// Columns that stand in the ranking of `circa` where rounding puts them.
    by_chance: BTreeSet<String>,
    ours: Answers,
}

type Answers = BTreeMap<&'static str, Option<Vec<(String, f64)>>>;

#[test]
fn the_rankings_are_those_of_the_program() {
    let Some(python) = tool("the_rankings_are_those_of_the_program", Tool::RcaEval) else { return };
    let scratch = tempfile::tempdir().unwrap();
    let cases = cases(scratch.path());
    let families: BTreeSet<&str> = cases.iter().map(|case| case.family.as_str()).collect();
    println!("{} packs of the families {families:?}", cases.len());
    assert!(cases.len() >= 40, "{} packs", cases.len());
    let all: BTreeSet<&str> = fault::capabilities().iter().map(|row| row.family.as_str()).collect();
    assert_eq!(families, all);
    let answers = ask(&python, &cases);
    let mut compared: BTreeMap<&str, usize> = BTreeMap::new();
    let mut differences = String::new();
    for case in &cases {
        for (method, ours) in &case.ours {
            let theirs = &answers[&(case.folder.display().to_string(), (*method).to_owned())];
            match differs(method, ours.as_deref(), theirs, &case.by_chance) {
                None => *compared.entry(method).or_default() += usize::from(ours.is_some()),
                Some(how) => writeln!(differences, "{} {method}: {how}", case.folder.display()).unwrap(),
            }
        }
    }
    println!("equal rankings: {compared:?}");
    assert!(differences.is_empty(), "{differences}");
    assert!(compared.values().all(|count| *count >= 40), "too few packs could be compared: {compared:?}");
    few_by_chance(&cases);
}

/// What stands where rounding puts it is left out of the comparison of `circa`; that must not be what there is to compare.
fn few_by_chance(cases: &[Case]) {
    let circa = |case: &Case| Some((case.by_chance.len(), case.ours["circa"].as_ref()?.len()));
    let counts: Vec<(usize, usize)> = cases.iter().filter_map(circa).collect();
    let (left_out, all) = counts.iter().fold((0, 0), |(a, b), (left_out, all)| (a + left_out, b + all));
    println!("left out of circa: {left_out} of {all} columns");
    assert!(left_out * 10 <= all, "{left_out} of {all} columns of circa are left out: {counts:?}");
    assert!(counts.iter().all(|(left_out, all)| all - left_out >= 2), "nothing is left to compare: {counts:?}");
}

/// How the two disagree. Where ours has no answer the program must have failed, or fallen back to the columns' order.
fn differs(
    method: &str,
    ours: Option<&[(String, f64)]>,
    theirs: &Value,
    by_chance: &BTreeSet<String>,
) -> Option<String> {
    let Some(ranks) = theirs["ranks"].as_array() else {
        return ours.map(|_| format!("the program failed: {}", theirs["failed"]));
    };
    let Some(ours) = ours else { return Some(format!("only the program answers: {ranks:?}")) };
    let by_chance = |name: &str| method == "circa" && by_chance.contains(name);
    let theirs: Vec<&str> = ranks.iter().map(|name| name.as_str().unwrap()).filter(|name| !by_chance(name)).collect();
    let ours: Vec<(String, f64)> = ours.iter().filter(|(name, _)| !by_chance(name)).cloned().collect();
    let length = if method == "microrank" { ours.len().min(ANSWERED) } else { ours.len() };
    if theirs.len() != length {
        return Some(format!("{} ranks against {length}", theirs.len()));
    }
    let mut from = 0;
    while from < theirs.len() {
        let exact = |at: usize| ours[at].1 == ours[at - 1].1;
        let near = (from + 1..ours.len()).find(|at| !tied(ours[at - 1].1, ours[*at].1)).unwrap_or(ours.len());
        let until = near.min(theirs.len());
        let members: BTreeSet<&str> = ours[from..near].iter().map(|(name, _)| name.as_str()).collect();
        // Columns with the very same score stand in their order on both sides, unless rounding parts others from them.
        let equal = (from + 1..near).all(exact) && matches!(method, "nsigma" | "baro" | "pdiagnose" | "pc_randomwalk");
        let in_order = !equal || theirs[from..until].iter().zip(&ours[from..]).all(|(a, (b, _))| a == b);
        if !in_order || !theirs[from..until].iter().all(|name| members.contains(name)) {
            return Some(format!("from rank {}: {:?} against {:?}", from + 1, &theirs[from..until], &ours[from..near]));
        }
        from = until;
    }
    None
}

fn cases(scratch: &Path) -> Vec<Case> {
    let list = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/exposed-points.md")).unwrap();
    let strengths = parameters(&list);
    let catalog = Catalog::builtin().unwrap();
    let codes: Vec<_> = catalog.codes().cloned().collect();
    let jobs: Vec<(usize, usize)> = (0..codes.len()).flat_map(|code| (0..PACKS).map(move |nth| (code, nth))).collect();
    let cases = jobs.par_iter().map(|&(code, nth)| {
        let system = catalog.get(&codes[code]).unwrap();
        let mut faults = Faults::new(&system, 11 + nth as u64, |name| strengths.get(name).cloned()).unwrap();
        let (fault, seed) = faults.draw(code * APART + nth * 7).unwrap();
        let family = fault.capability().family.as_str().to_owned();
        let load = if codes[code].as_str() == "ts" { 3.0 } else { 5.0 };
        let order = Order { system: &system, fault: Some(fault), seed, load, window_s: 60, number: nth as i32 + 1 };
        let telemetry = scratch.join(format!("telemetry-{code}-{nth}"));
        let made = order.make(&scratch.join("packs"), &telemetry).unwrap();
        fs::remove_dir_all(telemetry).unwrap();
        let generator = system.registration.entrance.load_generator.clone();
        let pack = datapack::Pack::open(&made.folder).unwrap().load(&[generator]).unwrap();
        let folder = scratch.join("tables").join(made.folder.file_name().unwrap());
        let (ours, by_chance) = tables(&pack, &folder, if nth == 0 { GRAPH_COLUMNS } else { GRANGER_COLUMNS });
        Case { folder, family, by_chance, ours }
    });
    cases.collect()
}

/// Writes the tables for the program and asks ours.
fn tables(pack: &Pack, folder: &Path, pairs: usize) -> (Answers, BTreeSet<String>) {
    fs::create_dir_all(folder).unwrap();
    let whole = Wide::build(pack);
    let (wide, graph, pairs) = (whole.reduced(COLUMNS), whole.reduced(GRAPH_COLUMNS), whole.reduced(pairs));
    let spans = Operations::build(pack).thinned(TRACES);
    let write = |name: &str, text: String| fs::write(folder.join(name), text).unwrap();
    write("data.csv", wide.to_csv());
    write("graph.csv", graph.to_csv());
    write("pairs.csv", pairs.to_csv());
    write("traces.csv", spans.to_csv());
    write("votes.csv", with_metrics(&spans, &wide).to_csv());
    write("logs.csv", logs(pack, &wide));
    write("inject_time.txt", wide.onset.to_string());

    let columns = |table: &Wide, ranking: Ranking| -> Option<Vec<(String, f64)>> {
        let named = ranking.into_iter().map(|(column, score)| (table.columns[column].name.clone(), score));
        Some(named.collect())
    };
    let operations = |ranking: Ranking| -> Option<Vec<(String, f64)>> {
        // Where no span ends after the onset the program ends with an error.
        let name = |(service, method): &(String, String)| format!("{service}_{method}");
        let named = ranking.into_iter().map(|(operation, score)| (name(&spans.names[operation]), score));
        Some(named.collect::<Vec<_>>()).filter(|list| !list.is_empty() || any_after(&spans))
    };
    let services = rcaeval::services_of(&wide);
    let votes = rcaeval::pdiagnose(&wide, &spans, pack).into_iter();
    let votes: Vec<(String, f64)> = votes.map(|(at, score)| (services[at].to_owned(), score)).collect();
    let circa = rcaeval::circa(&graph).ok();
    let by_chance = circa.iter().flat_map(|circa| &circa.by_chance).map(|column| graph.columns[*column].name.clone());
    let by_chance = by_chance.collect();
    let answers = BTreeMap::from([
        ("nsigma", columns(&wide, rcaeval::nsigma(&wide))),
        ("baro", columns(&wide, rcaeval::baro(&wide))),
        ("tracerca", operations(rcaeval::tracerca(&spans))),
        ("microrank", operations(rcaeval::microrank(&spans))),
        ("pdiagnose", Some(votes).filter(|_| any_after(&with_metrics(&spans, &wide)))),
        ("pc_pagerank", rcaeval::pc_pagerank(&graph).ok().and_then(|ranking| columns(&graph, ranking))),
        ("pc_randomwalk", rcaeval::random_walk(&graph).ok().and_then(|ranking| columns(&graph, ranking))),
        ("circa", circa.and_then(|circa| columns(&graph, circa.ranking))),
        ("granger_pagerank", rcaeval::granger_pagerank(&pairs).ok().and_then(|ranking| columns(&pairs, ranking))),
    ]);
    (answers, by_chance)
}

fn any_after(spans: &Operations) -> bool {
    spans.rows.iter().any(|row| row.start + row.duration >= spans.onset)
}

/// The spans of services that the table knows: so with the script that `pdiagnose` is.
fn with_metrics(spans: &Operations, table: &Wide) -> Operations {
    let known = rcaeval::services_of(table);
    let rows = spans.rows.iter().filter(|row| known.contains(&spans.names[row.operation].0.as_str()));
    Operations { rows: rows.copied().collect(), ..spans.clone() }
}

/// The lines of services that the table knows: the program ends with an error where it meets another.
fn logs(pack: &Pack, table: &Wide) -> String {
    let known = rcaeval::services_of(table);
    let mut text = String::from("time,container_name,message\n");
    for log in Window::BOTH.into_iter().flat_map(|window| &pack.signals(window).logs) {
        let service = pack.names.get(log.service);
        if known.contains(&service) {
            let body = pack.names.get(log.body).replace('"', "\"\"");
            writeln!(text, "{},{service},\"{body}\"", log.time / 1_000_000_000).unwrap();
        }
    }
    text
}

/// What the program answers, by folder and method; two processes share the folders.
fn ask(python: &Path, cases: &[Case]) -> BTreeMap<(String, String), Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xtask/rcaeval/peer.py");
    let folders: Vec<&Path> = cases.iter().map(|case| case.folder.as_path()).collect();
    let halves: Vec<&[&Path]> = folders.chunks(folders.len().div_ceil(2)).collect();
    let printed: Vec<String> = halves
        .par_iter()
        .map(|half| {
            let mut command = Command::new(python);
            // Threads of its own would make it slower beside the other one.
            command.env("OPENBLAS_NUM_THREADS", "1").arg(&script).arg(METHODS).args(*half);
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        })
        .collect();
    let lines = printed.iter().flat_map(|text| text.lines()).map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    lines.map(|line| ((text(&line["folder"]), text(&line["method"])), line)).collect()
}
