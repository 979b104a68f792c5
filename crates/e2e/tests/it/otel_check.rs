//! `aegisctl otel check`: what telemetry lacks is named, with its share and since when.

use std::time::UNIX_EPOCH;

use model::DataTime;
use serde_json::{Value, json};
use telemetry::otlp::common::any_value::Value as Any;
use telemetry::otlp::common::{AnyValue, KeyValue};
use telemetry::otlp::trace::{ResourceSpans, ScopeSpans, Span};
use telemetry::otlp::{ExportTraceServiceRequest, Resource};
use telemetry::{Ingest, SignalStore};
use testkit::process::{Ran, Site, finish};

use crate::round::{self, CONTROL};

const SECOND: u64 = 1_000_000_000;

/// An hour ago, to the second: records from the network must be near the clock.
fn start() -> u64 {
    (UNIX_EPOCH.elapsed().unwrap().as_secs() - 3600) * SECOND
}

fn shown(nanos: u64) -> String {
    DataTime(i64::try_from(nanos).unwrap()).to_string()
}

fn pair(key: &str, value: &str) -> KeyValue {
    let value = Some(AnyValue { value: Some(Any::StringValue(value.into())) });
    KeyValue { key: key.into(), value, ..KeyValue::default() }
}

/// Sends server spans of one service, the `number`-th of them `number` tenths of a second after `from`.
fn send(
    ingest: &Ingest,
    service: &str,
    resource: &[(&str, &str)],
    attributes: &[(&str, &str)],
    from: u64,
    numbers: &[u64],
) {
    let pairs = |list: &[(&str, &str)]| list.iter().map(|(key, value)| pair(key, value)).collect::<Vec<_>>();
    let span = |&number: &u64| Span {
        trace_id: u128::from(number + 1).to_be_bytes().to_vec(),
        span_id: (number + 1).to_be_bytes().to_vec(),
        name: "GET /".into(),
        kind: 2,
        start_time_unix_nano: from + number * SECOND / 10,
        end_time_unix_nano: from + number * SECOND / 10 + 1_000_000,
        attributes: pairs(attributes),
        ..Span::default()
    };
    let mut of_resource = pairs(resource);
    of_resource.push(pair("service.name", service));
    let scope_spans = vec![ScopeSpans { spans: numbers.iter().map(span).collect(), ..ScopeSpans::default() }];
    let resource = Some(Resource { attributes: of_resource, ..Resource::default() });
    let resource_spans = vec![ResourceSpans { resource, scope_spans, ..ResourceSpans::default() }];
    let accepted = ingest.traces(ExportTraceServiceRequest { resource_spans }).unwrap();
    assert_eq!(accepted.accepted, numbers.len() as u64);
}

const WHOLE: &[(&str, &str)] =
    &[("k8s.namespace.name", "ts0"), ("service.namespace", "ts0"), ("k8s.pod.name", "pod-1")];
const HTTP: &[(&str, &str)] = &[("http.request.method", "GET"), ("http.response.status_code", "200")];

fn findings(report: &Value) -> Vec<(&str, &str)> {
    let list = report["findings"].as_array().unwrap();
    list.iter().map(|finding| (finding["signal"].as_str().unwrap(), finding["missing"].as_str().unwrap())).collect()
}

fn check(site: &Site, arguments: &[&str], code: i32) -> Value {
    let ran: Ran = site.ctl(&[&["otel", "check", "ts"], arguments].concat());
    assert_eq!(ran.code, code, "{}{}", ran.out, ran.err);
    ran.json()
}

