//! A data folder that cannot be written: read-only, full from the start, full on the way.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use testkit::process::{Daemon, Ran, Site, finish, until};

use crate::round::{self, FAULT, submission, text};

/// A command in a mount namespace of its own, in which a file system in memory lies on `folder`; nothing when this
/// machine does not allow that, which is listed.
pub fn mounted(test: &str, folder: &Path, options: &str, command: &Command) -> Option<Command> {
    std::fs::create_dir_all(folder).unwrap();
    let probe = finish(Command::new("unshare").args(["-m", "mount", "-t", "tmpfs", "tmpfs"]).arg(folder));
    if probe.code != 0 {
        testkit::not_run(test, &format!("mounts in a namespace are not allowed here: {}", probe.err.trim()));
        return None;
    }
    let script = format!("mount -t tmpfs -o {options} tmpfs \"$0\" && exec \"$@\"");
    let mut inside = Command::new("unshare");
    inside.args(["-m", "sh", "-c", &script]).arg(folder).arg(command.get_program()).args(command.get_args());
    inside.env_clear().envs(command.get_envs().filter_map(|(key, value)| Some((key, value?)))).current_dir("/");
    Some(inside)
}

#[test]
fn a_read_only_or_full_folder_is_named() {
    let test = "a read-only or full data folder";
    for (options, exit, code) in [("ro", 4, "data.read_only"), ("size=64k", 10, "data.full")] {
        let site = Site::new();
        let Some(mut command) = mounted(test, &site.data(), options, &site.serve_command()) else { return };
        let ran = finish(&mut command);
        assert_eq!(ran.code, exit, "{}{}", ran.out, ran.err);
        assert!(ran.err.contains(&format!("[{code}]")) && ran.err.contains("\n  fix "), "{}", ran.err);
    }
}

/// Calls of `aegisctl` to a daemon whose token file only it can see.
pub struct Caller<'a> {
    pub site: &'a Site,
    pub server: String,
    pub token: String,
}

impl Caller<'_> {
    pub fn ctl(&self, arguments: &[&str]) -> Ran {
        self.site.ctl(&[&["--server", &self.server, "--token", &self.token][..], arguments].concat())
    }

    fn run(&self, id: &str) -> Value {
        self.ctl(&["run", "get", id]).ok().json()
    }
}

#[test]
fn a_disk_that_fills_up_is_told_and_the_run_goes_on_when_there_is_space() {
    let test = "a disk that fills up";
    let site = Site::new();
    let Some(mut command) = mounted(test, &site.data(), "size=8m", &site.serve_command()) else { return };
    let daemon = Daemon::start(&mut command, &site).through_its_eyes().ready();
    let caller = Caller { site: &site, server: daemon.address().to_owned(), token: daemon.token() };
    let seeds = round::seeds();
    let register = ["system", "register", "--from-seed", seeds.to_str().unwrap(), "--env", "demo", "--name", "ts"];
    caller.ctl(&register).ok();
    caller.ctl(&["system", "enable", "ts"]).ok();
    let reply = caller.ctl(&submission(FAULT, &["--seed", "7"])).ok().json();
    let run = text(&reply["items"][0]["trace_id"]);

    let why = until("it is told that the disk is full", Duration::from_secs(60), || {
        let state = caller.run(&run)["state"].take();
        assert_ne!(state, "Completed", "the disk did not fill up");
        let why = caller.ctl(&["run", "why", &run]).ok().json().to_string();
        why.contains("is full").then_some(why)
    });
    println!("{why}");
    let pid = daemon.pid().to_string();
    let grow = ["-t", &pid, "-m", "mount", "-o", "remount,size=256m"];
    let grown = finish(Command::new("nsenter").args(grow).arg(site.data()));
    assert_eq!(grown.code, 0, "{}", grown.err);
    if caller.run(&run)["state"] == "Failed" {
        caller.ctl(&["run", "retry", &run]).ok();
    }
    let watch = caller.ctl(&["run", "watch", &run, "--timeout", "150s"]);
    assert_eq!(watch.code, 0, "{}{}", watch.out, watch.err);
    let name = text(&caller.run(&run)["injection_name"]);
    assert_eq!(caller.ctl(&["datapack", "verify", &name]).ok().json()["ok"], true);
    daemon.stop();
}
