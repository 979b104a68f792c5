//! Our composition of values against Helm's own: generated charts, overlays and parameters, and the public seed.
//!
//! All generated cases are put into one chart, each below a key of its own, so that one start of Helm judges them all.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use seed::{KeyPath, Layers, Overlay, Parameter, Seed, Spot, ValueSource, ValueType, compose};
use serde_json::{Map, Value, json};
use testkit::{Tool, tool};

const CASES: u64 = 240;

/// Numbers from a fixed seed (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

const KEYS: &[&str] = &["image", "tag", "web", "port", "env", "enabled", "example.org/name", "on"];
/// As they stand in a values file: what they mean there is what Helm says.
const SCALARS: &[&str] = &[
    "17.6",
    "1.10",
    "00215e6",
    "on",
    "off",
    "Yes",
    "0o17",
    "017",
    "08",
    "1_000",
    "0x1F",
    "0b101",
    "~",
    "null",
    "1e3",
    ".5",
    "1.",
    "2001-01-01",
    "12:30",
    "v0.12.9",
    "2.2.0",
    "9.0.1-alpine3.23",
    "17.6-bookworm",
    "true",
    "False",
    "-0",
    "+5",
    "\"1.10\"",
    "'on'",
    "\"\"",
    "\"a: b\"",
    "plain words",
    "\"\\u00e9\"",
    "!!str 12",
    "12345678901",
];

fn quoted(key: &str) -> String {
    json!(key).to_string()
}

fn scalar(random: &mut Random) -> Value {
    match random.below(6) {
        0 => json!(random.below(1000)),
        1 => json!(random.below(100) as f64 / 4.0),
        2 => json!(random.below(2) == 0),
        3 => json!(""),
        _ => json!(random.pick(&["a", "1.10", "on", "007", "busybox:1", "{x}"])),
    }
}

/// What a chart has of its own.
fn defaults(random: &mut Random, depth: usize) -> Value {
    let mut map = Map::new();
    for _ in 0..1 + random.below(4) {
        let key = random.pick(KEYS).to_owned();
        let value = match random.below(5) {
            0 | 1 if depth > 0 => defaults(random, depth - 1),
            2 => json!([{"name": "wait", "image": "busybox:1"}, {"name": "other", "image": scalar(random)}]),
            _ => scalar(random),
        };
        map.insert(key, value);
    }
    Value::Object(map)
}

/// A values file as somebody writes it.
fn overlay(random: &mut Random, depth: usize, indent: usize, text: &mut String) {
    let mut keys: Vec<&str> = KEYS.to_vec();
    for _ in 0..1 + random.below(4) {
        let key = keys.remove(random.below(keys.len()));
        match random.below(6) {
            0 | 1 if depth > 0 => {
                writeln!(text, "{:indent$}{}:", "", quoted(key)).unwrap();
                overlay(random, depth - 1, indent + 2, text);
            }
            2 => {
                writeln!(text, "{:indent$}{}: [{{name: {}}}, 2]", "", quoted(key), random.pick(SCALARS[..12].as_ref()))
                    .unwrap()
            }
            3 => writeln!(text, "{:indent$}{}: null", "", quoted(key)).unwrap(),
            4 => writeln!(text, "{:indent$}{}: {{}}", "", quoted(key)).unwrap(),
            _ => writeln!(text, "{:indent$}{}: {}", "", quoted(key), random.pick(SCALARS)).unwrap(),
        }
    }
}

fn escaped(key: &str) -> String {
    key.replace('.', "\\.")
}

