//! What a person does with datapacks: asks them in SQL, has them diagnosed and compared, takes them elsewhere and brings
//! others in. And everything that is wrong with a pack or a question has its code.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use testkit::process::{Daemon, Ran, Site, finish, until};

use crate::pack;
use crate::round::{self, CONTROL, FAULT, text};

/// A site with two packs: a fault, and a control with another seed.
fn two_packs() -> (Site, Daemon, [String; 2]) {
    let (site, daemon) = round::ts(&[]);
    let names = [(FAULT, "7"), (CONTROL, "8")].map(|(what, seed)| {
        let run = round::run(&site, what, &["--seed", seed], 0);
        text(&run["injection_name"])
    });
    (site, daemon, names)
}

fn query(site: &Site, sql: &str, more: &[&str]) -> Ran {
    site.ctl(&[&["datapack", "query", sql], more].concat())
}

#[test]
fn datapacks_are_asked_diagnosed_compared_and_taken_elsewhere() {
    let (site, daemon, [faulty, control]) = two_packs();
    asked(&site, &faulty, &control);
    refused(&site, &faulty);
    interrupted(&site, &daemon, &faulty);

    let whole = site.ctl(&["datapack", "diagnose", &faulty]).ok().json();
    assert_eq!((&whole["health"], &whole["injection_name"]), (&json!("healthy"), &json!(faulty)));
    assert!(whole["notes"].as_array().unwrap().len() > 2, "{whole:#}");
    assert!(whole["quality"]["normal"]["signals"]["traces"]["rows"].as_u64() > Some(100), "{whole:#}");

    let same = site.ctl(&["datapack", "diff", &faulty, &faulty]).ok().json();
    assert_eq!((&same["same"], same["equal"].as_array().unwrap().len()), (&json!(true), 15));
    let differ = site.ctl(&["datapack", "diff", &faulty, &control]);
    assert_eq!((differ.code, &differ.json()["same"]), (5, &json!(false)));
    let differ = differ.json();
    let traces =
        differ["tables"].as_array().unwrap().iter().find(|table| table["file"] == "normal_traces.parquet").unwrap();
    assert!(traces["first"]["column"].is_string() && traces["rows"][0].as_u64() > Some(100), "{traces:#}");

    let converted = site.ctl(&["datapack", "convert", &faulty]).ok().json();
    assert!(
        converted["files"].as_array().unwrap().contains(&json!("converted/normal_traces.parquet")),
        "{converted:#}"
    );
    assert_eq!(site.ctl(&["datapack", "verify", &faulty]).ok().json()["ok"], true, "an attachment is no damage");
    elsewhere_and_back(&site, &faulty, &control);
    damaged(&site, &faulty);
}

fn asked(site: &Site, faulty: &str, control: &str) {
    let manifest = pack::json(&site.data().join("packs").join(faulty), "sealed/manifest.json");
    let stored = |file: &str| {
        let files = manifest["content"]["files"].as_array().unwrap();
        files.iter().find(|one| one["name"] == file).unwrap()["rows"].clone()
    };
    let rows = query(site, "SELECT \"window\" AS w, count(*) AS n FROM traces GROUP BY ALL ORDER BY w", &[faulty]).ok();
    assert!(rows.err.contains("2 rows in "), "{}", rows.err);
    let expect = json!([
        {"w": "abnormal", "n": stored("abnormal_traces.parquet")},
        {"w": "normal", "n": stored("normal_traces.parquet")},
    ]);
    assert_eq!(rows.json(), expect);
    // By number, by system, all; in each form.
    let one = query(site, "SELECT DISTINCT pack FROM logs", &["1"]).ok().json();
    assert_eq!(one, json!([{"pack": faulty}]));
    for more in [&["--system", "ts"][..], &[], &[faulty, control, faulty]] {
        let all = query(site, "SELECT DISTINCT pack FROM logs ORDER BY pack", more).ok().json();
        assert_eq!(all, json!([{"pack": faulty}, {"pack": control}]), "{more:?}");
    }
    let sql = "SELECT 'a,b' AS x, 1.5 AS y, null AS z, 'c' AS x2 UNION ALL SELECT 'd', 2.5, null, 'e\"' ORDER BY y";
    let csv = query(site, sql, &[faulty, "--csv"]).ok().out;
    assert_eq!(csv, "x,y,z,x2\n\"a,b\",1.5,,c\nd,2.5,,\"e\"\"\"\n");
    let form = |form: &str, sql: &str| {
        let mut command = site.command("aegisctl");
        finish(command.args(["-o", form, "datapack", "query", sql, faulty])).ok().out
    };
    assert_eq!(
        form("ndjson", sql),
        "{\"x\":\"a,b\",\"y\":1.5,\"z\":null,\"x2\":\"c\"}\n{\"x\":\"d\",\"y\":2.5,\"z\":null,\"x2\":\"e\\\"\"}\n"
    );
    assert!(form("table", sql).lines().next().unwrap().starts_with('x'));
    assert!(form("yaml", sql).contains("a,b"));
    assert_eq!(form("json", "SELECT 1 AS a WHERE false"), "[]\n");
    assert_eq!(form("ndjson", "SELECT 1 AS a WHERE false"), "");
}

