//! What is told of packs: their health, in what two differ, the flat layout.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::DataType;
use datapack::diagnose::{Health, diagnose};
use datapack::diff::diff;
use datapack::{Builder, Pack, Signal};
use model::{PackState, Window};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tempfile::tempdir;

use crate::synthetic::{input, published, rows, telemetry, traces};

fn read(path: &Path) -> Vec<RecordBatch> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap().build().unwrap();
    reader.map(Result::unwrap).collect()
}

/// Writes one column of a pack's file anew, or leaves it out.
fn rewrite(path: &Path, column: &str, array: Option<ArrayRef>) {
    let batch = read(path).remove(0);
    let schema = batch.schema();
    let pairs = schema.fields().iter().zip(batch.columns()).filter_map(|(field, old)| match field.name() == column {
        true => array.clone().map(|new| (field.name().clone(), new)),
        false => Some((field.name().clone(), old.clone())),
    });
    let changed = RecordBatch::try_from_iter(pairs.collect::<Vec<_>>()).unwrap();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), changed.schema(), None).unwrap();
    writer.write(&changed).unwrap();
    writer.close().unwrap();
}

#[test]
fn a_damaged_pack_gets_the_verdict_and_the_code_of_its_damage() {
    let packs = tempdir().unwrap();
    let folder = |number: i32| packs.path().join(format!("shop-{number:06}"));
    let health = |number: i32| diagnose(&folder(number), PackState::DetectorSuccess).unwrap();
    let codes = |number: i32| {
        let pack = Pack::open(&folder(number)).unwrap();
        [pack.verify().unwrap_err().code.into_owned(), pack.load(&[]).unwrap_err().code.into_owned()]
    };
    published(packs.path(), 1);
    let whole = health(1);
    assert_eq!(whole.health, Health::Healthy, "{:?}", whole.notes);
    assert!(
        whole.notes.iter().any(|note| note.contains("600 traces") && note.contains("200 root spans")),
        "{:?}",
        whole.notes
    );
    assert!(whole.clock_skew.is_empty());

    // A file is missing.
    published(packs.path(), 2);
    fs::remove_file(folder(2).join("open/normal_logs.parquet")).unwrap();
    let found = health(2);
    assert_eq!((found.health, &found.missing_files[..]), (Health::Incomplete, &["normal_logs.parquet".to_owned()][..]));
    assert_eq!(codes(2), ["datapack.file_missing", "datapack.file_missing"]);

    // A column has another type.
    published(packs.path(), 3);
    let path = folder(3).join("open/abnormal_traces.parquet");
    let durations = Int64Array::from(vec![1; read(&path)[0].num_rows()]);
    rewrite(&path, "Duration", Some(Arc::new(durations)));
    let found = health(3);
    assert_eq!(found.health, Health::Incomplete);
    assert!(found.notes.iter().any(|note| note.contains("Int64") && note.contains("uint64")), "{:?}", found.notes);
    assert_eq!(codes(3), ["datapack.checksum_mismatch", "datapack.column_type"]);

    // A column is missing.
    published(packs.path(), 4);
    rewrite(&folder(4).join("open/normal_metrics.parquet"), "Value", None);
    assert_eq!(codes(4), ["datapack.checksum_mismatch", "datapack.column_missing"]);

    // One byte in the middle is another one, and the file is no parquet any more.
    published(packs.path(), 5);
    let path = folder(5).join("open/normal_traces.parquet");
    let mut bytes = fs::read(&path).unwrap();
    let footer = bytes.len() - 200;
    bytes[footer] ^= 0xff;
    fs::write(&path, &bytes).unwrap();
    assert_eq!(codes(5)[0], "datapack.checksum_mismatch");

    // Nothing was built; or the state says so.
    assert_eq!(diagnose(&folder(9), PackState::InjectSuccess).unwrap().health, Health::NotBuilt);
    assert_eq!(diagnose(&folder(9), PackState::BuildSuccess).unwrap().health, Health::StateInconsistent);
    assert_eq!(diagnose(&folder(1), PackState::InjectSuccess).unwrap().health, Health::StateInconsistent);
}

