//! Composed values: Helm's merge, typed values, indexed keys that lose nothing, and the origin of each leaf.

use seed::{Composed, Findings, Layers, Overlay, Parameter, Spot, ValueSource, ValueType, compose};
use serde_json::{Value, json};

use crate::only;

/// Chart defaults, overlay and parameters of one case.
#[derive(Default)]
struct Case {
    chart: Option<Value>,
    overlay: Option<&'static str>,
    parameters: Vec<Parameter>,
    overrides: Value,
}

impl Case {
    fn compose(&self) -> Result<Composed, Findings> {
        let overlay = self.overlay.map(|text| Overlay::read("ts.yaml", text.as_bytes())).transpose()?;
        compose(&Layers {
            chart: self.chart.as_ref(),
            overlay: overlay.as_ref(),
            parameters: &self.parameters,
            overrides: &self.overrides,
            slot: 7,
            fields: &[("Name", "1.0.0")],
        })
    }

    fn values(&self) -> Value {
        self.compose().unwrap_or_else(|findings| panic!("{findings}")).values
    }

    fn refused(&self) -> seed::Finding {
        only(self.compose().unwrap_err())
    }
}

fn parameter(key: &str, value_type: ValueType, source: ValueSource) -> Parameter {
    let at = Spot::from("data.yaml:9:5".to_owned());
    Parameter { key: key.into(), value_type, source, required: false, overridable: true, version: "1.0.0".into(), at }
}

fn string(key: &str, text: &str) -> Parameter {
    parameter(key, ValueType::String, ValueSource::Default(text.into()))
}