fn refused(site: &Site, faulty: &str) {
    for (sql, more, code, exit) in [
        ("SELEC 1", &[][..], "query.syntax", 2),
        ("DROP TABLE traces", &[], "query.not_read_only", 2),
        ("COPY traces TO '/tmp/x.csv'", &[], "query.not_read_only", 2),
        ("SET datafusion.execution.batch_size = 1", &[], "query.not_read_only", 2),
        ("SELECT * FROM '/etc/passwd'", &[], "query.outside_packs", 2),
        ("SELECT * FROM read_csv('/etc/passwd')", &[], "query.outside_packs", 2),
        ("SELECT * FROM truth", &[], "query.table_unknown", 2),
        ("SELECT servicename FROM traces", &[], "query.column_unknown", 2),
        ("SELECT count(*) FROM generate_series(1, 1000000000000)", &["--time", "1s"], "query.timed_out", 6),
        // A text that no limit of an operator sees: the process ends, and says why.
        ("SELECT length(repeat('a', 2000000000))", &["--memory", "64"], "query.memory_exhausted", 2),
        ("SELECT 1", &["--memory", "1"], "query.limit_out_of_range", 2),
        ("SELECT 1", &["nothing-000001"], "datapack.unknown", 7),
    ] {
        let packs: &[&str] =
            if more.iter().any(|word| !word.starts_with("--") && word.contains('-')) { &[] } else { &[faulty] };
        let ran = query(site, sql, &[packs, more].concat());
        assert_eq!((ran.error()["code"].as_str(), ran.code), (Some(code), exit), "{sql}: {}", ran.err);
    }
    let problem = query(site, "SELECT a\nFRM traces", &[faulty]).error();
    assert!(problem["place"].as_str().unwrap().starts_with("line 2"), "{problem:#}");
    assert_eq!(query(site, "SELECT 1", &["--system", "nothing"]).error()["code"], "system.unknown");
    // The server goes on.
    query(site, "SELECT 1", &[faulty]).ok();
}

/// Who goes away ends the query, before its first row and after it.
fn interrupted(site: &Site, daemon: &Daemon, faulty: &str) {
    for what in ["count(*)", "*"] {
        let sql = format!("SELECT {what} FROM generate_series(1, 1000000000000)");
        let mut command = site.command("aegisctl");
        command.args(["-o", "ndjson", "datapack", "query", &sql, faulty, "--time", "600s", "--rows", "1000000000"]);
        let mut asking = command.stdout(Stdio::null()).spawn().unwrap();
        let limit = Duration::from_secs(60);
        until("a query's process", limit, || (!round::children(daemon.pid(), "query").is_empty()).then_some(()));
        round::signal(asking.id(), "-INT");
        assert_eq!(asking.wait().unwrap().signal(), Some(2));
        until("the end of a query's process", limit, || {
            round::children(daemon.pid(), "query").is_empty().then_some(())
        });
        until("an empty folder", limit, || {
            fs::read_dir(site.data().join("tmp")).unwrap().next().is_none().then_some(())
        });
    }
}

