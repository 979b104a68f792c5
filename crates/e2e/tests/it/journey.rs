//! The way of a newcomer: serve, register, enable, submit, watch, verify, download, board.

use std::fs::File;
use std::time::Duration;

use serde_json::Value;
use testkit::process::{Site, finish, until};

use crate::round::{self, CONTROL, FAULT, submit, text};
use crate::{pack, world};

/// The public layout of a datapack that has a verdict.
const LAYOUT: &[&str] = &[
    "abnormal_logs.parquet",
    "abnormal_metrics.parquet",
    "abnormal_metrics_histogram.parquet",
    "abnormal_metrics_sum.parquet",
    "abnormal_trace_id_ts.parquet",
    "abnormal_traces.parquet",
    "conclusion.csv",
    "env.json",
    "injection.json",
    "k8s.json",
    "manifest.json",
    "normal_logs.parquet",
    "normal_metrics.parquet",
    "normal_metrics_histogram.parquet",
    "normal_metrics_sum.parquet",
    "normal_trace_id_ts.parquet",
    "normal_traces.parquet",
    "sha256sum.txt",
];

#[test]
fn a_newcomer_gets_from_an_empty_folder_to_a_board() {
    let (site, daemon) = round::ts(&[]);
    five_layers(&site);
    let faulty = submit(&site, FAULT, &["--seed", "7"]);
    installed_is_what_was_specified(&site, &faulty);
    let control = submit(&site, CONTROL, &["--seed", "8"]);

    let faulty = round::follow(&site, &faulty, 0);
    assert_eq!((&faulty["state"], &faulty["verdict"]), (&"Completed".into(), &"anomaly".into()), "{faulty:#}");
    let control = round::follow(&site, &control, 0);
    assert_eq!((&control["state"], &control["verdict"]), (&"Completed".into(), &"no_anomaly".into()), "{control:#}");

    for run in [&faulty, &control] {
        let name = text(&run["injection_name"]);
        let report = site.ctl(&["datapack", "verify", &name]).ok().json();
        assert_eq!(report["ok"], true, "{report:#}");
        archive_has_the_public_layout(&site, &name);
    }
    why_is_answered(&site, &faulty);
    board_has_a_row(&site);
    world::until_clean(&site);
    daemon.stop();
    assert!(!site.data().join("server.json").exists(), "a clean end takes the announcement back");
}

fn five_layers(site: &Site) {
    let table = finish(site.command("aegisctl").args(["system", "show", "ts"])).ok().out;
    let detail = site.ctl(&["system", "show", "ts"]).ok().json();
    let layers = detail["layers"].as_array().unwrap();
    let states: Vec<(&str, &str)> =
        layers.iter().map(|layer| (layer["layer"].as_str().unwrap(), layer["state"].as_str().unwrap())).collect();
    let expect =
        [("registry", "ok"), ("config", "ok"), ("database", "ok"), ("chart", "not fetched"), ("telemetry", "ok")];
    assert_eq!(states, expect, "{detail:#}");
    for (layer, state) in expect {
        let shown = table.lines().any(|line| line.contains(layer) && line.contains(state));
        assert!(shown, "`system show ts` has no line `{layer} … {state}`:\n{table}");
    }
}

/// The outside world carries the composed values, to the letter and with the digest that the run's specification names.
pub fn installed_is_what_was_specified(site: &Site, run: &str) {
    let installed = until("the release is installed", Duration::from_secs(60), || {
        let state = world::slot(&site.data(), "ts0");
        (!state["release"].is_null()).then(|| state["release"]["spec"].clone())
    });
    let release = &round::get(site, run)["spec"]["release"];
    let pedestal = &site.ctl(&["system", "show", "ts"]).ok().json()["pedestal"];
    let slot = &installed["slot"];
    assert_eq!(slot["number"], 0, "{slot}");
    for key in ["chart", "chart_version", "repository", "chart_digest"] {
        assert_eq!(installed[key], release[key], "{key}");
    }
    assert_eq!(installed["values"], pedestal["values"]);
    let own = release["per_slot"].as_array().unwrap().iter().find(|own| own["slot"] == 0).unwrap();
    assert_eq!(installed["values_digest"], own["digest"]);
    assert_eq!(installed["values_digest"], pedestal["values_digest"]);
    assert_eq!(text(&installed["values_digest"]), pack::sha256(canonical(&installed["values"]).as_bytes()));
    assert!(!installed["values"].as_object().unwrap().is_empty());
}

/// JSON without spaces, with the keys in byte order.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            let entries = keys.iter().map(|key| format!("{}:{}", Value::from(key.as_str()), canonical(&map[*key])));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        scalar => scalar.to_string(),
    }
}

fn archive_has_the_public_layout(site: &Site, name: &str) {
    let path = site.path().join(format!("{name}.zip"));
    site.ctl(&["datapack", "download", name, "--output-file", path.to_str().unwrap()]).ok();
    let mut archive = zip::ZipArchive::new(File::open(&path).unwrap()).unwrap();
    let mut files = std::collections::BTreeMap::new();
    for index in 0..archive.len() {
        let mut file = archive.by_index(index).unwrap();
        let inside = file.name().unwrap().into_owned();
        let inside = inside.strip_prefix(&format!("{name}/")).expect("one folder of the pack's name").to_owned();
        let mut bytes = Vec::new();
        std::io::copy(&mut file, &mut bytes).unwrap();
        files.insert(inside, bytes);
    }
    assert_eq!(files.keys().map(String::as_str).collect::<Vec<_>>(), LAYOUT);
    let sums = String::from_utf8(files["sha256sum.txt"].clone()).unwrap();
    for line in sums.lines() {
        let (sum, file) = line.split_once("  ").unwrap();
        assert_eq!(pack::sha256(&files[file]), sum, "{file}");
    }
    assert_eq!(sums.lines().count(), LAYOUT.len() - 1, "every file but the list itself:\n{sums}");
}

fn why_is_answered(site: &Site, run: &Value) {
    let why = site.ctl(&["run", "why", &text(&run["id"])]).ok().json();
    assert!(!text(&why["answer"]).is_empty() && why["verdict"] == "anomaly", "{why:#}");
}

fn board_has_a_row(site: &Site) {
    let board = site.ctl(&["board"]).ok().json();
    let row =
        board["rows"].as_array().unwrap().iter().find(|row| row["row"] == "ranking" && row["algorithm"] == "baro");
    let row = row.unwrap_or_else(|| panic!("no row of baro: {board:#}"));
    assert_eq!((&row["packs"], &row["failures"], &board["origin"]), (&1.into(), &0.into(), &"simulated".into()));
    assert_eq!((&board["controls"]["packs"], &board["controls"]["false_alarms"]), (&1.into(), &0.into()), "{board:#}");
}
