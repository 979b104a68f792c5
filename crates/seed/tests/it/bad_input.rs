//! Bad input: a stable code, the place, what was found and what to do.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use model::{ErrorKind, Problem};
use seed::Seed;

use crate::{brief, only, parse};

const TEAMS: &str = "teams:\n  - name: a\n";

fn refuse(data: &str) -> Vec<String> {
    brief(&parse(&[("data.yaml", data)]).expect_err(data).into_vec())
}

#[test]
fn malformed_yaml_is_told_with_its_place() {
    let cases = [
        ("teams:\n\t- name: a\n", "yaml.tab data.yaml:2:1"),
        ("teams:\n  - name: a\n\tdescription: b\n", "yaml.tab data.yaml:3:1"),
        ("teams: [\n\t{name: a}]\n", "yaml.tab data.yaml:2:1"),
        ("teams:\n  - name: a\n    name: b\n", "yaml.duplicate_key data.yaml:3:5"),
        ("teams: []\nteams: []\n", "yaml.duplicate_key data.yaml:2:1"),
        ("teams: [\n", "yaml.malformed data.yaml:2:1"),
        ("", "yaml.empty data.yaml"),
        ("\n# only a comment\n", "yaml.empty data.yaml"),
        ("---\n", "yaml.empty data.yaml"),
        ("teams: []\n---\nteams: []\n", "yaml.several_documents data.yaml:2:1"),
        ("teams: *nobody\n", "yaml.malformed data.yaml:1:8"),
        ("teams: &a [*a]\n", "yaml.alias_recursive data.yaml:1:12"),
        ("? [a]\n: b\n", "yaml.complex_key data.yaml:1:3"),
        ("teams: !secret x\n", "yaml.tag_unsupported data.yaml:1:8"),
    ];
    for (data, expect) in cases {
        assert_eq!(refuse(data), [expect], "{data:?}");
    }
}

#[test]
fn a_wrong_schema_is_told_in_one_go() {
    let data = "\
conteiners: []
teams: {name: a}
projects:
  - description: no name
    status: on
users:
  - username: u
    email: u@example.org
    is_active: 'true'
    password: hunter2
containers:
  - type: 7
    name: [a]
    versions:
      - name: 1.0.0
        comand: x
";
    let findings = parse(&[("data.yaml", data)]).unwrap_err().into_vec();
    let expected = [
        "seed.unknown_key data.yaml:1:1",
        "seed.wrong_type data.yaml:2:8",
        "seed.missing_key data.yaml:4:5",
        "seed.wrong_type data.yaml:5:13",
        "seed.wrong_type data.yaml:9:16",
        "seed.unknown_key data.yaml:10:5",
        "seed.wrong_type data.yaml:12:11",
        "seed.wrong_type data.yaml:13:11",
        "seed.unknown_key data.yaml:16:9",
    ];
    assert_eq!(brief(&findings), expected);
    assert_eq!(findings[0].fix.as_deref(), Some("did you mean `containers`?"));
    assert_eq!(findings[8].fix.as_deref(), Some("did you mean `command`?"));
    assert_eq!(findings[3].found.as_deref(), Some("`on`"));
    assert_eq!(findings[6].expected.as_deref(), Some("one of 0 (algorithm) 1 (benchmark) 2 (pedestal)"));
    let text = findings.iter().map(ToString::to_string).collect::<String>();
    assert!(!text.contains("hunter2"), "a password is not repeated");
}

#[test]
fn a_problem_names_the_first_error_and_where_the_others_are() {
    let findings = parse(&[("data.yaml", "teams: 1\nusers: 2\n")]).unwrap_err();
    let problem = Problem::from(findings);
    assert_eq!((problem.kind, &*problem.code), (ErrorKind::Invalid, "seed.wrong_type"));
    assert_eq!(problem.place.as_deref(), Some("data.yaml:1:8"));
    assert!(problem.message.contains("1 more: data.yaml:2:8 [seed.wrong_type]"), "{problem}");
}

