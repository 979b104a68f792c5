//! What a reader gets: the public form, verification, single files, the archive, the conclusion, the frames.

use std::fs::{self, File};
use std::io::{Cursor, Read};

use arrow::datatypes::{DataType, TimeUnit};
use datapack::diagnose::{Health, diagnose};
use datapack::{Bytes, ConclusionRow, EndpointFigures, LOAD_GENERATORS, Pack, Signal, schema};
use model::{ErrorKind, PackState, Window};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use rca::frame::{SpanKind, SpanStatus};
use serde_json::Value;
use tempfile::tempdir;

use crate::synthetic::{TRACES, map, published, tree, windows};

fn conclusion() -> Vec<ConclusionRow> {
    let figures = EndpointFigures { avg: Some(0.25), success_rate: Some(1.0), ..EndpointFigures::default() };
    let issues = map(serde_json::json!({"avg_duration": {"normal": 0.1, "abnormal": 0.25}}));
    vec![ConclusionRow { span_name: "GET /web".into(), issues, abnormal: figures, normal: figures }]
}

#[test]
fn the_public_form_is_flat_labelled_and_checks_itself() {
    let packs = tempdir().unwrap();
    let pack = published(packs.path(), 7);
    pack.attach_conclusion(&conclusion()).unwrap();
    let view = packs.path().join("view");
    pack.public_view(&view).unwrap();
    let files = tree(&view);
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    let listed = pack.files().unwrap();
    assert_eq!(names, listed.iter().map(|file| file.name.as_str()).collect::<Vec<_>>());
    assert_eq!(names.len(), 12 + 6);

    let bytes = |wanted: &str| &files.iter().find(|(name, _)| name == wanted).unwrap().1;
    let env: Value = serde_json::from_slice(bytes("env.json")).unwrap();
    let expect = serde_json::json!({
        "NAMESPACE": "shop3", "DB_TIMEZONE": "UTC", "NORMAL_START": "1800000000", "NORMAL_END": "1800000020",
        "ABNORMAL_START": "1800000020", "ABNORMAL_END": "1800000030",
    });
    assert_eq!(env, expect);
    let injection: Value = serde_json::from_slice(bytes("injection.json")).unwrap();
    assert_eq!(injection["name"], "shop-000007");
    assert_eq!(injection["ground_truth"][0]["service"][0], "cart");
    assert_eq!(injection["fault_type"], "cpu_stress");

    let sums = String::from_utf8(bytes("sha256sum.txt").clone()).unwrap();
    assert_eq!(sums.lines().count(), 17, "everything but itself");
    for (line, name) in sums.lines().zip(names.iter().filter(|name| **name != "sha256sum.txt")) {
        use sha2::Digest;
        assert_eq!(line, format!("{}  {name}", hex::encode(sha2::Sha256::digest(bytes(name)))));
    }
    assert_eq!(pack.public_view(&view).unwrap_err().code, "datapack.destination_not_empty");
    // What an algorithm sees has none of it.
    let open: Vec<String> = tree(&pack.open_part()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(open.len(), 15);
    assert_eq!(
        fs::read_to_string(pack.open_part().join("injection.json")).unwrap(),
        "{\n  \"name\": \"shop-000007\"\n}\n"
    );
}

#[test]
fn a_plain_reader_finds_the_declared_types_and_order() {
    let packs = tempdir().unwrap();
    let pack = published(packs.path(), 1);
    for (window, signal) in schema::files() {
        let file = File::open(pack.open_part().join(signal.file(window))).unwrap();
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        assert_eq!(builder.metadata().file_metadata().key_value_metadata(), None);
        assert_eq!(builder.schema().fields(), signal.table().schema().fields(), "{signal}");
        let record = pack.manifest().content.files.iter().find(|file| file.name == signal.file(window)).unwrap();
        let rows: usize = builder.build().unwrap().map(|batch| batch.unwrap().num_rows()).sum();
        assert_eq!(record.rows, Some(rows as u64));
        assert!(rows > 0, "{}", record.name);
    }
    let traces = Signal::Traces.table().schema();
    assert_eq!(*traces.field_with_name("Duration").unwrap().data_type(), DataType::UInt64);
    let instant = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    assert_eq!(*traces.field_with_name("Timestamp").unwrap().data_type(), instant);
}

/// One look names everything that is wrong, and a folder whose files and checksums agree is still not what was recorded.
#[test]
fn all_that_is_wrong_is_told_at_once_and_a_forgery_too() {
    let packs = tempdir().unwrap();
    let (pack, other) = (published(packs.path(), 1), published(packs.path(), 2));
    let folder = packs.path().join("shop-000001");
    let open = |digest: &Pack| Pack::open(&folder).unwrap().recorded(Some(digest.digest()));
    open(&pack).verify().unwrap();
    let forged = open(&other);
    assert_eq!(forged.verify().unwrap_err().code, "datapack.checksums_replaced");
    let told = diagnose(&folder, PackState::BuildSuccess, Some(other.digest())).unwrap();
    assert_eq!((told.health, &told.quality), (Health::Incomplete, &None));
    assert!(told.notes[1].starts_with("sha256sum.txt: "), "{:?}", told.notes);

    fs::remove_file(folder.join("open/normal_logs.parquet")).unwrap();
    fs::remove_file(folder.join("sealed/truth.json")).unwrap();
    fs::write(folder.join("open/env.json"), "{}").unwrap();
    fs::write(folder.join("sealed/notes.txt"), "").unwrap();
    let found = forged.findings().unwrap();
    let found: Vec<(&str, &str)> = found.iter().map(|one| (one.file.as_str(), one.problem.code.as_ref())).collect();
    let expected = [
        ("sha256sum.txt", "datapack.checksums_replaced"),
        ("sealed/notes.txt", "datapack.file_unexpected"),
        ("open/env.json", "datapack.checksum_mismatch"),
        ("open/normal_logs.parquet", "datapack.file_missing"),
        ("sealed/truth.json", "datapack.file_missing"),
    ];
    assert_eq!(found, expected);
    assert!(open(&pack).verify().unwrap_err().message.ends_with("(and 3 findings more)"));

    // Without its manifest there is nothing that can be said of the rest.
    fs::remove_dir_all(&folder).unwrap();
    fs::create_dir(&folder).unwrap();
    let bare = diagnose(&folder, PackState::BuildSuccess, None).unwrap();
    assert_eq!((bare.health, &bare.quality), (Health::Incomplete, &None));
    assert!(bare.notes[0].contains("sealed/manifest.json"), "{:?}", bare.notes);
}

#[test]
fn a_changed_missing_or_added_file_is_found_and_attachments_are_not() {
    let packs = tempdir().unwrap();
    let pack = published(packs.path(), 1);
    pack.attach_conclusion(&conclusion()).unwrap();
    fs::create_dir(pack.open_part().join("converted")).unwrap();
    fs::write(pack.open_part().join(".valid"), "").unwrap();
    pack.verify().unwrap();

    let path = pack.open_part().join("abnormal_logs.parquet");
    let good = fs::read(&path).unwrap();
    let mut changed = good.clone();
    changed[100] ^= 1;
    fs::write(&path, &changed).unwrap();
    let problem = pack.verify().unwrap_err();
    assert_eq!(problem.code, "datapack.checksum_mismatch");
    assert_eq!(problem.place.as_deref(), Some("open/abnormal_logs.parquet"));
    let record = pack.manifest().content.files.iter().find(|file| file.name == "abnormal_logs.parquet").unwrap();
    assert_eq!(problem.expected.as_deref(), Some(record.sha256.as_str()));
    assert_ne!(problem.found, problem.expected);

    fs::write(&path, &good[..good.len() - 10]).unwrap();
    let problem = pack.load(&[]).unwrap_err();
    assert_eq!((problem.kind, problem.code.as_ref()), (ErrorKind::Failed, "datapack.file_corrupt"));
    assert!(problem.place.unwrap().ends_with("abnormal_logs.parquet"));
    fs::remove_file(&path).unwrap();
    assert_eq!(pack.verify().unwrap_err().code, "datapack.file_missing");
    fs::write(&path, &good).unwrap();
    fs::write(pack.open_part().join("answer.txt"), "cart").unwrap();
    assert_eq!(pack.verify().unwrap_err().code, "datapack.file_unexpected");
}

#[test]
fn only_listed_files_are_given_out() {
    let packs = tempdir().unwrap();
    let pack = published(packs.path(), 1);
    fs::write(packs.path().join("secret"), "").unwrap();
    let too_far = [
        "../secret",
        "../../secret",
        "/etc/passwd",
        "open/env.json",
        "sealed/truth.json",
        "truth.json",
        "",
        ".",
        "env.json/",
    ];
    for name in too_far {
        let problem = pack.file(name).unwrap_err();
        assert_eq!((problem.kind, problem.code.as_ref()), (ErrorKind::NotFound, "datapack.file_unknown"), "{name}");
    }
    let problem = pack.file("normal_trace.parquet").unwrap_err();
    assert_eq!(problem.fix.as_deref(), Some("did you mean `normal_traces.parquet`?"));
    assert!(matches!(pack.file("env.json").unwrap(), Bytes::File(path) if path.exists()));
    assert!(matches!(pack.file("sha256sum.txt").unwrap(), Bytes::Memory(bytes) if !bytes.is_empty()));
    assert_eq!(Pack::open(&packs.path().join("none")).unwrap_err().code, "datapack.not_found");
}

#[test]
fn the_archive_is_the_public_form_and_always_the_same() {
    let packs = tempdir().unwrap();
    let pack = published(packs.path(), 1);
    let archive = || {
        let mut bytes = Vec::new();
        pack.zip(&mut bytes).unwrap();
        bytes
    };
    let first = archive();
    assert_eq!(first, archive());
    let mut zip = zip::ZipArchive::new(Cursor::new(first)).unwrap();
    let view = packs.path().join("view");
    pack.public_view(&view).unwrap();
    let files = tree(&view);
    assert_eq!(zip.len(), files.len());
    for (name, expect) in files {
        let mut bytes = Vec::new();
        zip.by_name(&format!("shop-000001/{name}")).unwrap().read_to_end(&mut bytes).unwrap();
        assert!(bytes == expect, "{name}");
    }
}

#[test]
fn the_conclusion_comes_back_and_can_be_replaced() {
    let packs = tempdir().unwrap();
    let pack = published(packs.path(), 1);
    assert_eq!(pack.conclusion().unwrap(), None);
    pack.attach_conclusion(&[]).unwrap();
    pack.attach_conclusion(&conclusion()).unwrap();
    assert_eq!(pack.conclusion().unwrap(), Some(conclusion()));
}

#[test]
fn the_frames_hold_what_was_written() {
    let packs = tempdir().unwrap();
    let pack = published(packs.path(), 1);
    let frames = pack.load(&[]).unwrap();
    assert_eq!(frames.windows, windows());
    assert_eq!(frames.candidates, ["cart", "cart-db", "web"]);
    assert!(!frames.candidates.iter().any(|name| LOAD_GENERATORS.contains(&name.as_str())));
    assert_eq!(pack.load(&["web".into()]).unwrap().candidates, ["cart", "cart-db"]);

    let name = |id| frames.names.get(id);
    let normal = frames.signals(Window::Normal);
    assert_eq!(normal.spans.len(), 3 * TRACES);
    assert!(normal.spans.windows(2).all(|pair| pair[0].time <= pair[1].time));
    let root = normal.spans[0];
    assert_eq!((root.parent, root.trace, root.id, name(root.service)), (0, 1, 1, "load-generator"));
    assert_eq!((root.kind, root.status, root.duration), (SpanKind::Client, SpanStatus::Unset, 1_000_001));
    let cart = normal.spans.iter().find(|span| name(span.service) == "cart").unwrap();
    assert_eq!((cart.http_status, name(cart.name), cart.parent), (503, "GET /cart", 2));
    assert_eq!(frames.abnormal.spans[0].trace, (1 << 32) + 1);

    assert_eq!(normal.logs.len(), 200);
    assert_eq!((name(normal.logs[0].body), normal.logs[0].severity), ("item added", 9));
    let gauge = normal.gauges[0];
    assert_eq!((name(gauge.service), name(gauge.metric)), ("cart", "container.cpu.usage"));
    assert!(name(gauge.series).starts_with("container.cpu.usage{\"k8s.container.name\":\"cart\""));
    assert!(normal.gauges.iter().all(|point| point.series == gauge.series));
    assert_eq!(name(normal.sums[0].metric), "requests");
    let histogram = normal.histograms[0];
    assert_eq!((histogram.count, histogram.sum, histogram.max, histogram.cumulative), (3.0, 2.5, 2.5, true));
    assert!(histogram.min.is_nan(), "absent");

    // The public form has the same flat layout.
    let view = packs.path().join("view");
    pack.public_view(&view).unwrap();
    assert_eq!(datapack::load(&view, &[]).unwrap().normal.spans, normal.spans);
}
