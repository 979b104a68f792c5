//! The database, or where settings are published, is gone for longer than its time-out, from the beginning of a verb or in the
//! middle of it: the verb says so, nothing of it is there, and the same server does it once both answer again.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::process::{Daemon, Site, until};
use testkit::{ChartFiles, Cut, Database, Etcd, Tool, tool};

use crate::doctor::until_healthy;
use crate::round::{self, text};

const SOON: Duration = Duration::from_secs(25);
/// The database has a second to answer, and a verb asks it a few times.
const AT_MOST: Duration = Duration::from_secs(15);
const WARMUP: &str = "injection.system.ts.warmup_seconds";

/// A verb.
struct Verb {
    arguments: &'static [&'static str],
    /// One that it writes when other things of it are written.
    table: &'static str,
    /// A key that it changes where settings are published, if it changes any.
    key: Option<&'static str>,
}

const fn verb(arguments: &'static [&'static str], table: &'static str, key: Option<&'static str>) -> Verb {
    Verb { arguments, table, key }
}

const VERBS: &[Verb] = &[
    verb(&["system", "register", "--name", "hs"], "seed_objects", Some("injection.system.hs.count")),
    verb(&["system", "unregister", "--name", "sn", "--yes"], "setting_values", Some("injection.system.sn.count")),
    verb(&["seed", "apply", "seed", "--yes"], "seed_objects", Some("injection.system.ts.count")),
    verb(&["settings", "set", WARMUP, "9"], "setting_changes", Some(WARMUP)),
    verb(&["pedestal", "version", "retire", "ts", "1.1.0", "--yes"], "container_versions", None),
    verb(&["pedestal", "chart", "push", "--name", "ts", "--tgz", "chart.tgz"], "charts", None),
];

/// Everything that the verbs change.
fn present(site: &Site, etcd: &Etcd) -> Vec<Value> {
    let published = etcd.paths("").into_iter().map(|path| format!("{path} {:?}", etcd.get(&path)));
    let mut found = vec![Value::from(published.collect::<Vec<_>>())];
    for asked in [
        &["system", "list"][..],
        &["settings", "list", "--all"],
        &["pedestal", "version", "list", "ts"],
        &["pedestal", "chart", "list", "ts"],
        &["pedestal", "helm", "get", "ts"],
    ] {
        found.push(site.ctl(asked).ok().json());
    }
    found
}

fn seed(count: &str) -> String {
    let text = round::seed_with_second("0.4.7", "[]");
    text.replacen("default_value: '4'", &format!("default_value: '{count}'"), 1)
}

#[test]
fn a_database_gone_in_a_verb_is_told_nothing_of_it_is_there_and_it_needs_no_restart() {
    let test = "a_database_gone_in_a_verb_is_told_nothing_of_it_is_there_and_it_needs_no_restart";
    let (Some(database), Some(etcd)) = (Database::mariadb_alone(test), Etcd::shared(test)) else { return };
    let Some(helm) = tool(test, Tool::Helm4) else { return };
    let (site, mut daemon) = installation(&database.url, &etcd.url, &helm);
    let before = present(&site, &etcd);
    for Verb { arguments, table, .. } in VERBS {
        for is_gone_at_once in [true, false] {
            let (paused, held) =
                if is_gone_at_once { (Some(database.pause()), None) } else { (None, Some(database.read_only(table))) };
            let what = format!("{arguments:?}, gone at once: {is_gone_at_once}");
            told(&site, arguments, "store.unreachable", &what);
            drop((paused, held));
            until("the database answers again", SOON, || (site.ctl(&["system", "list"]).code == 0).then_some(()));
            assert_eq!(present(&site, &etcd), before, "{what}");
        }
    }
    every_verb_works(&site);
    assert_ne!(present(&site, &etcd), before);
    assert!(daemon.poll().is_none(), "it is the same process");
    daemon.stop();
}

