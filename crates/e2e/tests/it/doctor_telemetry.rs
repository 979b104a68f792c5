//! `aegisctl doctor` on what arrives: each thing that a sender or a collector leaves out is the only one that is found.
//!
//! What repairs it is outside of the product (a collector, which `otel render` gives), so the fix is for a person; that what was
//! rendered leaves nothing to find is tested beside it.

use std::time::UNIX_EPOCH;

use serde_json::{Value, json};
use testkit::process::{Daemon, Site};

use crate::otlp::{http, receiver};
use crate::round::text;

const SECOND: u64 = 1_000_000_000;
/// What every record of a service says of itself.
const RESOURCE: &[(&str, &str)] = &[
    ("k8s.namespace.name", "hs0"),
    ("k8s.pod.name", "user-5d9c"),
    ("k8s.deployment.name", "user"),
    ("service.name", "user"),
    ("service.namespace", "hs0"),
];

/// Keys and values of a resource.
type Attributes = Vec<(&'static str, &'static str)>;

/// Records of all signals, all of them whole.
struct Records {
    /// Parts of the resource that a signal's records lack, and what they have in its place.
    resource: fn(&str, Attributes) -> Attributes,
    /// Signals that do not come at all.
    without: &'static [&'static str],
    /// Seconds ago.
    ago: u64,
}

const WHOLE: Records = Records { resource: |_, resource| resource, without: &[], ago: 60 };

impl Records {
    fn send(&self, daemon: &Daemon) {
        let at = (UNIX_EPOCH.elapsed().unwrap().as_secs() - self.ago) * SECOND;
        let (time, trace) = (at.to_string(), "5b8efff798038103d269b633813fc60c");
        let point = json!([{ "timeUnixNano": time, "asDouble": 1.5 }]);
        let buckets = json!([{ "timeUnixNano": time, "count": "1", "sum": 2.0, "bucketCounts": ["0", "1"], "explicitBounds": [1.0] }]);
        let metrics = [
            ("gauge", json!({ "name": "in.flight", "gauge": { "dataPoints": point } })),
            (
                "sum",
                json!({ "name": "requests", "sum": { "aggregationTemporality": 2, "isMonotonic": true, "dataPoints": point } }),
            ),
            (
                "histogram",
                json!({ "name": "latency", "histogram": { "aggregationTemporality": 2, "dataPoints": buckets } }),
            ),
        ];
        let span = json!({
            "traceId": trace, "spanId": "eee19b7ec3c1b174", "name": "user.User/CheckUser", "kind": 2,
            "startTimeUnixNano": time, "endTimeUnixNano": (at + 1000).to_string(),
        });
        let line = json!({ "timeUnixNano": time, "traceId": trace, "spanId": "eee19b7ec3c1b174", "body": { "stringValue": "CheckUser" } });
        let mut exports = vec![
            ("traces", "traces", "resourceSpans", json!([{ "spans": [span] }]), "scopeSpans"),
            ("logs", "logs", "resourceLogs", json!([{ "logRecords": [line] }]), "scopeLogs"),
        ];
        for (kind, metric) in metrics {
            exports.push((kind, "metrics", "resourceMetrics", json!([{ "metrics": [metric] }]), "scopeMetrics"));
        }
        for (kind, path, list, scopes, scope) in exports {
            if self.without.contains(&kind) {
                continue;
            }
            let resource = (self.resource)(kind, RESOURCE.to_vec()).into_iter();
            let attributes: Vec<Value> =
                resource.map(|(key, value)| json!({ "key": key, "value": { "stringValue": value } })).collect();
            let body = json!({ list: [{ "resource": { "attributes": attributes }, scope: scopes }] });
            let answer = ureq::post(format!("{}/v1/{path}", http(daemon))).send_json(&body).unwrap();
            assert_eq!(answer.status(), 200, "{kind}");
        }
    }
}

/// What is sent, by the check that finds it.
const PLANTS: &[(&str, &[Records])] = &[
    // A second service whose spans name no namespace.
    (
        "telemetry.under_namespace",
        &[
            WHOLE,
            Records {
                resource: |_, resource| {
                    let nameless =
                        |(key, _): &(&str, &str)| !key.ends_with("namespace") && !key.ends_with("namespace.name");
                    resource.into_iter().filter(nameless).collect()
                },
                without: &["logs", "gauge", "sum", "histogram"],
                ..WHOLE
            },
        ],
    ),
    ("telemetry.logs_arrive", &[Records { without: &["logs"], ..WHOLE }]),
    ("telemetry.traces_arrive", &[Records { without: &["traces"], ..WHOLE }]),
    ("telemetry.histograms_arrive", &[Records { without: &["histogram"], ..WHOLE }]),
    (
        "telemetry.service_namespace_set",
        &[Records { resource: |kind, all| lacking(kind == "traces", "service.namespace", all), ..WHOLE }],
    ),
    (
        "telemetry.service_named",
        &[Records { resource: |kind, all| lacking(kind == "logs", "service.name", all), ..WHOLE }],
    ),
    (
        "telemetry.complete",
        &[Records { resource: |kind, all| lacking(kind == "traces", "k8s.pod.name", all), ..WHOLE }],
    ),
    // Another slot sent before, and is silent now.
    (
        "telemetry.peers_agree",
        &[
            WHOLE,
            Records {
                resource: |_, resource| {
                    resource.into_iter().map(|(key, value)| (key, if value == "hs0" { "hs1" } else { value })).collect()
                },
                ago: 3000,
                ..WHOLE
            },
        ],
    ),
];

fn lacking(is_meant: bool, lost: &str, all: Attributes) -> Attributes {
    all.into_iter().filter(|(key, _)| !is_meant || *key != lost).collect()
}

/// The checks that find something.
fn odd(site: &Site) -> Vec<Value> {
    let checks = site.ctl(&["doctor"]).json()["checks"].as_array().unwrap().clone();
    checks.into_iter().filter(|check| check["state"] == "failed" || check["state"] == "warning").collect()
}

#[test]
fn each_thing_that_telemetry_lacks_is_the_only_one_found() {
    for (id, sent) in std::iter::once(&("", &[WHOLE][..])).chain(PLANTS) {
        let site = Site::new();
        let daemon = receiver(&site);
        site.ctl(&["system", "register", "--name", "hs"]).ok();
        for records in *sent {
            records.send(&daemon);
        }
        let found = odd(&site);
        let ids: Vec<String> = found.iter().map(|check| text(&check["id"])).collect();
        let expected: Vec<&str> = Some(*id).filter(|id| !id.is_empty()).into_iter().collect();
        assert_eq!(ids, expected, "{found:#?}");
        assert!(found.iter().all(|check| check["repair"] == "person" && check["fix"].is_string()), "{found:#?}");
        daemon.stop();
    }
}
