//! `aegisctl doctor`: each failure is planted on real parts, is the only one that is found, and is gone after the printed fix.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::process::{Daemon, Ran, Site, finish, program, until};
use testkit::{Database, Etcd};

use crate::round::{self, signal, text};

const SOON: Duration = Duration::from_secs(25);
const COUNT: &str = "injection.system.ts.count";

/// An installation on MariaDB and etcd with a system from a seed and two that the program knows.
struct Stand {
    site: Site,
    database: Database,
    etcd: Etcd,
}

impl Stand {
    fn arguments(&self) -> [&str; 4] {
        ["--store", &self.database.url, "--settings", &self.etcd.url]
    }

    fn ctl(&self, arguments: &[&str]) -> Ran {
        self.site.ctl(arguments)
    }

    fn sql(&self, sql: &str) {
        self.database.execute(sql);
    }

    /// Applies the stand's seed after this change of its text.
    fn apply(&self, change: impl FnOnce(String) -> String, more: &[&str]) {
        self.site.write("seed/data.yaml", &change(seed()));
        self.site.write("seed/ts.yaml", OVERLAY);
        let ran = self.ctl(&[&["seed", "apply", "seed", "--yes"][..], more].concat());
        assert!([0, 5].contains(&ran.code), "{}{}", ran.out, ran.err);
    }

    /// Deletes a setting with its declaration, here and where it is published.
    fn lose(&self, path: &str) {
        let key = path.rsplit('/').next().unwrap();
        // At once: the product puts back what it misses.
        self.sql(&format!(
            "START TRANSACTION; DELETE FROM setting_values WHERE name = '{key}'; DELETE FROM setting_declarations WHERE name = '{key}'; COMMIT"
        ));
        self.etcd.delete(path);
    }
}

/// A values file whose list the seed sets one element of.
const OVERLAY: &str = "extra:\n  list:\n  - {name: a, image: 'one:1', command: run}\n  - {name: b}\n";

/// Our own seed with a second version of the pedestal that takes over what it does not name.
fn seed() -> String {
    round::seed_with_second(
        "0.4.6",
        "
            - {key: 'extra.list[0].image', type: 0, category: 1, value_type: 0, default_value: 'two:2', overridable: false}
            - {key: extra.tag, type: 0, category: 1, value_type: 0, default_value: '17.6', overridable: false}",
    )
}

/// What is not in order: ids and checks.
pub fn odd(site: &Site) -> Vec<Value> {
    let report = site.ctl(&["doctor"]).json();
    let checks = report["checks"].as_array().unwrap().clone();
    checks.into_iter().filter(|check| check["state"] == "failed" || check["state"] == "warning").collect()
}

pub fn until_healthy(site: &Site, after: &str) {
    let mut last = Vec::new();
    let healthy = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        until("everything is in order", SOON, || {
            last = odd(site);
            last.is_empty().then_some(())
        });
    }));
    assert!(healthy.is_ok(), "after {after}: {last:#?}");
}

/// Waits until this check is the only one that finds something; the check.
pub fn until_only(site: &Site, id: &str) -> Value {
    let mut last = Vec::new();
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        until("the planted failure is found, and no other", SOON, || {
            last = odd(site);
            (last.len() == 1 && last[0]["id"] == id).then(|| last[0].clone())
        })
    }));
    found.unwrap_or_else(|_| panic!("{id}: {last:#?}"))
}

/// A command as it was printed, by a shell that finds our programs.
pub fn run_as_printed(site: &Site, line: &str) {
    let folder = program("aegisctl").parent().unwrap().to_owned();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = site.command("aegisctl");
    let home =
        shell.get_envs().filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned()))).collect::<Vec<_>>();
    shell = std::process::Command::new("sh");
    shell.env_clear().envs(home).env("PATH", path).current_dir(site.path()).args(["-c", line]);
    let ran = finish(&mut shell);
    assert_eq!(ran.code, 0, "{line}: {}{}", ran.out, ran.err);
}

/// How a failure comes about.
type Plant = fn(&Stand);

