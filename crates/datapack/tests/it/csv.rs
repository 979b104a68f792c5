//! Plain files: a pack that goes out as CSV comes back as the same pack, and what is wrong with the files is named.

use std::fs;
use std::path::{Path, PathBuf};

use datapack::csv_import::{csv_cases, import_csv};
use datapack::diff::diff;
use datapack::rcaeval::Import;
use model::{InjectionId, SystemCode};
use tempfile::{TempDir, tempdir};

use crate::synthetic::published;

fn order(number: i32) -> Import {
    Import { system: SystemCode::parse("shop").unwrap(), number: InjectionId(number) }
}

/// The folder of an exported pack.
fn exported() -> (TempDir, PathBuf) {
    let root = tempdir().unwrap();
    published(&root.path().join("packs"), 1).export_csv(&root.path().join("out")).unwrap();
    let folder = root.path().join("out/shop-000001");
    (root, folder)
}

#[test]
fn an_exported_pack_comes_back_cell_by_cell() {
    let (root, folder) = exported();
    assert_eq!(csv_cases(&root.path().join("out")).unwrap(), std::slice::from_ref(&folder));
    assert_eq!(csv_cases(&folder).unwrap(), std::slice::from_ref(&folder));
    let left = published(&root.path().join("packs"), 1);
    let (right, report) = import_csv(&folder, &order(7), &root.path().join("back")).unwrap();
    assert_eq!((right.name(), report.service.as_str()), ("shop-000007", "cart"));
    right.verify().unwrap();
    let found = diff(&left, &right).unwrap();
    assert!(found.same, "{found:#?}");
    assert_eq!(right.truth().unwrap(), left.truth().unwrap());
    assert_eq!(right.manifest().content.quality, left.manifest().content.quality);
    let provenance = &right.manifest().provenance;
    assert_eq!((&provenance.more["origin"], &provenance.more["case"]), (&"imported".into(), &"shop-000001".into()));
    assert_eq!(provenance.faults, left.manifest().provenance.faults);
}

#[test]
fn what_is_wrong_with_the_files_is_named() {
    let (root, folder) = exported();
    let replace = |file: &str, from: &str, to: &str| {
        let text = fs::read_to_string(folder.join(file)).unwrap();
        assert!(text.contains(from), "{file} has no `{from}`");
        fs::write(folder.join(file), text.replacen(from, to, 1)).unwrap();
    };
    let refused = |code: &str, place: &str| {
        let packs = root.path().join("refused");
        let problem = import_csv(&folder, &order(1), &packs).unwrap_err();
        assert_eq!(problem.code, code, "{problem}");
        assert!(problem.place.as_deref().unwrap().contains(place), "{problem}");
        assert!(!packs.join("shop-000001").exists(), "nothing is half done");
    };
    let spoiled = |file: &str, spoil: &dyn Fn(&Path), code: &str, place: &str| {
        let kept = fs::read(folder.join(file)).unwrap();
        spoil(&folder.join(file));
        refused(code, place);
        fs::write(folder.join(file), kept).unwrap();
    };
    for file in ["normal_traces.csv", "truth.json", "k8s.json"] {
        spoiled(file, &|path| fs::remove_file(path).unwrap(), "import.file_missing", file);
    }
    let traces = "abnormal_traces.csv";
    spoiled(
        traces,
        &|_| replace(traces, "Duration", "Length"),
        "import.column_missing",
        "abnormal_traces.csv: Duration",
    );
    let first = fs::read_to_string(folder.join(traces)).unwrap().lines().nth(1).unwrap().to_owned();
    let time = first.split(',').next().unwrap().to_owned();
    spoiled(
        traces,
        &|_| replace(traces, &time, "yesterday"),
        "import.cell_malformed",
        "abnormal_traces.csv:2: Timestamp",
    );
    // A record of the other window, and a line that is too short.
    spoiled(
        traces,
        &|_| replace(traces, &time, "2001-01-01T00:00:00Z"),
        "datapack.row_outside_window",
        "abnormal_traces",
    );
    spoiled(traces, &|_| replace(traces, &first, "1,2"), "import.table_malformed", "abnormal_traces.csv:2");
    let histograms = "normal_metrics_histogram.csv";
    let place = "normal_metrics_histogram.csv:2: BucketCounts";
    spoiled(histograms, &|_| replace(histograms, "\"[", "\"[-1, "), "import.cell_malformed", place);
}

#[test]
fn a_folder_without_an_exported_pack_is_no_case() {
    let root = tempdir().unwrap();
    assert_eq!(csv_cases(root.path()).unwrap_err().code, "import.no_case");
    assert_eq!(csv_cases(&root.path().join("nowhere")).unwrap_err().code, "import.folder_missing");
}
