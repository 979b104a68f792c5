//! The kill switch: every live fault is recovered at once, none starts, and both are told.

use std::time::Duration;

use testkit::process::until;

use crate::round::{self, CONTROL, FAULT, follow, submit, text};
use crate::world;

#[test]
fn a_live_fault_is_recovered_and_none_starts_until_the_switch_is_off() {
    let (site, _daemon) = round::ts(&[]);
    // An hour's window, so that the fault is on for a while.
    let run = submit(&site, FAULT, &["--seed", "7", "--abnormal", "3600s", "--load", "50"]);
    until("the fault is on", Duration::from_secs(90), || {
        world::journal(&site).iter().any(|entry| entry.effect == "fault_started").then_some(())
    });
    let receipt = site.ctl(&["kill-switch", "on", "--reason", "a drill"]).ok();
    let recovered = receipt.json()["recovered"].clone();
    assert_eq!(recovered.as_array().unwrap().len(), 1, "{}{}", receipt.out, receipt.err);
    assert_eq!((&recovered[0]["run"], &recovered[0]["namespace"]), (&run.as_str().into(), &"ts0".into()));
    let ended = follow(&site, &run, 5);
    assert_eq!((text(&ended["state"]), text(&ended["reason"])), ("Failed".into(), "fault.kill_switch".into()));
    assert!(text(&ended["message"]).contains("kill switch"), "{ended:#}");
    let removed = ended["recovery"]["removed"].as_array().unwrap();
    assert_eq!(
        (removed.len(), &removed[0]["name"]),
        (1, &recovered[0]["name"]),
        "the run keeps the receipt: {ended:#}"
    );
    world::until_clean(&site);
    let journal = world::journal(&site);
    world::assert_each_effect_once(&journal, 1);
    let time = |effect: &str| journal.iter().find(|entry| entry.effect == effect).unwrap().at;
    assert!(time("fault_ended") - time("fault_started") < Duration::from_secs(3600), "{journal:#?}");

    let refused = site.ctl(&round::submission(FAULT, &[]));
    assert_eq!((refused.code, &refused.error()["code"]), (8, &"fault.kill_switch".into()));
    round::run(&site, CONTROL, &["--seed", "7"], 0);
    assert_eq!(site.ctl(&["kill-switch", "status"]).ok().json()["reason"], "a drill");
    assert_eq!(site.ctl(&["kill-switch", "off"]).ok().json()["engaged"], false);
    site.ctl(&["run", "retry", &run[..8]]).ok();
    site.ctl(&["run", "cancel", &run[..8], "--yes"]).ok();
    follow(&site, &run, 5);
    // Runs go on: faults are injected again.
    round::run(&site, FAULT, &["--seed", "9"], 0);
}

/// A fault whose run is in no store any more: nobody but the switch will ever end it.
#[test]
fn a_fault_that_no_run_answers_for_is_swept() {
    let (site, daemon) = round::ts(&[]);
    submit(&site, FAULT, &["--seed", "7", "--abnormal", "3600s", "--load", "50"]);
    until("the fault is on", Duration::from_secs(90), || {
        world::journal(&site).iter().any(|entry| entry.effect == "fault_started").then_some(())
    });
    daemon.kill();
    for entry in std::fs::read_dir(site.data()).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().starts_with("aegis.db") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let _daemon = site.serve(&[]);
    let orphans = || {
        let report = site.ctl(&["doctor", "--only", "faults.owned"]).json();
        (text(&report["checks"][0]["state"]), text(&report["checks"][0]["observed"]))
    };
    let (state, observed) = orphans();
    assert!(state == "failed" && observed.ends_with("which has ended"), "{observed}");
    let receipt = site.ctl(&["kill-switch", "on", "--reason", "a drill"]).ok().json();
    assert_eq!(receipt["recovered"].as_array().unwrap().len(), 1, "{receipt:#}");
    assert_eq!(site.ctl(&["kill-switch", "status"]).ok().json()["active_faults"], serde_json::json!([]));
    assert_eq!(world::journal(&site).iter().filter(|entry| entry.effect == "fault_ended").count(), 1);
    assert_eq!(orphans().0, "ok");
    // The slot that the fault was in can be used again.
    round::register(&site);
    site.ctl(&["kill-switch", "off"]).ok();
    round::run(&site, FAULT, &["--seed", "9"], 0);
}