fn parameters(random: &mut Random) -> Vec<Parameter> {
    let mut found: BTreeMap<String, Parameter> = BTreeMap::new();
    for _ in 0..random.below(5) {
        let path: Vec<String> = (0..1 + random.below(3)).map(|_| escaped(random.pick(KEYS))).collect();
        let (value_type, text) = match random.below(6) {
            0 => (ValueType::Int, random.below(100_000).to_string()),
            1 => (ValueType::Bool, (random.below(2) == 0).to_string()),
            2 => (ValueType::Float, format!("{}.5", random.below(100))),
            3 => (ValueType::Array, r#"["a", 1, {"b": null}]"#.to_owned()),
            4 => (ValueType::Object, r#"{"a": {"b": "1.10"}}"#.to_owned()),
            _ => (
                ValueType::String,
                random.pick(&["17.6", "1.10", "00215e6", "on", "0o17", "1_000", "a,b=c", ""]).to_owned(),
            ),
        };
        let key = KeyPath::parse(&path.join(".")).unwrap().to_string();
        found.insert(key.clone(), parameter(&key, value_type, &text));
    }
    // A seed has no key below another one.
    let keys: Vec<KeyPath> = found.keys().map(|key| KeyPath::parse(key).unwrap()).collect();
    let below =
        |key: &KeyPath| keys.iter().any(|other| other != key && key.to_string().starts_with(&format!("{other}.")));
    found.into_values().filter(|one| !below(&KeyPath::parse(&one.key).unwrap())).collect()
}

fn parameter(key: &str, value_type: ValueType, text: &str) -> Parameter {
    Parameter {
        key: key.to_owned(),
        value_type,
        source: ValueSource::Default(text.to_owned()),
        required: false,
        overridable: true,
        version: "1.0.0".into(),
        at: Spot::from("data.yaml:1:1".to_owned()),
    }
}

/// What is set, as JSON.
fn typed(parameter: &Parameter) -> Value {
    let ValueSource::Default(text) = &parameter.source else { panic!("only defaults are generated") };
    if parameter.value_type == ValueType::String { json!(text) } else { serde_json::from_str(text).unwrap() }
}

struct Case {
    chart: Value,
    overlay: String,
    parameters: Vec<Parameter>,
    composed: seed::Composed,
}

/// Cases that compose; those that are refused are counted.
fn cases() -> (Vec<Case>, u64) {
    let mut random = Random(20_260_105);
    let (mut cases, mut refused) = (Vec::new(), 0);
    while (cases.len() as u64) < CASES {
        let chart = defaults(&mut random, 2);
        let mut text = String::new();
        overlay(&mut random, 2, 0, &mut text);
        let parameters = parameters(&mut random);
        let read = Overlay::read("o.yaml", text.as_bytes()).unwrap_or_else(|findings| panic!("{findings}\n{text}"));
        let layers = Layers {
            chart: Some(&chart),
            overlay: Some(&read),
            parameters: &parameters,
            overrides: &Value::Null,
            slot: 0,
            fields: &[],
        };
        let plain =
            compose(&Layers { parameters: &[], ..layers }).unwrap_or_else(|findings| panic!("{findings}\n{text}"));
        if parameters.iter().any(|parameter| goes_through_null(&plain.values, parameter)) {
            continue;
        }
        // A parameter may go through a scalar: that is refused here, and Helm loses the scalar with a warning.
        match compose(&layers) {
            Ok(composed) => cases.push(Case { chart, overlay: text, parameters, composed }),
            Err(findings) => {
                assert!(findings.errors().all(|finding| finding.code == "parameter.path_blocked"), "{findings}");
                refused += 1;
            }
        }
    }
    (cases, refused)
}

/// Helm's `--set-json` cannot set a key below a null, so there is nothing to compare with. Here it makes the mapping.
fn goes_through_null(values: &Value, parameter: &Parameter) -> bool {
    let mut place = values;
    for key in parameter.key.replace("\\.", "\n").split('.') {
        match place.get(key.replace('\n', ".")) {
            Some(Value::Null) => return true,
            Some(inner) => place = inner,
            None => return false,
        }
    }
    false
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

/// A chart that says which values it was given.
fn write_chart(folder: &Path, values: &Value) {
    fs::create_dir_all(folder.join("templates")).unwrap();
    fs::write(folder.join("Chart.yaml"), "apiVersion: v2\nname: mirror\nversion: 0.1.0\n").unwrap();
    fs::write(folder.join("values.yaml"), values.to_string()).unwrap();
    let template =
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: mirror\ndata:\n  values: {{ toJson .Values | quote }}\n";
    fs::write(folder.join("templates/mirror.yaml"), template).unwrap();
}

/// What Helm hands to the templates of a chart.
fn rendered(helm: &Path, chart: &Path, arguments: &[String]) -> Value {
    let home = chart.join("home");
    let output = Command::new(helm)
        .args(["template", "release"])
        .arg(chart)
        .args(arguments)
        .env("HELM_CACHE_HOME", &home)
        .env("HELM_CONFIG_HOME", &home)
        .env("HELM_DATA_HOME", &home)
        .env("OTEL_TRACES_EXPORTER", "none")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let line = text.lines().find_map(|line| line.strip_prefix("  values: ")).unwrap_or_else(|| panic!("{text}"));
    let json: String = serde_json::from_str(line).unwrap();
    serde_json::from_str(&json).unwrap()
}

/// Numbers as one kind: Helm makes a floating-point number of every one.
fn plain(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Object(entries) => entries.iter().map(|(key, value)| (key.clone(), plain(value))).collect(),
        other => other.clone(),
    }
}

/// Leaves by their canonical paths, as the composition lists them.
fn leaves(value: &Value, path: &str, out: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            for (key, value) in entries {
                let dot = if path.is_empty() { "" } else { "." };
                leaves(value, &format!("{path}{dot}{}", escaped(key)), out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (number, value) in items.iter().enumerate() {
                leaves(value, &format!("{path}[{number}]"), out);
            }
        }
        Value::Object(_) if path.is_empty() => {}
        leaf => {
            out.insert(KeyPath::parse(path).unwrap().to_string(), plain(leaf));
        }
    }
}

#[test]
fn generated_values_are_composed_as_helm_composes_them() {
    let test = "generated values against Helm";
    let (Some(helm3), Some(helm4)) = (tool(test, Tool::Helm3), tool(test, Tool::Helm4)) else { return };
    let (cases, refused) = cases();
    assert!(refused < CASES, "most cases compose: {refused} were refused");
    let folder = tempfile::tempdir().unwrap();
    let numbered = || cases.iter().enumerate().map(|(number, case)| (format!("c{number}"), case));
    let all =
        |of: fn(&Case) -> Value| -> Value { Value::Object(numbered().map(|(name, case)| (name, of(case))).collect()) };
    let chart = folder.path().join("chart");
    write_chart(&chart, &all(|case| case.chart.clone()));
    let ours = folder.path().join("composed.yaml");
    fs::write(&ours, all(|case| case.composed.values.clone()).to_string()).unwrap();
    let theirs = folder.path().join("overlays.yaml");
    let overlays: String = numbered().map(|(name, case)| format!("{name}:\n{}", indented(&case.overlay))).collect();
    fs::write(&theirs, overlays).unwrap();
    let mut set = vec!["--values".to_owned(), theirs.display().to_string()];
    for (name, case) in numbered() {
        for parameter in &case.parameters {
            set.extend(["--set-json".to_owned(), format!("{name}.{}={}", parameter.key, typed(parameter))]);
        }
    }
    for helm in [&helm3, &helm4] {
        let by_helm = rendered(helm, &chart, &set);
        let by_us = rendered(helm, &chart, &["--values".to_owned(), ours.display().to_string()]);
        for (name, case) in numbered() {
            let about = || {
                format!(
                    "{}: {name}\nchart {}\noverlay\n{}set {:#?}",
                    helm.display(),
                    case.chart,
                    case.overlay,
                    case.parameters.iter().map(|p| format!("{}={}", p.key, typed(p))).collect::<Vec<_>>()
                )
            };
            assert_eq!(plain(&by_us[&name]), plain(&by_helm[&name]), "{}", about());
            let mut seen = BTreeMap::new();
            leaves(&by_us[&name], "", &mut seen);
            let explained: BTreeMap<String, Value> =
                case.composed.leaves.iter().map(|leaf| (leaf.path.clone(), plain(&leaf.value))).collect();
            assert_eq!(explained, seen, "what is explained is what the chart sees; {}", about());
        }
    }
}

#[test]
fn an_indexed_parameter_changes_one_field_of_what_the_chart_has() {
    let test = "an indexed parameter against Helm";
    let (Some(helm3), Some(helm4)) = (tool(test, Tool::Helm3), tool(test, Tool::Helm4)) else { return };
    let folder = tempfile::tempdir().unwrap();
    let chart =
        json!({"init": [{"name": "wait", "image": "busybox:1", "command": ["sh"]}, {"name": "other", "image": "x"}]});
    write_chart(folder.path(), &chart);
    let parameters = [parameter("init[0].image", ValueType::String, "mirror/busybox:1")];
    let layers = Layers {
        chart: Some(&chart),
        overlay: None,
        parameters: &parameters,
        overrides: &Value::Null,
        slot: 0,
        fields: &[],
    };
    let composed = compose(&layers).unwrap();
    let file = folder.path().join("composed.yaml");
    fs::write(&file, composed.values.to_string()).unwrap();
    let mut expect = chart.clone();
    expect["init"][0]["image"] = json!("mirror/busybox:1");
    for helm in [helm3, helm4] {
        assert_eq!(rendered(&helm, folder.path(), &["--values".to_owned(), file.display().to_string()]), expect);
    }
}

#[test]
fn the_values_of_the_public_seed_are_what_helm_makes_of_its_parts() {
    let test = "the values of the public seed against Helm";
    let (Some(helm3), Some(helm4)) = (tool(test, Tool::Helm3), tool(test, Tool::Helm4)) else { return };
    let Some(seed) = testkit::shared(test, "seeds/public-prod") else { return };
    let folder = tempfile::tempdir().unwrap();
    write_chart(folder.path(), &json!({}));
    let read = Seed::load(&seed).unwrap();
    for code in read.systems() {
        let system = read.system(code).unwrap();
        let composed = system.revision().compose(None, &Value::Null, 3).unwrap();
        let ours = folder.path().join(format!("{code}-composed.yaml"));
        fs::write(&ours, composed.values.to_string()).unwrap();
        let mut set = Vec::new();
        let file: PathBuf = seed.join(format!("{code}.yaml"));
        if file.is_file() {
            set.extend(["--values".to_owned(), file.display().to_string()]);
        }
        for parameter in &system.revision().parameters {
            let value = match &parameter.source {
                ValueSource::Template(_) => json!(31003),
                ValueSource::Default(_) => typed(parameter),
                ValueSource::Unset => continue,
            };
            set.extend(["--set-json".to_owned(), format!("{}={value}", parameter.key)]);
        }
        for helm in [&helm3, &helm4] {
            let by_us = rendered(helm, folder.path(), &["--values".to_owned(), ours.display().to_string()]);
            assert_eq!(plain(&by_us), plain(&rendered(helm, folder.path(), &set)), "{code}");
        }
    }
}
