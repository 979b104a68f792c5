//! SQL over real packs: what is asked is answered, what may not be asked is refused, limits hold.

#![expect(clippy::unwrap_used, reason = "a test's helper fails with the test")]

#[expect(dead_code, reason = "only some of the telemetry is needed here")]
#[path = "../../../datapack/tests/it/synthetic.rs"]
mod synthetic;

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use model::ErrorKind;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use query::{Answer, Limits, PackFolder};
use serde_json::{Value, json};
use tempfile::TempDir;

const LIMITS: Limits = Limits { memory: 256 << 20, spill: 4 << 30, time: Duration::from_secs(120), rows: 10_000_000 };

struct World {
    folder: TempDir,
    count: i32,
}

impl World {
    fn new(count: i32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for number in 1..=count {
            synthetic::published(folder.path(), number);
        }
        Self { folder, count }
    }

    fn open(&self, number: i32) -> PathBuf {
        self.folder.path().join(format!("shop-{number:06}")).join("open")
    }

    fn packs(&self) -> Vec<PackFolder> {
        let name = |number| format!("shop-{number:06}");
        (1..=self.count)
            .map(|number| PackFolder { name: name(number), open: PathBuf::from(name(number)).join("open") })
            .collect()
    }

    fn begin(&self, sql: &str, limits: Limits) -> model::Result<Answer> {
        Answer::begin(sql, self.folder.path(), self.packs(), limits, self.folder.path())
    }

    /// The lines of an answer.
    fn lines(&self, sql: &str, limits: Limits) -> model::Result<Vec<Value>> {
        let mut text = Vec::new();
        self.begin(sql, limits)?.write(&mut text)?;
        Ok(String::from_utf8(text).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }

    #[track_caller]
    fn rows(&self, sql: &str) -> Vec<Value> {
        let mut lines = self.lines(sql, LIMITS).unwrap_or_else(|problem| panic!("{sql}: {problem:?}"));
        let last = lines.pop().unwrap();
        assert_eq!(last["end"]["rows"], lines.len() - 1, "{last}");
        lines.remove(0);
        lines
    }

    /// Soon after the last query nothing of it is on disk.
    fn left_nothing(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let names = fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
            let left: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with("query-")).collect();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "{left:?} is left");
            std::thread::yield_now();
        }
    }

    #[track_caller]
    fn refused(&self, sql: &str) -> model::Problem {
        self.begin(sql, LIMITS).err().unwrap_or_else(|| panic!("{sql} is answered"))
    }
}

