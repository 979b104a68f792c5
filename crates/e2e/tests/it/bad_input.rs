//! What a user can get wrong in a call: each has a stable code, the place, what to do, an exit code, and stores nothing.

use std::fs;

use testkit::process::{Ran, Site};

use crate::round::{self, CONTROL, FAULT, counts, text};
use crate::{pack, world};

/// Asserts that a call was refused in this way.
#[track_caller]
fn refused(ran: &Ran, exit: i32, code: &str) {
    let error = ran.error();
    assert_eq!((ran.code, error["code"].as_str()), (exit, Some(code)), "{}{}", ran.out, ran.err);
    assert_eq!(error["exit_code"], exit);
    assert!(!text(&error["message"]).is_empty(), "{error}");
    assert_eq!(ran.out, "", "an error leaves standard output empty");
}

/// Asserts that the error names what was meant.
#[track_caller]
fn suggests(ran: &Ran, name: &str) {
    let error = ran.error();
    assert_eq!(error["suggestion"], format!("did you mean `{name}`?"), "{error}");
}

const DELAY: &[&str] =
    &["--service", "ts-travel-service", "--capability", "network_delay", "--target", "target_service=ts-basic-service"];

#[test]
fn a_wrong_submission_is_refused_and_stores_nothing() {
    let (site, _daemon) = round::ts(&[]);
    let before = counts(&site);
    let submit = |what: &[&str], more: &[&str]| site.ctl(&round::submission(what, more));

    let unknown = site.ctl(&["inject", "submit", "--system", "tss", "--no-fault"]);
    refused(&unknown, 7, "system.unknown");
    suggests(&unknown, "ts");
    let unknown = submit(&["--service", "ts-order-servise", "--capability", "pod_kill"], &[]);
    refused(&unknown, 7, "service.unknown");
    suggests(&unknown, "ts-order-service");
    let unknown = submit(&["--service", "ts-order-service", "--capability", "pod_kil"], &[]);
    refused(&unknown, 7, "capability.unknown");
    suggests(&unknown, "pod_kill");
    let unknown = submit(DELAY, &["--param", "latncy_ms=200"]);
    refused(&unknown, 7, "param.unknown");
    suggests(&unknown, "latency_ms");
    let unknown = submit(&[FAULT, &["--algorithm", "barro"]].concat(), &[]);
    refused(&unknown, 7, "algorithm.unknown");
    suggests(&unknown, "baro");

    let far = submit(DELAY, &["--param", "latency_ms=60001"]);
    refused(&far, 2, "param.out_of_range");
    assert!(text(&far.error()["expected"]).contains("60000"), "{}", far.err);
    refused(&submit(DELAY, &["--param", "latency_ms=much"]), 2, "param.wrong_type");
    refused(&submit(DELAY, &[]), 2, "param.missing");
    let go = ["--service", "ts-news-service", "--capability", "jvm_method_exception"];
    refused(&submit(&go, &[]), 2, "target.lacks_jvm");
    let unsimulated = submit(&["--service", "ts-order-service", "--capability", "time_skew"], &[]);
    assert!([2, 4].contains(&unsimulated.code), "{}", unsimulated.err);

    for (normal, abnormal) in [("0s", "30s"), ("30s", "0s"), ("-30s", "30s"), ("30s", "-1s"), ("30s", "3601s")] {
        let wrong = submit(CONTROL, &["--normal", normal, "--abnormal", abnormal]);
        refused(&wrong, 2, "window.out_of_range");
    }
    contradictions(&site);
    assert_eq!(counts(&site), before, "nothing is stored");
    assert!(world::journal(&site).is_empty(), "and nothing has happened");
}

fn contradictions(site: &Site) {
    let file = |text: &str| {
        let file = site.write("submission.yaml", text);
        site.ctl(&["inject", "submit", "-f", file.to_str().unwrap()])
    };
    let two = "system: ts\nfaults:\n- {service: ts-order-service, capability: pod_failure}\n\
        - {service: ts-order-service, capability: cpu_stress, params: {workers: 1, load_pct: 50}}\n";
    refused(&file(two), 2, "batch.contradiction");
    refused(&file("system: ts\nno_falt: true\n"), 2, "submit.file_malformed");
    refused(
        &file("system: ts\nno_fault: true\nfaults: [{service: ts-order-service, capability: pod_kill}]\n"),
        2,
        "submit.fault_in_control",
    );
    refused(&file("system: ts\n"), 2, "submit.no_fault_named");
}

