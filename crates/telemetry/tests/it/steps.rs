//! Steps of simulated runs: whole or not at all, replaced on a second try, equal bytes for equal records.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use model::RunId;
use telemetry::{Options, Signal, SignalStore};

use crate::fixture::*;

fn run() -> Option<RunId> {
    Some(RunId::random())
}

/// Every segment file below a folder, by name, with its bytes.
pub fn segments(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { walk(&path, found) } else { found.push(path) }
        }
    }
    let mut found = Vec::new();
    walk(folder, &mut found);
    let segments = found.into_iter().filter(|path| path.extension().is_some_and(|ext| ext == "parquet"));
    segments
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(path).unwrap()))
        .collect()
}

#[test]
fn a_second_try_replaces_a_step_and_later_ones_that_it_overlaps() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let (run, commit) = (run(), |from: i64, to: i64, run, numbers: &[u64]| {
        let mut step = store.step(&stream("ts0", run), at(from), at(to)).unwrap();
        let spans = numbers.iter().map(|&number| span(number, from as f64)).collect();
        assert_eq!(step.traces(&traces("ts0", spans)).unwrap().accepted, numbers.len() as u64);
        step.commit()
    });
    let ids = || text(&read(&store, &query(Signal::Traces, "ts0", run, 0, 100)), "SpanId");
    let id = |number: u64| format!("{:016x}", number + 1);

    let stats = commit(0, 10, run, &[1, 2]).unwrap();
    assert_eq!(stats.rows, BTreeMap::from([(Signal::Traces, 2)]));
    assert!(stats.bytes > 0);
    commit(10, 20, run, &[3]).unwrap();
    commit(20, 30, run, &[4]).unwrap();
    assert_eq!(ids(), [id(1), id(2), id(3), id(4)]);

    // The second try is longer than the first: it takes the place of [10, 20) and of [20, 30).
    commit(10, 25, run, &[5]).unwrap();
    assert_eq!(ids(), [id(1), id(2), id(5)]);

    let problem = commit(5, 12, run, &[6]).unwrap_err();
    assert_eq!(problem.code, "step.overlaps_earlier");
    assert_eq!(ids(), [id(1), id(2), id(5)], "a refused step changes nothing");
    assert_eq!(store.step(&stream("ts0", run), at(5), at(5)).err().unwrap().code, "step.window_empty");

    // Another run of the same namespace is another stream.
    let other = Some(RunId::random());
    commit(0, 10, other, &[9]).unwrap();
    assert_eq!(ids(), [id(1), id(2), id(5)]);
    assert_eq!(store.streams().unwrap().len(), 2);
    assert_eq!(store.stats().unwrap().rows[&Signal::Traces], 4);
    assert!(store.remove(&stream("ts0", other)).unwrap());
    assert!(!store.remove(&stream("ts0", other)).unwrap());
    assert_eq!(store.streams().unwrap(), [stream("ts0", run)]);
}

#[test]
fn what_is_not_committed_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let run = run();
    let begin = |store: &SignalStore| {
        let mut step = store.step(&stream("ts0", run), at(0), at(10)).unwrap();
        step.traces(&traces("ts0", (0..100).map(|number| span(number, 1.0)).collect())).unwrap();
        step
    };
    let small = Options { spill_bytes: 1, ..options() };
    let store = SignalStore::open_with(folder.path(), small).unwrap();
    let staged = || segments(&folder.path().join("staging")).len();

    drop(begin(&store));
    assert_eq!(staged(), 0, "an aborted step is gone at once");
    // A killed process runs no destructors: its files stay, unseen, until the store is opened again.
    let killed = begin(&store);
    assert!(staged() > 0);
    let copy = tempfile::tempdir().unwrap();
    let status = std::process::Command::new("cp").arg("-a").arg(folder.path()).arg(copy.path().join("dir")).status();
    assert!(status.unwrap().success());
    let reopened = open(copy.path().join("dir"));
    assert_eq!(segments(&copy.path().join("dir")).len(), 0);
    assert_eq!(reopened.streams().unwrap(), []);
    assert_eq!(read(&reopened, &query(Signal::Traces, "ts0", run, 0, 10)).num_rows(), 0);

    // A living owner's staging folder is left alone.
    let beside = open(folder.path());
    killed.commit().unwrap();
    assert_eq!(read(&beside, &query(Signal::Traces, "ts0", run, 0, 10)).num_rows(), 100);
}

#[test]
fn equal_records_give_equal_bytes_in_any_order_of_arrival() {
    let spans: Vec<_> = (0..5000).map(|number| span(number, (number % 100) as f64 / 10.0)).collect();
    let points: Vec<_> = (0..600)
        .map(|n| point((n / 200 * 15) as f64, n as f64, vec![pair("pod", &format!("p{}", n % 50)), pair("cpu", "0")]))
        .collect();
    let records: Vec<_> = (0..600).map(|n| log((n % 3) as f64, &format!("line {}", n % 7), vec![])).collect();
    let write = |reverse: bool, requests: usize| {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        let mut step = store.step(&stream("ts0", run()), at(0), at(60)).unwrap();
        let (mut spans, mut points, mut records) = (spans.clone(), points.clone(), records.clone());
        if reverse {
            spans.reverse();
            points.reverse();
            records.reverse();
        }
        spans.chunks(5000 / requests).for_each(|part| drop(step.traces(&traces("ts0", part.to_vec())).unwrap()));
        points.chunks(600 / requests).for_each(|part| {
            let list = vec![gauge("load", part.to_vec()), sum("bytes", part.to_vec())];
            drop(step.metrics(&metrics("ts0", list)).unwrap());
        });
        records.chunks(600 / requests).for_each(|part| drop(step.logs(&logs("ts0", part.to_vec())).unwrap()));
        let stats = step.commit().unwrap();
        assert_eq!(stats.rows.values().sum::<u64>(), 5000 + 1200 + 600);
        segments(folder.path())
    };
    let first = write(false, 1);
    assert_eq!(
        first.keys().collect::<Vec<_>>(),
        ["gauge-0.parquet", "logs-0.parquet", "sum-0.parquet", "traces-0.parquet"]
    );
    assert!(first == write(true, 10));
}

#[test]
fn a_step_that_spills_reads_as_one_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let write = |options: Options, run| {
        let store = SignalStore::open_with(folder.path(), options).unwrap();
        let mut step = store.step(&stream("ts0", run), at(0), at(60)).unwrap();
        for part in 0..20 {
            let spans = (0..500).map(|n| span(part * 500 + n, ((part * 7919 + n * 104_729) % 6000) as f64 / 100.0));
            step.traces(&traces("ts0", spans.collect())).unwrap();
        }
        step.commit().unwrap();
        store
    };
    let (one, many) = (run(), run());
    write(Options::default(), one);
    let store = write(Options { spill_bytes: 200_000, ..options() }, many);
    let folder_of = |run: Option<RunId>| folder.path().join("runs").join(run.unwrap().to_string());
    assert_eq!(segments(&folder_of(one)).len(), 1);
    assert!(segments(&folder_of(many)).len() > 2);
    let rows = |run| read(&store, &query(Signal::Traces, "ts0", run, 10, 50));
    assert!(rows(one).num_rows() > 1000);
    assert!(rows(one) == rows(many));
    let times = times(&rows(many));
    assert!(times.is_sorted());
}
