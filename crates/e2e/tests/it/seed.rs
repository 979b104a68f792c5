//! The operator's second journey: a seed is changed, planned, applied, and proved to be live.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use testkit::process::{Ran, Site};

use crate::round;

/// A copy of the demo's seed, to be edited.
fn copy(site: &Site) -> PathBuf {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../seeds/demo");
    for file in ["data.yaml", "ts.yaml"] {
        site.write(&format!("seed/{file}"), &fs::read_to_string(demo.join(file)).unwrap());
    }
    site.path().join("seed")
}

#[track_caller]
fn edit(seed: &Path, file: &str, from: &str, to: &str) {
    let path = seed.join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "`{from}` is not in {file}");
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

/// `aegisctl seed VERB seed …`
#[track_caller]
fn seed(site: &Site, verb: &str, more: &[&str]) -> Ran {
    site.ctl(&[&["seed", verb, "seed"], more].concat())
}

fn kinds(changes: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    changes.as_array().unwrap().iter().map(|change| (text(&change["kind"]), text(&change["field"]))).collect()
}

#[test]
fn a_seed_change_is_planned_applied_and_proved() {
    let site = Site::new();
    let folder = copy(&site);
    let daemon = site.serve(&[]);
    assert_eq!(seed(&site, "lint", &[]).code, 0);

    let first = seed(&site, "plan", &[]);
    assert_eq!(first.code, 5, "everything is new: {}", first.err);
    let applied = seed(&site, "apply", &["--yes", "--wait"]).ok().json();
    assert!(applied["proof"]["complete"] == true && applied["apply"]["revision"] == 1, "{applied:#}");
    assert_eq!(seed(&site, "plan", &[]).code, 0, "the second time there is nothing");
    let again = seed(&site, "apply", &["--yes"]).ok().json();
    assert_eq!((&again["apply"]["changed"], &again["apply"]["revision"]), (&false.into(), &1.into()), "{again:#}");
    let shown = site.ctl(&["system", "show", "ts"]).ok().json();
    let odd = shown["layers"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|layer| !["ok", "not fetched"].contains(&layer["state"].as_str().unwrap()));
    assert_eq!(odd.count(), 0, "{shown:#}");

    // A release of the old values, installed by a run that is going on.
    let run = round::submit(&site, round::CONTROL, &["--seed", "3"]);
    edit(&folder, "ts.yaml", "allowInsecureImages: true", "allowInsecureImages: false");
    edit(&folder, "data.yaml", "default_value: '4'", "default_value: '5'");
    let planned = seed(&site, "plan", &[]);
    let plan = planned.json()["plan"].take();
    assert_eq!(planned.code, 5);
    let expect = [("changed_default", "default"), ("changed_default", "count"), ("overlay_changed", "overlay")];
    assert_eq!(kinds(&plan["changes"]), expect.map(|(kind, field)| (kind.to_owned(), field.to_owned())), "{plan:#}");
    assert!(plan["changes"][0]["place"].as_str().unwrap().starts_with("data.yaml:78:"), "{plan:#}");
    assert_eq!(plan["impact"][0]["values"][0]["key"], "global.security.allowInsecureImages", "{plan:#}");
    round::follow(&site, &run, 0);

    // What was looked at is what is applied: a value that was set meanwhile makes the plan stale.
    let hash = plan["hash"].as_str().unwrap();
    edit(&folder, "data.yaml", "default_value: '5'", "default_value: '6'");
    let stale = seed(&site, "apply", &["--plan", hash]);
    assert_eq!((stale.code, &stale.error()["code"]), (8, &"seed.plan_stale".into()));
    edit(&folder, "data.yaml", "default_value: '6'", "default_value: '5'");
    let applied = seed(&site, "apply", &["--plan", hash, "--wait", "--restart-slots"]).ok().json();
    assert_eq!(applied["apply"]["applied"].as_array().unwrap().len(), 3, "{applied:#}");
    assert_eq!(applied["proof"]["complete"], true, "{applied:#}");
    let proof = site.ctl(&["seed", "proof", "--system", "ts", "--key", "overlay"]).ok().json();
    let hops: Vec<&str> =
        proof["lines"][0]["hops"].as_array().unwrap().iter().map(|hop| hop["hop"].as_str().unwrap()).collect();
    assert!(hops.starts_with(&["store", "chart"]), "{proof:#}");
    let values = site.ctl(&["pedestal", "values", "ts", "--explain"]).ok().json();
    let leaf =
        values.as_array().unwrap().iter().find(|leaf| leaf["key"] == "global.security.allowInsecureImages").unwrap();
    assert_eq!((&leaf["value"], leaf["origin"].as_str().unwrap()), (&false.into(), "overlay, ts.yaml:4:26"));
    // The next run installs it.
    let run = round::submit(&site, round::CONTROL, &["--seed", "4"]);
    round::follow(&site, &run, 0);

    let history = site.ctl(&["seed", "history"]).ok().json();
    assert_eq!(history.as_array().unwrap().len(), 2, "{history:#}");
    let back = site.ctl(&["seed", "apply", "--revision", "1", "--yes"]).ok().json();
    assert_eq!(back["apply"]["applied"].as_array().unwrap().len(), 3, "{back:#}");
    site.ctl(&["seed", "export", "exported"]).ok();
    let exported = site.ctl(&["seed", "plan", "exported"]);
    assert_eq!(exported.code, 0, "{}", exported.out);
    drop(daemon);
}

