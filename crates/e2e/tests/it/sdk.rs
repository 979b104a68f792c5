//! The public Python client as an algorithm's author uses it: log in, list, download, submit, upload, read back.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::process::{Daemon, Site, finish, until};
use testkit::{Tool, tool};

use crate::round::{self, FAULT, text};

const PASSWORD: &str = "correct horse battery staple";

fn script(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(file)
}

/// What the client saw. Nothing of this process's own environment tells it who it is.
#[track_caller]
fn journey(site: &Site, daemon: &Daemon, python: &Path, file: &str, arguments: &[&str], who: &[(&str, &str)]) -> Value {
    let mut command = Command::new(python);
    command.arg(script(file)).args(arguments).current_dir(site.path());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("RCABENCH_")) {
        command.env_remove(name);
    }
    command.env("RCABENCH_BASE_URL", daemon.address()).envs(who.iter().copied());
    finish(&mut command).ok().json()
}

/// A datapack with a verdict, on which one algorithm ran.
fn pack(site: &Site) -> Value {
    let run = round::run(site, FAULT, &["--seed", "7"], 0);
    site.ctl(&["datapack", "get", &text(&run["injection_name"])]).ok().json()
}

/// What the client read of the datapack is what we say of it.
#[track_caller]
fn assert_same_injection(seen: &Value, ours: &Value) {
    assert!(seen["id"].is_i64(), "{seen:#}");
    for member in ["id", "name", "fault_type", "state", "status", "start_time", "end_time", "pre_duration"] {
        assert_eq!(seen[member], ours[member], "{member}: {seen:#}");
    }
    for member in ["display_config", "engine_config"] {
        assert_eq!(seen[member], ours[member], "{member}");
    }
    let services: Vec<&Value> =
        seen["ground_truth"].as_array().unwrap().iter().map(|entry| &entry["service"]).collect();
    assert!(services[0].as_array().unwrap().contains(&"ts-travel-service".into()), "{services:?}");
}

/// The zip that the client downloaded holds the files that our own client shows.
#[track_caller]
fn assert_same_archive(site: &Site, name: &str) {
    let mut archive = zip::ZipArchive::new(File::open(site.path().join(format!("{name}.zip"))).unwrap()).unwrap();
    let mut inside = Vec::new();
    for index in 0..archive.len() {
        inside.push(archive.by_index(index).unwrap().name().unwrap().into_owned());
    }
    inside.sort();
    let tree = site.ctl(&["datapack", "files", name]).ok().json();
    let files = tree["files"].as_array().or_else(|| tree.as_array()).unwrap();
    let mut expect: Vec<String> = files.iter().map(|file| format!("{name}/{}", text(&file["path"]))).collect();
    expect.sort();
    assert_eq!(inside, expect);
}

/// What the client read of the answers, by datapack and by data set; the questions that it asks wrongly are told in place.
#[track_caller]
fn assert_answers(seen: &Value, name: &str, mine: &Value) {
    let packs = &seen["on_datapacks"];
    let items = packs["success_items"].as_array().unwrap();
    assert_eq!((&packs["success_count"], &packs["failed_count"], items.len()), (&3.into(), &2.into(), 3), "{packs:#}");
    let refs: Vec<_> = items.iter().map(|item| item["execution_refs"].as_array().unwrap()).collect();
    assert!(refs[0].len() == 1 && refs[1].is_empty() && !refs[2].is_empty(), "{packs:#}");
    assert_eq!((&refs[0][0]["predictions"], &refs[0][0]["execution_duration"]), (mine, &1.5.into()));
    assert_eq!(items[0]["groundtruths"][0]["service"], seen["injection"]["ground_truth"][0]["service"]);
    let failed: Vec<String> = packs["failed_items"].as_array().unwrap().iter().map(text).collect();
    assert!(failed[0].starts_with("specs[3]: ") && failed[0].contains("datapack.unknown"), "{failed:?}");
    assert!(failed[1].contains("algorithm.unknown") && failed[1].contains("nsigma"), "{failed:?}");

    let sets = seen["on_datasets"]["success_items"].as_array().unwrap();
    assert_eq!((sets.len(), &sets[0]["dataset_version"], &sets[0]["total_count"]), (2, &"1.0".into(), &1.into()));
    assert_eq!(sets[0]["evalaute_refs"][0]["execution_refs"][0]["predictions"], *mine);
    assert_eq!(sets[1]["not_executed_datapacks"], json!([name]));
    assert!(seen["archive"]["is_zip"] == true, "{}", seen["archive"]);
}

