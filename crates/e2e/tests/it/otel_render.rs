//! `aegisctl otel render`: a real collector takes what is rendered, and what it makes of real clients' records is whole.
//!
//! Two parts need a cluster and are left out of the collector here: the kubelet's statistics, and asking the API server for the pod
//! behind a connection (the processor passes records through). What they would add, the clients say of themselves.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use testkit::process::{Site, finish, until};
use testkit::{Tool, tool};

use crate::doctor::{self, run_as_printed};
use crate::otlp::{http, receiver};
use crate::otlp_collector::{Collector, thrift_batch};
use crate::round::seeds;

const SYSTEMS: [&str; 8] = ["hs", "media", "ob", "otel-demo", "sn", "sockshop", "teastore", "ts"];

/// Without what only a cluster has.
fn off_cluster(mut configuration: Value) -> Value {
    let receivers = configuration["receivers"].as_object_mut().unwrap();
    assert!(receivers.remove("kubelet_stats").is_some());
    let list = configuration["service"]["pipelines"]["metrics"]["receivers"].as_array_mut().unwrap();
    list.retain(|name| name != "kubelet_stats");
    configuration
}

#[test]
fn a_real_collector_takes_what_is_rendered_for_every_system() {
    let Some(program) = tool("rendered configurations are validated", Tool::Collector) else { return };
    let site = Site::new();
    let daemon = site.serve(&[]);
    let systems = seeds().parent().unwrap().join("systems");
    for code in SYSTEMS {
        assert!(systems.join(code).is_dir());
        for to in [["--otlp", "http://127.0.0.1:4318"], ["--clickhouse", "http://127.0.0.1:8123"]] {
            let render = ["otel", "render", code, "--config", to[0], to[1]];
            let configuration = site.ctl(&render).ok().json();
            let file = site.write(&format!("{code}.yaml"), &off_cluster(configuration).to_string());
            let ran = finish(Command::new(&program).args(["validate", "--config"]).arg(file));
            assert_eq!(ran.code, 0, "{code}: {}{}", ran.out, ran.err);
        }
    }
    // As YAML: documents for `kubectl`, the Service's selector being what the pods are labelled with.
    let text = finish(site.command("aegisctl").args(["otel", "render", "sn", "--otlp", "http://aegis:4318"])).ok().out;
    assert_eq!(text.split("---\n").count(), 7, "{text}");
    let parts = site.ctl(&["otel", "render", "sn", "--otlp", "http://aegis:4318"]).ok().json();
    let part = |kind: &str| {
        let parts = parts["manifests"].as_array().unwrap();
        parts.iter().find(|part| part["kind"] == kind).unwrap_or_else(|| panic!("no {kind}")).clone()
    };
    let (service, pods) = (part("Service"), part("DaemonSet")["spec"]["template"].clone());
    assert_eq!(service["spec"]["selector"], pods["metadata"]["labels"]);
    let ports: Vec<i64> =
        service["spec"]["ports"].as_array().unwrap().iter().map(|p| p["port"].as_i64().unwrap()).collect();
    assert!([4317, 4318, 6831, 14268].iter().all(|port| ports.contains(port)), "{ports:?}");
    assert_eq!(part("ClusterRoleBinding")["subjects"][0]["name"], pods["spec"]["serviceAccountName"]);
    let inside: Value = serde_json::from_str(part("ConfigMap")["data"]["collector.yaml"].as_str().unwrap()).unwrap();
    assert_eq!(inside, parts["configuration"]);

    let refused = |arguments: &[&str]| site.ctl(&[&["otel", "render"], arguments].concat()).error()["code"].clone();
    assert_eq!(refused(&["sn"]), "otel.no_destination");
    assert_eq!(refused(&["sn", "--otlp", "aegis:4318"]), "otel.destination_wrong");
    assert_eq!(refused(&["sx", "--otlp", "http://aegis:4318"]), "system.unknown");
    daemon.stop();
}

/// The rendered configuration for this machine: loopback ports, log files below the site, pods as their records name them.
fn here(configuration: &Value, site: &Site, otlp: u16, jaeger: u16) -> String {
    let mut here = off_cluster(configuration.clone());
    here["receivers"]["otlp"]["protocols"] = json!({ "grpc": { "endpoint": format!("127.0.0.1:{otlp}") } });
    here["receivers"]["jaeger"]["protocols"] = json!({ "thrift_http": { "endpoint": format!("127.0.0.1:{jaeger}") } });
    here["processors"]["k8s_attributes"] = json!({ "passthrough": true });
    here["connectors"]["spanmetrics"]["metrics_flush_interval"] = json!("200ms");
    here.to_string().replace("/var/log/pods", &site.path().join("pods").display().to_string())
}