#[test]
fn what_is_wrong_in_a_seed_is_told_by_its_line_and_its_exit_code() {
    let site = Site::new();
    let folder = copy(&site);
    edit(&folder, "data.yaml", "value_type: 2", "value_type: 9");
    let lint = seed(&site, "lint", &[]);
    let finding = lint.json()["findings"][0].take();
    assert_eq!(
        (lint.code, &finding["code"], &finding["line"]),
        (2, &"seed.wrong_type".into(), &67.into()),
        "{finding}"
    );
    let plan = seed(&site, "plan", &["--against", "seed"]);
    assert_eq!((plan.code, &plan.error()["code"]), (2, &"seed.wrong_type".into()));
    let cases: [(&str, &[u8], i32, &str); 5] = [
        ("empty", b"", 2, "yaml.empty"),
        ("binary", b"a\0b", 2, "yaml.binary"),
        ("encoding", b"a: \xff\xfe\n", 2, "yaml.not_utf8"),
        ("tabs", b"teams:\n\t- name: a\n", 2, "yaml.tab"),
        ("twice", b"teams: []\nteams: []\n", 2, "yaml.duplicate_key"),
    ];
    for (name, bytes, exit, code) in cases {
        site.write(&format!("{name}/data.yaml"), "");
        fs::write(site.path().join(name).join("data.yaml"), bytes).unwrap();
        let ran = site.ctl(&["seed", "lint", name]);
        assert_eq!((ran.code, &ran.json()["findings"][0]["code"]), (exit, &code.into()), "{name}: {}", ran.out);
    }
    fs::create_dir_all(site.path().join("folder/data.yaml")).unwrap();
    let ran = site.ctl(&["seed", "lint", "folder"]);
    assert_eq!((ran.code, &ran.json()["findings"][0]["code"]), (2, &"seed.not_a_file".into()));
    let large = fs::File::create(site.path().join("tabs/data.yaml")).unwrap();
    large.set_len(50 * 1024 * 1024).unwrap();
    let ran = site.ctl(&["seed", "lint", "tabs"]);
    assert_eq!((ran.code, &ran.json()["findings"][0]["code"]), (2, &"seed.file_too_large".into()));
    assert_eq!(site.ctl(&["seed", "lint", "nowhere"]).code, 4);
}
