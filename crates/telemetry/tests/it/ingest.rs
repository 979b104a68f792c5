//! Records from the network: validated one by one, safe once acknowledged, the same segments as from inside the process.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use model::{RunId, WallTime};
use telemetry::otlp::Message;
use telemetry::otlp::common::any_value::Value;
use telemetry::otlp::metrics::metric::Data;
use telemetry::otlp::metrics::{ExponentialHistogram, ExponentialHistogramDataPoint, Metric};
use telemetry::{Export, Keep, Options, Signal, SignalStore};

use crate::fixture::*;
use crate::steps::segments;

#[test]
fn bytes_from_the_wire_and_requests_from_inside_give_equal_segments() {
    let spans = traces("ts0", (0..2000).map(|n| span(n, (n % 77) as f64 / 7.0)).collect());
    let mut odd = log(2.0, "", vec![pair("b", "2"), pair("a", "\"1\"\n")]);
    odd.attributes[0].value.as_mut().unwrap().value = Some(Value::DoubleValue(0.1));
    let records = logs("ts0", vec![odd, log(1.0, "plain", vec![])]);
    let list = vec![
        gauge("g", vec![point(1.0, -0.0, vec![]), point(2.0, f64::MIN_POSITIVE, vec![])]),
        sum("s", vec![point(1.0, 1e300, vec![])]),
        histogram("h", vec![histogram_point(3.0)]),
    ];
    let points = metrics("ts0", list);

    let direct = tempfile::tempdir().unwrap();
    let store = open(direct.path());
    let mut step = store.step(&stream("ts0", Some(RunId::random())), at(0), at(60)).unwrap();
    step.traces(&spans).unwrap();
    step.metrics(&points).unwrap();
    step.logs(&records).unwrap();
    step.commit().unwrap();

    let wire = tempfile::tempdir().unwrap();
    let store = open(wire.path());
    let ingest = store.ingest().unwrap();
    ingest.accept(Export::Logs, &records.encode_to_vec()).unwrap();
    ingest.accept(Export::Metrics, &points.encode_to_vec()).unwrap();
    ingest.accept(Export::Traces, &spans.encode_to_vec()).unwrap();
    ingest.flush().unwrap();

    let direct = segments(direct.path());
    assert_eq!(direct.len(), 5);
    assert!(direct == segments(wire.path()));
}

