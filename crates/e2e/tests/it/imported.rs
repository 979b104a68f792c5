//! Cases of another benchmark become datapacks and stand on a board, without a server; what the board must say is computed here
//! by hand.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use testkit::process::{Ran, Site};

/// Seconds of each window.
const WINDOW: i64 = 40;
const FAULT_AT: i64 = 1_700_000_000 + WINDOW;
const SERVICES: [&str; 4] = ["cart", "db", "front", "mail"];

/// A case: a metric for each service that swings by one around these means before and after the fault.
fn write_case(cases: &Path, name: &str, before: [i64; 4], after: [i64; 4]) {
    let folder = cases.join(name).join("1");
    fs::create_dir_all(&folder).unwrap();
    let mut table = format!("time,{}\n", SERVICES.map(|service| format!("{service}_cpu")).join(","));
    for second in -WINDOW..WINDOW {
        let means = if second < 0 { before } else { after };
        let swing = if second % 2 == 0 { 1 } else { -1 };
        writeln!(table, "{},{}", FAULT_AT + second, means.map(|mean| (mean + swing).to_string()).join(",")).unwrap();
    }
    fs::write(folder.join("data.csv"), table).unwrap();
    fs::write(folder.join("inject_time.txt"), FAULT_AT.to_string()).unwrap();
}

/// Requests of which nobody notices anything.
fn write_traces(case: &Path) {
    let mut spans = "traceID,spanID,serviceName,operationName,startTime,duration,statusCode,parentSpanID\n".to_owned();
    for number in 1..WINDOW * 8 {
        let start = (FAULT_AT - WINDOW) * 1_000_000 + number * 250_000;
        writeln!(spans, "{number:x},{number:x}a,front,/home,{start},{},200,", 1500 + number % 7).unwrap();
        writeln!(spans, "{number:x},{number:x}b,cart,Get,{start},700,200,{number:x}a").unwrap();
    }
    fs::write(case.join("1/traces.csv"), spans).unwrap();
}

/// Three cases of three faults, one that is damaged after its import, and one without a fault.
fn imported(site: &Site) -> String {
    let cases = site.path().join("cases");
    let same = [2, 102, 2, 2];
    // Who moves, in standard deviations: cart by 10, db by 4.
    write_case(&cases, "cart_cpu", same, [12, 106, 2, 2]);
    // db falls by 20, mail rises by 6.
    write_case(&cases, "mail_mem", same, [2, 82, 2, 8]);
    // db by 5, cart by 2; the root itself shows nothing, and neither does mail.
    write_case(&cases, "front_delay", same, [4, 107, 2, 2]);
    write_case(&cases, "mail_disk", same, [2, 102, 2, 50]);
    write_case(&cases, "none_none", same, same);
    write_traces(&cases.join("none_none"));
    let to = site.path().join("packs");
    let ran = site
        .aegis(&[
            "datapack",
            "import",
            cases.to_str().unwrap(),
            "--format",
            "rcaeval",
            "--to",
            to.to_str().unwrap(),
            "--system",
            "re",
        ])
        .ok();
    assert!(ran.err.contains("imported 5 of 5 cases"), "{}", ran.err);
    let damaged = ran.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let damaged = damaged.into_iter().find(|report| report["fault"] == "disk").unwrap();
    let file = to.join(damaged["pack"].as_str().unwrap()).join("open/normal_metrics.parquet");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    to.to_str().unwrap().to_owned()
}

fn score(site: &Site, packs: &str, more: &[&str]) -> Ran {
    site.aegis(&[&["datapack", "score", packs][..], more].concat())
}