#[test]
fn the_newest_public_client_makes_the_whole_journey() {
    let Some(python) = tool("the newest public client makes the whole journey", Tool::RcabenchNew) else { return };
    let (site, daemon) = round::ts(&[]);
    let pack = pack(&site);
    let name = text(&pack["name"]);
    let set = ["dataset", "create", "both:1.0", "--license", "CC-BY-4.0", "--pack", &name];
    let set = site.ctl(&set).ok().json();
    let (set, version) = (set[0]["id"].to_string(), set[0]["versions"][0]["id"].to_string());
    let key = site.ctl(&["auth", "key", "create", "--name", "laptop", "--role", "operator"]).ok().json();
    let (id, secret) = (text(&key["key_id"]), text(&key["key_secret"]));
    let who = [("RCABENCH_KEY_ID", id.as_str()), ("RCABENCH_KEY_SECRET", &secret)];
    let seen = journey(&site, &daemon, &python, "rcabench_new.py", &["1", &name, &set, &version], &who);

    assert_eq!(seen["total"], 1);
    assert_same_injection(&seen["injection"], &pack);
    assert_same_archive(&site, &name);
    let built_in = &seen["built_in"];
    assert_eq!(
        (&built_in["state"], &built_in["algorithm_name"]),
        (&"Success".into(), &"nsigma".into()),
        "{built_in:#}"
    );
    let first = &built_in["granularity_results"][0];
    assert_eq!((&first["rank"], &first["level"]), (&1.into(), &"service".into()), "{built_in:#}");
    assert_eq!(built_in["granularity_results"], round::ranking(&site, &pack["name"], "nsigma"));

    assert_eq!(seen["waiting"], "Initial");
    assert_eq!((&seen["receipt"]["result_count"], &seen["receipt"]["uploaded_at"].is_string()), (&2.into(), &true));
    let uploaded = &seen["uploaded"];
    assert_eq!((&uploaded["state"], &uploaded["duration"]), (&"Success".into(), &1.5.into()), "{uploaded:#}");
    let expect = json!([
        {"level": "service", "result": "ts-travel-service", "rank": 1, "confidence": 0.75},
        {"level": "service", "result": "ts-basic-service", "rank": 2, "confidence": 0.25},
    ]);
    assert_eq!(uploaded["granularity_results"], expect);
    assert_eq!(labels(uploaded), [("note", "first try")]);
    assert_answers(&seen, &name, &expect);
    assert_eq!(seen["detector_receipt"]["has_anomalies"], true);
    let row = &seen["detected"]["detector_results"][0];
    assert_eq!(
        (&row["span_name"], &row["abnormal_p99"], &row["normal_succ_rate"]),
        (&"GET /".into(), &3.0.into(), &1.0.into())
    );

    let submitted = &seen["submitted"];
    assert_eq!((&submitted["original_count"], submitted["items"].as_array().unwrap().len()), (&1.into(), 1));
    let run = round::follow(&site, &text(&submitted["items"][0]["trace_id"]), 0);
    assert_eq!((&run["fault_type"], &run["services"]), (&"network_delay".into(), &"ts-travel-service".into()));
    let made = site.ctl(&["datapack", "get", &text(&run["injection_name"])]).ok().json();
    assert_eq!(labels(&made), [("by", "new")]);
    assert_eq!(labels(&site.ctl(&["datapack", "get", &name]).ok().json()), [("seen-by", "1.3.3")]);
    rankings_end(&site);

    site.ctl(&["auth", "key", "revoke", &id, "--yes"]).ok();
    let after = Command::new(&python)
        .args([script("rcabench_new.py").to_str().unwrap(), "1", &name, &set, &version])
        .env("RCABENCH_BASE_URL", daemon.address())
        .envs(who)
        .output()
        .unwrap();
    assert!(!after.status.success() && String::from_utf8_lossy(&after.stderr).contains("key.revoked"), "{after:?}");
    daemon.stop();
}