fn elsewhere_and_back(site: &Site, faulty: &str, control: &str) {
    let export = |format: &str, to: &str| site.ctl(&["datapack", "export", faulty, "--format", format, "--to", to]);
    let told = export("rcaeval", "out").ok().json();
    assert_eq!(told["packs"], 1);
    let case = site.path().join("out/ts/ts-travel-service_network-delay").join(faulty);
    let table = fs::read_to_string(case.join("data.csv")).unwrap();
    assert_eq!(table.lines().count(), 1 + 120, "a row a second");
    assert!(table.lines().next().unwrap().contains("ts-travel-service_"), "{}", &table[..200]);
    assert!(!table.contains("NaN") && !table.contains(",,"));
    assert_eq!(export("rcaeval", "out").error()["code"], "export.not_written", "nothing is replaced");
    export("csv", "csv").ok();
    let (exported, back) = (site.path().join("csv"), site.path().join("back"));
    let (exported, back) = (exported.to_str().unwrap(), back.to_str().unwrap());
    let report = site.aegis(&["datapack", "import", exported, "--format", "csv", "--to", back]).ok().json();
    assert_eq!((&report["pack"], &report["service"]), (&json!("ts-000001"), &json!("ts-travel-service")), "{report:#}");
    let board = site.aegis(&["datapack", "score", back, "--algorithm", "baro", "--format", "json"]).ok().json();
    assert_eq!((&board["origin"], &board["funnel"]["scored"]), (&json!("imported"), &json!(1)), "{board:#}");
    let lines = fs::read_to_string(site.path().join("csv").join(faulty).join("normal_logs.csv")).unwrap();
    assert!(lines.starts_with("Timestamp,TimestampTime,TraceId,SpanId,"), "{}", &lines[..80]);
    let code = |format: &str| export(format, "no").error()["code"].as_str().unwrap().to_owned();
    assert_eq!([code("openrca"), code("rcaevil")], ["export.format_unsupported", "export.format_unknown"]);

    let packs = site.path().join("imported");
    let to = packs.to_str().unwrap();
    let import =
        |from: &Path| site.aegis(&["datapack", "import", from.to_str().unwrap(), "--format", "rcaeval", "--to", to]);
    let report: Value = import(&site.path().join("out")).ok().json();
    assert_eq!((&report["pack"], &report["service"]), (&json!("rcaeval-000001"), &json!("ts-travel-service")));
    assert_eq!(report["absent"], json!(["metrics_sum", "metrics_histogram"]));
    let folder = packs.join("rcaeval-000001");
    site.aegis(&["datapack", "verify", folder.to_str().unwrap()]).ok();
    let ranked = site.aegis(&["datapack", "rank", folder.to_str().unwrap(), "--algorithm", "tracerca"]).ok().json();
    assert_eq!(ranked["roots"], json!(["ts-travel-service"]));
    let names = |ranked: &Value| -> Vec<String> {
        ranked["answers"].as_array().unwrap().iter().map(|answer| text(&answer["name"])).collect()
    };
    // The spans that came back are those that went out, so a method on traces says the same.
    let before = site.data().join("packs").join(faulty);
    let before = site.aegis(&["datapack", "rank", before.to_str().unwrap(), "--algorithm", "tracerca"]).ok().json();
    assert_eq!(names(&ranked), names(&before));
    assert!(names(&ranked).len() > 3, "{ranked:#}");
    // A run without a fault comes back as one, and both stand on a board.
    site.ctl(&["datapack", "export", control, "--format", "rcaeval", "--to", "out-control"]).ok();
    import(&site.path().join("out-control")).ok();
    let scored = site.aegis(&["datapack", "score", to, "--algorithm", "own-evidence", "--format", "json"]).ok().json();
    assert_eq!(
        (&scored["funnel"]["scored"], &scored["controls"]["packs"], &scored["controls"]["false_alarms"]),
        (&json!(1), &json!(1), &json!(0)),
        "{scored:#}"
    );
    assert_eq!(scored["controls"]["misses"], 0, "the detector sees in the import what it saw here");
    let ours = site.data().join("packs").join(faulty);
    for clean in [&ours, &folder] {
        site.aegis(&["datapack", "leaks", clean.to_str().unwrap()]).ok();
    }
    let said = site.aegis(&["datapack", "leaks", ours.to_str().unwrap(), "--forbid", "ts-travel-service"]);
    assert!(said.code == 5 && said.err.contains("datapack.leak"), "{}", said.err);
    let first: Value = serde_json::from_str(said.out.lines().next().unwrap()).unwrap();
    assert_eq!((&first["what"], first["place"].is_string()), (&json!("the word `ts-travel-service`"), true));
    let refused = site.aegis(&["datapack", "score", ours.to_str().unwrap()]);
    assert!(refused.code == 2 && refused.err.contains("score.not_imported"), "{}", refused.err);
    fs::write(case.join("inject_time.txt"), "12").unwrap();
    let refused = import(&site.path().join("out"));
    assert!(refused.code == 2 && refused.err.contains("import.window_outside_data"), "{}", refused.err);
}

