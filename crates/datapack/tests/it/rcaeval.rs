//! The other benchmark's layout: what goes out comes back as a pack that ranks the same, and what is wrong is named.

use std::fs;
use std::path::{Path, PathBuf};

use datapack::Signal;
use datapack::diagnose::{Health, diagnose};
use datapack::rcaeval::{Import, cases, import};
use model::{InjectionId, PackState, SystemCode};
use tempfile::tempdir;

use crate::synthetic::published;

fn order(number: i32) -> Import {
    Import { system: SystemCode::parse("other").unwrap(), number: InjectionId(number) }
}

/// A case of 60 s either side of its fault, with traces and logs as its publishers write them.
fn write_case(root: &Path, name: &str) -> PathBuf {
    let folder = root.join(name).join("1");
    fs::create_dir_all(&folder).unwrap();
    let mut table = "time,cart_cpu,cart_mem,frontend_latency-50,frontend_cpu,alone\n".to_owned();
    for second in 0..120 {
        if second == 30 {
            table.push_str("time,cart_cpu,cart_mem,frontend_latency-50,frontend_cpu,alone\n");
        }
        let cpu = if second >= 60 { 9.0 } else { 0.1 } + f64::from(second % 3);
        let gap = if second == 5 { String::new() } else { format!("{}", 100 + second % 4) };
        table.push_str(&format!("{},{cpu},{gap},0.{},1.5,7\n", 1_700_000_000 + second, second % 5));
    }
    fs::write(folder.join("data.csv"), table).unwrap();
    fs::write(folder.join("inject_time.txt"), "1700000060\n").unwrap();
    let header = "time,traceID,spanID,serviceName,methodName,operationName,startTimeMillis,startTime,duration,statusCode,parentSpanID\n";
    let mut spans = header.to_owned();
    for number in 1..=240_u64 {
        let start = 1_700_000_000_000_000 + number * 500_000 - 1;
        spans.push_str(&format!("10:00,{number:x},{number:x}a,frontendservice,m,/home,0,{start},1500,200.0,\n"));
        spans.push_str(&format!("10:00,{number:x},{number:x}b,cart,m,Get,0,{start},700,0,{number:x}a\n"));
    }
    fs::write(folder.join("traces.csv"), spans).unwrap();
    let mut logs = "time,timestamp,container_name,message,level,req_path,error,cluster_id,log_template\n".to_owned();
    for number in 0..120_u64 {
        logs.push_str(&format!(
            "10:00,{},cart,\"added, \"\"one\"\"\",info,,,,\n",
            1_700_000_000_000_000_000 + number * 1_000_000_000
        ));
    }
    logs.push_str("10:00,1600000000000000000,cart,long ago,info,,,,\n");
    fs::write(folder.join("logs.csv"), logs).unwrap();
    folder
}

#[test]
fn a_case_becomes_a_labelled_pack_that_algorithms_rank() {
    let root = tempdir().unwrap();
    write_case(root.path(), "set/cart_cpu");
    let found = cases(root.path()).unwrap();
    assert_eq!((found.len(), found[0].service.as_str(), found[0].fault.as_str()), (1, "cart", "cpu"));
    let packs = tempdir().unwrap();
    let (pack, report) = import(&found[0], &order(5), packs.path()).unwrap();
    assert_eq!(pack.name(), "other-000005");
    assert_eq!(report.absent, [Signal::MetricsSum, Signal::MetricsHistogram]);
    assert_eq!((report.rows[&Signal::Traces], report.rows[&Signal::Logs]), (480, 120));
    // Four columns with a service, one cell of them empty: no row stands for it.
    assert_eq!(report.rows[&Signal::Metrics], 4 * 120 - 1);
    assert_eq!((report.outside, &report.skipped[..]), (1, &["alone".to_owned()][..]));
    pack.verify().unwrap();
    assert_eq!(pack.truth().unwrap().roots(), ["cart"]);
    assert_eq!(pack.manifest().provenance.more["origin"], "imported");
    let diagnosis = diagnose(&packs.path().join("other-000005"), PackState::BuildSuccess, None).unwrap();
    assert_eq!(diagnosis.health, Health::Healthy, "{:?}", diagnosis.notes);
    assert!(diagnosis.notes.iter().any(|note| note.contains("the imported case has no metrics_histogram")));
    let frames = pack.load(&[]).unwrap();
    // The traces' name of the entrance is the metrics'.
    assert_eq!(frames.candidates, ["cart", "frontend"]);
    let ranked = rca::algorithm::algorithm("baro").unwrap().rank(&frames, 0).unwrap();
    assert_eq!(ranked[0].name, "cart", "{ranked:?}");
}

