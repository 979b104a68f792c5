//! A folder with a seed that the server watches: what its files would change is shown, or done where that was asked for.

use std::time::Duration;

use serde_json::Value;
use testkit::process::{Daemon, Site, until};

use crate::round::{self, text};

const SOON: Duration = Duration::from_secs(20);
const COUNT: &str = "injection.system.ts.count";

fn seed(count: &str) -> String {
    let text = std::fs::read_to_string(round::seeds().join("demo/data.yaml")).unwrap();
    text.replacen("default_value: '4'", &format!("default_value: '{count}'"), 1)
}

fn serve(site: &Site, auto: &str) -> Daemon {
    let folder = site.path().join("seeds/prod");
    let config = format!("[seed]\nfolder = \"{}\"\nauto = \"{auto}\"\n", folder.display());
    let file = site.write("aegis.toml", &config);
    site.serve(&["--config", file.to_str().unwrap()])
}

/// What is shown, once it is as `holds` says.
#[track_caller]
fn shown(site: &Site, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    until(what, SOON, || {
        let ran = site.ctl(&["seed", "watched"]);
        let seen = (ran.code == 0 || ran.code == 5).then(|| ran.json())?;
        holds(&seen).then_some(seen)
    })
}

fn count(site: &Site) -> String {
    text(&site.ctl(&["settings", "get", COUNT]).ok().json()["value"])
}

#[test]
fn a_watched_seed_is_planned_or_applied_and_never_takes_anything_away() {
    let site = Site::new();
    assert_eq!(text(&site_without(&site)["code"]), "seed.not_watched");
    site.write("seeds/prod/data.yaml", &seed("4"));
    let daemon = serve(&site, "plan");
    let planned =
        shown(&site, "the folder is read", |seen| seen["changes"].as_array().is_some_and(|all| !all.is_empty()));
    assert!(planned["problem"].is_null() && planned["applied"].is_null(), "{planned:#}");
    assert_eq!(site.ctl(&["system", "list"]).ok().json()["items"], Value::Array(vec![]), "it is told and not done");
    site.ctl(&["seed", "apply", "seeds/prod", "--yes"]).ok();
    let nothing = site.ctl(&["seed", "watched"]).ok().json();
    assert_eq!(nothing["changes"], Value::Array(vec![]), "what somebody did by hand is seen: {nothing:#}");
    daemon.stop();

    let daemon = serve(&site, "apply");
    shown(&site, "nothing is left", |seen| seen["changes"] == Value::Array(vec![]) && seen["problem"].is_null());
    assert_eq!(
        site.ctl(&["seed", "history"]).ok().json().as_array().unwrap().len(),
        1,
        "the same again is no revision"
    );
    site.write("seeds/prod/data.yaml", &seed("5"));
    until("a change of the files is live", SOON, || (count(&site) == "5").then_some(()));
    let applied = shown(&site, "it is told", |seen| !seen["applied"].is_null());
    let history = site.ctl(&["seed", "history"]).ok().json();
    assert_eq!((&history[0]["id"], text(&history[0]["by"])), (&applied["applied"], "seed.auto".to_owned()));

    // A fault changes nothing, and is gone with the next right files.
    site.write("seeds/prod/data.yaml", &seed("6").replace("default_value: '6'", "default_value: 'many'"));
    let wrong = shown(&site, "the fault is told", |seen| !seen["problem"].is_null());
    assert!(text(&wrong["problem"]).contains("data.yaml") && wrong["changes"].is_null(), "{wrong:#}");
    assert_eq!(count(&site), "5");

    // An operator's value waits for somebody's word.
    site.ctl(&["settings", "set", COUNT, "7"]).ok();
    site.write("seeds/prod/data.yaml", &seed("6"));
    let left = shown(&site, "the conflict is left", |seen| {
        seen["problem"].is_null() && seen["changes"].as_array().is_some_and(|all| all.len() == 1)
    });
    assert_eq!((text(&left["changes"][0]["kind"]), count(&site)), ("conflict".into(), "7".into()));
    assert_eq!(site.ctl(&["seed", "watched"]).code, 5);
    site.ctl(&["seed", "apply", "seeds/prod", "--yes", "--overwrite-operator"]).ok();
    assert_eq!(count(&site), "6");
    std::fs::remove_file(site.path().join("seeds/prod/data.yaml")).unwrap();
    shown(&site, "a seed that is gone is told", |seen| !seen["problem"].is_null());
    site.ctl(&["system", "show", "ts"]).ok();
    assert_eq!(count(&site), "6", "and takes nothing away");
    daemon.stop();
}

/// What is said where no folder is watched.
fn site_without(site: &Site) -> Value {
    let daemon = site.serve(&[]);
    let refused = site.ctl(&["seed", "watched"]);
    daemon.stop();
    refused.error()
}