/// By check. Each is planted on what the one before left healthy.
const PLANTS: &[(&str, Plant)] = &[
    ("store.seeded", |stand| stand.sql("DELETE FROM projects")),
    ("store.migrated", |stand| stand.sql("DELETE FROM schema_steps WHERE name = 'builds of processes'")),
    ("settings.declared", |stand| stand.lose("consumer/rate_limiting.max_concurrent_build_datapack")),
    ("settings.adopted", |stand| stand.etcd.put("aegis/installation", "somebody-else")),
    ("settings.kept", |stand| stand.etcd.delete("global/injection.system.ts.")),
    ("settings.complete", |stand| stand.lose("global/injection.system.ts.display_name")),
    ("settings.placed", |stand| stand.etcd.put(&format!("consumer/{COUNT}"), "7")),
    ("settings.declared_first", |stand| stand.etcd.put("global/injection.system.sn.count", "3")),
    ("settings.names_current", |stand| {
        stand.etcd.put("global/injection.system.mm.count", "3");
        stand.etcd.put("global/injection.system.mm.status", "1");
    }),
    ("settings.legal", |stand| stand.etcd.put(&format!("global/{COUNT}"), "lots")),
    ("systems.namespaces_match", |stand| stand.etcd.put("global/injection.system.ts.ns_pattern", r"^tsx\d+$")),
    ("systems.label_key_kept", |stand| stand.etcd.put("global/injection.system.ts.app_label_key", "tier")),
    ("systems.named_by_code", |stand| {
        stand.sql("UPDATE containers SET name = 'hotelreservation' WHERE name = 'hs' AND kind = 2");
    }),
    ("containers.commands_set", |stand| {
        stand.sql("UPDATE container_versions v JOIN containers c ON c.id = v.container_id SET v.command = '' WHERE c.name = 'hs-bench'");
    }),
    ("containers.names_distinct", |stand| stand.sql("UPDATE containers SET name = 'hs' WHERE name = 'hs-bench'")),
    ("benchmarks.environment_set", |stand| {
        stand.sql("UPDATE version_revisions r JOIN container_versions v ON v.id = r.version_id JOIN containers c ON c.id = v.container_id SET r.env = '[]' WHERE c.name = 'hs-bench'");
    }),
    ("containers.owned_by_one", |stand| {
        stand.sql("INSERT INTO system_containers SELECT s.id, c.id FROM systems s, containers c WHERE s.code = 'sn' AND c.name = 'hs' AND c.kind = 2");
    }),
    ("charts.declared", |stand| {
        stand.sql("UPDATE container_versions v JOIN containers c ON c.id = v.container_id SET v.chart_id = NULL WHERE c.name = 'hs' AND c.kind = 2");
    }),
    ("charts.addressed", |stand| {
        stand.sql("UPDATE charts SET repository = CONCAT(repository, '/index.yaml') WHERE name = 'hotel-reservation'");
    }),
    ("seed.defaults_applied", |stand| {
        stand.sql("UPDATE version_revisions SET parameters = REPLACE(parameters, '17.6', '17.7')");
    }),
    ("values.typed", |stand| {
        stand.sql("UPDATE version_revisions SET composed = JSON_SET(composed, '$.first_slot.values.extra.tag', 17.6) WHERE parameters LIKE '%17.6%'");
    }),
    ("values.lists_whole", |stand| {
        stand.sql("UPDATE version_revisions SET composed = JSON_REMOVE(composed, '$.first_slot.values.extra.list[0].name') WHERE parameters LIKE '%17.6%'");
    }),
    ("overlays.current", |stand| {
        stand.sql("UPDATE version_revisions SET overlay_hash = NULL WHERE parameters LIKE '%17.6%'");
    }),
    ("overlays.present", |stand| stand.sql("UPDATE overlays SET content = ''")),
    ("seed.operators_kept", |stand| {
        stand.ctl(&["settings", "set", COUNT, "6"]).ok();
        stand.apply(|text| text.replace("default_value: '4'", "default_value: '5'").replace("two:2", "two:3"), &[]);
    }),
    ("seed.removals_applied", |stand| {
        let without = |text: String| {
            let (head, rest) = text.split_once("  - key: injection.system.ts.warmup_seconds").unwrap();
            format!("{head}  - key: algo.detector{}", rest.split_once("  - key: algo.detector").unwrap().1)
        };
        stand.apply(
            |text| without(text).replace("default_value: '4'", "default_value: '5'").replace("two:2", "two:4"),
            &[],
        );
    }),
    ("seed.finished", |stand| {
        stand.sql("CREATE TEMPORARY TABLE last AS SELECT * FROM seed_revisions ORDER BY id DESC LIMIT 1; UPDATE last SET id = id + 1, state = 'applying', ended_at = NULL; INSERT INTO seed_revisions SELECT * FROM last");
    }),
    ("leases.owned", |stand| {
        let run = round::run(&stand.site, round::CONTROL, &["--seed", "3"], 0);
        let run = text(&run["id"]);
        stand.sql(&format!("INSERT INTO leases (resource, owner, run_id, fence, heartbeat, ttl_us, note, acquired_at, renewed_at) SELECT 'slot:ts3', id, '{run}', 1, 1, 1000000, '', 0, 0 FROM incarnations LIMIT 1"));
    }),
    ("kill_switch.off", |stand| {
        stand.ctl(&["kill-switch", "on", "--reason", "drill"]).ok();
    }),
    ("charts.published", |stand| {
        let of = "FROM container_versions v JOIN containers c ON c.id = v.container_id WHERE c.name = 'ts' AND c.kind = 2 AND v.name";
        let columns =
            "container_id, name, image_ref, command, github_link, chart_id, enabled, current_digest, created_at";
        let values = columns
            .replace("name,", "'latest',")
            .replacen("container_id", "v.container_id", 1)
            .replace("created_at", "v.created_at");
        stand.sql(&format!("INSERT INTO container_versions ({columns}) SELECT {values} {of} = '1.0.0'"));
        let columns = "version_id, digest, env, parameters, overlay_hash, composed, place, created_at";
        let values = columns.replacen("version_id", &format!("(SELECT v.id {of} = 'latest')"), 1);
        stand.sql(&format!("INSERT INTO version_revisions ({columns}) SELECT {values} FROM version_revisions r WHERE r.version_id = (SELECT v.id {of} = '1.0.0') AND r.digest = (SELECT v.current_digest {of} = '1.0.0')"));
    }),
    ("versions.inherit", |stand| {
        let place = "REPLACE(JSON_UNQUOTE(JSON_SEARCH(composed, 'one', 'mysql.service.type', NULL, '$.revision.parameters[*].key')), '.key', '')";
        stand.sql(&format!("UPDATE version_revisions SET composed = JSON_REMOVE(composed, {place}, '$.first_slot.values.mysql') WHERE parameters LIKE '%17.6%'"));
    }),
    ("token.private", |stand| {
        let file = text(&stand.site.ctl(&["doctor", "--only", "token.private"]).json()["checks"][0]["observed"]);
        assert_eq!(file, "mode 0600");
        run_as_printed(&stand.site, "chmod 644 data/admin.token");
    }),
    ("client.config_private", |stand| {
        let file = stand.site.write(".aegisctl/config.yaml", "");
        run_as_printed(&stand.site, &format!("chmod 644 {}", file.display()));
    }),
];