#[test]
fn bad_records_are_refused_with_their_reason_and_good_ones_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let ingest = store.ingest().unwrap();

    let broken = |change: fn(&mut telemetry::otlp::trace::Span)| {
        let mut broken = span(1, 1.0);
        change(&mut broken);
        broken
    };
    let spans = vec![
        span(0, 1.0),
        broken(|span| span.end_time_unix_nano = span.start_time_unix_nano - 1),
        broken(|span| span.end_time_unix_nano = 0),
        broken(|span| span.trace_id.truncate(8)),
        broken(|span| span.trace_id.fill(0)),
        broken(|span| span.span_id.clear()),
        broken(|span| span.parent_span_id = vec![1; 3]),
        broken(|span| span.start_time_unix_nano = 0),
        broken(|span| span.end_time_unix_nano = u64::MAX),
        broken(|span| span.kind = 77),
        broken(|span| span.status.as_mut().unwrap().code = 3),
    ];
    let accepted = ingest.traces(traces("ts0", spans)).unwrap();
    assert_eq!(accepted.accepted, 1);
    let expect = [
        ("otlp.trace_id_malformed", 2),
        ("otlp.span_id_malformed", 1),
        ("otlp.parent_span_id_malformed", 1),
        ("otlp.span_ends_before_start", 2),
        ("otlp.time_out_of_range", 2),
        ("otlp.span_kind_unknown", 1),
        ("otlp.status_code_unknown", 1),
    ];
    assert_eq!(accepted.refused, expect);

    let bucket = |counts: &[u64], bounds: &[f64]| {
        let (bucket_counts, explicit_bounds) = (counts.to_vec(), bounds.to_vec());
        telemetry::otlp::metrics::HistogramDataPoint { bucket_counts, explicit_bounds, ..histogram_point(1.0) }
    };
    let mut stale = point(1.0, 0.0, vec![]);
    stale.flags = 1;
    let exponential = ExponentialHistogram {
        data_points: vec![ExponentialHistogramDataPoint::default(); 3],
        aggregation_temporality: 2,
    };
    let list = vec![
        gauge(
            "g",
            vec![point(1.0, f64::NAN, vec![]), point(1.0, f64::INFINITY, vec![]), point(1.0, 1.0, vec![]), stale],
        ),
        gauge("", vec![point(1.0, 1.0, vec![])]),
        histogram("h", vec![bucket(&[6], &[]), bucket(&[1, 2, 4], &[0.1, 0.5]), bucket(&[1, 5], &[0.1, 0.5])]),
        histogram("h", vec![bucket(&[1, 2, 3], &[0.5, 0.5]), bucket(&[], &[]), bucket(&[u64::MAX, 7], &[1.0])]),
        Metric { name: "e".into(), data: Some(Data::ExponentialHistogram(exponential)), ..Metric::default() },
        Metric { name: "nothing".into(), ..Metric::default() },
    ];
    let accepted = ingest.metrics(metrics("ts0", list)).unwrap();
    let expect = [
        ("otlp.point_without_value", 2),
        ("otlp.value_not_finite", 2),
        ("otlp.histogram_counts_mismatch", 3),
        ("otlp.histogram_bounds_unordered", 1),
        ("otlp.metric_unnamed", 1),
        ("otlp.metric_kind_unsupported", 3),
    ];
    assert_eq!((accepted.accepted, &accepted.refused[..]), (3, &expect[..]));
    assert!(
        accepted.message(Export::Metrics).starts_with("12 of 15 data points refused: 2 x otlp.point_without_value")
    );

    let mut observed = log(0.0, "observed", vec![]);
    (observed.time_unix_nano, observed.observed_time_unix_nano) = (0, nanos(3.0));
    let timeless = telemetry::otlp::logs::LogRecord { time_unix_nano: 0, ..log(0.0, "timeless", vec![]) };
    let severe = telemetry::otlp::logs::LogRecord { severity_number: 25, ..log(0.0, "severe", vec![]) };
    let accepted = ingest.logs(logs("ts0", vec![observed, timeless, severe])).unwrap();
    assert_eq!(accepted.refused, [("otlp.time_out_of_range", 1), ("otlp.severity_out_of_range", 1)]);
    let long = traces(&"n".repeat(254), vec![span(0, 1.0), span(1, 1.0)]);
    assert_eq!(ingest.traces(long).unwrap().refused, [("otlp.namespace_too_long", 2)]);

    for (signal, rows) in [(Signal::Traces, 1), (Signal::Gauge, 1), (Signal::Histogram, 2), (Signal::Logs, 1)] {
        assert_eq!(read(&store, &query(signal, "ts0", None, 0, 10)).num_rows(), rows, "{signal}");
    }
    let status = store.status();
    assert_eq!(status.kinds[&Export::Traces].accepted, 1);
    assert_eq!(status.kinds[&Export::Traces].refused["otlp.span_ends_before_start"], 2);
    assert_eq!(status.kinds[&Export::Metrics].refused.values().sum::<u64>(), 12);
}

#[test]
fn timestamps_far_from_the_clock_are_refused_unless_they_are_simulated() {
    let folder = tempfile::tempdir().unwrap();
    let store = SignalStore::open(folder.path()).unwrap();
    let ingest = store.ingest().unwrap();
    let now = WallTime::now().0 / 1_000_000;
    let hours = |hours: i64| u64::try_from(now + hours * 3600).unwrap() * 1_000_000_000;
    let started = |start: u64| {
        let mut span = span(1, 1.0);
        (span.start_time_unix_nano, span.end_time_unix_nano) = (start, start + 1_000_000);
        span
    };
    let year_2100 = 4_102_444_800_000_000_000;
    let spans = [1_000_000_000, hours(-24 * 8), hours(-24 * 6), hours(0), hours(2), year_2100].map(started).to_vec();
    let accepted = ingest.traces(traces("ts0", spans)).unwrap();
    assert_eq!((accepted.accepted, &accepted.refused[..]), (2, &[("otlp.time_out_of_range", 4)][..]));
    // The same clock does not bind a simulated run.
    let mut step = store.step(&stream("ts0", Some(RunId::random())), at(0), at(60)).unwrap();
    assert_eq!(step.traces(&traces("ts0", vec![span(1, 1.0)])).unwrap().accepted, 1);
}