/// From minute 10 on, three records in ten of one service lack the pod's name.
#[test]
fn a_sender_that_forgets_an_attribute_is_found_with_its_share_and_since_when() {
    let site = Site::new();
    let store = SignalStore::open(site.data().join("telemetry")).unwrap();
    let ingest = store.ingest().unwrap();
    let forgetful = &WHOLE[..2];
    let before: Vec<u64> = (0..1000).collect();
    let (lacking, fine): (Vec<u64>, Vec<u64>) = (0..1000).partition(|number| number % 10 < 3);
    let start = start();
    let later = start + 600 * SECOND;
    send(&ingest, "ts-order-service", WHOLE, HTTP, start, &before);
    send(&ingest, "ts-order-service", WHOLE, HTTP, later, &fine);
    send(&ingest, "ts-order-service", forgetful, HTTP, later, &lacking);
    send(&ingest, "ts-seat-service", WHOLE, &[], start, &before);
    // The entrance's spans must say how a request ended, and those of no other service.
    send(&ingest, "ts-ui-dashboard", WHOLE, &HTTP[..1], start, &before[..50]);
    // A record that names no namespace is one of this system when its service is.
    send(&ingest, "ts-route-service", &WHOLE[2..], &[], start, &before[..7]);
    send(&ingest, "somebody-elses", &WHOLE[2..], &[], start, &before[..9]);
    drop((ingest, store));

    let daemon = site.serve(&[]);
    let report = check(&site, &[], 5);
    let missing = ["logs", "metrics", "metrics_sum", "metrics_histogram"].map(|signal| (signal, "any record"));
    let found = findings(&report);
    assert!(missing.iter().all(|finding| found.contains(finding)), "{report:#}");
    let found: Vec<&Value> =
        report["findings"].as_array().unwrap().iter().filter(|finding| finding["signal"] == "traces").collect();
    let brief: Vec<Value> =
        found.iter().map(|f| json!([f["namespace"], f["missing"], f["records"], f["without"], f["since"]])).collect();
    let expected = json!([
        ["", "k8s.namespace.name", 7, 7, shown(start)],
        ["", "service.namespace", 7, 7, shown(start)],
        ["ts0", "k8s.pod.name", 3050, 300, shown(later)],
        ["ts0", "http.response.status_code or http.status_code", 50, 50, shown(start)],
    ]);
    assert_eq!(Value::from(brief), expected, "{report:#}");
    let pod = found[2];
    assert_eq!(pod["share"], json!(300.0 / 3050.0));
    let service = json!([{"service": "ts-order-service", "records": 2000, "without": 300, "share_since": 0.3, "since": shown(later)}]);
    assert_eq!(pod["services"], service);

    let table = finish(site.command("aegisctl").args(["otel", "check", "ts"]));
    assert!(
        table.code == 5 && table.out.contains(&format!("ts-order-service 30.0 % since {}", shown(later))),
        "{}",
        table.out
    );
    let only = check(&site, &["--namespace", "ts0"], 5);
    assert!(only["findings"].as_array().unwrap().iter().all(|finding| finding["namespace"] == "ts0"), "{only:#}");
    let unknown = |arguments: &[&str], code: &str, fix: &str| {
        let error = site.ctl(&[&["otel", "check"], arguments].concat()).error();
        assert_eq!((error["exit_code"].as_i64(), error["code"].as_str()), (Some(7), Some(code)), "{error:#}");
        assert!(error["suggestion"].as_str().unwrap().contains(fix), "{error:#}");
    };
    unknown(&["tz"], "system.unknown", "`ts`");
    unknown(&["ts", "--namespace", "ts-0"], "namespace.unknown", "`ts0`");
    unknown(&["ts", "--run", "c0ffee"], "run.unknown", "run list");
    unknown(&["ts", "--run", "00000000-0000-4000-8000-000000000000"], "run.unknown", "run list");
    daemon.stop();
}

/// Nothing has arrived: every required signal is missing. What the simulation sends is whole.
#[test]
fn nothing_is_found_missing_by_its_absence_and_the_simulation_sends_all_that_is_required() {
    let (site, daemon) = round::ts(&[]);
    let report = check(&site, &[], 5);
    assert_eq!(report["namespaces"], json!([]));
    assert!(
        report["findings"].as_array().unwrap().iter().all(|finding| finding["missing"] == "any record"),
        "{report:#}"
    );
    assert_eq!(findings(&report).len(), 5, "{report:#}");

    let run = round::run(&site, CONTROL, &["--seed", "8"], 0);
    let report = check(&site, &["--run", &round::text(&run["id"])], 0);
    assert_eq!((&report["ok"], &report["namespaces"][0]["namespace"]), (&true.into(), &"ts0".into()), "{report:#}");
    let short = &round::text(&run["id"])[..8];
    assert_eq!(check(&site, &["--run", short, "--namespace", "ts0"], 0), report);
    for (arguments, code) in [
        (["ts", "--run", short, "--namespace", "ts1"].as_slice(), "run.other_namespace"),
        (&["ob", "--run", short], "run.other_system"),
        (&["ts", "--namespace", "ts77"], "namespace.unknown"),
    ] {
        let error = site.ctl(&[&["otel", "check"], arguments].concat()).error();
        assert_eq!((error["exit_code"].as_i64(), error["code"].as_str()), (Some(7), Some(code)), "{error:#}");
    }
    let spans = report["namespaces"][0]["signals"][0]["records"].as_u64().unwrap();
    assert!(spans > 1000, "{report:#}");
    daemon.stop();
}