#[test]
fn each_planted_failure_is_the_only_one_found_and_gone_after_the_printed_fix() {
    let test = "each_planted_failure_is_the_only_one_found_and_gone_after_the_printed_fix";
    let (Some(database), Some(etcd)) = (Database::mariadb(test), Etcd::shared(test)) else { return };
    let stand = Stand { site: Site::new(), database, etcd };
    let daemon = stand.site.serve(&stand.arguments());

    // A fresh installation lacks one thing.
    let fresh = until_only(&stand.site, "systems.enabled");
    run_as_printed(&stand.site, &text(&fresh["fix"]));
    until_healthy(&stand.site, "the first registration");
    stand.ctl(&["system", "unregister", "--name", "ts", "--yes"]).ok();
    stand.apply(|text| text, &[]);
    stand.ctl(&["system", "enable", "ts"]).ok();
    stand.ctl(&["system", "register", "--name", "hs"]).ok();
    until_healthy(&stand.site, "the start");

    for (id, plant) in PLANTS {
        let start = std::time::Instant::now();
        plant(&stand);
        let check = until_only(&stand.site, id);
        let fix = text(&check["fix"]);
        let by_us = fix.starts_with("aegisctl ");
        assert_eq!(by_us, check["repair"] != "person", "{check:#}");
        run_as_printed(&stand.site, &fix);
        until_healthy(&stand.site, &format!("the fix of {id}: {fix}"));
        println!("{id}: {:?}", start.elapsed());
    }
    lagging(&stand);
    fixed_by_itself(&stand);
    daemon.stop();
}