#[test]
fn a_changed_byte_in_a_pack_is_found() {
    let (site, _daemon) = round::ts(&[]);
    let run = round::run(&site, CONTROL, &["--seed", "8"], 0);
    let name = text(&run["injection_name"]);
    let path = pack::folder(&site, &run).join("open/abnormal_traces.parquet");
    let whole = fs::read(&path).unwrap();
    let mut changed = whole.clone();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    fs::write(&path, &changed).unwrap();
    let verify = site.ctl(&["datapack", "verify", &name]);
    let report = verify.json();
    assert_eq!((verify.code, &report["ok"]), (5, &false.into()), "{report:#}");
    let odd: Vec<_> = report["files"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|file| file["state"] != "ok")
        .map(|file| &file["path"])
        .collect();
    assert_eq!(odd.len(), 1, "{report:#}");
    assert!(text(odd[0]).ends_with("abnormal_traces.parquet"), "{report:#}");
    let path_of_zip = site.path().join("changed.zip");
    fs::write(&path, &whole).unwrap();
    assert_eq!(site.ctl(&["datapack", "verify", &name]).ok().json()["ok"], true);
    refused(&site.ctl(&["datapack", "verify", "ts0-99"]), 7, "datapack.unknown");
    let missing = site.ctl(&["datapack", "download", "ts0-99", "--output-file", path_of_zip.to_str().unwrap()]);
    refused(&missing, 7, "datapack.unknown");
    assert!(!path_of_zip.exists(), "a refused download leaves no file");
}

#[test]
fn a_wrong_seed_is_refused_with_its_line_and_stores_nothing() {
    let site = Site::new();
    let _daemon = site.serve(&[]);
    let before = counts(&site);
    let good = fs::read_to_string(round::seeds().join("demo/data.yaml")).unwrap();
    let register = |text: &str, name: &str| {
        site.write("seeds/broken/data.yaml", text);
        site.ctl(&["system", "register", "--from-seed", "seeds", "--env", "broken", "--name", name])
    };
    // One slip each, in the line of the first match.
    let slip = |from: &str, to: &str, code: &str| {
        let at = good.find(from).unwrap_or_else(|| panic!("the seed has no `{from}`"));
        let line = good[..at].matches('\n').count() + 1;
        let ran = register(&good.replacen(from, to, 1), "ts");
        refused(&ran, 2, code);
        let place = text(&ran.error()["place"]);
        let found: usize = place.split(':').nth(1).and_then(|line| line.parse().ok()).expect(&place);
        assert!(place.starts_with("data.yaml:") && found.abs_diff(line) <= 1, "line {line}, not {place}");
    };
    slip("  - type:", "\t- type:", "yaml.tab");
    slip("    is_public: true", "    is_public: true\n    is_public: true", "yaml.duplicate_key");
    slip("    is_public: true", "    is_public: 17.6", "seed.wrong_type");
    slip("    is_public: true", "    is_pubilc: true", "seed.unknown_key");
    let unknown = register(&good, "tss");
    refused(&unknown, 7, "seed.system_unknown");
    suggests(&unknown, "ts");
    let missing = site.ctl(&["system", "register", "--from-seed", "seeds", "--env", "brokn", "--name", "ts"]);
    refused(&missing, 7, "seed.environment_unknown");
    suggests(&missing, "broken");
    assert_eq!(counts(&site), before, "nothing is stored");
    register(&good, "ts").ok();
    refused(&register(&good, "ts"), 8, "system.already_registered");
}

#[test]
fn a_wrong_token_opens_nothing() {
    let site = Site::new();
    let daemon = site.serve(&[]);
    let wrong = site.ctl(&["--token", "not-the-token", "system", "list"]);
    refused(&wrong, 3, "token.unknown");
    assert!(!daemon.token().is_empty());
    site.ctl(&["--server", daemon.address(), "--token", &daemon.token(), "system", "list"]).ok();
}
