//! The lint of a folder: what is wrong with a ninth system, each finding with its line, and files that are no text.

use std::fs;
use std::path::{Path, PathBuf};

use system::{Catalog, Finding, Severity, lint};

use crate::own_systems;

/// A small system that no program knows.
fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/fixtures/myshop")
}

/// A copy of the fixture in a folder of its own.
fn copy() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("myshop");
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(fixture()).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
    }
    (folder, copy)
}

fn edit(folder: &Path, file: &str, from: &str, to: &str) {
    let path = folder.join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{file} does not contain `{from}`");
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

/// `(file, line, code)` of every error.
fn errors(folder: &Path) -> Vec<(String, usize, String)> {
    let report = lint(folder).unwrap();
    let errors = report.findings.iter().filter(|finding| finding.severity == Severity::Error);
    errors.map(|finding| (name(finding), finding.line.unwrap_or_default(), finding.code.clone())).collect()
}

fn name(finding: &Finding) -> String {
    finding.file.file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn our_own_systems_and_a_ninth_have_no_errors() {
    let report = lint(own_systems()).unwrap();
    assert_eq!(report.systems.len(), 8);
    let errors: Vec<_> = report.findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let ninth = lint(&fixture()).unwrap();
    assert_eq!(ninth.findings, []);
    let (folder, _copy) = copy();
    let catalog = Catalog::with_folder(folder.path()).unwrap();
    assert_eq!(catalog.codes().count(), 9);
}

#[test]
fn each_mistake_is_told_with_its_line_and_its_fix() {
    let cases = [
        // (file, from, to, file and line of the finding, code, what the fix, the found or the expected must contain)
        ("system.yaml", "code: myshop", "code: My_Shop", ("system.yaml", 3), "system.file_malformed", "My_Shop"),
        ("system.yaml", "'^myshop", "'^mystore", ("system.yaml", 5), "system.pattern_misses_code", "myshop0"),
        ("system.yaml", "'^myshop\\d+$'", "'.*'", ("system.yaml", 5), "system.pattern_too_wide", "^myshop"),
        ("system.yaml", "'^myshop\\d+$'", "'myshop\\d+'", ("system.yaml", 5), "system.pattern_too_wide", "x-myshop0"),
        (
            "system.yaml",
            "'^(myshop)(\\d+)$'",
            "'(myshop)(\\d+)'",
            ("system.yaml", 6),
            "system.pattern_too_wide",
            "^(my",
        ),
        ("system.yaml", "'^(myshop)(", "'^(my)shop(", ("system.yaml", 6), "system.pattern_misses_code", "^(myshop)"),
        ("topology.yaml", "port: 8081", "port: 0", ("topology.yaml", 5), "system.data_inconsistent", "1 to 65535"),
        ("system.yaml", "(myshop)(", "(myshop)x(", ("system.yaml", 6), "system.pattern_misses_code", "^(myshop)"),
        ("system.yaml", "warmup_s", "warmup_sec", ("system.yaml", 8), "system.key_unknown", "did you mean `warmup_s`"),
        ("system.yaml", "  service: shop", "  service: shp", ("system.yaml", 15), "system.service_unknown", "`shop`"),
        ("topology.yaml", "to: stock", "to: stok", ("topology.yaml", 11), "system.service_unknown", "`stock`"),
        ("topology.yaml", "name: stock", "name: shop", ("topology.yaml", 5), "system.name_repeated", "`shop`"),
        (
            "topology.yaml",
            "[insert orders]",
            "[insert order]",
            ("topology.yaml", 12),
            "system.operation_unserved",
            "`insert orders`",
        ),
        (
            "topology.yaml",
            "'GET /items'",
            "'GET /item'",
            ("topology.yaml", 9),
            "system.operation_unserved",
            "`GET /items`",
        ),
        ("topology.yaml", "port: 8081", "prt: 8081", ("topology.yaml", 5), "system.key_unknown", "`port`"),
        (
            "points.yaml",
            "serves: POST /orders",
            "serves: POST /order",
            ("points.yaml", 17),
            "system.data_inconsistent",
            "",
        ),
        ("points.yaml", "route: /items", "route: items", ("points.yaml", 4), "system.data_inconsistent", ""),
        ("journeys.yaml", "weight: 3", "weight: -3", ("journeys.yaml", 17), "system.weight_not_positive", "-3"),
        ("journeys.yaml", "name: buy", "name: browse", ("journeys.yaml", 20), "system.name_repeated", "`browse`"),
        (
            "journeys.yaml",
            "operation: insert orders",
            "operation: insert order",
            ("journeys.yaml", 8),
            "system.operation_unserved",
            "insert orders",
        ),
    ];
    for (file, from, to, (place, line), code, says) in cases {
        let (_folder, copy) = copy();
        edit(&copy, file, from, to);
        let report = lint(&copy).unwrap();
        let wanted = |finding: &&Finding| name(finding) == place && finding.line == Some(line) && finding.code == code;
        let Some(finding) = report.findings.iter().find(wanted) else { panic!("{to}: {:#?}", report.findings) };
        let said = format!("{:?} {:?} {:?}", finding.found, finding.expected, finding.fix);
        assert!(said.contains(says), "{to}: {said}");
    }
}

#[test]
fn all_mistakes_are_told_at_once() {
    let (_folder, copy) = copy();
    edit(&copy, "system.yaml", "(myshop)(", "(myshop)x(");
    edit(&copy, "topology.yaml", "calls:", "- {name: old, language: go, kind: web, protocol: http, port: 1}\ncalls:");
    edit(&copy, "points.yaml", "route: /items", "route: /items, sttus: 200, prot: 1");
    edit(&copy, "journeys.yaml", "weight: 1", "weight: 0");
    let unknown = ("points.yaml".to_owned(), 4, "system.key_unknown".to_owned());
    let first = errors(&copy);
    assert_eq!(first.iter().filter(|error| **error == unknown).count(), 2, "{first:?}");
    assert!(first.iter().any(|(file, ..)| file == "system.yaml"), "{first:?}");
    edit(&copy, "points.yaml", ", sttus: 200, prot: 1", "");
    let codes: Vec<String> = errors(&copy).into_iter().map(|(.., code)| code).collect();
    assert_eq!(codes, ["system.pattern_misses_code", "system.service_unused", "system.weight_not_positive"]);
}

#[test]
fn calls_that_never_end_or_multiply_are_told_and_not_followed() {
    let (_folder, copy) = copy();
    edit(&copy, "topology.yaml", "  stock:\n", "  stock:\n  - {to: shop, protocol: http, operations: [GET /items]}\n");
    let twice = "  - {to: shop, operation: GET /items, times: 50}\n";
    edit(&copy, "journeys.yaml", "    GET /stock/{item}:\n", &format!("    GET /stock/{{item}}:\n  {twice}"));
    let report = lint(&copy).unwrap();
    let cycle = report.findings.iter().find(|finding| finding.code == "system.calls_cyclic").unwrap();
    assert_eq!((name(cycle).as_str(), cycle.line), ("journeys.yaml", Some(10)));
    assert_eq!(cycle.found.as_deref(), Some("shop `GET /items` -> stock `GET /stock/{item}` -> shop `GET /items`"));

    let (_folder, copy) = self::copy();
    edit(&copy, "journeys.yaml", "operation: 'GET /stock/{item}'", "operation: 'GET /stock/{item}', times: 50");
    for _ in 0..10 {
        edit(
            &copy,
            "journeys.yaml",
            "    - {to: db, operation: select items}\n",
            "    - {to: db, operation: select items, times: 50}\n    - {to: db, operation: select items}\n",
        );
    }
    assert_eq!(errors(&copy)[0].2, "system.journey_too_large");
}

#[test]
fn a_load_that_can_never_be_served_is_told() {
    let (_folder, copy) = copy();
    edit(&copy, "journeys.yaml", "operation: 'GET /stock/{item}'", "operation: 'GET /stock/{item}', times: 40");
    let report = lint(&copy).unwrap();
    let errors: Vec<_> = report.findings.iter().map(|finding| (finding.code.as_str(), finding.line)).collect();
    assert_eq!(errors, [("system.load_unserved", Some(5))], "{:#?}", report.findings);
    // 20 journeys/s, 40 calls and a quarter of a call by buyers, 2 ms each.
    assert!(report.findings[0].found.as_deref().unwrap().contains("1.6 cores"), "{:?}", report.findings[0]);
}

#[test]
fn files_that_are_no_text_are_told_and_marks_and_line_ends_do_not_matter() {
    let (_folder, copy) = copy();
    for entry in fs::read_dir(&copy).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap().replace('\n', "\r\n");
        fs::write(&path, format!("\u{feff}{text}")).unwrap();
    }
    assert_eq!(lint(&copy).unwrap().findings, []);
    let told = |name: &str, content: &[u8]| {
        fs::write(copy.join(name), content).unwrap();
        errors(&copy).into_iter().filter(|(file, ..)| file == name).map(|(.., code)| code).collect::<Vec<_>>()
    };
    assert_eq!(told("points.yaml", b""), ["system.file_empty"]);
    assert_eq!(told("points.yaml", b" \n\n"), ["system.file_empty"]);
    assert_eq!(told("points.yaml", b"format: 1\0"), ["system.file_not_text"]);
    assert_eq!(told("points.yaml", &[0xff, 0xfe, 0, 1]), ["system.file_not_text"]);
    assert_eq!(told("points.yaml", &vec![b'#'; 9 * 1024 * 1024]), ["system.file_too_large"]);
    assert_eq!(told("points.yaml", b"format: 1\nendpoints: {shop: [}"), ["system.file_malformed"]);
    assert_eq!(told("points.yaml", "[".repeat(100_000).as_bytes()), ["system.file_malformed"]);
    fs::remove_file(copy.join("points.yaml")).unwrap();
    fs::write(copy.join("point.yaml"), "format: 1").unwrap();
    let report = lint(&copy).unwrap();
    let stranger = report.findings.iter().find(|finding| finding.code == "system.file_unknown").unwrap();
    assert_eq!(stranger.fix.as_deref(), Some("did you mean `points.yaml`?"));
    assert_eq!(errors(&copy)[0].2, "system.file_missing");
    std::os::unix::fs::symlink("points.yaml", copy.join("points.yaml")).unwrap();
    assert_eq!(errors(&copy)[0].2, "system.file_unreadable");
    fs::remove_file(copy.join("points.yaml")).unwrap();
    fs::create_dir(copy.join("points.yaml")).unwrap();
    assert_eq!(errors(&copy)[0].2, "system.file_unreadable");
}

#[test]
fn lint_and_catalog_take_and_refuse_the_same_folders() {
    let folder = tempfile::tempdir().unwrap();
    let both = |code: &str| {
        let lint = lint(folder.path());
        let lint = lint.map_or_else(|problem| problem.code.into_owned(), |report| report.findings[0].code.clone());
        assert_eq!((lint.as_str(), &*Catalog::with_folder(folder.path()).unwrap_err().code), (code, code));
    };
    both("system.none_here");
    // What belongs to other programs, and files, are no systems.
    fs::create_dir(folder.path().join(".git")).unwrap();
    fs::write(folder.path().join("README.md"), "ours").unwrap();
    both("system.none_here");
    fs::create_dir(folder.path().join("later")).unwrap();
    both("system.file_missing");
    fs::remove_dir(folder.path().join("later")).unwrap();

    // A system's own folder can be checked; the catalog wants the folder above it, and says so.
    let (above, copy) = copy();
    assert_eq!(lint(&copy).unwrap().findings, []);
    let refused = Catalog::with_folder(&copy).unwrap_err();
    assert_eq!(refused.code, "system.folder_is_one_system");
    assert!(refused.fix.unwrap().contains(above.path().to_str().unwrap()));

    // Two systems that want the same namespaces: neither can be had.
    edit(&copy, "system.yaml", "'^myshop", "'^(my|ts-)shop");
    assert_eq!(lint(&copy).unwrap().findings, [], "alone, nobody is disturbed");
    let other = above.path().join("ts-shop");
    fs::create_dir(&other).unwrap();
    for entry in fs::read_dir(&copy).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, other.join(path.file_name().unwrap())).unwrap();
    }
    for (from, to) in [("code: myshop", "code: ts-shop"), ("'^(my|ts-)shop", "'^ts-shop"), ("(myshop)(", "(ts-shop)(")]
    {
        edit(&other, "system.yaml", from, to);
    }
    let report = lint(above.path()).unwrap();
    let [finding] = report.findings.as_slice() else { panic!("{:#?}", report.findings) };
    assert_eq!(
        (finding.code.as_str(), finding.line, name(finding)),
        ("system.pattern_overlaps", Some(5), "system.yaml".into())
    );
    assert!(finding.found.as_ref().unwrap().contains("`ts-shop0`"), "{finding:?}");
    assert_eq!(Catalog::with_folder(above.path()).unwrap_err().code, "system.pattern_overlaps");
}

#[test]
fn a_folder_that_is_not_there_is_an_error_and_a_link_in_a_circle_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(lint(&folder.path().join("nowhere")).unwrap_err().code, "system.folder_unreadable");
    std::os::unix::fs::symlink("circle", folder.path().join("circle")).unwrap();
    assert_eq!(errors(folder.path()), [("circle".to_owned(), 0, "system.folder_unreadable".to_owned())]);
    let refused = Catalog::with_folder(folder.path()).unwrap_err();
    assert_eq!(refused.code, "system.folder_unreadable");
}
