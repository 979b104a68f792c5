//! The real OpenTelemetry collector forwards to a running daemon, also what a Jaeger client sent it.

use std::fs::File;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use serde_json::json;
use telemetry::{Signal, SignalStore};
use testkit::process::{Daemon, Site, finish, until};
use testkit::{Tool, tool};

use crate::otlp::{assert_stored, grpc, http, python, receiver, rows};

/// A running collector with a receiver for OTLP over gRPC and one for Jaeger's Thrift over HTTP.
pub struct Collector {
    child: Child,
    pub otlp: u16,
    pub jaeger: u16,
    log: PathBuf,
}

impl Collector {
    /// Starts it with this exporter, and waits until it takes connections.
    fn start(program: &Path, site: &Site, exporter: &str) -> Self {
        Self::configured(program, site, |otlp, jaeger| config(otlp, jaeger, exporter))
    }

    /// The same with any configuration for two ports.
    pub fn configured(program: &Path, site: &Site, configuration: impl Fn(u16, u16) -> String) -> Self {
        // A free port may be taken by another test before the collector has it; then it ends, and others are tried.
        for _ in 0..10 {
            let [otlp, jaeger] = free_ports();
            let config = site.write("collector.yaml", &configuration(otlp, jaeger));
            let log = site.path().join("collector.log");
            let file = File::create(&log).unwrap();
            let mut command = Command::new(program);
            command.arg("--config").arg(config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
            let mut collector = Self { child: command.spawn().unwrap(), otlp, jaeger, log };
            let ready = until("the collector listens", Duration::from_secs(60), || {
                if collector.child.try_wait().unwrap().is_some() {
                    return Some(false);
                }
                [otlp, jaeger].iter().all(|&port| TcpStream::connect(("127.0.0.1", port)).is_ok()).then_some(true)
            });
            let log = std::fs::read_to_string(&collector.log).unwrap();
            match ready {
                true => return collector,
                false => assert!(log.contains("address already in use"), "the collector ended: {log}"),
            }
        }
        panic!("ten times another process took the collector's port");
    }

    /// Ends it well: what it holds is sent first.
    pub fn stop(mut self) {
        finish(Command::new("kill").arg(self.child.id().to_string())).ok();
        let status = until("the collector ends", Duration::from_secs(60), || self.child.try_wait().unwrap());
        let log = std::fs::read_to_string(&self.log).unwrap();
        assert!(
            status.success() && !log.contains("\"level\":\"error\"") && !log.contains("\terror\t"),
            "{status}: {log}"
        );
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn free_ports() -> [u16; 2] {
    let listeners = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

fn config(otlp: u16, jaeger: u16, exporter: &str) -> String {
    let name = exporter.split(':').next().unwrap();
    format!(
        "receivers:
  otlp: {{protocols: {{grpc: {{endpoint: '127.0.0.1:{otlp}'}}}}}}
  jaeger: {{protocols: {{thrift_http: {{endpoint: '127.0.0.1:{jaeger}'}}}}}}
processors:
  batch: {{timeout: 50ms}}
exporters:
  {exporter}
service:
  telemetry: {{metrics: {{level: none}}, logs: {{level: warn}}}}
  pipelines:
    traces: {{receivers: [otlp, jaeger], processors: [batch], exporters: [{name}]}}
    metrics: {{receivers: [otlp], processors: [batch], exporters: [{name}]}}
    logs: {{receivers: [otlp], processors: [batch], exporters: [{name}]}}
"
    )
}

/// The exporters of the collector that can send to a daemon, with the compression that they have by default, which is gzip.
fn exporters(daemon: &Daemon) -> [String; 2] {
    [
        format!("otlp_grpc: {{endpoint: '{}', tls: {{insecure: true}}}}", grpc(daemon)),
        format!("otlp_http: {{endpoint: '{}'}}", http(daemon)),
    ]
}

#[test]
fn what_goes_through_a_collector_is_stored_as_it_was_sent() {
    let test = "the collector forwards what an SDK sent";
    let (Some(program), Some(sdk)) = (tool(test, Tool::Collector), tool(test, Tool::Python)) else { return };
    for number in 0..2 {
        let site = Site::new();
        let daemon = receiver(&site);
        let exporter = &exporters(&daemon)[number];
        let collector = Collector::start(&program, &site, exporter);
        let sent = python(&sdk, "grpc", "gzip", &format!("http://127.0.0.1:{}", collector.otlp));
        collector.stop();
        daemon.stop();
        assert_stored(&site, &sent, exporter);
    }
}

#[test]
fn a_jaeger_client_reaches_the_store_through_the_collector() {
    let Some(program) = tool("a Jaeger client behind the collector", Tool::Collector) else { return };
    let site = Site::new();
    let daemon = receiver(&site);
    let collector = Collector::start(&program, &site, &exporters(&daemon)[0]);
    // Records from the network must be near the clock.
    let now = UNIX_EPOCH.elapsed().unwrap().as_secs();
    let start = i64::try_from(now - 60).unwrap() * 1_000_000 + 7;
    let answer = ureq::post(format!("http://127.0.0.1:{}/api/traces", collector.jaeger))
        .header("content-type", "application/vnd.apache.thrift.binary")
        .send(&thrift_batch("cart", &[("k8s.namespace.name", "shop0")], &[("rpc.system", "grpc")], start))
        .unwrap();
    assert_eq!(answer.status(), 202);
    collector.stop();
    daemon.stop();

    let stored = rows(&SignalStore::open(site.data().join("telemetry")).unwrap(), Signal::Traces);
    assert_eq!(stored.len(), 1, "{stored:#?}");
    let span = &stored[0];
    for (column, expected) in [
        ("Timestamp", json!((start * 1000).to_string())),
        ("TraceId", json!("00000000000000a10000000000000b20")),
        ("SpanId", json!("0000000000000c03")),
        ("ParentSpanId", json!("0000000000000d04")),
        ("SpanName", json!("/cart.Cart/Get")),
        ("SpanKind", json!("Server")),
        ("ServiceName", json!("cart")),
        ("Duration", json!(2_500_000.0)),
        ("StatusCode", json!("Error")),
        ("ResourceAttributes", json!({"k8s.namespace.name": "shop0", "service.name": "cart"})),
    ] {
        assert_eq!(span[column], expected, "{column} of {span:#}");
    }
    let attributes = &span["SpanAttributes"];
    assert_eq!((&attributes["rpc.system"], &attributes["rows"]), (&json!("grpc"), &json!("3")), "{span:#}");
}

/// A batch of one server span that starts at `start` (microseconds) as a Jaeger client sends it: Thrift's binary protocol, `Batch` of
/// jaeger.thrift. The process and the span have these tags.
pub fn thrift_batch(service: &str, process_tags: &[(&str, &str)], tags: &[(&str, &str)], start: i64) -> Vec<u8> {
    let mut batch = Thrift::default();
    batch.structure(1, |process| {
        process.text(1, service);
        let write = process_tags.iter().map(|&(key, value)| move |tag: &mut Thrift| string_tag(tag, key, value));
        let write: Vec<_> = write.collect();
        process.list(2, &write.iter().map(|one| one as &dyn Fn(&mut Thrift)).collect::<Vec<_>>());
    });
    let own: Vec<_> = tags.iter().map(|&(key, value)| move |tag: &mut Thrift| string_tag(tag, key, value)).collect();
    batch.list(
        2,
        &[&|span| {
            span.i64(1, 0xb20);
            span.i64(2, 0xa1);
            span.i64(3, 0xc03);
            span.i64(4, 0xd04);
            span.text(5, "/cart.Cart/Get");
            span.i32(7, 1);
            span.i64(8, start);
            span.i64(9, 2_500);
            let mut all: Vec<&dyn Fn(&mut Thrift)> = vec![
                &|tag| string_tag(tag, "span.kind", "server"),
                &|tag| {
                    tag.text(1, "error");
                    tag.i32(2, 2);
                    tag.field(2, 5).push(1);
                },
                &|tag| {
                    tag.text(1, "rows");
                    tag.i32(2, 3);
                    tag.i64(6, 3);
                },
            ];
            all.extend(own.iter().map(|one| one as &dyn Fn(&mut Thrift)));
            span.list(10, &all);
        }],
    );
    batch.0.push(0);
    batch.0
}

fn string_tag(tag: &mut Thrift, key: &str, value: &str) {
    tag.text(1, key);
    tag.i32(2, 0);
    tag.text(3, value);
}

/// The fields of a structure in Thrift's binary protocol.
#[derive(Default)]
struct Thrift(Vec<u8>);

impl Thrift {
    fn field(&mut self, kind: u8, id: i16) -> &mut Vec<u8> {
        self.0.push(kind);
        self.0.extend(id.to_be_bytes());
        &mut self.0
    }

    fn i32(&mut self, id: i16, value: i32) {
        self.field(8, id).extend(value.to_be_bytes());
    }

    fn i64(&mut self, id: i16, value: i64) {
        self.field(10, id).extend(value.to_be_bytes());
    }

    fn text(&mut self, id: i16, text: &str) {
        let length = i32::try_from(text.len()).unwrap();
        let out = self.field(11, id);
        out.extend(length.to_be_bytes());
        out.write_all(text.as_bytes()).unwrap();
    }

    fn structure(&mut self, id: i16, fill: impl FnOnce(&mut Self)) {
        self.field(12, id);
        fill(self);
        self.0.push(0);
    }

    fn list(&mut self, id: i16, items: &[&dyn Fn(&mut Self)]) {
        let length = i32::try_from(items.len()).unwrap();
        let out = self.field(15, id);
        out.push(12);
        out.extend(length.to_be_bytes());
        for fill in items {
            fill(self);
            self.0.push(0);
        }
    }
}
