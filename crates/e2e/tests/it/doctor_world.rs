//! `aegisctl doctor` on what surrounds an installation: its data folder, its datapacks, and what it knows of its systems. Each
//! failure is the only one that is found, and gone after the printed fix.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use testkit::process::{Daemon, Site, finish, until};
use testkit::{Database, Etcd};

use crate::disk::{Caller, mounted};
use crate::doctor::{run_as_printed, until_healthy, until_only};
use crate::round::{self, CONTROL, text};

/// The data of a system that was enabled went, so nothing is known of its targets.
#[test]
fn a_system_whose_targets_are_unknown_is_the_only_failure_and_disabled_by_the_fix() {
    let site = Site::new();
    let daemon = site.serve(&[]);
    for code in ["ts", "hs"] {
        site.ctl(&["system", "register", "--name", code]).ok();
    }
    until_healthy(&site, "the start");
    daemon.stop();
    let registration = round::seeds().join("../systems/hs/system.yaml");
    site.write("systems/hs/system.yaml", &fs::read_to_string(registration).unwrap());
    let daemon = site.serve(&["--systems", "systems"]);
    let check = until_only(&site, "systems.targets_known");
    assert_eq!(check["symptoms"], Value::from(vec![22]));
    run_as_printed(&site, &text(&check["fix"]));
    until_healthy(&site, "the system is disabled");
    daemon.stop();
}

#[test]
fn a_datapack_that_is_gone_is_the_only_failure_and_back_after_the_fix() {
    let (site, daemon) = round::ts(&[]);
    let run = round::run(&site, CONTROL, &["--seed", "8"], 0);
    until_healthy(&site, "the run");
    let folder = crate::pack::folder(&site, &run);
    let backup = site.path().join("backup");
    fs::create_dir(&backup).unwrap();
    fs::rename(&folder, backup.join(folder.file_name().unwrap())).unwrap();
    let check = until_only(&site, "datapacks.present");
    assert!(text(&check["observed"]).contains(&text(&run["injection_name"])), "{check:#}");
    let fix = text(&check["fix"]);
    assert!(fix.contains("BACKUP") && check["repair"] == "person", "{check:#}");
    run_as_printed(&site, &fix.replace("BACKUP", backup.to_str().unwrap()));
    until_healthy(&site, &fix);
    site.ctl(&["datapack", "verify", &text(&run["injection_name"])]).ok();
    daemon.stop();
}

/// State is elsewhere, so that the folder alone is full, or cannot be written.
#[test]
fn a_data_folder_that_cannot_be_written_is_the_only_failure() {
    let test = "a_data_folder_that_cannot_be_written_is_the_only_failure";
    let (Some(database), Some(etcd)) = (Database::mariadb(test), Etcd::shared(test)) else { return };
    let site = Site::new();
    let mut serve = site.serve_command();
    serve.args(["--store", &database.url, "--settings", &etcd.url]);
    let Some(mut command) = mounted(test, &site.data(), "size=8m", &serve) else { return };
    let daemon = Daemon::start(&mut command, &site).through_its_eyes().ready();
    let caller = Caller { site: &site, server: daemon.address().to_owned(), token: daemon.token() };
    caller.ctl(&["system", "register", "--name", "ts"]).ok();
    let found = |what: &str, ids: &[&str]| {
        until(what, Duration::from_secs(25), || {
            let checks = caller.ctl(&["doctor"]).json()["checks"].as_array().unwrap().clone();
            let odd: Vec<Value> = checks.into_iter().filter(|check| check["fix"].is_string()).collect();
            let same = odd.len() == ids.len() && odd.iter().zip(ids).all(|(check, id)| check["id"] == *id);
            if !same {
                println!("{odd:#?}");
            }
            same.then(|| odd.first().map_or(Value::Null, |check| check.clone()))
        })
    };
    let inside = |script: &str| {
        let pid = daemon.pid().to_string();
        finish(Command::new("nsenter").args(["-t", &pid, "-m", "sh", "-c", script]).current_dir("/"))
    };
    found("everything is in order", &[]);

    let data = site.data();
    let ballast = data.join("ballast");
    inside(&format!("dd if=/dev/zero of={} bs=64k", ballast.display()));
    let check = found("the folder is full", &["data.writable"]);
    let told = inside(&text(&check["fix"])).ok();
    assert!(told.out.contains(&data.display().to_string()), "what takes the space: {}", told.out);
    inside(&format!("rm {}", ballast.display())).ok();
    found("there is space again", &[]);

    // Files of it that are open for writing keep the mount itself as it is, so another one lies above it.
    inside(&format!("mount --bind {0} {0} && mount -o remount,bind,ro {0}", data.display())).ok();
    let check = found("the folder is read-only", &["data.writable"]);
    inside(&text(&check["fix"])).ok();
    found("it can be written again", &[]);
    daemon.stop();
}
