//! Several faults in one run: each has its own truth, witness and receipt, and none of them is lost or left behind.

use serde_json::{Value, json};
use testkit::process::Site;

use crate::crash::Stand;
use crate::round::{self, ORIGIN, text};
use crate::{pack, world};

/// Three faults of three families; one of them is one-shot.
const THREE: &[&str] = &[
    "--fault",
    "ts-travel-service network_delay target_service=ts-basic-service latency_ms=2000",
    "--fault",
    "ts-order-service cpu_stress workers=4 load_pct=100",
    "--fault",
    "ts-station-service pod_kill",
    "--algorithm",
    "baro",
];

pub const TWO: &[&str] = &[
    "--fault",
    "ts-travel-service network_delay target_service=ts-basic-service latency_ms=2000",
    "--fault",
    "ts-order-service cpu_stress workers=4 load_pct=100",
    "--algorithm",
    "baro",
];

#[test]
fn each_fault_of_a_batch_has_its_own_truth_witness_and_receipt() {
    let (site, _daemon) = round::ts(&[]);
    let run = round::run(&site, THREE, &["--seed", "7"], 0);
    world::until_clean(&site);
    world::assert_each_effect_once(&world::journal(&site), 3);
    let folder = pack::folder(&site, &run);

    let truth = pack::json(&folder, "sealed/truth.json");
    let rows: Vec<(i64, String, String)> = truth["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["fault"].as_i64().unwrap(), text(&entry["role"]), text(&entry["service"])))
        .collect();
    let row = |fault, role: &str, service: &str| (fault, role.to_owned(), service.to_owned());
    let expect = [
        row(0, "root", "ts-travel-service"),
        row(0, "peer", "ts-basic-service"),
        row(1, "root", "ts-order-service"),
        row(2, "root", "ts-station-service"),
    ];
    assert_eq!(rows, expect, "{truth:#}");
    let of = |index: usize| &truth["entries"][index];
    assert!(!of(0)["span"].as_array().unwrap().is_empty(), "the spans between the two: {truth:#}");
    assert_eq!(of(2)["metric"], json!(["cpu"]), "{truth:#}");
    for index in [0, 2, 3] {
        assert_eq!(of(index)["pod"].as_array().unwrap().len(), 1, "the pods that were hit: {truth:#}");
        assert!(!of(index)["container"].as_array().unwrap().is_empty(), "{truth:#}");
    }

    let provenance = &pack::json(&folder, "sealed/manifest.json")["provenance"];
    assert_witnesses(provenance, &run);
    assert_eq!(provenance["receipt"], run["recovery"], "the run shows what the manifest has");
    let removed = provenance["receipt"]["removed"].as_array().unwrap();
    let kinds: Vec<&Value> = removed.iter().map(|fault| &fault["capability"]).collect();
    assert_eq!(kinds, ["network_delay", "cpu_stress", "pod_kill"], "{provenance:#}");
    assert!(provenance["receipt"]["back_at"].is_i64(), "{provenance:#}");
    assert!(text(&provenance["receipt"]["measure"]).contains("sigma"), "{provenance:#}");

    let visibility = &provenance["visibility"];
    assert_eq!(visibility["targets"].as_array().unwrap().len(), 3, "{visibility:#}");
    let listed = site.ctl(&["datapack", "list"]).ok().json();
    assert_eq!(listed["items"][0]["visible"], visibility["visible"], "{listed:#}");
    assert_eq!(run["visible"], visibility["visible"]);
    let cpu = &visibility["targets"][1];
    assert_eq!((&cpu["service"], &cpu["visible"]), (&json!("ts-order-service"), &json!(true)), "{visibility:#}");
    // None of it is in the part that an algorithm sees.
    for file in ["open/injection.json", "open/env.json", "open/k8s.json"] {
        let shown = std::fs::read_to_string(folder.join(file)).unwrap();
        assert!(!shown.contains("cpu_stress") && !shown.contains("pod_kill"), "{file}");
    }
}

fn assert_witnesses(provenance: &Value, run: &Value) {
    let felt = provenance["witness"].as_array().unwrap();
    assert_eq!(run["witness"], provenance["witness"], "the run shows what the manifest has");
    assert!(felt.iter().all(|one| one["exposed"] == true), "{felt:#?}");
    let kinds: Vec<&Value> = felt.iter().map(|one| &one["capability"]).collect();
    assert_eq!(kinds, ["network_delay", "cpu_stress", "pod_kill"]);
    let lasted = |index: usize| {
        let effect = &felt[index]["effect"];
        (effect["until"].as_i64().unwrap() - effect["from"].as_i64().unwrap()) / 1_000_000_000
    };
    // Those that last for the window end with it; the killed pod may be back before that.
    assert_eq!((lasted(0), lasted(1)), (60, 60), "{felt:#?}");
    assert!((5..=60).contains(&lasted(2)), "{felt:#?}");
    assert!(text(&felt[2]["effect_measure"]).contains("until the target was back"), "{felt:#?}");
    assert!(felt.iter().all(|one| one["effect"]["from"] == felt[0]["effect"]["from"]), "{felt:#?}");
}

#[test]
fn a_batch_with_a_fault_that_nobody_feels_is_not_exposed_and_names_it() {
    let (site, _daemon) = round::ts(&[]);
    let batch = json!({
        "system": "ts",
        "faults": [
            {"service": "ts-travel-service", "capability": "network_delay",
             "target": {"target_service": "ts-basic-service"}, "params": {"latency_ms": 2000}},
            {"service": "ts-news-service", "capability": "cpu_stress", "params": {"workers": 1, "load_pct": 10}},
        ],
        "seed": 7, "origin": ORIGIN.parse::<i64>().unwrap(), "load": 10.0, "algorithms": ["baro"],
    });
    let file = site.write("batch.json", &batch.to_string());
    let reply = site.ctl(&["inject", "submit", "-f", file.to_str().unwrap()]).ok().json();
    let run = round::follow(&site, &text(&reply["items"][0]["trace_id"]), 5);
    assert_eq!((&run["verdict"], &run["reason"]), (&json!("not_exposed"), &json!("not_exposed")), "{run:#}");
    let message = text(&run["message"]);
    assert!(message.starts_with("fault 2 of 2 (cpu_stress on ts-news-service): "), "{message}");
    assert!(!message.contains("network_delay"), "only the one that was not felt is named: {message}");
    assert_eq!(run["exposed"], false);
    let board = site.ctl(&["board"]).ok().json();
    assert_eq!(board["funnel"]["exposed"], 0, "{board:#}");
    let contradiction =
        ["--fault", "ts-order-service pod_kill", "--fault", "ts-order-service cpu_stress workers=1 load_pct=50"];
    let refused = site.ctl(&round::submission(&contradiction, &[]));
    assert_eq!((refused.code, &refused.error()["code"]), (2, &json!("batch.contradiction")), "{}", refused.err);
}

#[test]
fn a_batch_that_is_killed_half_started_is_completed_and_taken_back() {
    let stand = Stand::of(TWO, &["--seed", "7"], 2);
    for point in [
        "fault_injection.after-effect:1",
        "fault_injection.before-effect:2",
        "fault_injection.after-effect:2",
        "fault_injection.after-recover:1",
    ] {
        stand.kill_at(point).unwrap_or_else(|failure| panic!("{point}: {failure}"));
    }
}

/// The names of a run's faults that are live, as the outside world sees them.
pub fn live_faults(site: &Site, namespace: &str) -> Vec<String> {
    let state = world::slot(&site.data(), namespace);
    // A slot with nothing installed has no fault; whatever is installed lists its own.
    let release = &state["release"];
    let faults: &[Value] =
        if release.is_null() { &[] } else { release["faults"].as_array().expect("a list of faults") };
    let live = faults.iter().filter(|fault| fault["ended_at"].is_null());
    live.map(|fault| text(&fault["object"]["name"])).collect()
}