#[test]
fn records_beyond_a_limit_or_without_sense_are_refused_by_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let ingest = store.ingest().unwrap();
    let with = |attributes| telemetry::otlp::trace::Span { attributes, ..span(1, 1.0) };
    let spans = vec![
        with((0..513).map(|n| pair(&format!("k{n}"), "v")).collect()),
        with((0..512).map(|n| pair(&format!("k{n}"), "v")).collect()),
        with(vec![pair("k", &"v".repeat((64 << 10) + 1))]),
        with(vec![pair(&"k".repeat(1025), "v")]),
        telemetry::otlp::trace::Span { name: "n".repeat((1 << 20) + 1), ..span(1, 1.0) },
    ];
    let accepted = ingest.traces(traces("ts0", spans)).unwrap();
    let expect = [("otlp.attributes_too_many", 1), ("otlp.attribute_too_long", 2), ("otlp.text_too_long", 1)];
    assert_eq!((accepted.accepted, &accepted.refused[..]), (1, &expect[..]));

    let mut delta = sum("s", vec![point(1.0, 1.0, vec![]), point(2.0, 1.0, vec![])]);
    let Some(Data::Sum(data)) = &mut delta.data else { unreachable!("made as a sum") };
    data.aggregation_temporality = 1;
    let mut unknown = histogram("h", vec![histogram_point(1.0)]);
    let Some(Data::Histogram(data)) = &mut unknown.data else { unreachable!("made as a histogram") };
    data.aggregation_temporality = 0;
    let accepted =
        ingest.metrics(metrics("ts0", vec![delta, unknown, gauge("g", vec![point(1.0, 1.0, vec![])])])).unwrap();
    assert_eq!((accepted.accepted, &accepted.refused[..]), (1, &[("otlp.temporality_not_cumulative", 3)][..]));
    assert!(accepted.message(Export::Metrics).contains("deltatocumulative"));

    // A span whose name is no text, and one whose bytes are no span, between two good ones.
    let mut body = traces("ts0", vec![span(2, 1.0), span(3, 1.0), span(4, 1.0)]).encode_to_vec();
    let names: Vec<usize> =
        body.windows(11).enumerate().filter(|(_, at)| at == b"GET /api/v1").map(|(at, _)| at).collect();
    body[names[1]] = 0xff;
    let accepted = ingest.accept(Export::Traces, &body).unwrap();
    assert_eq!((accepted.accepted, &accepted.refused[..]), (2, &[("otlp.text_not_utf8", 1)][..]));
    // The key of the name's field becomes a group.
    body[names[1] - 2] = 0x2b;
    let accepted = ingest.accept(Export::Traces, &body).unwrap();
    assert_eq!((accepted.accepted, &accepted.refused[..]), (2, &[("otlp.record_malformed", 1)][..]));
    // What was refused stays so after a kill, and what was accepted stays accepted.
    let copy = killed(folder.path());
    assert_eq!(read(&open(copy.path()), &query(Signal::Traces, "ts0", None, 0, 10)).num_rows(), 5);
}