#[test]
fn marks_and_line_ends_do_not_matter() {
    let plain = parse(&[("data.yaml", TEAMS)]).unwrap();
    for variant in [format!("\u{feff}{TEAMS}"), TEAMS.replace('\n', "\r\n")] {
        let seed = parse(&[("data.yaml", &variant)]).unwrap_or_else(|findings| panic!("{variant:?}: {findings}"));
        assert_eq!(seed.document.teams[0].name.as_str(), "a");
        assert_eq!(seed.document.teams[0].name.at.line(), plain.document.teams[0].name.at.line());
    }
}

#[test]
fn other_encodings_and_binaries_are_refused() {
    let cases: [(&[u8], &str); 4] = [
        (b"teams: []\n# \xff\n", "yaml.not_utf8 data.yaml:2:3"),
        (b"\xff\xfet\0e\0", "yaml.not_utf8 data.yaml"),
        (b"PK\x03\x04\0\0", "yaml.binary data.yaml:1:5"),
        (b"\x1f\x8b\x08\0", "yaml.binary data.yaml:1:4"),
    ];
    for (content, expect) in cases {
        let files = BTreeMap::from([("data.yaml".to_owned(), content)]);
        assert_eq!(brief(&Seed::parse(&files).unwrap_err().into_vec()), [expect]);
    }
}

#[test]
fn what_grows_without_bound_is_bounded() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    assert_eq!(refuse(&bomb), ["yaml.alias_bomb data.yaml:5:45"]);
    for deep in ["[".repeat(200_000), "\n  ".to_owned() + &"- ".repeat(200_000)] {
        let refused = refuse(&format!("teams: {deep}\n"));
        assert!(refused.len() == 1 && refused[0].starts_with("yaml.too_deep"), "{refused:?}");
    }
    let wide: String = (0..200_000).map(|number| format!("k{number}: 1\n")).collect();
    assert_eq!(parse(&[("data.yaml", &wide)]).unwrap_err().into_vec().len(), 200_000);
    let large = " ".repeat(50 * 1024 * 1024);
    assert_eq!(refuse(&large), ["seed.file_too_large data.yaml"]);
}

#[test]
fn folders_that_hold_no_seed_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let load = |path: &Path| only(Seed::load(path).unwrap_err());
    assert_eq!(load(&folder.path().join("absent")).code, "seed.folder_missing");
    assert_eq!(load(folder.path()).code, "seed.file_missing");

    fs::create_dir_all(folder.path().join("demo")).unwrap();
    fs::write(folder.path().join("demo/data.yaml"), TEAMS).unwrap();
    let missing = load(folder.path());
    assert_eq!((&*missing.code, missing.found.as_deref()), ("seed.file_missing", Some("demo")));
    assert_eq!(load(&folder.path().join("demo/data.yaml")).code, "seed.not_a_folder");
    assert!(Seed::load(&folder.path().join("demo")).is_ok());

    fs::create_dir(folder.path().join("data.yaml")).unwrap();
    let directory = load(folder.path());
    assert_eq!((&*directory.code, directory.found.as_deref()), ("seed.not_a_file", Some("a folder")));
    assert!(directory.file.ends_with("data.yaml"));

    fs::write(folder.path().join("demo/ts.yaml"), "").unwrap();
    let empty = load(&folder.path().join("demo"));
    assert_eq!((&*empty.code, empty.file.ends_with("demo/ts.yaml")), ("overlay.empty", true));

    let large = fs::File::create(folder.path().join("demo/ts.yaml")).unwrap();
    large.set_len(50 * 1024 * 1024).unwrap();
    assert_eq!(load(&folder.path().join("demo")).code, "seed.file_too_large");
}

#[test]
fn aliases_and_merge_keys_are_read() {
    let data = "\
teams:
  - &base {name: a, description: d, is_public: true}
  - {<<: *base, name: b}
";
    let seed = parse(&[("data.yaml", data)]).unwrap();
    let second = &seed.document.teams[1];
    assert_eq!((second.name.as_str(), second.description.as_ref().unwrap().as_str()), ("b", "d"));
    let late = "teams:\n  - &base {name: a}\n  - {name: b, <<: *base}\n";
    assert_eq!(refuse(late), ["yaml.merge_key data.yaml:3:15"]);
}
