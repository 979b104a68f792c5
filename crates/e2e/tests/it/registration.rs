//! Registration and settings of a whole installation: killed between any two writes, on a real MariaDB and a real etcd, with
//! two daemons, and with other tools at work in etcd.

use std::time::{Duration, Instant};

use serde_json::Value;
use store::killpoint::SETTINGS_POINTS;
use testkit::process::{Daemon, Ran, Site, finish, until};
use testkit::{Database, Etcd};

use crate::round::{self, FAULT, text};

const SOON: Duration = Duration::from_secs(20);
const COUNT: &str = "injection.system.ts.count";
const AT_COUNT: &str = "global/injection.system.ts.count";

/// Where an installation keeps its state: in its data folder, or in servers.
struct Outside {
    site: Site,
    servers: Option<(Database, Etcd)>,
}

impl Outside {
    fn embedded() -> Self {
        Self { site: Site::new(), servers: None }
    }

    /// `None` where MariaDB or etcd cannot be had.
    fn servers(test: &str) -> Option<Self> {
        let servers = Database::mariadb(test).zip(Etcd::shared(test))?;
        Some(Self { site: Site::new(), servers: Some(servers) })
    }

    fn etcd(&self) -> &Etcd {
        &self.servers.as_ref().expect("an installation with servers").1
    }

    /// What the daemon is told about them.
    fn arguments(&self) -> Vec<&str> {
        let Some((database, etcd)) = &self.servers else { return Vec::new() };
        vec!["--store", &database.url, "--settings", &etcd.url]
    }

    fn serve(&self) -> Daemon {
        self.site.serve(&self.arguments())
    }

    fn serve_until(&self, point: &str) -> Daemon {
        let mut command = self.site.serve_command();
        command.args(self.arguments()).env("AEGIS_KILL_POINT", point);
        Daemon::start(&mut command, &self.site).ready()
    }

    fn ctl(&self, arguments: &[&str]) -> Ran {
        self.site.ctl(arguments)
    }

    /// Whether the system is there in all of its layers (`true`) or in none; anything in between fails.
    #[track_caller]
    fn is_whole(&self, what: &str) -> bool {
        let systems = self.ctl(&["system", "list"]).ok().json();
        let systems = systems["items"].as_array().unwrap();
        let settings = self.ctl(&["settings", "list", "--prefix", "injection.system.ts.", "--all"]).ok().json();
        let declared = settings["items"].as_array().unwrap().len();
        let containers = self.ctl(&["status"]).ok().json();
        let published = self.servers.as_ref().map(|(_, etcd)| etcd.paths("global/injection.system.ts.").len());
        let findings = self.ctl(&["settings", "status"]).ok().json()["findings"].clone();
        assert_eq!(findings, Value::Array(Vec::new()), "{what}");
        if systems.is_empty() {
            assert_eq!((declared, published.unwrap_or(0)), (0, 0), "{what}: {containers:#}");
            return false;
        }
        assert_eq!((declared, published.unwrap_or(8)), (8, 8), "{what}");
        for layer in systems[0]["layers"].as_array().unwrap() {
            let state = text(&layer["state"]);
            assert!(state == "ok" || layer["layer"] == "chart", "{what}: {layer:#}");
        }
        true
    }
}

/// Kills at each point of a registration and of an unregistration; after the restart it is completed or undone.
fn killed_at_each_point(outside: &Outside, points: &[&str]) {
    let register = &["system", "register", "--name", "ts"][..];
    let unregister = &["system", "unregister", "--name", "ts", "--yes"][..];
    for (verb, was_there) in [(register, false), (unregister, true)] {
        for point in points {
            let daemon = outside.serve_until(point);
            let reply = outside.ctl(verb);
            assert_eq!((daemon.death(SOON), reply.code), (-9, 10), "{point}: {}", reply.err);
            let daemon = outside.serve();
            let what = format!("{verb:?} killed at {point}");
            until("the first comparison of both sides", SOON, || {
                let status = outside.ctl(&["settings", "status"]).ok().json();
                let is_compared = outside.servers.is_none() || status["source_revision"].is_i64();
                is_compared.then_some(())
            });
            let is_there = outside.is_whole(&what);
            let is_done = point.ends_with("after-commit");
            assert_eq!(is_there, if is_done { !was_there } else { was_there }, "{what}");
            // The next kill point starts from the same state again.
            if is_there != was_there {
                outside.ctl(if was_there { register } else { unregister }).ok();
            }
            daemon.stop();
        }
        if !was_there {
            let daemon = outside.serve();
            outside.ctl(register).ok();
            assert!(outside.is_whole("registered"));
            daemon.stop();
        }
    }
}

#[test]
fn a_registration_killed_between_two_writes_is_completed_or_undone_in_the_store_alone() {
    let in_store: Vec<&str> = SETTINGS_POINTS.iter().copied().filter(|point| point.ends_with("commit")).collect();
    killed_at_each_point(&Outside::embedded(), &in_store);
}

