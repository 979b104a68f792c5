//! Evaluations and data sets as an operator sees them: everything runs everywhere, nothing is lost, nothing runs twice.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::process::{Site, until};
use worker::killpoint::EVALUATION_POINTS;

use crate::round::{self, CONTROL, FAULT};

/// The methods that every board has.
const BASELINES: [&str; 5] = ["random", "constant", "most-frequent", "loudest-metric", "max-change"];
const LIMIT: Duration = Duration::from_secs(120);

/// Two faulty datapacks and a control, on which nothing has ranked but `baro`.
fn three_packs(site: &Site) -> Vec<String> {
    let faults = ["7", "8"].map(|seed| round::run(site, FAULT, &["--seed", seed], 0));
    let control = round::submit(site, CONTROL, &["--seed", "9"]);
    round::follow(site, &control, 0);
    faults.iter().map(|run| round::text(&run["injection_name"])).collect()
}

fn rows<'a>(board: &'a Value, row: &str) -> Vec<&'a Value> {
    board["rows"].as_array().unwrap().iter().filter(|one| one["row"] == row).collect()
}

fn of<'a>(board: &'a Value, algorithm: &str) -> &'a Value {
    let all = rows(board, "ranking");
    all.into_iter().find(|row| row["algorithm"] == algorithm).unwrap_or_else(|| panic!("{algorithm}: {board:#}"))
}

/// Executions of algorithms: number, name, datapack, onset.
fn executions(site: &Site, arguments: &[&str]) -> Vec<Value> {
    let list = site.ctl(&[&["execution", "list", "--all"], arguments].concat()).ok().json();
    list["items"].as_array().unwrap().iter().filter(|one| one["algorithm_name"] != "detector").cloned().collect()
}

#[test]
fn every_algorithm_runs_on_every_exposed_datapack_and_baselines_always() {
    let (site, _daemon) = round::ts(&[]);
    let packs = three_packs(&site);
    let ended = site.ctl(&["evaluation", "create", "--algorithm", "baro", "--robustness", "--wait"]).ok().json();
    let (evaluation, board) = (&ended["evaluation"], &ended["board"]);
    assert_eq!((&evaluation["state"], &evaluation["packs"]), (&json!("Completed"), &json!(2)), "{evaluation:#}");
    assert_eq!(evaluation["excluded"], json!({"no-fault control": 1}));
    assert!(evaluation["reading_seconds"].as_f64().unwrap() > 0.0, "{evaluation:#}");
    for name in BASELINES.iter().chain(&["baro"]) {
        let row = of(board, name);
        assert_eq!((&row["packs"], &row["missing"]), (&json!(2), &json!(0)), "{name}");
        assert_eq!(row["baseline"], *name != "baro");
    }
    assert!(of(board, "baro")["peak_memory"].as_u64().unwrap() > 1 << 20);
    assert_eq!(board["funnel"]["scored"], 2);
    assert_eq!(board["controls"]["packs"], 1);
    assert_eq!(board["controls"]["faulty"], 2);
    let robust = board["robustness"].as_array().unwrap();
    let baro = robust.iter().find(|row| row["algorithm"] == "baro").unwrap();
    for onset in ["known", "early", "late", "detected"] {
        assert!(baro[onset]["value"].is_f64(), "{onset}: {baro:#}");
    }
    let slices = of(board, "baro")["slices"].as_array().unwrap();
    let names: BTreeSet<&str> = slices.iter().map(|slice| slice["by"].as_str().unwrap()).collect();
    assert_eq!(names, BTreeSet::from(["family", "system", "difficulty", "roots"]));
    assert!(
        slices
            .iter()
            .any(|slice| slice["name"].as_str().unwrap().starts_with("distance: ")
                && slice["name"] != "distance: not known"),
        "{slices:#?}"
    );

    // What is answered is not asked again, unless that is wanted.
    let before = executions(&site, &[]).len();
    let again = site.ctl(&["evaluation", "create", "--algorithm", "baro", "--wait"]).ok().json();
    assert_eq!((&again["evaluation"]["state"], executions(&site, &[]).len()), (&json!("Completed"), before));
    let anew = site.ctl(&["evaluation", "create", "--algorithm", "baro", "--always", "--wait"]).ok().json();
    assert_eq!(executions(&site, &[]).len(), before + 2 * 6);
    let (first, second) = (again["evaluation"]["id"].to_string(), anew["evaluation"]["id"].to_string());
    let compared = site.ctl(&["evaluation", "compare", &first, &second]).ok().json();
    assert_eq!((&compared["packs"], compared["comparisons"].as_array().unwrap().len()), (&json!(2), 6));
    let differs = |pair: &Value| pair["difference"] != 0.0 || pair["wins"] != 0 || pair["losses"] != 0;
    assert!(
        !compared["comparisons"].as_array().unwrap().iter().any(differs),
        "equal input, equal answers: {compared:#}"
    );
    assert_eq!(site.ctl(&["evaluation", "list"]).ok().json()["pagination"]["total"], 3);

    for (format, part) in [("md", "# Board: simulated packs"), ("csv", "origin,row,algorithm"), ("svg", "<svg ")] {
        let text = site.ctl(&["evaluation", "get", &first, "--format", format]).ok().out;
        assert!(text.starts_with(part), "{format}: {text}");
        assert!(text.contains("submitted"), "the funnel is in {format}");
    }
    let board = site.ctl(&["evaluation", "get", &first, "--format", "json"]).ok().json();
    assert_eq!(board["funnel"]["scored"], 2, "{board:#}");
    let picture = site.ctl(&["evaluation", "get", &first, "--format", "png"]).ok().out;
    assert!(picture.get(..12).is_some_and(|first| first.contains("PNG\r\n")), "{} characters", picture.len());
    let one = site.ctl(&["evaluation", "create", "--pack", &packs[0], "--algorithm", "baro", "--wait"]).ok().json();
    assert_eq!((&one["evaluation"]["packs"], &one["board"]["funnel"]["submitted"]), (&json!(1), &json!(1)));
    let refused = |arguments: &[&str], code: &str| {
        let ran = site.ctl(&[&["evaluation"], arguments].concat());
        assert_eq!(ran.error()["code"], code, "{arguments:?}: {}", ran.err);
    };
    refused(&["create", "--algorithm", "brao"], "algorithm.unknown");
    refused(&["create", "--algorithm", "baro", "--algorithm", "baro"], "algorithm.repeated");
    refused(&["create", "--pack", "ts-999999"], "datapack.unknown");
    refused(&["create", "--dataset", "nothing"], "dataset.unknown");
    refused(&["get", "99"], "evaluation.unknown");
}