/// Damage to a published pack, each with its code wherever the pack is used.
fn damaged(site: &Site, faulty: &str) {
    let open = site.data().join("packs").join(faulty).join("open");
    let file = open.join("normal_logs.parquet");
    let bytes = fs::read(&file).unwrap();
    let codes = || {
        let verify = site.ctl(&["datapack", "verify", faulty]);
        let files = verify.json()["files"].as_array().unwrap().clone();
        let state = files.iter().find(|one| one["state"] != "ok").map(|one| one["state"].clone());
        let asked = query(site, "SELECT count(DISTINCT Body) FROM logs", &[faulty]);
        let asked = if asked.code == 0 { Value::Null } else { asked.error()["code"].clone() };
        let health = site.ctl(&["datapack", "diagnose", faulty]).json()["health"].clone();
        json!([state, asked, health])
    };
    assert_eq!(codes(), json!([null, null, "healthy"]));
    // Nothing is made of a datapack that was changed, be it by one bit of its rows.
    let mut changed = bytes.clone();
    changed[bytes.len() / 2] ^= 0x10;
    fs::write(&file, &changed).unwrap();
    let to = site.path().join("of-damaged");
    for format in ["csv", "rcaeval"] {
        let refused = site.ctl(&["datapack", "export", faulty, "--format", format, "--to", to.to_str().unwrap()]);
        assert_eq!(refused.error()["code"], "datapack.checksum_mismatch", "{}", refused.err);
        assert!(!to.exists(), "nothing is left behind");
    }
    assert_eq!(site.ctl(&["datapack", "convert", faulty]).error()["code"], "datapack.checksum_mismatch");
    fs::remove_file(&file).unwrap();
    let refused = site.ctl(&["datapack", "export", faulty, "--format", "csv", "--to", to.to_str().unwrap()]);
    assert_eq!(refused.error()["code"], "datapack.file_missing", "{}", refused.err);
    let mut changed = bytes.clone();
    let footer = bytes.len() - 6;
    changed[footer] ^= 0xff;
    fs::write(&file, &changed).unwrap();
    assert_eq!(codes(), json!(["changed", "datapack.file_corrupt", "incomplete"]));
    fs::remove_file(&file).unwrap();
    assert_eq!(codes(), json!(["missing", "datapack.file_missing", "incomplete"]));
    // Another table's columns.
    fs::copy(open.join("normal_traces.parquet"), &file).unwrap();
    assert_eq!(codes(), json!(["changed", "datapack.column_missing", "incomplete"]));
    fs::write(&file, &bytes).unwrap();
    assert_eq!(codes(), json!([null, null, "healthy"]));
    forged(site, faulty);
}

/// A row was changed, and every checksum of the folder with it: the digest in the store knows better.
fn forged(site: &Site, faulty: &str) {
    let folder = site.data().join("packs").join(faulty);
    let parts = ["open/env.json", "sealed/manifest.json", "sha256sum.txt"].map(|part| folder.join(part));
    let kept = parts.each_ref().map(|path| fs::read(path).unwrap());
    let sum = |path: &Path| hex::encode(Sha256::digest(fs::read(path).unwrap()));
    let before = [&parts[0], &parts[1]].map(|path| sum(path));
    let env = String::from_utf8(kept[0].clone()).unwrap().replace("UTC", "CET");
    fs::write(&parts[0], env).unwrap();
    let replace = |path: &Path, from: &str, to: &str| {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.contains(from), "{}", path.display());
        fs::write(path, text.replace(from, to)).unwrap();
    };
    replace(&parts[1], &before[0], &sum(&parts[0]));
    replace(&parts[2], &before[0], &sum(&parts[0]));
    replace(&parts[2], &before[1], &sum(&parts[1]));
    assert!(site.aegis(&["datapack", "verify", folder.to_str().unwrap()]).ok().out.contains("as it was built"));

    // A reader that has gone is no defect.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = site.command("aegis");
    let unread = command.args(["datapack", "verify"]).arg(&folder).stdout(writer).output().unwrap();
    assert!(unread.status.success() && unread.stderr.is_empty(), "{}", String::from_utf8_lossy(&unread.stderr));

    let verify = site.ctl(&["datapack", "verify", faulty]);
    let wrong: Vec<Value> = verify.json()["files"].as_array().unwrap().clone();
    let wrong: Vec<&Value> = wrong.iter().filter(|one| one["state"] != "ok").collect();
    assert!(verify.code == 5 && wrong.len() == 1, "{}", verify.out);
    assert_eq!((&wrong[0]["path"], &wrong[0]["state"]), (&json!("sha256sum.txt"), &json!("changed")));
    let health = site.ctl(&["datapack", "diagnose", faulty]).json();
    assert_eq!((&health["health"], &health["quality"]), (&json!("incomplete"), &Value::Null), "{health:#}");
    let to = site.path().join("of-forged");
    let refused = site.ctl(&["datapack", "export", faulty, "--format", "csv", "--to", to.to_str().unwrap()]);
    assert_eq!(refused.error()["code"], "datapack.checksums_replaced", "{}", refused.err);
    let ended = site.ctl(&["evaluation", "create", "--algorithm", "baro", "--always", "--wait"]).ok().json();
    assert_eq!(ended["evaluation"]["excluded"]["damaged"], 1, "{:#}", ended["evaluation"]);
    for (path, bytes) in parts.iter().zip(kept) {
        fs::write(path, bytes).unwrap();
    }
}
