//! `aegis sim run`: a simulated system streamed into a receiver, and every record found there again.

use std::time::{Duration, Instant};

use model::{WallTime, rfc3339};
use serde_json::Value;
use testkit::process::{Site, until};

use crate::round::text;

/// Records that the receiver says it took.
fn accepted(site: &Site) -> u64 {
    let report = site.ctl(&["doctor", "--only", "telemetry.accepted"]).ok().json();
    let observed = report["checks"][0]["observed"].as_str().unwrap().to_owned();
    observed.split(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{observed}"))
}

fn sent(report: &Value) -> u64 {
    let kinds = report["records"].as_object().unwrap().values();
    kinds.map(|kind| kind["sent"].as_u64().unwrap()).sum()
}

#[test]
fn what_is_streamed_over_http_and_grpc_arrives() {
    let site = Site::new();
    let daemon = site.serve(&["--otlp-http", "127.0.0.1:0", "--otlp-grpc", "127.0.0.1:0"]);
    let address = |key: &str| daemon.server[key].as_str().unwrap().to_owned();
    let mut all = 0;
    for endpoint in [format!("http://{}", address("otlp_http")), format!("grpc://{}", address("otlp_grpc"))] {
        let started = WallTime::now().seconds();
        let ran = site.aegis(&[
            "sim",
            "run",
            "ts",
            "--otlp",
            &endpoint,
            "--speed",
            "max",
            "--duration",
            "60s",
            "--fault",
            "pod_kill",
            "--service",
            "ts-order-service",
            "--fault-at",
            "20s",
            "--fault-for",
            "10s",
            "--load",
            "10",
            "--quiet",
        ]);
        assert_eq!(ran.code, 0, "{endpoint}: {}{}", ran.out, ran.err);
        let report = ran.json();
        assert!(sent(&report) > 1000 && report["records"]["traces"]["sent"].as_u64().unwrap() > 100, "{report:#}");
        assert_eq!((&report["retried"], &report["data_s"]), (&0.into(), &60.0.into()), "{report:#}");
        assert!(report["speed"].as_f64().unwrap() > 1.0 && !report["fault"]["pods"].as_array().unwrap().is_empty());
        // All of it lies in the past, and the last of it is of now.
        let origin = text(&report["origin"]);
        assert!(origin <= rfc3339(started - 59, 0) && origin >= rfc3339(started - 62, 0), "{origin}");
        all += sent(&report);
        until("the receiver has counted them", Duration::from_secs(20), || (accepted(&site) == all).then_some(()));
    }
}

#[test]
fn at_speed_one_data_time_is_the_time_of_the_wall() {
    let site = Site::new();
    let daemon = site.serve(&["--otlp-http", "127.0.0.1:0"]);
    let endpoint = format!("http://{}", text(&daemon.server["otlp_http"]));
    let started = Instant::now();
    let before = WallTime::now().seconds();
    let ran = site.aegis(&["sim", "run", "ts", "--otlp", &endpoint, "--duration", "3s", "--load", "5", "-q"]);
    let report = ran.ok().json();
    let took = started.elapsed();
    assert!(took >= Duration::from_secs(3) && report["speed"].as_f64().unwrap() <= 1.0, "{took:?} {report:#}");
    let origin = text(&report["origin"]);
    assert!(origin >= rfc3339(before, 0) && origin <= rfc3339(WallTime::now().seconds(), 0), "{origin}");
}

#[test]
fn what_is_wrong_is_told_before_anything_is_sent_and_a_silent_receiver_after_the_patience() {
    let site = Site::new();
    let run = |more: &[&str]| site.aegis(&[&["sim", "run", "ts", "--quiet"], more].concat());
    let nobody = ["--otlp", "http://127.0.0.1:1", "--speed", "max", "--duration", "10s", "--patience", "1s"];
    let started = Instant::now();
    let ran = run(&nobody);
    assert_eq!((ran.code, ran.err.contains("otlp.unreachable")), (10, true), "{}", ran.err);
    assert!(started.elapsed() >= Duration::from_secs(1), "the patience was cut short: {}", ran.err);
    assert_eq!(sent(&ran.json()), 0);
    for (arguments, code) in [
        (&["--otlp", "127.0.0.1:4318"][..], "otlp.endpoint_malformed"),
        (&["--otlp", "http://h:4318", "--fault", "pod_kil", "--service", "a"], "capability.unknown"),
        (
            &["--otlp", "http://h:4318", "--fault", "pod_kill", "--service", "ts-order-service", "--duration", "60s"],
            "sim.argument_wrong",
        ),
        (&["--otlp", "http://h:4318", "--load", "0"], "sim.argument_wrong"),
        (&["--otlp", "http://h:4318", "--fault-at", "30s"], "--fault-at"),
        (&["--otlp", "http://h:4318", "--fault-for", "30s"], "--fault-for"),
    ] {
        let ran = run(arguments);
        assert!(ran.code != 0 && ran.err.contains(code) && ran.out.is_empty(), "{arguments:?}: {}{}", ran.out, ran.err);
    }
}