#[test]
fn a_clock_that_runs_behind_is_named() {
    let packs = tempdir().unwrap();
    let mut source = telemetry();
    let mut late = rows(Window::Normal);
    // `cart` is called 1 ms after `web` began; its clock says 20 ms earlier.
    for row in late.iter_mut().filter(|row| row.service == "cart" && row.span % 2 == 0) {
        row.time -= 21_000_000;
    }
    late.retain(|row| row.time >= crate::synthetic::windows().normal_start.0);
    source.replace(Window::Normal, Signal::Traces, vec![traces(&late)]);
    Builder::new(packs.path(), input(1)).unwrap().build(&source).unwrap().publish().unwrap();
    let found = diagnose(&packs.path().join("shop-000001"), PackState::BuildSuccess).unwrap();
    let [skew] = &found.clock_skew[..] else { panic!("{:?}", found.clock_skew) };
    assert_eq!((skew.service.as_str(), skew.worst_ns), ("cart", 20_000_000));
    assert!(found.notes.iter().any(|note| note.starts_with("cart:") && note.contains("20.0 ms")), "{:?}", found.notes);
}

#[test]
fn two_packs_differ_where_their_telemetry_does() {
    let packs = tempdir().unwrap();
    let (one, same) = (published(packs.path(), 1), published(packs.path(), 2));
    let found = diff(&one, &same).unwrap();
    assert!(found.same, "names and build times are no difference: {found:#?}");
    assert_eq!(found.equal.len(), 15);

    let mut source = telemetry();
    let mut other = rows(Window::Abnormal);
    other[8].service = "web";
    other.pop();
    source.replace(Window::Abnormal, Signal::Traces, vec![traces(&other)]);
    let mut changed = input(3);
    changed.truth.entries[0].service = "web".into();
    let changed = Builder::new(packs.path(), changed).unwrap().build(&source).unwrap().publish().unwrap();
    let found = diff(&one, &changed).unwrap();
    assert!(!found.same);
    let table = found.tables.iter().find(|table| table.file == "abnormal_traces.parquet").unwrap();
    assert_eq!(table.rows, [600, 599]);
    let first = table.first.as_ref().unwrap();
    assert_eq!((first.row, first.column.as_str()), (8, "SpanName"));
    assert_eq!((first.left.as_str(), first.right.as_str()), ("GET /cart", "GET /web"));
    let truth = found.documents.iter().find(|document| document.file == "truth.json").unwrap();
    assert_eq!((truth.at.as_str(), &truth.left, &truth.right), ("/entries/0/service", &"cart".into(), &"web".into()));
}

#[test]
fn the_flat_layout_is_attached_and_no_part_of_what_was_built() {
    let packs = tempdir().unwrap();
    let pack = published(packs.path(), 1);
    let before = pack.files().unwrap();
    let files = pack.convert().unwrap();
    assert_eq!(files, pack.convert().unwrap(), "a second time is the same");
    assert_eq!(files.len(), 10 + 4, "{files:?}");
    pack.verify().unwrap();
    let listed = pack.files().unwrap();
    assert_eq!(listed.len(), before.len() + files.len());
    let view = packs.path().join("view");
    pack.public_view(&view).unwrap();
    assert!(view.join("converted/.finished").is_file());

    let spans = read(&view.join("converted/normal_traces.parquet")).remove(0);
    let schema = spans.schema();
    let kind = |name: &str| schema.field_with_name(name).unwrap().data_type().clone();
    assert_eq!(kind("duration"), DataType::UInt64);
    assert_eq!(kind("attr.http.response.status_code"), DataType::UInt16);
    assert!(matches!(kind("time"), DataType::Timestamp(_, Some(_))));
    let bare = ["time", "trace_id", "span_id", "parent_span_id", "span_name", "service_name", "duration"];
    for field in schema.fields() {
        assert!(bare.contains(&field.name().as_str()) || field.name().starts_with("attr."), "{}", field.name());
    }
    use arrow::array::AsArray;
    let status = spans.column_by_name("attr.http.response.status_code").unwrap();
    let status = status.as_primitive::<arrow::datatypes::UInt16Type>();
    assert!(status.iter().any(|code| code == Some(503)), "the new name of the attribute is read");
    assert!(status.iter().any(|code| code == Some(200)), "the old one as well");
    let pods = spans.column_by_name("attr.k8s.pod.name").unwrap();
    assert_eq!(pods.null_count(), 0, "both names of the pod are read");
}