#[test]
fn cases_of_another_benchmark_stand_on_a_board_whose_figures_are_known() {
    let site = Site::new();
    let packs = imported(&site);
    let ran = score(&site, &packs, &["--algorithm", "nsigma", "--format", "json"]);
    assert!(ran.code == 5 && ran.err.contains("datapack.checksum_mismatch"), "{}: {}", ran.code, ran.err);
    assert!(ran.err.contains("scored 4 of 5 datapacks"), "{}", ran.err);
    let board: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&board["origin"], &board["rule"]), (&json!("imported"), &json!("root")));
    assert_eq!(board["funnel"], json!({"submitted": 4, "completed": 4, "exposed": 4, "valid": 3, "scored": 3}));
    assert_eq!(board["excluded"], json!([{"reason": "damaged", "packs": 1}]));
    assert_eq!((&board["controls"]["packs"], &board["controls"]["false_alarms"]), (&json!(1), &json!(0)));
    assert_eq!((&board["controls"]["faulty"], &board["controls"]["misses"]), (&json!(3), &json!(3)));
    let notes = board["notes"].to_string();
    assert!(
        notes.contains("taken from the label") && notes.contains("could not judge 3 datapacks (no_data: 3)"),
        "{notes}"
    );
    let view = board["views"].as_array().unwrap().iter().find(|view| view["row"] == "ranking").unwrap();
    assert_eq!((&view["packs"], &view["cells"]), (&json!(3), &json!(3)));
    assert_eq!((&view["chance"]["ac1"], &view["chance"]["ac3"]), (&json!(0.25), &json!(0.75)));

    let rows: Vec<&Value> = board["rows"].as_array().unwrap().iter().filter(|row| row["row"] == "ranking").collect();
    assert_eq!(rows.len(), 6, "the named one and five baselines: {rows:#?}");
    // The ranks of the root in the three cases; where the root shows nothing it shares ranks 3 and 4 with another service.
    let tie = (1.0 / 3.0 + 0.25) / 2.0;
    for (algorithm, ac1, ac3, avg5, mrr) in [
        // 1, 1, tie: a fall does not count.
        ("nsigma", 2.0, 2.5, 1.0 + 1.0 + 0.5, 1.0 + 1.0 + tie),
        // 1, 2, tie.
        ("loudest-metric", 1.0, 2.5, 1.0 + 0.8 + 0.5, 1.0 + 0.5 + tie),
        // 1, 4, 3: the alphabet.
        ("constant", 1.0, 2.0, 1.0 + 0.4 + 0.6, 1.0 + 0.25 + 1.0 / 3.0),
    ] {
        let row = rows.iter().find(|row| row["algorithm"] == algorithm).unwrap();
        for (metric, sum) in [("ac1", ac1), ("ac3", ac3), ("ac5", 3.0), ("avg5", avg5), ("mrr", mrr)] {
            let found = row[metric]["value"].as_f64().unwrap();
            assert!((found - sum / 3.0).abs() < 1e-9, "{algorithm} {metric}: {found} is not {}", sum / 3.0);
        }
        assert_eq!((&row["failures"], &row["missing"], &row["packs"]), (&json!(0), &json!(0), &json!(3)), "{row:#}");
        assert_eq!(row["baseline"], json!(algorithm != "nsigma"));
    }
    // What needs traces fails on cases without them, and that is a miss.
    for algorithm in ["max-change", "most-frequent"] {
        let row = rows.iter().find(|row| row["algorithm"] == algorithm).unwrap();
        assert_eq!((&row["failures"], &row["avg5"]["value"]), (&json!(3), &json!(0.0)), "{row:#}");
        assert_eq!(row["reasons"], json!({"algorithm.insufficient_data": 3}));
    }
    assert!(rows.iter().any(|row| row["algorithm"] == "random" && row["failures"] == 0));
    // Nothing was flagged, so under `pipeline` everything is a miss.
    let pipeline = board["rows"].as_array().unwrap().iter().find(|row| row["row"] == "pipeline").unwrap();
    assert_eq!(pipeline["ac5"]["value"], 0.0);
}

#[test]
fn an_imported_board_has_every_form_and_refuses_what_is_no_import() {
    let site = Site::new();
    let packs = imported(&site);
    let form = |format: &str| score(&site, &packs, &["--algorithm", "nsigma", "--format", format]);
    let table = form("table");
    assert!(table.out.contains("4 submitted, 4 completed, 4 exposed, 3 valid, 3 scored"), "{}", table.out);
    assert!(table.out.contains("not counted: 1 packs, damaged"), "{}", table.out);
    assert!(form("md").out.starts_with("# Board: imported packs"));
    let csv = form("csv").out;
    assert!(csv.contains("imported,ranking,nsigma,no,no,,3,3,Avg@5,0.833333,"), "{csv}");
    assert!(form("svg").out.starts_with("<svg") && form("png").out.contains("PNG"));
    assert_eq!(form("csv").out, csv, "the same packs give the same board");

    let code =
        |ran: Ran, code: &str, exit: i32| assert!(ran.code == exit && ran.err.contains(code), "{code}: {}", ran.err);
    code(score(&site, &packs, &["--algorithm", "nsigmaa"]), "algorithm.unknown", 7);
    code(score(&site, &packs, &["--algorithm", "baro", "--algorithm", "baro"]), "algorithm.repeated", 2);
    code(score(&site, site.path().to_str().unwrap(), &[]), "score.no_pack", 2);
    code(score(&site, &packs, &["--seconds", "0"]), "--seconds", 2);
    // That nobody reads on is no failure.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut unread = site.command("aegis");
    unread
        .args(["datapack", "score", &format!("{packs}/re-000001"), "--algorithm", "nsigma", "--format", "csv"])
        .stdout(writer);
    let said = unread.output().unwrap();
    let words = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success() && words.contains("scored 1 of 1"), "{words}");
    // A method that gets no memory has failed on each of them, and the board is printed all the same.
    let small = score(&site, &packs, &["--algorithm", "nsigma", "--format", "json", "--memory", "1"]);
    let board: Value = serde_json::from_str(&small.out).unwrap();
    let row = board["rows"].as_array().unwrap().iter().find(|row| row["algorithm"] == "nsigma").unwrap();
    assert_eq!((&row["failures"], &row["reasons"]), (&json!(3), &json!({"algorithm.out_of_memory": 3})));
}
