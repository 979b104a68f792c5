//! Files of the outside world that are damaged while a run is on its way: the run ends with the file's name, or waits and
//! says for what.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use testkit::process::until;

use crate::round::{self, FAULT, follow, submit, text};
use crate::world;

/// A run that is on its way for long enough to be disturbed.
const SLOW: &[&str] = &["--seed", "7", "--abnormal", "240s", "--load", "20"];

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

#[test]
fn a_damaged_segment_of_telemetry_makes_the_pack_invalid() {
    let (site, _daemon) = round::ts(&[]);
    let run = submit(&site, FAULT, SLOW);
    let segment = until("telemetry is on disk", Duration::from_secs(60), || {
        let mut found = Vec::new();
        files(&site.data().join("telemetry"), &mut found);
        found.retain(|path| {
            path.extension().is_some_and(|end| end == "parquet")
                && path.metadata().is_ok_and(|file| file.len() > 50_000)
        });
        let started = world::journal(&site).iter().any(|entry| entry.effect == "fault_started");
        started.then(|| found.into_iter().max()).flatten()
    });
    let mut bytes = std::fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 4096].fill(0x5a);
    std::fs::write(&segment, bytes).unwrap();
    let ended = follow(&site, &run, 5);
    println!("{}: {}", ended["reason"], ended["message"]);
    assert_eq!((&ended["state"], &ended["verdict"]), (&json!("Failed"), &json!("invalid")), "{ended:#}");
    assert_eq!(text(&ended["reason"]), "telemetry.segment_corrupt", "{ended:#}");
    let name = segment.file_name().unwrap().to_string_lossy().into_owned();
    assert!(text(&ended["message"]).contains(&name), "the file is named: {ended:#}");
    let pack = site.ctl(&["datapack", "get", &text(&ended["injection_name"])]).ok().json();
    assert_eq!(pack["state"], "build_failed", "{pack:#}");
    world::until_clean(&site);
    // The same telemetry would end in the same way; a new simulation replaces it.
    site.ctl(&["run", "retry", &run]).ok();
    assert_eq!(follow(&site, &run, 0)["verdict"], "anomaly");
}

#[test]
fn a_damaged_state_of_a_slot_is_named_and_the_run_ends_when_it_is_put_right() {
    let (site, _daemon) = round::ts(&[]);
    let run = submit(&site, FAULT, &[SLOW, &["--slot", "0"]].concat());
    until("the fault is on", Duration::from_secs(60), || {
        world::journal(&site).iter().any(|entry| entry.effect == "fault_started").then_some(())
    });
    let file = site.data().join("sim/slots/ts0.json");
    // The simulation replaces the file with each step; the damage has to stand.
    until("the damage stands", Duration::from_secs(60), || {
        std::fs::write(&file, b"{\"format\": 1, \"slot\":").unwrap();
        let why = site.ctl(&["run", "why", &run]).json();
        why.to_string().contains("cluster.state_damaged").then_some(())
    });
    let why = site.ctl(&["run", "why", &run]).ok().json();
    println!("{why:#}");
    assert!(why.to_string().contains("ts0.json"), "the file is named: {why:#}");
    // Whether the fault is still there cannot be known, so the run does not end and says what to do. Without the file either the
    // living simulation writes it again and the run goes on, or what was installed is gone with it.
    std::fs::remove_file(&file).unwrap();
    let watch = site.ctl(&["run", "watch", &run, "--timeout", "150s"]);
    let ended = site.ctl(&["run", "get", &run]).ok().json();
    match watch.code {
        0 => {
            let pack = text(&ended["injection_name"]);
            assert_eq!(site.ctl(&["datapack", "verify", &pack]).ok().json()["ok"], true, "{ended:#}");
            let started = world::journal(&site).iter().filter(|entry| entry.effect == "fault_started").count();
            assert_eq!((started, &ended["verdict"]), (1, &json!("anomaly")), "as if nothing had happened: {ended:#}");
        }
        code => assert_eq!((code, text(&ended["reason"]).as_str()), (5, "release.absent"), "{ended:#}"),
    }
    world::until_clean(&site);
}