#[test]
fn a_registration_killed_between_two_writes_is_completed_or_undone_in_mariadb_and_etcd() {
    let test = "a_registration_killed_between_two_writes_is_completed_or_undone_in_mariadb_and_etcd";
    let Some(outside) = Outside::servers(test) else { return };
    killed_at_each_point(&outside, SETTINGS_POINTS);
}

/// Kills at each point of a seed's application; after the restart the same command brings it to its end at once.
fn an_application_killed_at_each_point(outside: &Outside, points: &[&str]) {
    let seed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../seeds/demo");
    for point in points {
        let daemon = outside.serve_until(point);
        let reply = outside.ctl(&["seed", "apply", seed, "--yes"]);
        assert_eq!((daemon.death(SOON), reply.code), (-9, 10), "{point}: {}", reply.err);
        let daemon = outside.serve();
        let again = outside.ctl(&["seed", "apply", seed, "--yes", "--wait"]).ok().json();
        assert_eq!(again["proof"]["complete"], true, "{point}: {again:#}");
        assert_eq!(outside.ctl(&["seed", "plan", seed]).code, 0, "{point}: nothing is left to be done");
        let applied = outside.ctl(&["seed", "history"]).ok().json();
        let applied = applied["items"].as_array().or_else(|| applied.as_array()).unwrap().clone();
        assert!(applied[0]["state"] == "applied", "{point}: {applied:#?}");
        assert!(outside.is_whole(point));
        outside.ctl(&["system", "unregister", "--name", "ts", "--yes"]).ok();
        daemon.stop();
    }
}

#[test]
fn a_seed_whose_application_is_killed_is_applied_by_the_same_command() {
    let in_store: Vec<&str> = SETTINGS_POINTS.iter().copied().filter(|point| point.ends_with("commit")).collect();
    an_application_killed_at_each_point(&Outside::embedded(), &in_store);
}

#[test]
fn a_seed_whose_application_is_killed_is_applied_by_the_same_command_in_mariadb_and_etcd() {
    let test = "a_seed_whose_application_is_killed_is_applied_by_the_same_command_in_mariadb_and_etcd";
    let Some(outside) = Outside::servers(test) else { return };
    an_application_killed_at_each_point(&outside, SETTINGS_POINTS);
}

#[test]
fn a_whole_run_on_mariadb_and_etcd_and_every_process_follows_a_change_there() {
    let test = "a_whole_run_on_mariadb_and_etcd_and_every_process_follows_a_change_there";
    let Some(outside) = Outside::servers(test) else { return };
    let daemon = outside.serve();
    let etcd = outside.etcd();
    round::register(&outside.site);
    let run = round::run(&outside.site, FAULT, &["--seed", "7"], 0);
    assert_eq!(run["state"], "Completed", "{run:#}");

    // A second daemon on the same servers sees what the first one has, and what is changed in etcd.
    let other = Site::new();
    let second = other.serve(&outside.arguments());
    assert_eq!(other.ctl(&["system", "show", "ts"]).ok().json()["name"], "ts");
    etcd.put(AT_COUNT, "6");
    let start = Instant::now();
    for site in [&outside.site, &other] {
        until("the change is in force", SOON, || {
            let setting = site.ctl(&["settings", "get", COUNT]).ok().json();
            (setting["value"] == "6" && setting["owner"] == "operator").then_some(())
        });
    }
    let revision = until("both processes say that they apply it", SOON, || {
        let status = other.ctl(&["settings", "status"]).ok().json();
        let newest = status["revision"].as_i64().unwrap();
        let processes = status["processes"].as_array().unwrap().clone();
        (processes.len() == 2 && processes.iter().all(|process| process["revision"] == newest)).then_some(newest)
    });
    println!("applied by two processes after {:?}, the programs' starts included", start.elapsed());
    assert_eq!(other.ctl(&["system", "show", "ts"]).ok().json()["count"], 6);

    // The history of the key, a roll back, and a watch that resumes.
    let history = other.ctl(&["settings", "history", COUNT]).ok().json();
    assert_eq!((history[0]["value"].as_str(), history[0]["previous"].as_str()), (Some("6"), Some("4")), "{history:#}");
    let first = history[1]["revision"].to_string();
    other.ctl(&["settings", "rollback", COUNT, "--to", &first]).ok();
    assert_eq!(etcd.get(AT_COUNT).as_deref(), Some("4"), "what is set here is published");
    let after = revision.to_string();
    let seen = other.ctl(&["settings", "watch", "--after", &after, "--count", "1"]).ok();
    assert_eq!(seen.json()["value"], "4", "{}", seen.out);

    // Wrong values are told with their place and the fix, and change nothing.
    etcd.put(AT_COUNT, "lots");
    let wrong = until("the wrong value is told", SOON, || {
        let layers = outside.ctl(&["system", "show", "ts"]).ok().json()["layers"].clone();
        let config = layers.as_array().unwrap().iter().find(|layer| layer["layer"] == "config").unwrap().clone();
        (config["state"] == "wrong").then_some(config)
    });
    assert!(text(&wrong["observed"]).contains("lots") && text(&wrong["fix"]).contains("settings set"), "{wrong:#}");
    assert!(text(&wrong["source"]).contains("etcd://"), "{wrong:#}");
    assert_eq!(outside.ctl(&["settings", "set", COUNT, "many"]).error()["code"], "setting.wrong_type");
    outside.ctl(&["settings", "set", COUNT, "5"]).ok();
    assert_eq!(etcd.get(AT_COUNT).as_deref(), Some("5"));
    second.stop();

    // Changed, and deleted, while nobody was there.
    daemon.stop();
    etcd.put(AT_COUNT, "7");
    etcd.delete("global/injection.system.ts.display_name");
    let daemon = outside.serve();
    until("what happened meanwhile is in force", SOON, || {
        let value = outside.ctl(&["settings", "get", COUNT]).ok().json()["value"].clone();
        let back = etcd.get("global/injection.system.ts.display_name");
        (value == "7" && back.as_deref() == Some("Train Ticket")).then_some(())
    });
    daemon.stop();
}

