//! Equal bytes for equal input, publication in one step, and what an interrupted build leaves behind.

use std::fs;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::concat_batches;
use datapack::{Builder, InMemory, Signal};
use model::Window;
use serde_json::Value;
use tempfile::tempdir;

use crate::synthetic::{self, input, map, published, telemetry, tree};

/// The JSON pointers at which two values differ.
fn differing(a: &Value, b: &Value, at: &str, into: &mut Vec<String>) {
    match (a, b) {
        _ if a == b => {}
        (Value::Object(left), Value::Object(right)) if left.keys().eq(right.keys()) => {
            left.iter().for_each(|(key, value)| differing(value, &right[key], &format!("{at}/{key}"), into));
        }
        _ => into.push(at.to_owned()),
    }
}

#[test]
fn packs_with_different_ids_differ_only_in_ids_and_provenance() {
    let (one, two) = (tempdir().unwrap(), tempdir().unwrap());
    let (a, b) = (published(one.path(), 1), published(two.path(), 2));
    let (left, right) = (tree(&one.path().join(a.name())), tree(&two.path().join(b.name())));
    assert_eq!(left.len(), 12 + 3 + 3 + 1);
    let mut differences = Vec::new();
    for ((name, a), (other, b)) in left.iter().zip(&right) {
        assert_eq!(name, other);
        if a == b {
            continue;
        }
        match (serde_json::from_slice(a), serde_json::from_slice(b)) {
            (Ok(a), Ok(b)) => differing(&a, &b, name, &mut differences),
            _ => differences.push(name.clone()),
        }
    }
    println!("fields that differ: {differences:#?}");
    let allowed =
        ["open/injection.json/name", "sealed/injection.json/", "sealed/manifest.json/provenance/", "sha256sum.txt"];
    for difference in &differences {
        assert!(allowed.iter().any(|allowed| difference.starts_with(allowed)), "{difference}");
    }
    assert!(differences.contains(&"sealed/manifest.json/provenance/built_at".to_owned()));
}

#[test]
fn order_and_batching_of_the_source_leave_no_trace() {
    let (ordered, shuffled) = (tempdir().unwrap(), tempdir().unwrap());
    let pack = published(ordered.path(), 1);
    let mut source = telemetry();
    for window in Window::BOTH {
        for signal in Signal::SOURCED {
            let whole = source.replace(window, signal, Vec::new());
            let whole = concat_batches(&whole[0].schema(), &whole).unwrap();
            // Back to front, in pieces of uneven size.
            let reversed: UInt32Array = (0..whole.num_rows() as u32).rev().collect();
            let whole = arrow::compute::take_record_batch(&whole, &reversed).unwrap();
            let mut pieces = Vec::new();
            let mut from = 0;
            while from < whole.num_rows() {
                let rows = (from % 17 + 1).min(whole.num_rows() - from);
                pieces.push(whole.slice(from, rows));
                from += rows;
            }
            source.replace(window, signal, pieces);
        }
    }
    let other = Builder::new(shuffled.path(), input(1)).unwrap().build(&source).unwrap().publish().unwrap();
    assert_eq!(tree(&ordered.path().join(pack.name())), tree(&shuffled.path().join(other.name())));
}

#[test]
fn the_report_counts_what_is_there() {
    let packs = tempdir().unwrap();
    let mut source = telemetry();
    let normal = source.replace(Window::Normal, Signal::Logs, Vec::new());
    let twice: Vec<RecordBatch> = [normal.clone(), normal].concat();
    source.replace(Window::Normal, Signal::Logs, twice);
    let staged = Builder::new(packs.path(), input(1)).unwrap().build(&source).unwrap();
    let quality = &staged.manifest().content.quality;
    let logs = &quality.normal.signals[&Signal::Logs];
    assert_eq!((logs.rows, logs.duplicates), (400, 200));
    assert_eq!(logs.attributes["k8s.pod.name"], 1.0);
    assert_eq!(logs.longest_gap_ns, 200_000_000);
    assert_eq!(quality.normal.root_spans, synthetic::TRACES as u64);
    assert_eq!(quality.normal.signals[&Signal::TraceIdTs].rows, synthetic::TRACES as u64);
    assert_eq!(quality.normal.services_without_traces, ["cart-db"]);
    assert!(quality.findings.is_empty(), "{:?}", quality.findings);
}