#[test]
fn every_table_answers_with_pack_and_window() {
    let world = World::new(3);
    let counts = world.rows("SELECT pack, \"window\", count(*) FROM traces GROUP BY ALL ORDER BY 1, 2");
    let expect: Vec<Value> = (1..=3)
        .flat_map(|number| ["abnormal", "normal"].map(|window| json!([format!("shop-{number:06}"), window, 600])))
        .collect();
    assert_eq!(counts, expect);
    for (table, rows) in
        [("logs", 900), ("metrics", 450), ("metrics_sum", 450), ("metrics_histogram", 450), ("trace_id_ts", 1200)]
    {
        assert_eq!(world.rows(&format!("SELECT count(*) FROM {table}")), [json!([rows])], "{table}");
    }
    // Instants, lists and whole numbers keep everything that they have; both generations of names are read.
    let row =
        &world.rows("SELECT TimeUnix, Count, Sum, Min, BucketCounts FROM metrics_histogram ORDER BY 1 LIMIT 1")[0];
    assert_eq!(*row, json!(["2027-01-15T08:00:00.000000000Z", 3, 2.5, null, [1, 2]]));
    let lists = world.rows("SELECT BucketCounts[2], array_length(ExplicitBounds) FROM metrics_histogram LIMIT 1");
    assert_eq!(lists, [json!([2, 1])]);
    // More groups by texts than are kept at once.
    let pairs = world.rows(
        "SELECT count(*), sum(n) FROM (SELECT x.TraceId AS p, y.TraceId AS q, count(*) AS n \
         FROM trace_id_ts x CROSS JOIN trace_id_ts y GROUP BY p, q)",
    );
    assert_eq!(pairs, [json!([400 * 400, 1200 * 1200])]);
    let floats = world.rows("SELECT 'inf'::double, '-inf'::double, 'NaN'::double, NULL::double, 0.5::double");
    assert_eq!(floats, [json!(["inf", "-inf", "NaN", null, 0.5])]);
    let codes = world.rows(
        "SELECT coalesce(attr(SpanAttributes, 'http.response.status_code'), attr(SpanAttributes, 'http.status_code')) AS code, \
         count(*) FROM traces GROUP BY code ORDER BY code",
    );
    assert_eq!(codes, [json!(["200", 3480]), json!(["503", 120])]);
    let nothing = world.rows("SELECT count(attr(SpanAttributes, NULL)), count(attr(NULL, 'a')), count(*) FROM traces");
    assert_eq!(nothing, [json!([0, 0, 3600])]);
    let joined = world.rows("SELECT count(DISTINCT t.TraceId) FROM traces t JOIN trace_id_ts i USING (TraceId, pack)");
    assert_eq!(joined, [json!([400])]);
    assert_eq!(world.rows("SELECT date_trunc('minute', Timestamp) FROM logs LIMIT 1").len(), 1);
    assert_eq!(
        world.rows("SELECT ServiceName FROM traces WHERE SpanName LIKE '%cart%' AND Duration > 0 LIMIT 1"),
        [json!(["cart"])]
    );
    assert!(world.rows("DESCRIBE traces").iter().any(|row| row[0] == "window"));
}

#[test]
fn a_filter_on_pack_or_window_decides_which_files_are_opened() {
    let world = World::new(2);
    fs::remove_file(world.open(2).join("normal_traces.parquet")).unwrap();
    let one = "SELECT count(*) FROM traces WHERE pack = 'shop-000001'";
    assert_eq!(world.rows(one), [json!([1200])]);
    assert_eq!(world.rows("SELECT count(*) FROM traces WHERE \"window\" = 'abnormal'"), [json!([1200])]);
    assert_eq!(world.rows("SELECT count(*) FROM traces t WHERE t.pack IN ('shop-000001', 'nothing')"), [json!([1200])]);
    assert_eq!(world.rows("SELECT count(*) FROM traces WHERE pack LIKE '%1' AND ServiceName = 'cart'"), [json!([400])]);
    let problem = world.refused("SELECT count(*) FROM traces");
    assert_eq!(problem.code, "datapack.file_missing");
    assert!(problem.place.unwrap().contains("shop-000002/open/normal_traces.parquet"));
}

#[test]
fn a_file_that_is_not_what_a_pack_has_is_named() {
    let world = World::new(2);
    let path = world.open(2).join("abnormal_traces.parquet");
    let batch = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap())
        .unwrap()
        .build()
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let write = |pairs: Vec<(String, ArrayRef)>| {
        let batch = RecordBatch::try_from_iter(pairs).unwrap();
        let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    };
    let pairs = |change: &dyn Fn(&str, &ArrayRef) -> Option<ArrayRef>| -> Vec<(String, ArrayRef)> {
        let schema = batch.schema();
        let all = schema.fields().iter().zip(batch.columns());
        all.filter_map(|(field, array)| Some((field.name().clone(), change(field.name(), array)?))).collect()
    };
    let other: ArrayRef = Arc::new(Int64Array::from(vec![1; batch.num_rows()]));
    write(pairs(&|name, array| Some(if name == "Duration" { other.clone() } else { array.clone() })));
    let problem = world.refused("SELECT max(Duration) FROM traces");
    assert_eq!((problem.code.as_ref(), problem.kind), ("datapack.column_type", ErrorKind::Failed));
    assert!(problem.place.unwrap().ends_with("shop-000002/open/abnormal_traces.parquet: Duration"));
    write(pairs(&|name, array| (name != "SpanName").then(|| array.clone())));
    assert_eq!(world.refused("SELECT max(SpanName) FROM traces").code, "datapack.column_missing");
    fs::write(&path, b"no parquet at all, but long enough to have a footer").unwrap();
    assert_eq!(world.refused("SELECT count(*) FROM traces").code, "datapack.file_corrupt");
}