#[test]
fn two_daemons_start_at_once_on_a_fresh_database() {
    let test = "two_daemons_start_at_once_on_a_fresh_database";
    for _ in 0..3 {
        let Some(outside) = Outside::servers(test) else { return };
        let other = Site::new();
        let one = Daemon::start(outside.site.serve_command().args(outside.arguments()), &outside.site);
        let two = Daemon::start(other.serve_command().args(outside.arguments()), &other);
        let (one, two) = (one.ready(), two.ready());
        let register = &["system", "register", "--name", "ts"];
        let codes = std::thread::scope(|scope| {
            let first = scope.spawn(|| outside.site.ctl(register).code);
            let second = scope.spawn(|| other.ctl(register).code);
            let mut codes = [first.join().unwrap(), second.join().unwrap()];
            codes.sort_unstable();
            codes
        });
        assert_eq!(codes, [0, 8], "one registers, the other is told that it is there");
        assert!(outside.is_whole("registered by one of two"));
        one.stop();
        two.stop();
    }
}

#[test]
fn a_second_daemon_on_one_database_file_is_refused() {
    let (site, other) = (Site::new(), Site::new());
    let url = format!("sqlite://{}", site.path().join("shared.db").display());
    let daemon = site.serve(&["--store", &url]);
    let refused = finish(other.serve_command().args(["--store", &url]));
    assert!(refused.code == 8 && refused.err.contains("[data.locked]"), "{}: {}", refused.code, refused.err);
    daemon.stop();
    other.serve(&["--store", &url]).stop();
}

#[test]
fn etcd_gone_in_the_middle_of_a_verb_is_told_and_needs_no_restart() {
    let test = "etcd_gone_in_the_middle_of_a_verb_is_told_and_needs_no_restart";
    let (Some(database), Some(etcd)) = (Database::mariadb(test), Etcd::alone(test)) else { return };
    let site = Site::new();
    let config = format!("store = \"{}\"\nsettings = \"{}\"\nanswer_seconds = 1\n", database.url, etcd.url);
    let file = site.write("aegis.toml", &config);
    let file = file.to_str().unwrap();
    let checked = site.aegis(&["config", "check", file]).ok();
    assert!(checked.out.contains("nobody's yet") && checked.out.contains("charts     ok"), "{}", checked.out);
    let daemon = site.serve(&["--config", file]);
    site.ctl(&["system", "register", "--name", "ts"]).ok();

    let paused = etcd.pause();
    let failed = site.aegis(&["config", "check", file]);
    assert!(failed.code == 10 && failed.out.contains("store      ok"), "{}{}", failed.out, failed.err);
    for verb in [
        &["system", "register", "--name", "hs"][..],
        &["system", "unregister", "--name", "ts", "--yes"],
        &["system", "disable", "ts", "--yes"],
        &["settings", "set", COUNT, "9"],
    ] {
        let told = site.ctl(verb);
        assert_eq!((told.code, text(&told.error()["code"])), (10, "settings.unreachable".into()), "{verb:?}");
    }
    // What needs no change of settings goes on.
    site.ctl(&["system", "show", "ts"]).ok();
    let status = site.ctl(&["settings", "status"]).ok().json();
    assert!(text(&status["problem"]).contains("settings.unreachable"), "{status:#}");
    drop(paused);
    until("it works again", SOON, || (site.ctl(&["system", "register", "--name", "hs"]).code == 0).then_some(()));
    site.ctl(&["settings", "set", COUNT, "9"]).ok();
    assert_eq!(etcd.get(AT_COUNT).as_deref(), Some("9"));
    daemon.stop();
}
