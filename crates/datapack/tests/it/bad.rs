//! Packs that are not what they should be: each damage has a stable code for whoever verifies, diagnoses or reads the pack, and
//! what cannot become a pack is refused with one.

use std::fs;
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datapack::diagnose::{Health, diagnose};
use datapack::{Builder, InMemory, Pack, PackInput, Signal};
use model::{PackState, Window};
use serde_json::Value;
use tempfile::tempdir;

use crate::report::rewrite;
use crate::synthetic::{input, log_rows, logs, published, rows, telemetry, traces};

struct Damage {
    what: &'static str,
    change: fn(&Path),
    verify: &'static str,
    /// The file that the diagnosis names, and the code that it gives to it; none for a missing file.
    diagnosis: (&'static str, Option<&'static str>),
    /// What a reader of frames and truth is told; none when it cannot know.
    reader: Option<&'static str>,
}

const DAMAGES: &[Damage] = &[
    Damage {
        what: "a file is missing",
        change: |pack| fs::remove_file(pack.join("open/normal_logs.parquet")).unwrap(),
        verify: "datapack.file_missing",
        diagnosis: ("normal_logs.parquet", None),
        reader: Some("datapack.file_missing"),
    },
    Damage {
        what: "one byte of the data is another",
        change: |pack| flip(&pack.join("open/abnormal_logs.parquet"), |_| 100),
        verify: "datapack.checksum_mismatch",
        diagnosis: ("abnormal_logs.parquet", Some("datapack.checksum_mismatch")),
        reader: None,
    },
    Damage {
        what: "one byte of the end is another",
        change: |pack| flip(&pack.join("open/normal_traces.parquet"), |bytes| bytes - 1),
        verify: "datapack.checksum_mismatch",
        diagnosis: ("normal_traces.parquet", Some("datapack.file_corrupt")),
        reader: Some("datapack.file_corrupt"),
    },
    Damage {
        what: "a column has another type",
        change: |pack| {
            let path = pack.join("open/abnormal_traces.parquet");
            rewrite(&path, |batch| {
                let schema = batch.schema();
                let columns = schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
                    let column = if field.name() == "Duration" {
                        cast(column, &DataType::Int64).unwrap()
                    } else {
                        column.clone()
                    };
                    (field.name(), column)
                });
                RecordBatch::try_from_iter(columns).unwrap()
            });
        },
        verify: "datapack.checksum_mismatch",
        diagnosis: ("abnormal_traces.parquet", Some("datapack.column_type")),
        reader: Some("datapack.column_type"),
    },
    Damage {
        what: "a column is missing",
        change: |pack| {
            rewrite(&pack.join("open/normal_metrics.parquet"), |batch| {
                let kept: Vec<usize> = (1..batch.num_columns()).collect();
                batch.project(&kept).unwrap()
            })
        },
        verify: "datapack.checksum_mismatch",
        diagnosis: ("normal_metrics.parquet", Some("datapack.column_missing")),
        reader: Some("datapack.column_missing"),
    },
    Damage {
        what: "a file has the columns of another",
        change: |pack| {
            let open = pack.join("open");
            fs::copy(open.join("normal_logs.parquet"), open.join("normal_traces.parquet")).unwrap();
        },
        verify: "datapack.checksum_mismatch",
        diagnosis: ("normal_traces.parquet", Some("datapack.column_missing")),
        reader: Some("datapack.column_missing"),
    },
    Damage {
        what: "ten rows are left",
        change: |pack| rewrite(&pack.join("open/normal_traces.parquet"), |batch| batch.slice(0, 10)),
        verify: "datapack.checksum_mismatch",
        diagnosis: ("normal_traces.parquet", Some("datapack.checksum_mismatch")),
        reader: None,
    },
    Damage {
        what: "the windows are outside of the data",
        change: |pack| {
            edit(&pack.join("open/env.json"), |env| {
                for (_, seconds) in env.as_object_mut().unwrap().iter_mut().filter(|(key, _)| key.contains("ORMAL_")) {
                    *seconds = (seconds.as_str().unwrap().parse::<i64>().unwrap() + 3600).to_string().into();
                }
            })
        },
        verify: "datapack.checksum_mismatch",
        diagnosis: ("env.json", Some("datapack.checksum_mismatch")),
        reader: Some("datapack.row_outside_window"),
    },
    Damage {
        what: "the truth names a service twice",
        change: |pack| {
            edit(&pack.join("sealed/truth.json"), |truth| {
                let entries = truth["entries"].as_array_mut().unwrap();
                entries.push(entries[0].clone());
            })
        },
        verify: "datapack.checksum_mismatch",
        diagnosis: ("sealed/truth.json", Some("datapack.truth_service_twice")),
        reader: Some("datapack.truth_service_twice"),
    },
];