#[test]
fn many_small_chunks_become_few_and_age_and_size_remove_what_arrived_first() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let ingest = store.ingest().unwrap();
    for part in 0..100 {
        ingest.traces(traces("ts0", (0..50).map(|n| span(part * 50 + n, 1.0)).collect())).unwrap();
        ingest.logs(logs("ts0", vec![log(1.0, &format!("line {part}"), vec![])])).unwrap();
        ingest.flush().unwrap();
    }
    let signals = [Signal::Traces, Signal::Logs];
    let all = |store: &SignalStore| signals.map(|signal| read(store, &query(signal, "ts0", None, 0, 10)));
    let before = all(&store);
    assert_eq!((store.stats().unwrap().chunks, before[0].num_rows()), (100, 5000));
    store.upkeep(Keep::default()).unwrap();
    assert_eq!((store.stats().unwrap().chunks, store.status().kept.merged), (1, 100));
    assert_eq!(all(&store), before);
    // What was merged is gone from the disk as well, and a kill changes nothing.
    assert_eq!(fs::read_dir(folder.path().join("live/n-ts0")).unwrap().count(), 1);
    assert_eq!(all(&open(killed(folder.path()).path())), before);

    for part in 0..3 {
        ingest.logs(logs("ts0", vec![log(2.0, &format!("later {part}"), vec![])])).unwrap();
        ingest.flush().unwrap();
    }
    let bytes = store.stats().unwrap().bytes;
    store.upkeep(Keep { age: None, bytes: Some(bytes - 1) }).unwrap();
    assert_eq!((store.stats().unwrap().chunks, store.status().kept.expired_by_size), (3, 1), "the oldest one went");
    assert_eq!(all(&store).map(|batch| batch.num_rows()), [0, 3]);
    // A stream that is being read is left alone, and goes the next time.
    let reading = fs::File::open(folder.path().join("live/n-ts0")).unwrap();
    reading.lock_shared().unwrap();
    let everything = Keep { age: Some(Duration::ZERO), bytes: None };
    store.upkeep(everything).unwrap();
    assert_eq!(store.stats().unwrap().chunks, 3);
    drop(reading);
    store.upkeep(everything).unwrap();
    assert_eq!((store.stats().unwrap().chunks, store.status().kept.expired_by_age), (0, 3));
}

#[test]
fn reads_are_right_while_records_arrive_and_chunks_are_merged() {
    const PARTS: u64 = 120;
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let ingest = store.ingest().unwrap();
    let sent = AtomicU64::new(0);
    let sending = || sent.load(Ordering::SeqCst) < PARTS;
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for part in 0..PARTS {
                ingest.traces(traces("ts0", (0..10).map(|n| span(part * 10 + n, 1.0)).collect())).unwrap();
                sent.store(part + 1, Ordering::SeqCst);
                ingest.flush().unwrap();
            }
        });
        threads.spawn(|| {
            while sending() {
                store.upkeep(Keep::default()).unwrap();
            }
        });
        while sending() {
            let before = sent.load(Ordering::SeqCst);
            let rows = read(&store, &query(Signal::Traces, "ts0", None, 0, 10)).num_rows() as u64;
            let after = sent.load(Ordering::SeqCst) + 1;
            assert!(rows.is_multiple_of(10) && (before..=after).contains(&(rows / 10)), "{before} {rows} {after}");
            assert!(rows == 0 || store.freshness("ts0", None).unwrap() == Some(at(1)));
            store.stats().unwrap();
        }
    });
    store.upkeep(Keep::default()).unwrap();
    assert!(store.status().kept.merged > 0);
    assert_eq!(read(&store, &query(Signal::Traces, "ts0", None, 0, 10)).num_rows() as u64, PARTS * 10);
}

#[test]
fn a_request_that_is_cut_off_or_too_large_is_refused_whole() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let ingest = store.ingest().unwrap();
    let body = traces("ts0", vec![span(0, 1.0), span(1, 1.0)]).encode_to_vec();
    let problem = ingest.accept(Export::Traces, &body[..body.len() - 3]).unwrap_err();
    assert_eq!(problem.code, "otlp.request_malformed");
    let problem = ingest.accept(Export::Traces, &vec![0; 20 << 20]).unwrap_err();
    assert_eq!(problem.code, "otlp.request_too_large");
    assert!(problem.to_string().contains("20971520 bytes") && problem.to_string().contains("16777216"), "{problem}");
    ingest.flush().unwrap();
    assert_eq!(store.stats().unwrap().chunks, 0, "nothing of them is stored");
    let refused = &store.status().kinds[&Export::Traces].requests_refused;
    assert_eq!(refused.values().sum::<u64>(), 2);
}

