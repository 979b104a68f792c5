//! A paired control: the same environment without the fault. Everything that was complete before the fault is equal.

use std::path::Path;

use datapack::Pack;
use rca::frame::Signals;
use serde_json::json;

use crate::determinism::differences;
use crate::round::{self, FAULT, follow, text};
use crate::{pack, world};

/// Files that hold nothing but what was there before the fault: equal to the byte.
const EQUAL: &[&str] = &[
    "open/env.json",
    "open/k8s.json",
    "open/normal_logs.parquet",
    "open/normal_metrics.parquet",
    "open/normal_metrics_histogram.parquet",
    "open/normal_metrics_sum.parquet",
];

/// Fields of the two sealed documents in which a control differs: what the fault is, and whose pack it is.
const FIELDS: &[&str] = &[
    "/content/files",
    "/content/quality",
    "/created_at",
    "/display_config/faults",
    "/engine_config",
    "/fault_type",
    "/ground_truth",
    "/id",
    "/name",
    "/provenance/control_of",
    "/provenance/faults",
    "/provenance/name",
    "/provenance/receipt",
    "/provenance/run",
    "/provenance/visibility",
    "/provenance/witness",
    "/trace_id",
];

#[test]
fn a_paired_control_differs_only_after_the_fault_and_in_what_the_fault_is() {
    let (site, _daemon) = round::ts(&[]);
    // One slot for both, because its name is part of the telemetry: the control comes second.
    let arguments = ["--seed", "7", "--slot", "0", "--paired-control"];
    let reply = site.ctl(&round::submission(FAULT, &arguments)).ok().json();
    let items = reply["items"].as_array().unwrap();
    let [faulty, control] = [0, 1].map(|index| text(&items[index]["trace_id"]));
    assert_eq!((&items[1]["control_of"], &items[0]["seed"]), (&json!(faulty), &items[1]["seed"]), "{reply:#}");
    let (with, without) = (follow(&site, &faulty, 0), follow(&site, &control, 0));
    assert_eq!((&with["paired_control"], &without["control_of"]), (&json!(control), &json!(faulty)), "they are linked");
    assert_eq!((&with["verdict"], &without["verdict"]), (&json!("anomaly"), &json!("no_anomaly")), "{without:#}");
    world::until_clean(&site);

    let (left, right) = (pack::folder(&site, &with), pack::folder(&site, &without));
    let (one, other) = (pack::digests(&left), pack::digests(&right));
    let names = one.keys().filter(|name| *name != "sealed/conclusion.csv");
    let differing: Vec<&String> = names.filter(|name| other.get(*name) != one.get(*name)).collect();
    println!("files that differ: {differing:#?}");
    for file in EQUAL {
        assert!(one.contains_key(*file) && !differing.iter().any(|name| name == file), "{file} differs");
    }
    for file in ["sealed/manifest.json", "sealed/injection.json"] {
        let mut fields = Vec::new();
        differences(&pack::json(&left, file), &pack::json(&right, file), String::new(), &mut fields);
        println!("{file}: {fields:#?}");
        let strange: Vec<&String> =
            fields.iter().filter(|field| !FIELDS.iter().any(|known| field.starts_with(known))).collect();
        assert!(strange.is_empty(), "{file} differs in {strange:?}");
    }
    assert_eq!(pack::json(&right, "sealed/truth.json"), json!({"entries": []}), "a control has no truth");
    assert_before(&left, &right);
}

/// Every span that had ended before the fault is in both packs.
fn assert_before(left: &Path, right: &Path) {
    let [left, right] = [left, right].map(|folder: &Path| Pack::open(folder).unwrap().load(&[]).unwrap());
    let onset = left.windows.abnormal_start.0;
    let ended = |pack: &rca::frame::Pack| {
        let spans = pack.normal.spans.iter().filter(|span| span.time + i64::try_from(span.duration).unwrap() <= onset);
        let text = |span: &rca::frame::Span| {
            let (service, name) = (pack.names.get(span.service), pack.names.get(span.name));
            (span.time, span.duration, span.trace, span.id, span.parent, service.to_owned(), name.to_owned())
        };
        let mut spans: Vec<_> = spans.map(text).collect();
        spans.sort();
        spans
    };
    let (before, control) = (ended(&left), ended(&right));
    let all = |signals: &Signals| signals.spans.len();
    println!("{} of {} and {} spans had ended before the fault", before.len(), all(&left.normal), all(&right.normal));
    assert!(before.len() > 1000 && before.len() * 10 > all(&left.normal) * 9, "{}", before.len());
    assert!(before == control, "a span that had ended before the fault differs");
    assert!(left.abnormal.spans.len() != right.abnormal.spans.len(), "the fault has an effect");
}