#[test]
fn a_string_stays_a_string_from_file_to_release() {
    let texts = ["17.6", "1.10", "00215e6", "on", "0o17", "1_000", "2.2.0", "v0.12.9", "17.6-bookworm", "007", ""];
    for text in texts {
        let case = Case { parameters: vec![string("db.image.tag", text)], ..Case::default() };
        assert_eq!(case.values(), json!({"db": {"image": {"tag": text}}}));
    }
    let typed = Case {
        parameters: vec![
            parameter("a", ValueType::Int, ValueSource::Default("-3".into())),
            parameter("b", ValueType::Bool, ValueSource::Default("true".into())),
            parameter("c", ValueType::Float, ValueSource::Default("0.5".into())),
            parameter("d", ValueType::Array, ValueSource::Default(r#"["x"]"#.into())),
            parameter("e", ValueType::Int, ValueSource::Template("31%03d".into())),
            parameter("f", ValueType::String, ValueSource::Template("v{{ .Name }}".into())),
            parameter("g", ValueType::String, ValueSource::Unset),
        ],
        ..Case::default()
    };
    assert_eq!(typed.values(), json!({"a": -3, "b": true, "c": 0.5, "d": ["x"], "e": 31007, "f": "v1.0.0"}));
}

#[test]
fn mappings_merge_lists_replace_and_null_removes() {
    let case = Case {
        chart: Some(json!({"a": {"x": 1, "y": 2}, "list": [1, 2, 3], "gone": {"deep": true}, "kept": "k"})),
        overlay: Some("a: {x: 9}\nlist: [8]\ngone: null\nunknown: null\n"),
        parameters: vec![string("a.z", "zz")],
        ..Case::default()
    };
    let composed = case.compose().unwrap();
    // The file that Helm gets: the nulls stay, the chart's own defaults are not repeated.
    assert_eq!(composed.values, json!({"a": {"x": 9, "z": "zz"}, "gone": null, "list": [8], "unknown": null}));
    let leaves: Vec<(String, Value, String)> =
        composed.leaves.iter().map(|leaf| (leaf.path.clone(), leaf.value.clone(), leaf.origin.to_string())).collect();
    let expected = [
        ("a.x", json!(9), "overlay, ts.yaml:1:8"),
        ("a.y", json!(2), "chart default"),
        ("a.z", json!("zz"), "seed default, data.yaml:9:5"),
        ("kept", json!("k"), "chart default"),
        ("list[0]", json!(8), "overlay, ts.yaml:2:8"),
        ("unknown", json!(null), "overlay, ts.yaml:4:10"),
    ];
    let expected: Vec<_> = expected.into_iter().map(|(p, v, o)| (p.to_owned(), v, o.to_owned())).collect();
    assert_eq!(leaves, expected);
}

#[test]
fn an_indexed_key_keeps_the_rest_of_its_list() {
    let init = json!({"init": [{"name": "wait", "image": "busybox:1", "command": ["sh"]}, {"name": "two"}]});
    let one = Case {
        chart: Some(init.clone()),
        parameters: vec![string("init[0].image", "mirror/busybox:1")],
        ..Case::default()
    };
    let expect = json!([{"name": "wait", "image": "mirror/busybox:1", "command": ["sh"]}, {"name": "two"}]);
    assert_eq!(one.values(), json!({"init": expect}));
    let origins: Vec<String> = one.compose().unwrap().leaves.iter().map(|leaf| leaf.origin.to_string()).collect();
    assert_eq!(origins.iter().filter(|origin| *origin == "chart default").count(), 3);

    // A list of the overlay is the list: the chart's own is replaced by it anyway.
    let overlay = Case { overlay: Some("init: [{name: mine}]\n"), ..one };
    assert_eq!(overlay.values(), json!({"init": [{"name": "mine", "image": "mirror/busybox:1"}]}));

    let blind = Case { parameters: vec![string("init[0].image", "x")], ..Case::default() };
    let refused = blind.refused();
    assert_eq!((&*refused.code, refused.place().as_str()), ("parameter.list_unknown", "data.yaml:9:5"));
    assert!(refused.expected.unwrap().contains("would be lost"));

    let beyond = Case { chart: Some(init), parameters: vec![string("init[3].image", "x")], ..Case::default() };
    let refused = beyond.refused();
    assert_eq!(&*refused.code, "parameter.index_beyond_list");
    assert_eq!(refused.found.as_deref(), Some("index 3; `init` has 2"));
}

#[test]
fn keys_with_dots_are_one_key() {
    let case =
        Case { parameters: vec![string(r"a\.b.c", "1"), string(r#"meta."example.org/x""#, "2")], ..Case::default() };
    assert_eq!(case.values(), json!({"a.b": {"c": "1"}, "meta": {"example.org/x": "2"}}));
}

#[test]
fn a_path_through_a_value_is_refused() {
    let case = Case { overlay: Some("a: text\n"), parameters: vec![string("a.b", "1")], ..Case::default() };
    let refused = case.refused();
    assert_eq!(&*refused.code, "parameter.path_blocked");
    assert_eq!(refused.found.as_deref(), Some("`a` is `\"text\"` (overlay, ts.yaml:1:4)"));
}

#[test]
fn a_run_sets_what_it_may_and_nothing_else() {
    let parameters = || {
        let mut fixed = string("fixed", "f");
        fixed.overridable = false;
        let mut needed = parameter("needed", ValueType::Int, ValueSource::Unset);
        needed.required = true;
        vec![string("image.tag", "1.0"), fixed, needed, string(r"a\.b", "ab")]
    };
    let with = |overrides: Value| Case { parameters: parameters(), overrides, ..Case::default() };
    let good = with(json!({"image": {"tag": "17.6"}, "needed": "5", "a.b": "x"}));
    assert_eq!(good.values(), json!({"image": {"tag": "17.6"}, "fixed": "f", "needed": 5, "a.b": "x"}));
    let dotted = with(json!({"image.tag": "2.0", "needed": 5}));
    let composed = dotted.compose().unwrap();
    assert_eq!(composed.values["image"]["tag"], json!("2.0"));
    let tag = composed.leaves.iter().find(|leaf| leaf.path == "image.tag").unwrap();
    assert_eq!(tag.origin.to_string(), "run override");

    let cases = [
        (json!({}), "parameter.required_missing"),
        (json!({"needed": 1, "fixed": "g"}), "parameter.not_overridable"),
        (json!({"needed": 1, "image": {"tga": "1"}}), "override.unknown"),
        (json!({"needed": 1, "image": {"tag": 17.6}}), "parameter.wrong_value"),
        (json!({"needed": 1.5}), "parameter.wrong_value"),
        (json!({"needed": 1, "image.tag": "1", "image": {"tag": "2"}}), "override.duplicate"),
        (json!([1]), "override.not_a_mapping"),
    ];
    for (overrides, code) in cases {
        let text = overrides.to_string();
        let found = with(overrides).compose().unwrap_err().into_vec();
        assert!(found.iter().any(|finding| finding.code == code), "{text}: {found:?}");
    }
    let near = with(json!({"needed": 1, "image": {"tga": "1"}})).refused();
    assert_eq!(near.fix.as_deref(), Some("did you mean `image.tag`?"));
}

#[test]
fn a_bad_overlay_is_named() {
    let cases = [
        ("", "overlay.empty"),
        ("# nothing\n", "yaml.empty"),
        ("- a\n", "overlay.not_a_mapping"),
        ("a: .inf\n", "overlay.wrong_value"),
        ("a: 99999999999999999999\n", "overlay.wrong_value"),
        ("on: 1\n\"true\": 2\n", "yaml.duplicate_key"),
        ("a:\n\tb: 1\n", "yaml.tab"),
    ];
    for (text, code) in cases {
        let finding = only(Overlay::read("ts.yaml", text.as_bytes()).expect_err(text));
        assert_eq!((&*finding.code, finding.file.as_str()), (code, "ts.yaml"), "{text:?}");
    }
    assert!(Overlay::read("ts.yaml", b"{}\n").is_ok());
}

#[test]
fn the_digest_depends_on_the_values_alone() {
    let one = Case { overlay: Some("a: 1\nb: {x: 1, y: 2}\n"), ..Case::default() };
    let other = Case { overlay: Some("# c\nb:\n  y: 2\n  x: 0x1\na: 1\n"), ..Case::default() };
    let changed = Case { overlay: Some("a: 1\nb: {x: 1, y: '2'}\n"), ..Case::default() };
    let digest = |case: &Case| case.compose().unwrap().digest;
    assert_eq!(digest(&one), digest(&other));
    assert_ne!(digest(&one), digest(&changed));
}