/// A service with an SDK that does not say its name: the workload does. `own` is what it says of itself.
fn application(sdk: &Path, collector: &Collector, own: &str) {
    let sender = Path::new(env!("CARGO_MANIFEST_DIR")).join("senders/send.py");
    let endpoint = format!("http://127.0.0.1:{}", collector.otlp);
    let mut send = Command::new(sdk);
    send.arg(sender).args(["grpc", "gzip", &endpoint, "environment"]).env("OTEL_RESOURCE_ATTRIBUTES", own);
    finish(&mut send).ok();
}

const WHOLE: &str = "k8s.namespace.name=sn0,k8s.pod.name=user-service-5d9c,k8s.deployment.name=user-service";

/// The entrance speaks Jaeger's protocol, and its log is only in its container's file.
fn entrance(site: &Site, collector: &Collector) {
    let now = UNIX_EPOCH.elapsed().unwrap().as_secs();
    let pod = [("k8s.namespace.name", "sn0"), ("k8s.pod.name", "nginx-thrift-7f8b")];
    let request = [("http.method", "GET"), ("http.status_code", "200")];
    let batch = thrift_batch("nginx-thrift", &pod, &request, i64::try_from(now - 60).unwrap() * 1_000_000);
    let answer = ureq::post(format!("http://127.0.0.1:{}/api/traces", collector.jaeger))
        .header("content-type", "application/vnd.apache.thrift.binary")
        .send(&batch)
        .unwrap();
    assert_eq!(answer.status(), 202);
    let line = format!("{} stdout F 10.0.0.1 - - GET /wrk2-api/home-timeline/read\n", rfc3339(now));
    site.write("pods/sn0_nginx-thrift-7f8b_4a3c1a34-5a3d-4d2f-8f0e-0a1b2c3d4e5f/nginx-thrift/0.log", &line);
}

/// Asks until the report is as it should be.
fn until_report(site: &Site, what: &str, is_right: impl Fn(&Value) -> bool) -> Value {
    let mut report = Value::Null;
    let right = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        until(what, Duration::from_secs(40), || {
            report = site.ctl(&["otel", "check", "sn"]).json();
            is_right(&report).then_some(())
        });
    }));
    assert!(right.is_ok(), "{what}: {report:#}");
    report
}

fn is_whole(report: &Value) -> bool {
    report["ok"] == true
}

/// The checks of telemetry that find something.
fn odd(site: &Site) -> Vec<Value> {
    let checks = site.ctl(&["doctor"]).json()["checks"].as_array().unwrap().clone();
    let is_odd = |check: &Value| {
        let fine = check["state"] == "ok" || check["state"] == "skipped";
        check["id"].as_str().unwrap().starts_with("telemetry.") && !fine
    };
    checks.into_iter().filter(is_odd).collect()
}

#[test]
fn what_the_rendered_collector_makes_of_real_clients_is_whole() {
    let test = "what_the_rendered_collector_makes_of_real_clients_is_whole";
    let (Some(program), Some(sdk)) = (tool(test, Tool::Collector), tool(test, Tool::Python)) else { return };
    let site = Site::new();
    let daemon = receiver(&site);
    site.ctl(&["system", "register", "--name", "sn"]).ok();
    let render = ["otel", "render", "sn", "--config", "--otlp", &http(&daemon)];
    let configuration = site.ctl(&render).ok().json();
    let collector = Collector::configured(&program, &site, |otlp, jaeger| here(&configuration, &site, otlp, jaeger));

    application(&sdk, &collector, WHOLE);
    entrance(&site, &collector);
    let report = until_report(&site, "everything arrived whole", is_whole);
    assert_eq!((report["namespaces"].as_array().unwrap().len(), &report["source"]), (1, &json!("the embedded store")));
    assert_eq!(odd(&site), Vec::<Value>::new());
    collector.stop();
    daemon.stop();
}

/// ClickHouse's engine behind the part of its HTTP interface that is needed. It is killed when dropped.
struct ClickHouse {
    child: Child,
    port: u16,
}

