//! Children that are killed, run out of memory or get too little data: each ends under its own name.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::process::{Daemon, Site};

use crate::round::{self, FAULT, follow, submit, text};
use crate::world;

/// Kills children whose order has this word while `work` goes on, at most so many; how many it were.
fn killing<T>(daemon: &Daemon, word: &str, most: usize, work: impl FnOnce() -> T) -> (T, usize) {
    let (ended, killed) = (AtomicBool::new(false), AtomicUsize::new(0));
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                for pid in round::executing(daemon.pid()) {
                    let is_meant = order_of(pid).is_some_and(|order| order.contains(word));
                    if is_meant && killed.load(Ordering::Relaxed) < most {
                        killed.fetch_add(1, Ordering::Relaxed);
                        round::signal(pid, "-9");
                    }
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        ended.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    (done, killed.into_inner())
}

/// The order of a child, if it is still there.
fn order_of(pid: u32) -> Option<String> {
    let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
    let file = command.split('\0').find(|argument| argument.ends_with("order.json"))?;
    std::fs::read_to_string(file).ok()
}

/// The execution of an algorithm on a run's pack.
fn execution(site: &Site, run: &Value, algorithm: &str) -> Value {
    let executions = site.ctl(&["execution", "list", "--all"]).ok().json();
    let ours = |execution: &&Value| {
        execution["datapack_name"] == run["injection_name"] && execution["algorithm_name"] == algorithm
    };
    executions["items"].as_array().unwrap().iter().find(ours).unwrap_or_else(|| panic!("{executions:#}")).clone()
}

#[test]
fn an_algorithm_that_is_killed_is_started_again_and_counts_as_a_miss_in_the_end() {
    let (site, daemon) = round::ts(&[]);
    let expect = round::run(&site, FAULT, &["--seed", "7"], 0);
    let answer = round::ranking(&site, &expect["injection_name"], "baro");

    let run = submit(&site, FAULT, &["--seed", "7"]);
    let (once, killed) = killing(&daemon, "\"rank\"", 1, || follow(&site, &run, 0));
    assert_eq!((killed, &once["verdict"]), (1, &json!("anomaly")), "{once:#}");
    assert_eq!(round::ranking(&site, &once["injection_name"], "baro"), answer, "as if nothing had happened");

    let run = submit(&site, FAULT, &["--seed", "8"]);
    let (always, killed) = killing(&daemon, "\"rank\"", usize::MAX, || follow(&site, &run, 0));
    assert!(killed >= 3, "{killed}");
    assert_eq!((&always["state"], &always["verdict"]), (&json!("Completed"), &json!("anomaly")), "{always:#}");
    let failed = execution(&site, &always, "baro");
    assert_eq!((&failed["state"], &failed["reason"]), (&json!("Failed"), &json!("algorithm.killed")), "{failed:#}");
    assert!(text(&failed["message"]).contains("signal 9, 3 times"), "{failed:#}");
    let board = site.ctl(&["board"]).ok().json();
    let row = board["rows"].as_array().unwrap().iter().find(|row| row["row"] == "ranking").unwrap();
    // Two seeds at one point are two packs; the third run repeats the first one's seed.
    assert_eq!((&row["packs"], &row["failures"], &row["missing"]), (&json!(2), &json!(1), &json!(0)), "{row:#}");
    world::until_clean(&site);
}

#[test]
fn a_child_without_memory_says_so_under_its_own_code() {
    for mib in ["8", "24", "64", "150"] {
        let site = Site::new();
        let config = site.write("aegis.toml", &format!("algorithm_memory_mib = {mib}\n"));
        let _daemon = site.serve(&["--config", config.to_str().unwrap()]);
        round::register(&site);
        let run = round::run(&site, FAULT, &["--seed", "7"], 5);
        println!("{mib} MiB: {}", run["message"]);
        let seen = (text(&run["reason"]), text(&run["verdict"]));
        assert_eq!(seen, ("algorithm.out_of_memory".into(), "detector_failed".into()), "{mib} MiB: {run:#}");
        assert!(text(&run["message"]).contains("algorithm_memory_mib"), "what to do is said: {run:#}");
        world::until_clean(&site);
    }
}

#[test]
fn windows_that_hold_too_few_points_are_warned_of_refused_when_strict_and_answered_as_such() {
    let (site, _daemon) = round::ts(&[]);
    // Thirty seconds are enough by the clock and hold two points of a metric that is collected every 15 s.
    let short = ["--seed", "7", "--normal", "30s", "--abnormal", "30s"];
    let strict = site.ctl(&round::submission(FAULT, &[&short[..], &["--strict"]].concat()));
    assert_eq!((strict.code, &strict.error()["code"]), (2, &json!("algorithm.insufficient_data")), "{}", strict.err);
    assert!(text(&strict.error()["expected"]).contains("collected every 15 s"), "{}", strict.err);
    let reply = site.ctl(&round::submission(FAULT, &short)).ok().json();
    assert!(reply["notes"].to_string().contains("algorithm baro"), "{reply:#}");
    let run = follow(&site, &text(&reply["items"][0]["trace_id"]), 0);
    // The algorithm's own problem under its own code, not the message of a process that failed.
    let failed = execution(&site, &run, "baro");
    assert_eq!((&failed["state"], &failed["reason"]), (&json!("Failed"), &json!("algorithm.insufficient_data")));
}