#[test]
fn nothing_is_visible_before_it_is_published_and_a_repeat_is_a_success() {
    let packs = tempdir().unwrap();
    let visible = || -> Vec<String> {
        let entries =
            fs::read_dir(packs.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        entries.filter(|name| !name.starts_with('.')).collect()
    };
    let build = |number, built_at: &str, source: &InMemory| {
        let mut input = input(number);
        input.provenance.insert("built_at".into(), built_at.into());
        Builder::new(packs.path(), input).unwrap().build(source).unwrap()
    };
    let first = build(1, "monday", &telemetry());
    assert!(visible().is_empty());
    let first = first.publish().unwrap();
    assert_eq!(visible(), ["shop-000001"]);

    let again = build(1, "tuesday", &telemetry()).publish().unwrap();
    assert_eq!(again.manifest(), first.manifest(), "the first one stays");
    drop(build(2, "never published", &telemetry()));

    let mut other = telemetry();
    other.push(
        Window::Abnormal,
        Signal::Logs,
        synthetic::logs(&[(synthetic::windows().abnormal_start.0, "cart", "new".into())]),
    );
    let problem = build(1, "wednesday", &other).publish().unwrap_err();
    assert_eq!(problem.code, "datapack.already_exists");
    let found = problem.found.unwrap();
    assert!(found.contains("open/abnormal_logs.parquet") && !found.contains("traces"), "{found}");
    first.verify().unwrap();
    assert_eq!(visible(), ["shop-000001"]);
    assert_eq!(staged(packs.path()), Vec::<String>::new());
}

/// What is left in the folder of unfinished builds.
fn staged(packs: &std::path::Path) -> Vec<String> {
    tree(&packs.join(".staging")).into_iter().map(|(name, _)| name).filter(|name| name != "lock").collect()
}

#[test]
fn leftovers_of_a_killed_build_are_removed_and_those_of_a_living_one_are_not() {
    let packs = tempdir().unwrap();
    let living = Builder::new(packs.path(), input(1)).unwrap().build(&telemetry()).unwrap();
    let dead = packs.path().join(".staging/dead/shop-000001/open");
    fs::create_dir_all(&dead).unwrap();
    fs::write(dead.join("normal_traces.parquet"), "half").unwrap();
    fs::write(packs.path().join(".staging/dead.alive"), "").unwrap();

    published(packs.path(), 2).verify().unwrap();
    assert!(!staged(packs.path()).iter().any(|name| name.starts_with("dead")), "{:?}", staged(packs.path()));
    living.publish().unwrap().verify().unwrap();
    assert_eq!(staged(packs.path()), Vec::<String>::new());
}

#[test]
fn a_control_has_no_truth_and_a_fault_needs_one() {
    let packs = tempdir().unwrap();
    let mut control = input(1);
    control.faults.clear();
    assert_eq!(Builder::new(packs.path(), control.clone()).err().unwrap().code, "datapack.truth_missing");
    control.truth.entries.clear();
    let pack = Builder::new(packs.path(), control).unwrap().build(&telemetry()).unwrap().publish().unwrap();
    assert_eq!(pack.injection().unwrap()["ground_truth"], serde_json::json!([]));

    let mut fault = input(2);
    fault.truth.entries.clear();
    assert_eq!(Builder::new(packs.path(), fault).err().unwrap().code, "datapack.truth_missing");
    let mut renamed = input(3);
    renamed.injection.extend(map(serde_json::json!({"name": "kill-cart", "ground_truth": []})));
    let pack = Builder::new(packs.path(), renamed).unwrap().build(&telemetry()).unwrap().publish().unwrap();
    let injection = pack.injection().unwrap();
    assert_eq!(injection["name"], "shop-000003");
    assert_eq!(injection["ground_truth"][0]["service"], serde_json::json!(["cart"]));
}
