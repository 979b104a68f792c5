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
}
