//! Nothing that failed is reported as a success: dead detectors, faults that nobody felt.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use testkit::process::Site;

use crate::round::{self, FAULT, follow, submit, text};
use crate::world;

#[test]
fn a_killed_detector_is_detector_failed_and_never_no_anomaly() {
    let (site, daemon) = round::ts(&[]);
    let run = submit(&site, FAULT, &["--seed", "7"]);
    let (ended, killed) = (AtomicBool::new(false), AtomicUsize::new(0));
    let detail = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                for pid in round::executing(daemon.pid()) {
                    killed.fetch_add(1, Ordering::Relaxed);
                    round::signal(pid, "-9");
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let detail = std::panic::catch_unwind(|| follow(&site, &run, 5));
        ended.store(true, Ordering::Relaxed);
        detail.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    assert!(killed.load(Ordering::Relaxed) > 0, "no child was seen: {detail:#}");
    assert_detector_failed(&site, &detail);
    assert!(text(&detail["message"]).contains("signal 9"), "the cause is named: {detail:#}");
}

fn assert_detector_failed(site: &Site, run: &Value) {
    let seen = (text(&run["state"]), text(&run["verdict"]));
    assert_eq!((seen.0.as_str(), seen.1.as_str()), ("Failed", "detector_failed"), "{run:#}");
    let pack = site.ctl(&["datapack", "get", &text(&run["injection_name"])]).ok().json();
    assert_eq!(pack["state"], "detector_failed", "{pack:#}");
    assert_not_scored(site, &run["injection_name"]);
    world::until_clean(site);
}

/// No algorithm ranked the pack, and every row of the board says so.
fn assert_not_scored(site: &Site, pack: &Value) {
    assert_eq!(round::ranking(site, pack, "baro"), Value::Null);
    let board = site.ctl(&["board"]).ok().json();
    let not_run = |row: &Value| row["packs"] == row["missing"] && row["ac1"]["interval"] == "not run";
    assert!(board["rows"].as_array().unwrap().iter().all(not_run), "{board:#}");
}

#[test]
fn a_pack_with_an_empty_required_file_is_refused_with_its_cause() {
    let (site, _daemon) = round::ts(&[]);
    let detail = round::run(&site, FAULT, &["--seed", "7", "--load", "0.001"], 5);
    let seen = (text(&detail["state"]), text(&detail["verdict"]), text(&detail["reason"]));
    assert_eq!((seen.0.as_str(), seen.1.as_str(), seen.2.as_str()), ("Failed", "no_data", "datapack.empty_signal"));
    assert!(text(&detail["message"]).contains("normal_traces.parquet"), "the file is named: {detail:#}");
    let pack = site.ctl(&["datapack", "get", &text(&detail["injection_name"])]).ok().json();
    assert_eq!(pack["state"], "build_failed", "{pack:#}");
    let packs: Vec<_> =
        std::fs::read_dir(site.data().join("packs")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(packs.iter().all(|name| name.to_string_lossy().starts_with('.')), "nothing is published: {packs:?}");
    assert_not_scored(&site, &detail["injection_name"]);
    world::until_clean(&site);
}

#[test]
fn a_fault_that_nobody_feels_is_refused_or_not_exposed_and_never_scored() {
    let (site, _daemon) = round::ts(&[]);
    // Nobody calls the service at all: there is nothing that could be touched.
    let idle =
        ["--service", "ts-news-service", "--capability", "http_response_replace_code", "--param", "status_code=503"];
    let refused = site.ctl(&round::submission(&idle, &["--seed", "7"]));
    assert_eq!(refused.code, 2, "{}{}", refused.out, refused.err);
    assert!(text(&refused.error()["code"]).starts_with("target."), "{}", refused.err);
    assert_eq!(site.ctl(&["run", "list"]).ok().json()["items"], serde_json::json!([]));

    // Its processor can be kept busy, and nobody feels that: the run goes its way and says so.
    let idle = ["--service", "ts-news-service", "--capability", "cpu_stress", "--param", "workers=1"];
    let idle = [&idle[..], &["--param", "load_pct=10", "--algorithm", "baro"]].concat();
    let detail = round::run(&site, &idle, &["--seed", "7"], 5);
    let seen = (text(&detail["state"]), text(&detail["reason"]), text(&detail["verdict"]));
    assert_eq!((seen.0.as_str(), seen.1.as_str(), seen.2.as_str()), ("Failed", "not_exposed", "not_exposed"));
    let pack = site.ctl(&["datapack", "get", &text(&detail["injection_name"])]).ok().json();
    assert_eq!((&pack["state"], &pack["exposed"]), (&"build_success".into(), &false.into()), "{pack:#}");
    assert_not_scored(&site, &detail["injection_name"]);
}
