//! What a person does with datapacks: has them diagnosed and compared, takes them elsewhere and brings
//! others in. And everything that is wrong with a pack or a question has its code.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use testkit::process::Site;

use crate::round::{self, CONTROL, FAULT, text};

/// A site with two packs: a fault, and a control with another seed.
fn two_packs() -> (Site, testkit::process::Daemon, [String; 2]) {
    let (site, daemon) = round::ts(&[]);
    let names = [(FAULT, "7"), (CONTROL, "8")].map(|(what, seed)| {
        let run = round::run(&site, what, &["--seed", seed], 0);
        text(&run["injection_name"])
    });
    (site, daemon, names)
}

#[test]
fn datapacks_are_asked_diagnosed_compared_and_taken_elsewhere() {
    let (site, _daemon, [faulty, control]) = two_packs();
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
    elsewhere_and_back(&site, &faulty);
    damaged(&site, &faulty);
}

fn elsewhere_and_back(site: &Site, faulty: &str) {
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
    assert!(ranked["answers"].as_array().unwrap().len() > 3, "{ranked:#}");
    // The spans that came back are those that went out, so a method on traces says the same.
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
        let state = match verify.out.is_empty() {
            true => Some(verify.error()["code"].clone()),
            false => {
                let files = verify.json()["files"].as_array().unwrap().clone();
                files.iter().find(|one| one["state"] != "ok").map(|one| one["state"].clone())
            }
        };
        let health = site.ctl(&["datapack", "diagnose", faulty]).json()["health"].clone();
        json!([state, health])
    };
    assert_eq!(codes(), json!([null, "healthy"]));
    let mut changed = bytes.clone();
    let footer = bytes.len() - 6;
    changed[footer] ^= 0xff;
    fs::write(&file, &changed).unwrap();
    assert_eq!(codes(), json!(["changed", "incomplete"]));
    fs::remove_file(&file).unwrap();
    let found = codes();
    assert_eq!(found[1], "incomplete", "{found}");
    // Another table's columns.
    fs::copy(open.join("normal_traces.parquet"), &file).unwrap();
    assert_eq!(codes(), json!(["changed", "incomplete"]));
    fs::write(&file, &bytes).unwrap();
    assert_eq!(codes(), json!([null, "healthy"]));
}