#[test]
fn what_is_wrong_with_a_query_is_said_with_its_place() {
    let world = World::new(1);
    let problem = world.refused("SELECT ServiceName,\n  sum(duration)\nFROM traces");
    assert_eq!((problem.code.as_ref(), problem.kind), ("query.column_unknown", ErrorKind::Invalid));
    assert_eq!(problem.fix.as_deref(), Some("did you mean `Duration`?"));
    assert_eq!(problem.place.as_deref(), Some("line 2, column 7"));
    for (sql, code) in [
        ("SELECT nothing_such(Duration) FROM traces", "query.function_unknown"),
        ("SELECT ServiceName, count(*) FROM traces", "query.invalid"),
        ("SELECT sum(SpanName) FROM traces", "query.invalid"),
        ("SELECT TraceId FROM traces, logs", "query.column_ambiguous"),
        ("SELECT cast(SpanName AS BIGINT) FROM traces", "query.failed"),
        ("SELECT * INTO copy FROM traces", "query.not_read_only"),
        ("SELECT * FROM '/etc/passwd'", "query.outside_packs"),
        ("SELECT * FROM read_parquet('/etc/passwd')", "query.outside_packs"),
        ("SELECT * FROM \"shop-000001/sealed/truth.json\"", "query.outside_packs"),
    ] {
        assert_eq!(world.refused(sql).code, code, "{sql}");
    }
    // The truth is no table, and none of the tables has it.
    let columns = world.rows("SELECT table_name, column_name FROM information_schema.columns");
    assert!(columns.len() > 50 && columns.iter().all(|row| !row[0].as_str().unwrap().contains("truth")), "{columns:?}");
}

#[test]
fn deep_and_long_queries_do_not_end_the_program() {
    let world = World::new(1);
    let sum = format!("SELECT 1{}", " + 1".repeat(16_000));
    let deep = format!("SELECT {}1{}", "(".repeat(20_000), ")".repeat(20_000));
    let conditions = format!("SELECT count(*) FROM traces WHERE Duration > 0{}", " AND Duration > 0".repeat(1000));
    let unions = vec!["SELECT 1"; 1000].join(" UNION ALL ");
    assert_eq!(world.refused(&deep).code, "query.syntax");
    assert_eq!(world.refused(&format!("{sum}{}", " + 1".repeat(1000))).code, "query.too_long");
    let limits = Limits { time: Duration::from_secs(10), ..LIMITS };
    for sql in [sum, conditions, unions] {
        // Answered or refused; the program is still there.
        let _ = world.lines(&sql, limits);
    }
    assert_eq!(world.rows("SELECT 1"), [json!([1])]);
}

#[test]
fn time_is_limited_whatever_is_computed() {
    let world = World::new(1);
    let short = Limits { time: Duration::from_secs(1), ..LIMITS };
    // One call that gives its thread back after many seconds at the earliest.
    let turns = [("a", "b"), ("b", "a")].repeat(20);
    let long = turns
        .iter()
        .fold("repeat('a', 100000000)".to_owned(), |text, (from, to)| format!("replace({text}, '{from}', '{to}')"));
    for endless in [
        "SELECT sum(a.Duration + b.Duration + c.Duration) FROM traces a, traces b, traces c",
        "SELECT count(*) FROM generate_series(1, 1000000000000)",
        "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t",
        &format!("SELECT length({long}) FROM generate_series(1, 10000)"),
    ] {
        let began = Instant::now();
        let problem = match world.lines(endless, short) {
            Err(problem) => problem,
            Ok(lines) => serde_json::from_value(lines.last().unwrap()["error"].clone()).unwrap(),
        };
        assert_eq!((problem.code.as_ref(), problem.kind), ("query.timed_out", ErrorKind::Timeout), "{endless}");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }
    world.left_nothing();
}

