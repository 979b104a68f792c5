//! Ending a run on its way, and repeating one that ended badly.

use std::time::Duration;

use testkit::process::until;

use crate::batch::live_faults;
use crate::round::{self, FAULT, follow, submit, text};
use crate::{pack, world};

#[test]
fn a_run_is_cancelled_with_its_fault_and_repeated_to_the_same_bytes() {
    let (site, _daemon) = round::ts(&[]);
    let expect = pack::parquet(&pack::folder(&site, &round::run(&site, FAULT, &["--seed", "7"], 0)));
    world::until_clean(&site);
    let before = world::journal(&site).len();

    // Long windows, so that the fault is on for a while.
    let run = submit(&site, FAULT, &["--seed", "7", "--abnormal", "600s", "--load", "50"]);
    until("the fault is on", Duration::from_secs(60), || {
        world::journal(&site)[before..].iter().any(|entry| entry.effect == "fault_started").then_some(())
    });
    let live = live_faults(&site, &text(&round::get(&site, &run)["namespace"]));
    let receipt = site.ctl(&["run", "cancel", &run, "--yes"]).ok().json();
    assert_eq!(receipt["deleted_podchaos"], serde_json::json!(live), "{receipt:#}");
    assert_eq!(live.len(), 1);
    let cancelled = follow(&site, &run, 5);
    let removed = cancelled["recovery"]["removed"].as_array().unwrap();
    assert_eq!(removed.iter().map(|fault| text(&fault["name"])).collect::<Vec<_>>(), live, "{cancelled:#}");
    let again = site.ctl(&["run", "cancel", &run, "--yes"]).ok().json();
    assert_eq!(again["deleted_podchaos"], receipt["deleted_podchaos"], "the same receipt again: {again:#}");
    assert_eq!(text(&cancelled["state"]), "Cancelled", "{cancelled:#}");
    assert!(cancelled["verdict"].is_null(), "{cancelled:#}");
    world::until_clean(&site);
    let journal = world::journal(&site);
    world::assert_each_effect_once(&journal[before..], 1);
    let time = |effect: &str| journal[before..].iter().find(|entry| entry.effect == effect).unwrap().at;
    let lasted = time("fault_ended") - time("fault_started");
    assert!(lasted < Duration::from_secs(600), "the fault ended with the run and not with its window: {lasted:?}");
    assert_eq!(site.ctl(&["run", "retry", &run, "--from", "RunAlgorithm"]).error()["code"], "run.step_unknown");

    let run = submit(&site, FAULT, &["--seed", "7"]);
    site.ctl(&["run", "cancel", &run, "--yes"]).ok();
    assert_eq!(text(&follow(&site, &run, 5)["state"]), "Cancelled");
    site.ctl(&["run", "retry", &run]).ok();
    let repeated = follow(&site, &run, 0);
    assert_eq!(pack::parquet(&pack::folder(&site, &repeated)), expect);
    let refused = site.ctl(&["run", "retry", &run]);
    assert_eq!((refused.code, &refused.error()["code"]), (8, &"run.not_retryable".into()));
    world::until_clean(&site);
}