#[test]
fn what_goes_out_comes_back() {
    let root = tempdir().unwrap();
    let pack = published(&root.path().join("packs"), 1);
    let out = root.path().join("out");
    let exported = pack.export_rcaeval(&out).unwrap();
    assert_eq!(exported.folder, Path::new("shop/cart_cpu-stress/shop-000001"));
    let folder = out.join(&exported.folder);
    let table = fs::read_to_string(folder.join("data.csv")).unwrap();
    let header: Vec<&str> = table.lines().next().unwrap().split(',').collect();
    assert_eq!(header, ["time", "cart_container.cpu.usage", "web_http.server.duration"]);
    assert_eq!(table.lines().count(), 1 + 30, "a row a second");
    assert!(table.lines().nth(1).unwrap().starts_with("1800000000,"));
    assert!(!table.contains("NaN") && !table.contains(",,"));
    assert_eq!(fs::read_to_string(folder.join("inject_time.txt")).unwrap(), "1800000020\n");

    let found = cases(&out).unwrap();
    let packs = tempdir().unwrap();
    let (back, report) = import(&found[0], &order(1), packs.path()).unwrap();
    assert_eq!(report.rows[&Signal::Traces], 1200);
    assert_eq!(report.rows[&Signal::Logs], 300);
    assert_eq!(back.manifest().content.windows, pack.manifest().content.windows);
    let (a, b) = (pack.load(&[]).unwrap(), back.load(&[]).unwrap());
    assert_eq!(a.normal.spans.len(), b.normal.spans.len());
    // Microseconds are what the layout keeps.
    assert_eq!(a.normal.spans[4].time / 1000, b.normal.spans[4].time / 1000);
    assert_eq!(a.normal.spans[4].trace, b.normal.spans[4].trace);
    let told = |frames: &rca::frame::Pack| -> Vec<_> {
        frames.abnormal.spans.iter().map(|span| (span.id, span.kind, span.status, span.http_status)).collect()
    };
    assert_eq!(told(&a), told(&b), "kinds and statuses come back as well");
    assert!(told(&a).iter().any(|(_, kind, ..)| *kind != rca::frame::SpanKind::Unspecified));
    let left_out: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder.join("export.json")).unwrap()).unwrap();
    assert_eq!(left_out["lost"].as_array().unwrap().len(), exported.lost.len());
    assert!(exported.lost.iter().any(|words| words.starts_with("log records: trace and span ids")), "{exported:?}");
}

#[test]
fn a_run_without_a_fault_and_one_with_several_roots_are_told_by_the_folder() {
    let root = tempdir().unwrap();
    let packs = tempdir().unwrap();
    for (name, number, roots) in [("none_none", 1, &[][..]), ("cart+frontend_delay", 2, &["cart", "frontend"])] {
        let folder = write_case(root.path(), name);
        let (pack, report) = import(&cases(&folder).unwrap()[0], &order(number), packs.path()).unwrap();
        assert_eq!(pack.truth().unwrap().roots(), roots, "{report:?}");
        assert_eq!(pack.manifest().provenance.faults.len(), roots.len());
    }
    let folder = write_case(root.path(), "cart+nobody_delay");
    let problem = import(&cases(&folder).unwrap()[0], &order(3), packs.path()).unwrap_err();
    assert_eq!((problem.code.as_ref(), problem.found.as_deref()), ("import.root_unknown", Some("`nobody`")));
}

