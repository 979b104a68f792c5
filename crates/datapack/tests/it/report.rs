//! What is told of packs: their health, in what two differ, the flat layout.

use std::fs::File;
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use datapack::diagnose::{Health, diagnose};
use datapack::diff::diff;
use datapack::{Builder, Signal};
use model::{PackState, Window};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tempfile::tempdir;

use crate::synthetic::{input, published, rows, telemetry, traces};

fn read(path: &Path) -> Vec<RecordBatch> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap().build().unwrap();
    reader.map(Result::unwrap).collect()
}

/// Writes a pack's file anew.
pub fn rewrite(path: &Path, change: impl FnOnce(RecordBatch) -> RecordBatch) {
    let changed = change(read(path).remove(0));
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), changed.schema(), None).unwrap();
    writer.write(&changed).unwrap();
    writer.close().unwrap();
}

#[test]
fn the_health_of_a_pack_is_told_from_its_state_and_its_files() {
    let packs = tempdir().unwrap();
    let folder = |number: i32| packs.path().join(format!("shop-{number:06}"));
    published(packs.path(), 1);
    let whole = diagnose(&folder(1), PackState::DetectorSuccess, None).unwrap();
    assert_eq!(whole.health, Health::Healthy, "{:?}", whole.notes);
    assert!(
        whole
            .notes
            .iter()
            .any(|note| note.contains("the normal window of 20 s has") && note.contains("200 root spans")),
        "{:?}",
        whole.notes
    );
    assert!(whole.clock_skew.is_empty());
    // Nothing was built; or the state says so.
    assert_eq!(diagnose(&folder(9), PackState::InjectSuccess, None).unwrap().health, Health::NotBuilt);
    assert_eq!(diagnose(&folder(9), PackState::BuildSuccess, None).unwrap().health, Health::StateInconsistent);
    assert_eq!(diagnose(&folder(1), PackState::InjectSuccess, None).unwrap().health, Health::StateInconsistent);
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
    let found = diagnose(&packs.path().join("shop-000001"), PackState::BuildSuccess, None).unwrap();
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