/// What a killed process leaves: a copy of the folder while it still runs.
fn killed(folder: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    let status = std::process::Command::new("cp").arg("-a").arg(folder.join(".")).arg(copy.path()).status();
    assert!(status.unwrap().success());
    copy
}

fn journals(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder.join("journal")).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|ext| ext == "log")).collect()
}

#[test]
fn what_was_acknowledged_survives_a_kill_and_is_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let ingest = store.ingest().unwrap();
    ingest.traces(traces("ts0", vec![span(0, 1.0)])).unwrap();
    ingest.traces(traces("ts1", vec![span(1, 1.0)])).unwrap();
    ingest.logs(logs("ts0", vec![log(1.0, "hello", vec![])])).unwrap();
    let count =
        |store: &SignalStore, signal, namespace: &str| read(store, &query(signal, namespace, None, 0, 10)).num_rows();
    let check = |copy: &Path| {
        let store = open(copy);
        assert_eq!(count(&store, Signal::Traces, "ts0"), 1);
        assert_eq!(count(&store, Signal::Traces, "ts1"), 1);
        assert_eq!(count(&store, Signal::Logs, "ts0"), 1);
        assert_eq!(journals(copy), [] as [std::path::PathBuf; 0]);
    };
    check(killed(folder.path()).path());

    // A record that was being written when the process died is cut off.
    let copy = killed(folder.path());
    let journal = journals(copy.path()).pop().unwrap();
    let whole = fs::read(&journal).unwrap();
    let record = &whole[8..80];
    fs::write(&journal, [&whole[..], record].concat()).unwrap();
    check(copy.path());

    // Killed between writing the segments and deleting the journal: the journal is read again, its chunks are there already.
    let journal = journals(folder.path()).pop().unwrap();
    let bytes = fs::read(&journal).unwrap();
    ingest.flush().unwrap();
    fs::write(&journal, bytes).unwrap();
    let copy = killed(folder.path());
    check(copy.path());
    // The same when only one of the two namespaces was written.
    let copy = killed(folder.path());
    fs::remove_dir_all(copy.path().join("live/n-ts0")).unwrap();
    check(copy.path());
}

#[test]
fn one_receiver_at_a_time_and_nothing_is_left_in_its_journal() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let ingest = store.ingest().unwrap();
    ingest.traces(traces("ts0", vec![span(0, 1.0)])).unwrap();
    let other = open(folder.path());
    assert_eq!(other.ingest().err().unwrap().code, "telemetry.journal_in_use");
    store.ingest().unwrap().traces(traces("ts0", vec![span(1, 1.0)])).unwrap();
    drop(ingest);
    assert_eq!(read(&other, &query(Signal::Traces, "ts0", None, 0, 10)).num_rows(), 2);
    other.ingest().unwrap();
}

#[test]
fn size_turns_records_into_segments_and_arrival_expires_them() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { flush_bytes: 50_000, ..options() };
    let store = SignalStore::open_with(folder.path(), options).unwrap();
    let ingest = store.ingest().unwrap();
    for part in 0..10 {
        ingest.traces(traces("ts0", (0..500).map(|n| span(part * 500 + n, 1.0)).collect())).unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while store.stats().unwrap().chunks == 0 {
        assert!(Instant::now() < deadline, "nothing was written: {:?}", store.status());
        std::thread::yield_now();
    }
    assert_eq!(read(&store, &query(Signal::Traces, "ts0", None, 0, 10)).num_rows(), 5000);
    // Data time is long ago; retention goes by arrival.
    assert_eq!(store.expire(WallTime(WallTime::now().0 - 60_000_000)).unwrap(), 0);
    let chunks = store.stats().unwrap().chunks;
    assert_eq!(store.expire(WallTime(WallTime::now().0 + 1)).unwrap(), chunks);
    assert_eq!(read(&store, &query(Signal::Traces, "ts0", None, 0, 10)).num_rows(), 0);
    assert_eq!(store.streams().unwrap(), []);
}

#[test]
fn a_folder_of_another_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    fs::write(folder.path().join("format"), "1\n").unwrap();
    assert_eq!(SignalStore::open(folder.path()).err().unwrap().code, "telemetry.format_unknown");
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(SignalStore::open(&file).is_err());
}