#[test]
fn every_table_is_written_as_csv() {
    let root = tempdir().unwrap();
    let pack = published(&root.path().join("packs"), 1);
    pack.export_csv(root.path()).unwrap();
    let read = |file: &str| fs::read_to_string(root.path().join("shop-000001").join(file)).unwrap();
    let logs = read("normal_logs.csv");
    assert_eq!(logs.lines().count(), 1 + 200);
    assert!(
        logs.lines()
            .nth(1)
            .unwrap()
            .starts_with("2027-01-15T08:00:00.000000000Z,2027-01-15T08:00:00.000000000Z,,,INFO,9,cart,item added,"),
        "{logs}"
    );
    assert!(read("abnormal_metrics_histogram.csv").lines().nth(1).unwrap().contains(",3,2.5,\"[1, 2]\",[0.5],,2.5,2"));
}

fn append(file: &Path, bytes: &[u8]) {
    let mut text = fs::read(file).unwrap();
    text.extend_from_slice(bytes);
    fs::write(file, text).unwrap();
}

#[test]
fn cells_that_are_no_finite_number_are_counted() {
    let root = tempdir().unwrap();
    let folder = write_case(root.path(), "cart_cpu");
    append(&folder.join("data.csv"), b"1700000120,inf,-inf,0.5,1.5,7\n");
    let (_, report) = import(&cases(root.path()).unwrap()[0], &order(1), &root.path().join("packs")).unwrap();
    assert_eq!((report.not_finite, report.rows[&Signal::Metrics]), (2, 4 * 121 - 1 - 2));
}

#[test]
fn what_is_wrong_with_a_case_is_named() {
    let code = |damage: &dyn Fn(&Path)| {
        let root = tempdir().unwrap();
        let folder = write_case(root.path(), "cart_cpu");
        damage(&folder);
        let packs = tempdir().unwrap();
        let result = cases(root.path()).and_then(|found| import(&found[0], &order(1), packs.path()).map(drop));
        assert_eq!(
            fs::read_dir(packs.path())
                .unwrap()
                .filter(|e| !e.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'))
                .count(),
            0
        );
        result.unwrap_err().code.into_owned()
    };
    let replace = |file: &'static str, from: &'static str, to: &'static str| {
        move |folder: &Path| {
            let path = folder.join(file);
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.contains(from), "{file} has no `{from}`");
            fs::write(&path, text.replacen(from, to, 1)).unwrap();
        }
    };
    assert_eq!(code(&|folder| fs::remove_file(folder.join("data.csv")).unwrap()), "import.metrics_missing");
    assert_eq!(code(&|folder| fs::remove_file(folder.join("inject_time.txt")).unwrap()), "import.no_case");
    assert_eq!(
        code(&|folder| fs::write(folder.join("inject_time.txt"), "soon").unwrap()),
        "import.fault_time_malformed"
    );
    assert_eq!(
        code(&|folder| fs::write(folder.join("inject_time.txt"), "1500000000").unwrap()),
        "import.window_outside_data"
    );
    assert_eq!(code(&replace("data.csv", ",100,", ",x,")), "import.cell_malformed");
    assert_eq!(code(&replace("data.csv", "cart_mem", "cart_cpu")), "import.column_twice");
    assert_eq!(code(&replace("traces.csv", "startTime,", "begun,")), "import.column_missing");
    assert_eq!(code(&replace("traces.csv", "10:00,1,", "10:00,xyz,")), "import.id_malformed");
    let ten = |folder: &Path| {
        let text = fs::read_to_string(folder.join("traces.csv")).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let few = [&lines[..6], &lines[lines.len() - 5..]].concat();
        fs::write(folder.join("traces.csv"), few.join("\n")).unwrap();
    };
    assert_eq!(code(&ten), "datapack.too_few_root_spans");
    // A line that is too short, and bytes that are no text.
    assert_eq!(code(&|folder| append(&folder.join("data.csv"), b"1700000120,1\n")), "import.table_malformed");
    assert_eq!(code(&|folder| append(&folder.join("logs.csv"), b"\xff,,,,,,,,\n")), "import.table_malformed");
    assert_eq!(cases(Path::new("/nowhere/at/all")).unwrap_err().code, "import.folder_missing");
    let root = tempdir().unwrap();
    write_case(root.path(), "nobody_cpu");
    let found = cases(root.path()).unwrap();
    let problem = import(&found[0], &order(1), root.path()).unwrap_err();
    assert_eq!(problem.code, "import.root_unknown");
    let root = tempdir().unwrap();
    write_case(root.path(), "nothing");
    assert_eq!(cases(root.path()).unwrap_err().code, "import.truth_unknown");
}