fn flip(path: &Path, at: fn(usize) -> usize) {
    let mut bytes = fs::read(path).unwrap();
    let at = at(bytes.len());
    bytes[at] ^= 0xff;
    fs::write(path, bytes).unwrap();
}

fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

#[test]
fn each_damage_has_its_code() {
    let packs = tempdir().unwrap();
    for (damage, number) in DAMAGES.iter().zip(1..) {
        let what = damage.what;
        published(packs.path(), number);
        let folder = packs.path().join(format!("shop-{number:06}"));
        let health = || diagnose(&folder, PackState::DetectorSuccess, None).unwrap();
        let whole = health();
        assert_eq!(whole.health, Health::Healthy, "{:?}", whole.notes);
        (damage.change)(&folder);
        let pack = Pack::open(&folder).unwrap();
        assert_eq!(pack.verify().unwrap_err().code, damage.verify, "{what}");
        let reader = pack.load(&[]).map(drop).and_then(|()| pack.truth().map(drop)).err();
        if let Some(code) = damage.reader {
            assert_eq!(reader.expect(what).code, code, "{what}");
        }
        let found = health();
        assert_eq!(found.health, Health::Incomplete, "{what}");
        let (file, code) = damage.diagnosis;
        let wrong: Vec<_> =
            found.parquets.iter().chain(&found.json).filter(|one| !one.present || one.code.is_some()).collect();
        assert_eq!(wrong.len(), 1, "{what}: {wrong:?}");
        assert_eq!((wrong[0].name.as_str(), wrong[0].code.as_deref()), (file, code), "{what}");
        assert!(found.notes.iter().take(2).any(|note| note.contains(file)), "{what}: {:?}", found.notes);
        let place = packs.path().display().to_string();
        assert!(!found.notes.iter().any(|note| note.contains(&place)), "no note says where: {:?}", found.notes);
    }
}

#[test]
fn what_cannot_become_a_pack_is_refused_with_its_code() {
    let ten = || {
        let mut source = telemetry();
        for window in Window::BOTH {
            source.replace(window, Signal::Traces, vec![traces(&rows(window)[..10])]);
            source.replace(window, Signal::Logs, vec![logs(&log_rows(window)[..10])]);
        }
        source
    };
    let changed = |change: fn(&mut PackInput)| {
        let mut input = input(1);
        change(&mut input);
        input
    };
    let cases: [(&str, PackInput, InMemory, &str); 4] = [
        ("ten rows", input(1), ten(), "datapack.too_few_root_spans"),
        (
            "windows that reach beyond the data",
            changed(|input| input.windows.normal_start.0 -= 30_000_000_000),
            telemetry(),
            "datapack.window_not_covered",
        ),
        (
            "windows without any data",
            changed(|input| {
                input.windows.normal_start.0 += 3_600_000_000_000;
                input.windows.abnormal_start.0 += 3_600_000_000_000;
                input.windows.abnormal_end.0 += 3_600_000_000_000;
            }),
            InMemory::default(),
            "datapack.empty_signal",
        ),
        (
            "a truth that names a service twice",
            changed(|input| input.truth.entries.push(input.truth.entries[0].clone())),
            telemetry(),
            "datapack.truth_service_twice",
        ),
    ];
    for (what, input, source, code) in cases {
        let packs = tempdir().unwrap();
        let built = Builder::new(packs.path(), input).and_then(|builder| Ok(builder.build(&source)?));
        let problem = built.err().expect(what);
        assert_eq!(problem.code, code, "{what}");
        assert!(problem.found.is_some() && problem.expected.is_some() && problem.fix.is_some(), "{what}: {problem}");
    }
}