#[test]
fn what_does_not_fit_into_memory_goes_to_disk() {
    let world = World::new(2);
    let limits = |memory: usize| Limits { memory: memory << 20, ..LIMITS };
    let many = "SELECT a.SpanId || b.SpanId AS x FROM traces a JOIN traces b ON a.pack = b.pack";
    let rows: u64 = 2 * 1200 * 1200;
    // Sorts of short rows and of long ones, a group for each row, and both.
    let wide = "SELECT a.*, b.SpanId AS other FROM traces a JOIN traces b ON a.pack = b.pack WHERE b.Duration % 10 = 0";
    let wide_rows = world.rows(&format!("SELECT count(*) FROM ({wide})"))[0][0].as_u64().unwrap();
    for (sql, rows, memory) in [
        (format!("{many} ORDER BY x DESC"), rows, 16),
        (format!("{many} ORDER BY x DESC"), rows, 64),
        (format!("{many} ORDER BY x DESC"), rows, 256),
        (format!("{wide} ORDER BY b.SpanId, a.SpanAttributes"), wide_rows, 64),
        // Both packs have the same ids.
        (format!("SELECT x, count(*) FROM ({many}) GROUP BY x"), rows / 2, 128),
        (format!("SELECT x, count(*) AS n FROM ({many}) GROUP BY x ORDER BY n, x"), rows / 2, 128),
    ] {
        let mut sink = Lines::default();
        world
            .begin(&sql, limits(memory))
            .unwrap_or_else(|problem| panic!("{sql}: {problem:?}"))
            .write(&mut sink)
            .unwrap();
        assert_eq!(
            (sink.count, sink.last["end"]["rows"].as_u64()),
            (rows + 2, Some(rows)),
            "{sql} {memory}: {}",
            sink.last
        );
    }
    let code = |sql: &str, limits| match world.lines(sql, limits) {
        Err(problem) => problem.code.into_owned(),
        Ok(lines) => lines.last().unwrap()["error"]["code"].as_str().unwrap_or("none").to_owned(),
    };
    let sorted = format!("{many} ORDER BY x DESC");
    assert_eq!(code(&sorted, Limits { spill: 1 << 20, ..limits(64) }), "query.disk_exhausted");
    // One side of a join stays in memory.
    let joined = format!("SELECT count(*) FROM ({many}) l JOIN ({many}) r USING (x)");
    assert_eq!(code(&joined, limits(64)), "query.memory_exhausted");
    world.left_nothing();
}

#[test]
fn an_answer_has_no_more_rows_than_it_may() {
    let world = World::new(1);
    let few = Limits { rows: 1000, ..LIMITS };
    let lines = world.lines("SELECT a.SpanId FROM traces a, traces b, traces c", few).unwrap();
    assert!(lines.len() <= 1002, "{} lines", lines.len());
    assert_eq!(lines.last().unwrap()["error"]["code"], "query.too_many_rows");
    assert_eq!(world.lines("SELECT SpanId FROM traces LIMIT 1000", few).unwrap().len(), 1002);
}

/// Counts lines, and keeps the last one.
#[derive(Default)]
struct Lines {
    count: u64,
    text: Vec<u8>,
    last: Value,
}

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.text.extend_from_slice(bytes);
        let Some(end) = self.text.iter().rposition(|byte| *byte == b'\n') else { return Ok(bytes.len()) };
        self.count += self.text[..=end].iter().filter(|byte| **byte == b'\n').count() as u64;
        let start = self.text[..end].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.last = serde_json::from_slice(&self.text[start..end]).unwrap();
        self.text.drain(..=end);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
