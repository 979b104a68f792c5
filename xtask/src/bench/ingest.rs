//! OTLP ingest on one core, beside the OpenTelemetry collector with a file exporter in the same run.

use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::process::{Running, Scratch, Server, cpu_seconds, peak_mib, pinned};
use super::{BAR_RATIO, Better, Figure, median};
use crate::{provision, tools};

/// The receiver's core, and the sender's.
const RECEIVER: usize = 0;
const SENDER: usize = 1;
const SECONDS: &str = "8";
/// Different bodies, so that no cache of one body flatters anybody.
const BODIES: &str = "64";

/// Spans per second into the store on disk. A sample of ours and one of the collector's are taken in turn.
pub fn measure(name: &str, protocol: &str) -> Result<Vec<Figure>> {
    if std::thread::available_parallelism()?.get() < 2 {
        bail!("this machine has one core; the receiver and the sender need one each");
    }
    let collector = provision::collector().context("the peer is missing")?;
    let binaries = tools::build_binaries()?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut beside = BTreeMap::new();
    for _ in 0..3 {
        let scratch = Scratch::new(name)?;
        let (rate, told) = into_aegis(&binaries, protocol, scratch.path())?;
        ours.push(rate);
        beside.extend(told.into_iter().map(|(key, value)| (format!("aegis_{key}"), value)));
        let scratch = Scratch::new(name)?;
        let (rate, told) = into_collector(&collector, &binaries, protocol, scratch.path())?;
        theirs.push(rate);
        beside.extend(told.into_iter().map(|(key, value)| (format!("collector_{key}"), value)));
    }
    beside.insert(BAR_RATIO.into(), json!(1.0));
    beside.insert("collector_samples".into(), json!(theirs));
    Ok(vec![Figure {
        name: name.into(),
        unit: "spans/s",
        peer: "otel-collector",
        peer_figure: median(&theirs),
        samples: ours,
        better: Better::Larger,
        command: format!(
            "taskset -c {SENDER} aegis bench-send --endpoint URL --protocol {protocol} --seconds {SECONDS} --bodies {BODIES}, \
             into `taskset -c {RECEIVER} aegis serve` and `taskset -c {RECEIVER} otel-collector`"
        ),
        beside,
    }])
}

/// What is told beside a rate.
type Told = Vec<(&'static str, Value)>;

fn into_aegis(binaries: &Path, protocol: &str, scratch: &Path) -> Result<(f64, Told)> {
    let data = scratch.join("data");
    let ports = ["--otlp-grpc", "127.0.0.1:0", "--otlp-http", "127.0.0.1:0"];
    let server = Server::start(binaries, &data, &ports, Some(RECEIVER))?;
    let key = if protocol == "grpc" { "otlp_grpc" } else { "otlp_http" };
    let address = server.announced[key].as_str().with_context(|| format!("server.json names no {key}"))?;
    let pid = server.process.id();
    let sent = send(binaries, &format!("http://{address}"), protocol, pid)?;
    let peak = peak_mib(pid);
    server.process.stop()?;
    Ok((sent.rate, sent.told(peak, folder_mib(&data)?)))
}

fn into_collector(collector: &Path, binaries: &Path, protocol: &str, scratch: &Path) -> Result<(f64, Told)> {
    let [grpc, http] = free_ports()?;
    let config = scratch.join("collector.yaml");
    let out = scratch.join("out");
    fs::create_dir(&out)?;
    let text = format!(
        "receivers: {{otlp: {{protocols: {{grpc: {{endpoint: '127.0.0.1:{grpc}'}}, http: {{endpoint: '127.0.0.1:{http}'}}}}}}}}\n\
         processors: {{batch: {{send_batch_size: 8192, timeout: 200ms}}}}\n\
         exporters: {{file: {{path: '{}'}}}}\n\
         service:\n\
         \x20 telemetry: {{metrics: {{level: none}}, logs: {{level: warn}}}}\n\
         \x20 pipelines: {{traces: {{receivers: [otlp], processors: [batch], exporters: [file]}}}}\n",
        out.join("spans.json").display()
    );
    fs::write(&config, text)?;
    let log = scratch.join("log");
    let mut running = Running::start(pinned(RECEIVER, collector).arg("--config").arg(&config), &log)?;
    let deadline = Instant::now() + Duration::from_secs(60);
    while ![grpc, http].iter().all(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok()) {
        if running.has_ended()? || Instant::now() > deadline {
            bail!("the collector does not listen: {}", fs::read_to_string(&log)?);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let port = if protocol == "grpc" { grpc } else { http };
    let sent = send(binaries, &format!("http://127.0.0.1:{port}"), protocol, running.id())?;
    let peak = peak_mib(running.id());
    running.stop()?;
    Ok((sent.rate, sent.told(peak, folder_mib(&out)?)))
}

struct Sent {
    rate: f64,
    spans: f64,
    span_bytes: f64,
    /// Processor time of the receiver meanwhile, seconds.
    cpu: f64,
}

impl Sent {
    fn told(&self, peak: f64, disk: f64) -> Told {
        vec![
            ("spans", json!(self.spans)),
            // What other programs on this core take away does not change this one.
            ("spans_per_cpu_second", json!((self.spans / self.cpu).round())),
            ("bytes_per_span_sent", json!(self.span_bytes)),
            ("peak_mib", json!(peak)),
            ("mib_on_disk", json!(disk)),
        ]
    }
}

/// Sends as fast as the receiver takes it; every span must have been accepted.
fn send(binaries: &Path, endpoint: &str, protocol: &str, receiver: u32) -> Result<Sent> {
    let mut command = pinned(SENDER, &binaries.join("aegis"));
    command.args([
        "bench-send",
        "--endpoint",
        endpoint,
        "--protocol",
        protocol,
        "--seconds",
        SECONDS,
        "--bodies",
        BODIES,
    ]);
    let before = cpu_seconds(receiver)?;
    let output = command.output()?;
    let cpu = cpu_seconds(receiver)? - before;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let figures: Value = serde_json::from_slice(&output.stdout).context("the sender's figures are not JSON")?;
    let of = |key: &str| figures[key].as_f64().with_context(|| format!("the sender does not tell {key}: {figures}"));
    if of("failed_requests")? + of("refused")? > 0.0 {
        bail!("the receiver refused: {figures}");
    }
    Ok(Sent { rate: of("accepted_per_second")?, spans: of("accepted")?, span_bytes: of("bytes_per_span")?, cpu })
}

fn free_ports() -> Result<[u16; 2]> {
    let [one, two] = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
    Ok([one.local_addr()?.port(), two.local_addr()?.port()])
}

/// Size of all files below a folder.
fn folder_mib(folder: &Path) -> Result<f64> {
    let output = Command::new("du").args(["-s", "--block-size=1K"]).arg(folder).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let kib: f64 = text.split_whitespace().next().and_then(|kib| kib.parse().ok()).context("du tells no size")?;
    Ok(kib / 1024.0)
}