#[test]
fn the_older_public_client_makes_the_whole_journey_with_a_password_and_with_a_token() {
    let test = "the older public client makes the whole journey with a password and with a token";
    let Some(python) = tool(test, Tool::RcabenchOld) else { return };
    let (site, daemon) = round::ts(&[]);
    let pack = pack(&site);
    let name = text(&pack["name"]);
    set_password(&site, "ann", "author");
    let token = daemon.token();
    let password = [("RCABENCH_USERNAME", "ann"), ("RCABENCH_PASSWORD", PASSWORD)];
    for who in [&password[..], &[("RCABENCH_TOKEN", token.as_str())]] {
        let seen = journey(&site, &daemon, &python, "rcabench_old.py", &[&name], who);
        assert_eq!((&seen["health"], &seen["projects"][0]), (&"healthy".into(), &"default".into()));
        let algorithms = seen["algorithms"].as_array().unwrap();
        assert!(
            ["baro", "nsigma", "random"].iter().all(|name| algorithms.contains(&Value::from(*name))),
            "{algorithms:?}"
        );
        assert_eq!(seen["found"], json!([name]));
        assert_same_injection(&seen["injection"], &pack);
        assert_same_archive(&site, &name);
        let built_in = &seen["built_in"];
        assert_eq!(
            (&built_in["state"], &built_in["algorithm_name"]),
            (&"Success".into(), &"baro".into()),
            "{built_in:#}"
        );
        assert_eq!(built_in["granularity_results"], round::ranking(&site, &pack["name"], "baro"));
        assert_eq!(seen["receipt"]["result_count"], 1);
        let uploaded = &seen["uploaded"];
        assert_eq!((&uploaded["state"], &uploaded["algorithm_version"]), (&"Success".into(), &"0.9".into()));
        assert_eq!(labels(uploaded), [("by", "old")]);
        let expect = json!([{"level": "service", "result": "ts-travel-service", "rank": 1, "confidence": 1.0}]);
        assert_eq!(uploaded["granularity_results"], expect);
        assert!(seen["listed"].as_array().unwrap().contains(&uploaded["id"]));
    }
    assert_eq!(labels(&site.ctl(&["datapack", "get", &name]).ok().json()), [("seen-by", "1.1.51")]);
    rankings_end(&site);
    daemon.stop();
}

/// Runs that wait for an upload end once it is there.
fn rankings_end(site: &Site) {
    until("every run that ranks has ended", Duration::from_secs(60), || {
        let runs = site.ctl(&["run", "list", "--all"]).ok().json();
        let ranks: Vec<&Value> =
            runs["items"].as_array().unwrap().iter().filter(|run| run["type"] == "AlgorithmRun").collect();
        assert!(ranks.len() >= 2, "{runs:#}");
        ranks.iter().all(|run| run["state"] == "Completed").then_some(())
    });
}

fn labels(thing: &Value) -> Vec<(&str, &str)> {
    let list = thing["labels"].as_array().unwrap();
    list.iter().map(|label| (label["key"].as_str().unwrap(), label["value"].as_str().unwrap())).collect()
}

/// `aegisctl auth password set`, which reads the password from its standard input.
fn set_password(site: &Site, name: &str, role: &str) {
    let mut command = site.command("aegisctl");
    command.args(["auth", "password", "set", name, "--role", role]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{PASSWORD}").unwrap();
    assert!(child.wait().unwrap().success());
}
