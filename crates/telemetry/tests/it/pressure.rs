//! More than can be written: senders are told to come back, memory stays bounded, and what was acknowledged is kept.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use telemetry::otlp::Message;
use telemetry::{Export, Limits, Options, Signal, SignalStore};

use crate::fixture::*;
use crate::wire::*;

/// Different spans, about 100 KB of rows.
fn body(number: u64) -> Vec<u8> {
    let spans = (0..200).map(|n| {
        let mut span = span(number * 200 + n, 1.0);
        span.attributes.push(pair("unique", &format!("{:0400}", number * 200 + n)));
        span
    });
    traces("ts0", spans.collect()).encode_to_vec()
}

fn spans(store: &SignalStore) -> usize {
    read(store, &query(Signal::Traces, "ts0", None, 0, 10)).num_rows()
}

/// Sends until one is refused, which must happen; gives how many were acknowledged, and the refusal.
async fn until_refused(http: SocketAddr, first: u64) -> (u64, Answer) {
    for number in first.. {
        let answer = post(http, "/v1/traces", &[PROTOBUF], body(number)).await;
        if answer.status != 200 {
            return (number - first, answer);
        }
        assert!(number - first < 1000, "nothing was ever refused");
    }
    unreachable!("the loop ends by itself")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_cannot_follow_slows_senders_down_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { flush_bytes: 500_000, queue_bytes: 2_000_000, ..options() };
    let store = SignalStore::open_with(folder.path(), options).unwrap();
    let receiver = Receiver::start(&store).await;
    // Whoever holds this lock keeps the writer from making its chunk visible.
    let slow_disk = File::options().write(true).open(folder.path().join("lock")).unwrap();
    slow_disk.lock().unwrap();
    let (taken, refusal) = until_refused(receiver.http, 0).await;
    assert_eq!(refusal.status, 429, "{refusal:?}");
    assert_eq!(refusal.headers["retry-after"], "2");
    assert!(refusal.status().1.contains("[otlp.overloaded]"), "{refusal:?}");
    let status = call(receiver.grpc, method(Export::Traces), false, body(9000)).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unavailable);
    let details = String::from_utf8_lossy(status.details()).into_owned();
    assert!(details.contains("type.googleapis.com/google.rpc.RetryInfo"), "{details}");
    let waiting = store.status().queue.unwrap().waiting_bytes;
    assert!((2_000_000..2_500_000).contains(&waiting), "{waiting} bytes in memory");
    drop(slow_disk);
    let answer = post(receiver.http, "/v1/traces", &[PROTOBUF], body(taken)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    receiver.stop().await;
    assert_eq!(spans(&store) as u64, (taken + 1) * 200);
    assert_eq!(store.status().kinds[&Export::Traces].requests_refused["otlp.overloaded"], 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn segments_that_cannot_be_written_stop_the_receiver_in_time_and_are_written_later() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { flush_bytes: 200_000, queue_bytes: 400_000, backlog_bytes: 300_000, ..options() };
    let store = SignalStore::open_with(folder.path(), options).unwrap();
    let receiver = Receiver::start(&store).await;
    let live = folder.path().join("live");
    fs::remove_dir(&live).unwrap();
    fs::write(&live, "in the way").unwrap();
    let (taken, refusal) = until_refused(receiver.http, 0).await;
    assert_eq!((refusal.status, refusal.headers["retry-after"].to_str().unwrap()), (503, "2"), "{refusal:?}");
    assert!(refusal.status().1.contains("[otlp.store_stuck]"), "{refusal:?}");
    let queue = store.status().queue.unwrap();
    assert!(queue.backlog_bytes > 200_000 && queue.failure.unwrap().contains("live"));
    fs::remove_file(&live).unwrap();
    fs::create_dir(&live).unwrap();
    assert_eq!(spans(&store) as u64, taken * 200, "a read writes what is due");
    assert_eq!(store.status().queue.unwrap().failure, None);
    assert_eq!(post(receiver.http, "/v1/traces", &[PROTOBUF], body(taken)).await.status, 200);
    receiver.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn senders_that_announce_more_than_there_is_room_for_wait_outside() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { request_bytes: 1 << 20, body_bytes: 1 << 20, ..options() };
    let store = SignalStore::open_with(folder.path(), options).unwrap();
    let receiver = Receiver::start(&store).await;
    let stall = |receiver: &Receiver| {
        let mut stream = TcpStream::connect(receiver.http).unwrap();
        let head = "POST /v1/logs HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\ncontent-length: 1048576\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&[0; 1000]).unwrap();
        stream
    };
    let stalled = [stall(&receiver), stall(&receiver)];
    let answer = loop {
        let answer = post(receiver.http, "/v1/traces", &[PROTOBUF], body(0)).await;
        if answer.status != 200 {
            break answer;
        }
    };
    assert_eq!(answer.status, 429, "{answer:?}");
    assert!(answer.status().1.contains("too many requests are in memory"), "{answer:?}");
    drop(stalled);
    while post(receiver.http, "/v1/traces", &[PROTOBUF], body(0)).await.status != 200 {}
    receiver.stop().await;
}

/// A receiver in a process and a mount namespace of its own, with a small file system in memory; ends with it.
struct Small {
    child: Child,
    pid: i32,
    http: SocketAddr,
    out: BufReader<std::process::ChildStdout>,
}

impl Small {
    /// Nothing when mounts are not allowed here, which is listed.
    fn start(test: &str, folder: &Path) -> Option<Self> {
        let probe = Command::new("unshare").args(["-m", "mount", "-t", "tmpfs", "tmpfs"]).arg(folder).output();
        if !probe.as_ref().is_ok_and(|output| output.status.success()) {
            testkit::not_run(test, &format!("mounts in a namespace are not allowed here: {probe:?}"));
            return None;
        }
        // After its death there is space again, and what it left is counted.
        let script =
            "mount -t tmpfs -o size=24m tmpfs $0 && { $1 serve $0; mount -o remount,size=512m $0; $1 count $0; }";
        let mut child = Command::new("unshare")
            .args(["-m", "sh", "-c", script])
            .arg(folder)
            .arg(program())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let [pid, http, _] = words[..] else { panic!("the receiver did not start: {line}") };
        Some(Self { pid: pid.parse().unwrap(), http: http.parse().unwrap(), child, out })
    }

    /// Peak resident memory, MiB.
    fn peak(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
    }

    /// Kills the receiver and says how many spans are in its store.
    fn killed(mut self) -> u64 {
        let killed = Command::new("kill").args(["-9", &self.pid.to_string()]).status().unwrap();
        assert!(killed.success());
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        self.child.wait().unwrap();
        line.trim().parse().unwrap_or_else(|_| panic!("no count: {line}"))
    }
}

/// The example beside this test.
fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let program = own.ancestors().nth(2).unwrap().join("examples/receiver");
    assert!(program.exists(), "`cargo build -p telemetry --examples` makes {}", program.display());
    program
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_the_disk_fills_up_and_the_process_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let Some(small) = Small::start("a full disk while receiving", folder.path()) else { return };
    let now = u64::try_from(model::WallTime::now().0).unwrap() * 1000;
    let body = |number| {
        let mut request = telemetry::otlp::ExportTraceServiceRequest::decode(&body(number)[..]).unwrap();
        for span in &mut request.resource_spans[0].scope_spans[0].spans {
            (span.start_time_unix_nano, span.end_time_unix_nano) = (now - 1000, now);
        }
        request.encode_to_vec()
    };
    let (mut taken, mut refused) = (0, 0);
    let deadline = Instant::now() + Duration::from_secs(60);
    for number in 0.. {
        let answer = post(small.http, "/v1/traces", &[PROTOBUF], body(number)).await;
        match answer.status {
            200 => taken += 200,
            503 => {
                assert!(answer.status().1.contains("[telemetry.disk_full]"), "{answer:?}");
                assert!(answer.headers.contains_key("retry-after"));
                refused += 1;
            }
            _ => panic!("{answer:?}"),
        }
        if refused >= 100 {
            break;
        }
        assert!(Instant::now() < deadline, "the disk did not fill up");
    }
    let peak = small.peak();
    assert!(peak < 256, "{peak} MiB");
    assert_eq!(small.killed(), taken);
}