/// A second process that stands still applies old values; another build is told as well.
fn lagging(stand: &Stand) {
    let other = Site::new();
    let second = other.serve(&stand.arguments());
    let pid = second.server["pid"].as_u64().unwrap();
    until("both processes follow", SOON, || {
        (stand.ctl(&["settings", "status"]).ok().json()["processes"].as_array().unwrap().len() == 2).then_some(())
    });
    until_healthy(&stand.site, "a second process");
    signal(u32::try_from(pid).unwrap(), "-STOP");
    stand.ctl(&["settings", "set", COUNT, "8"]).ok();
    let check = until_only(&stand.site, "settings.applied");
    assert_eq!(check["fix"], format!("kill -CONT {pid}"), "{check:#}");
    stand.sql(&format!("UPDATE setting_processes SET build = '0.0.1' WHERE pid = {pid}"));
    let both = until("the other build is found", SOON, || {
        let ids: BTreeSet<String> = odd(&stand.site).iter().map(|check| text(&check["id"])).collect();
        ids.contains("builds.same").then_some(ids)
    });
    assert_eq!(both.len(), 2, "{both:?}");
    run_as_printed(&stand.site, &text(&check["fix"]));
    until_healthy(&stand.site, "the process goes on");
    second.stop();
}

/// `--fix` runs what is safe, and what takes something away only with `--yes`.
fn fixed_by_itself(stand: &Stand) {
    stand.etcd.put(&format!("global/{COUNT}"), "lots");
    stand.etcd.put("global/injection.system.mm.count", "3");
    until("both are found", SOON, || (odd(&stand.site).len() == 2).then_some(()));
    let ran = finish(stand.site.command("aegisctl").args(["-o", "json", "doctor", "--fix"]));
    assert!(ran.err.contains("left as it is, for it needs `--yes`"), "{}", ran.err);
    until_only(&stand.site, "settings.names_current");
    finish(stand.site.command("aegisctl").args(["-o", "json", "doctor", "--fix", "--yes"]));
    until_healthy(&stand.site, "doctor --fix --yes");
}

#[test]
fn what_depends_on_a_failed_check_is_skipped_because_of_it() {
    let test = "what_depends_on_a_failed_check_is_skipped_because_of_it";
    let (Some(database), Some(etcd)) = (Database::mariadb(test), Etcd::alone(test)) else { return };
    let site = Site::new();
    let config = format!("store = \"{}\"\nsettings = \"{}\"\nanswer_seconds = 1\n", database.url, etcd.url);
    let file = site.write("aegis.toml", &config);
    let daemon: Daemon = site.serve(&["--config", file.to_str().unwrap()]);
    site.ctl(&["system", "register", "--name", "ts"]).ok();
    until_healthy(&site, "the start");

    let paused = etcd.pause();
    until_only(&site, "settings.reachable");
    let report = site.ctl(&["doctor"]);
    assert_eq!(report.code, 4, "{}", report.out);
    let report = report.json();
    let skipped: Vec<&Value> = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["observed"] == "skipped, because settings.reachable")
        .collect();
    assert_eq!(skipped.len(), 6, "{skipped:#?}");
    assert!(skipped.iter().all(|check| check["state"] == "skipped"));
    let cluster = report["checks"].as_array().unwrap().iter().filter(|c| c["observed"] == "needs a Kubernetes cluster");
    assert_eq!(
        cluster.map(|check| check["symptoms"].clone()).collect::<Vec<_>>(),
        [json!([40]), json!([43]), json!([44])]
    );
    drop(paused);
    until_healthy(&site, "etcd answers again");
    daemon.stop();

    // Without a server the table is known all the same.
    let listed = site.ctl(&["doctor", "--list"]).ok().json();
    assert!(listed.as_array().unwrap().len() > 50);
    let explained = site.ctl(&["doctor", "explain", "loaded 8 systems (0 enabled)"]).ok().json();
    assert_eq!(explained[0]["id"], "settings.adopted");
    assert_eq!(site.ctl(&["doctor", "explain", "hello"]).error()["code"], "doctor.text_unknown");
    assert_eq!(site.ctl(&["doctor", "--only", "settings.adopt"]).error()["code"], "doctor.check_unknown");
}