#[test]
fn a_killed_daemon_loses_nothing_and_does_nothing_twice() {
    for point in EVALUATION_POINTS {
        let (site, daemon) = round::ts(&[]);
        three_packs(&site);
        daemon.stop();
        let mut command = site.serve_command();
        let mut daemon = testkit::process::Daemon::start(command.env("AEGIS_KILL_POINT", point), &site).ready();
        let begun = site.ctl(&["evaluation", "create", "--algorithm", "baro", "--always"]).ok().json();
        let id = begun["id"].to_string();
        until("the daemon dies", LIMIT, || daemon.poll());
        let daemon = site.serve(&[]);
        let ended = site.ctl(&["evaluation", "wait", &id]).ok().json();
        assert_eq!(ended["evaluation"]["done"], ended["evaluation"]["executions"], "{point}");
        let keys: Vec<(Value, Value)> = executions(&site, &["--evaluation", &id])
            .iter()
            .map(|one| (one["algorithm_name"].clone(), one["datapack_name"].clone()))
            .collect();
        let distinct: BTreeSet<String> = keys.iter().map(|key| format!("{key:?}")).collect();
        assert_eq!((keys.len(), distinct.len()), (12, 12), "{point}: each once");
        daemon.stop();
    }
}

#[test]
fn a_damaged_datapack_is_taken_out_and_a_data_set_tells_of_it() {
    let (site, _daemon) = round::ts(&[]);
    let runs = ["7", "8"].map(|seed| round::run(&site, FAULT, &["--seed", seed], 0));
    let create = ["dataset", "create", "pairs:1.0.0", "--license", "CC-BY-4.0", "--held-out", "0.5"];
    let made = site.ctl(&create).ok().json();
    assert_eq!(
        (&made[0]["versions"][0]["name"], &made[0]["versions"][0]["packs"]),
        (&json!("1.0.0"), &json!(2)),
        "{made:#}"
    );
    assert_eq!(site.ctl(&create).error()["code"], "dataset.exists");
    assert_eq!(
        site.ctl(&["dataset", "create", "pairs", "--license", "MIT"]).error()["code"],
        "dataset.version_missing"
    );
    assert_eq!(site.ctl(&["dataset", "create", "x:1", "--license", " "]).error()["code"], "dataset.license_missing");
    let manifest = site.ctl(&["dataset", "show", "pairs"]).ok().json();
    let parts: BTreeSet<&str> =
        manifest["members"].as_array().unwrap().iter().map(|one| one["part"].as_str().unwrap()).collect();
    assert_eq!(parts.len(), 1, "two seeds of one point are never parted: {manifest:#}");
    assert!(site.ctl(&["dataset", "verify", "pairs:1.0.0"]).ok().json()["ok"].as_bool().unwrap());
    let zip = site.path().join("pairs.zip");
    site.ctl(&["dataset", "download", "pairs", "--to", zip.to_str().unwrap()]).ok();
    let bytes = std::fs::read(&zip).unwrap();
    for name in ["manifest.json", "/abnormal_traces.parquet", "/sha256sum.txt"] {
        assert!(bytes.windows(name.len()).any(|window| window == name.as_bytes()), "{name} is in the archive");
    }
    let other = if parts.contains("open") { "held_out" } else { "open" };
    let refused = site.ctl(&["dataset", "download", "pairs", "--part", other, "--to", zip.to_str().unwrap()]);
    assert_eq!(refused.error()["code"], "dataset.part_empty", "{}", refused.err);
    let scored = site.ctl(&["evaluation", "create", "--dataset", "pairs", "--algorithm", "baro", "--wait"]).ok().json();
    assert_eq!((&scored["evaluation"]["eval_type"], &scored["evaluation"]["packs"]), (&json!("dataset"), &json!(2)));

    let file = crate::pack::folder(&site, &runs[0]).join("open/abnormal_logs.parquet");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let report = site.ctl(&["dataset", "verify", "pairs"]);
    assert_eq!((report.code, &report.json()["ok"]), (5, &json!(false)), "{}", report.out);
    let name = round::text(&runs[0]["injection_name"]);
    assert!(report.json()["findings"][&name].as_str().unwrap().contains("changed"), "{}", report.out);
    assert_eq!(site.ctl(&["dataset", "download", "pairs", "--to", zip.to_str().unwrap()]).code, 5);
    let ended = site.ctl(&["evaluation", "create", "--algorithm", "baro", "--always", "--wait"]).ok().json();
    assert_eq!(ended["evaluation"]["excluded"], json!({"damaged": 1}), "{:#}", ended["evaluation"]);
    assert_eq!((&ended["board"]["funnel"]["exposed"], &ended["board"]["funnel"]["valid"]), (&json!(2), &json!(1)));
    assert_eq!(of(&ended["board"], "baro")["packs"], 1);
}