#[test]
fn etcd_gone_in_a_verb_is_told_nothing_of_it_is_there_and_it_needs_no_restart() {
    let test = "etcd_gone_in_a_verb_is_told_nothing_of_it_is_there_and_it_needs_no_restart";
    let (Some(database), Some(etcd)) = (Database::mariadb(test), Etcd::alone(test)) else { return };
    let Some(helm) = tool(test, Tool::Helm4) else { return };
    let (site, mut daemon) = installation(&database.url, &etcd.url, &helm);
    let before = present(&site, &etcd);
    for Verb { arguments, .. } in VERBS.iter().filter(|verb| verb.key.is_some()) {
        let paused = etcd.pause();
        told(&site, arguments, "settings.unreachable", &format!("{arguments:?}"));
        drop(paused);
        until("etcd answers again", SOON, || {
            let status = site.ctl(&["settings", "status"]).ok().json();
            status["problem"].is_null().then_some(())
        });
        assert_eq!(present(&site, &etcd), before, "{arguments:?}");
    }
    // What publishes nothing does without.
    let paused = etcd.pause();
    for Verb { arguments, .. } in VERBS.iter().filter(|verb| verb.key.is_none()) {
        site.ctl(arguments).ok();
    }
    drop(paused);
    until_healthy(&site, "etcd was gone");
    every_verb_works(&site);
    assert!(daemon.poll().is_none(), "it is the same process");
    daemon.stop();
}

#[test]
fn etcd_gone_in_the_middle_of_a_verb_leaves_nothing_of_it_behind() {
    let test = "etcd_gone_in_the_middle_of_a_verb_leaves_nothing_of_it_behind";
    let (Some(database), Some(etcd)) = (Database::mariadb(test), Etcd::shared(test)) else { return };
    let Some(helm) = tool(test, Tool::Helm4) else { return };
    let (gate, settings) = etcd.behind_gate();
    let (site, mut daemon) = installation(&database.url, &settings, &helm);
    let before = present(&site, &etcd);
    for Verb { arguments, key, .. } in VERBS {
        let Some(key) = key else { continue };
        for cut in [Cut::Before, Cut::After, Cut::Late] {
            let what = format!("{arguments:?}, cut: {cut:?}");
            gate.cut(&written(key), cut);
            told(&site, arguments, "settings.unreachable", &what);
            gate.until_cut();
            if cut == Cut::Late {
                // The rest of the network works: what became of the change is decided before its message arrives.
                until_as(&site, &etcd, &before, &format!("{what}, before it arrives"));
            }
            gate.open();
            until_as(&site, &etcd, &before, &what);
            until_healthy(&site, &what);
            // What was under way may arrive only now, and is taken back.
            until_as(&site, &etcd, &before, &what);
        }
    }
    every_verb_works(&site);
    assert_ne!(present(&site, &etcd), before);
    assert!(daemon.poll().is_none(), "it is the same process");
    daemon.stop();
}

/// Waits until everything is again as it was.
#[track_caller]
fn until_as(site: &Site, etcd: &Etcd, before: &[Value], what: &str) {
    let start = Instant::now();
    while present(site, etcd) != before && start.elapsed() < SOON {}
    for (now, before) in present(site, etcd).iter().zip(before) {
        assert_eq!(now, before, "{what}");
    }
}

/// What of a message of etcd's protocol says that this key is written: the key of a comparison, and the tag of the revision
/// that it is compared with. Who only reads the key sends no comparison.
fn written(key: &str) -> Vec<u8> {
    const MOD_REVISION: u8 = 6 << 3;
    [key.as_bytes(), &[MOD_REVISION]].concat()
}

/// A verb that is told in time that somebody does not answer.
#[track_caller]
fn told(site: &Site, arguments: &[&str], code: &str, what: &str) {
    let start = Instant::now();
    let told = site.ctl(arguments);
    assert_eq!((told.code, text(&told.error()["code"]).as_str()), (10, code), "{what}: {}{}", told.out, told.err);
    assert!(start.elapsed() < AT_MOST, "{:?}: {what}", start.elapsed());
}

fn every_verb_works(site: &Site) {
    for Verb { arguments, .. } in VERBS {
        site.ctl(arguments).ok();
    }
    until_healthy(site, "every verb");
}

/// An installation with everything that the verbs need.
fn installation(store: &str, settings: &str, helm: &Path) -> (Site, Daemon) {
    let site = Site::new();
    let config = format!("store = \"{store}\"\nsettings = \"{settings}\"\nanswer_seconds = 1\n");
    let file = site.write("aegis.toml", &config);
    let daemon = site.serve(&["--config", file.to_str().unwrap()]);
    let archive = ChartFiles::new("trainticket", "0.4.6").with("templates/a.yaml", "").package(helm);
    std::fs::write(site.path().join("chart.tgz"), archive).unwrap();
    site.write("seed/data.yaml", &seed("4"));
    site.ctl(&["seed", "apply", "seed", "--yes"]).ok();
    site.ctl(&["system", "register", "--name", "sn"]).ok();
    site.ctl(&["system", "enable", "ts"]).ok();
    until_healthy(&site, "the start");
    site.write("seed/data.yaml", &seed("5"));
    (site, daemon)
}