impl ClickHouse {
    fn start(python: &Path, site: &Site) -> Self {
        let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("senders/clickhouse.py");
        let mut command = Command::new(python);
        let folder = site.path().join("clickhouse");
        let mut child = command.arg(server).arg(folder).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, port: line.trim().parse().unwrap() }
    }

    fn run(&self, sql: &str) {
        let url = format!("http://127.0.0.1:{}/", self.port);
        ureq::post(&url).send(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

impl Drop for ClickHouse {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One collector writes the same records into ClickHouse and into an embedded store: both are judged alike.
#[test]
fn telemetry_in_clickhouse_is_judged_as_that_in_the_embedded_store() {
    let test = "telemetry_in_clickhouse_is_judged_as_that_in_the_embedded_store";
    let (Some(program), Some(sdk)) = (tool(test, Tool::Collector), tool(test, Tool::Python)) else { return };
    let Some(engine) = tool(test, Tool::ClickHouse) else { return };
    let (site, other) = (Site::new(), Site::new());
    let clickhouse = ClickHouse::start(&engine, &site);
    let embedded = receiver(&other);
    let file = site.write("aegis.toml", &format!("telemetry = \"clickhouse://127.0.0.1:{}/otel\"\n", clickhouse.port));
    let file = file.to_str().unwrap();
    let checked = site.aegis(&["config", "check", file]).ok();
    assert!(checked.out.contains("telemetry  ok: it answers; 0 namespaces"), "{}", checked.out);
    let daemon = site.serve(&["--config", file]);
    for site in [&site, &other] {
        site.ctl(&["system", "register", "--name", "sn"]).ok();
    }
    let to = format!("http://127.0.0.1:{}", clickhouse.port);
    let mut configuration = site.ctl(&["otel", "render", "sn", "--config", "--clickhouse", &to]).ok().json();
    // The engine speaks without compression.
    configuration["exporters"]["clickhouse"]["compress"] = json!("none");
    configuration["exporters"]["otlp_http"] = json!({ "endpoint": http(&embedded) });
    for (_, pipeline) in configuration["service"]["pipelines"].as_object_mut().unwrap() {
        pipeline["exporters"].as_array_mut().unwrap().push(json!("otlp_http"));
    }
    let collector = Collector::configured(&program, &site, |otlp, jaeger| here(&configuration, &site, otlp, jaeger));

    application(&sdk, &collector, WHOLE);
    entrance(&site, &collector);
    let report = until_report(&site, "everything arrived whole", is_whole);
    assert_eq!(report["source"], format!("clickhouse://127.0.0.1:{}/otel", clickhouse.port));
    assert_eq!(odd(&site), Vec::<Value>::new());

    // An exporter that writes elsewhere: the printed fix renders one that does not, and what was written there goes.
    clickhouse.run("CREATE DATABASE default2");
    clickhouse.run("CREATE TABLE default2.otel_traces (TraceId String) ENGINE = MergeTree ORDER BY TraceId");
    clickhouse.run("INSERT INTO default2.otel_traces VALUES ('a')");
    let found = doctor::odd(&site);
    assert_eq!(found.iter().map(|check| check["id"].clone()).collect::<Vec<_>>(), [json!("telemetry.database_right")]);
    let observed = found[0]["observed"].as_str().unwrap();
    assert!(observed.contains("`default2` has 1 record"), "{observed}");
    let fix = found[0]["fix"].as_str().unwrap();
    assert_eq!(fix, format!("aegisctl otel render sn --clickhouse {to}"));
    run_as_printed(&site, fix);
    clickhouse.run("DROP DATABASE default2");
    assert_eq!(doctor::odd(&site), Vec::<Value>::new());

    // A service that does not say its pod, in both places.
    application(&sdk, &collector, "k8s.namespace.name=sn0,service.name=text-service");
    let lacks_pod = |report: &Value| {
        let findings = report["findings"].as_array().unwrap();
        let of = |signal: &str| {
            let is_its = |one: &&Value| one["signal"] == signal && one["missing"] == "k8s.pod.name";
            findings.iter().find(is_its).map_or(0, |one| one["without"].as_u64().unwrap())
        };
        (of("traces"), of("logs")) == (4, 2)
    };
    let mut reports = [&site, &other].map(|site| until_report(site, "the service without a pod is found", lacks_pod));
    // Histograms are made of spans over and over, so their numbers move.
    for report in &mut reports {
        report["source"] = Value::Null;
        report["namespaces"] = Value::Null;
        let findings = report["findings"].as_array_mut().unwrap();
        findings.retain(|finding| finding["signal"] == "traces" || finding["signal"] == "logs");
    }
    assert_eq!(reports[0], reports[1]);
    assert_eq!(odd(&site).iter().map(|check| check["id"].clone()).collect::<Vec<_>>(), [json!("telemetry.complete")]);

    collector.stop();
    daemon.stop();
    embedded.stop();
}

/// A time as the container runtime writes it.
fn rfc3339(second: u64) -> String {
    model::DataTime(i64::try_from(second).unwrap() * 1_000_000_000 + 123_456_789).to_string()
}