#[test]
fn names_without_end_are_refused_and_memory_stays_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let store = SignalStore::open(folder.path()).unwrap();
    let ingest = store.ingest().unwrap();
    let now = u64::try_from(model::WallTime::now().0).unwrap() * 1000;
    let fresh = |number: u64| {
        let mut span = span(number, 1.0);
        (span.start_time_unix_nano, span.end_time_unix_nano) = (now - 1000, now);
        span
    };
    let mut taken = 0;
    for part in 0..100 {
        let spans = (0..1000).map(|n| {
            let mut span = fresh(part * 1000 + n);
            span.attributes.push(pair(&format!("key-{}", part * 1000 + n), "x"));
            span
        });
        taken += ingest.traces(traces("ts0", spans.collect())).unwrap().accepted;
    }
    let limits = Limits::default();
    // Two keys of every span and three of the resource are known from the first one on.
    let known = 5;
    assert_eq!(taken as usize, limits.attribute_keys - known, "100,000 distinct keys");
    let status = store.status();
    let part = status.namespaces.iter().find(|part| part.namespace == "ts0").unwrap();
    assert_eq!(part.refused["otlp.attribute_keys_too_many"], 100_000 - taken);
    // Whoever uses known keys goes on.
    assert_eq!(ingest.traces(traces("ts0", vec![fresh(0)])).unwrap().accepted, 1);
    assert_eq!(ingest.traces(traces("ts1", vec![fresh(0)])).unwrap().accepted, 1);

    let many = |count: usize| (0..count).map(|n| fresh(n as u64)).collect::<Vec<_>>();
    let mut named = traces("ts0", vec![]);
    for number in 0..limits.services + 10 {
        let resource = resource(&format!("service-{number}"), &[("k8s.namespace.name", "ts2")]);
        named.resource_spans.extend(traces_of(resource, many(1)).resource_spans);
    }
    assert_eq!(ingest.traces(named).unwrap().refused, [("otlp.services_too_many", 10)]);
    let mut spread = traces("ts0", vec![]);
    for number in 0..limits.namespaces {
        spread.resource_spans.extend(traces(&format!("n{number}"), many(2)).resource_spans);
    }
    assert_eq!(ingest.traces(spread).unwrap().refused, [("otlp.namespaces_too_many", 6)]);
    // Names of registered systems are let in although strangers took every place, and strangers stay outside.
    let send = |namespace: &str| ingest.traces(traces(namespace, many(2))).unwrap().accepted;
    assert_eq!(send("ob0"), 0);
    store.reserve_namespaces(["ob0".to_owned(), "ob1".to_owned(), "ts0".to_owned()]);
    assert_eq!((send("ob0"), send("ob1")), (2, 2));
    assert_eq!(send("n998"), 2, "ts0 was a stranger when it came, and has left a place by being reserved");
    assert_eq!(send("n999"), 0);
    let status = store.status();
    let others = status.namespaces.iter().find(|part| part.namespace == "(others)").unwrap();
    assert_eq!((others.accepted, others.refused["otlp.namespaces_too_many"]), (0, 10));
}
