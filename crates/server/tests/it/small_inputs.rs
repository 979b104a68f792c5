//! Small seeds that must come out right, from the file through the store and the interface to what is installed.

use std::collections::BTreeMap;

use api::seed::{ApplyRequest, PlanRequest, SeedQuery};
use api::system::RegisterRequest;
use client::Client;
use seed::{ChangeKind, Consents};
use serde_json::{Value, json};
use testkit::{ChartFiles, Tool, tool};

use crate::world::{World, request};

/// A version of a pedestal: name, whether it starts anew, and its values as lines of a seed.
type Version<'a> = (&'a str, bool, &'a str);

/// A seed with these systems and nothing besides what every one needs.
fn seed(systems: &[(&str, &[Version<'_>])]) -> BTreeMap<String, String> {
    let mut data = String::from(
        "containers:\n  - {type: 1, name: clickhouse, versions: [{name: 1.0.0, image_ref: 'example.org/bench:1', command: run, env_vars: \
         [{key: NAMESPACE, default_value: x0, required: true, overridable: true}]}]}\n",
    );
    for (code, versions) in systems {
        data.push_str(&format!("  - type: 2\n    name: {code}\n    versions:\n"));
        for (name, reset, values) in *versions {
            let reset = if *reset { "reset: true, " } else { "" };
            data.push_str(&format!(
                "      - {{name: {name}, helm_config: {{{reset}chart_name: shop, version: 0.1.0, repo_url: \
                 'https://example.org/charts', values: [{values}]}}}}\n"
            ));
        }
    }
    data.push_str("projects: [{name: default, description: All}]\ndynamic_configs:\n");
    for (code, _) in systems {
        for (key, value, kind) in [
            ("count", "4".to_owned(), 2),
            ("ns_pattern", format!("^{code}\\d+$"), 0),
            ("extract_pattern", format!("^({code})(\\d+)$"), 0),
            ("display_name", code.to_uppercase(), 0),
            ("app_label_key", "app".to_owned(), 0),
            ("is_builtin", "true".to_owned(), 1),
            ("status", "1".to_owned(), 2),
        ] {
            data.push_str(&format!(
                "  - {{key: injection.system.{code}.{key}, default_value: '{value}', value_type: {kind}, scope: 2}}\n"
            ));
        }
    }
    BTreeMap::from([("data.yaml".to_owned(), data)])
}

fn apply(client: &Client, files: &BTreeMap<String, String>) -> api::seed::ApplyReply {
    let request = ApplyRequest {
        env: "small".into(),
        files: files.clone(),
        consents: Consents::default(),
        ..ApplyRequest::default()
    };
    client.seed_apply(&request).unwrap()
}

fn plan(client: &Client, files: &BTreeMap<String, String>) -> seed::Plan {
    client.seed_plan(&PlanRequest { env: "small".into(), files: files.clone(), system: None }).unwrap().plan
}

fn values(client: &Client, code: &str) -> Value {
    client.system(code).unwrap().pedestal.unwrap().values
}

/// What is written as a text is one in the values that are installed, and the real `helm` and a chart's schema take it as one.
#[test]
fn a_declared_string_is_a_string_behind_the_store_and_the_interface() {
    let test = "a declared string is a string behind the store and the interface";
    let world = World::start();
    let client = world.client();
    let lines = "{key: db.tag, default_value: \"17.6\"}, {key: app.tag, default_value: \"1.10\"}, {key: web.tag, default_value: \
                 \"00215e6\"}, {key: a.switch, default_value: \"on\"}, {key: a.msg, default_value: \"a,b=c\"}, {key: replicas, \
                 value_type: 1, default_value: \"3\"}, {key: debug, value_type: 2, default_value: \"true\"}";
    let files = seed(&[("ts", &[("1.0.0", false, lines)])]);
    apply(&client, &files);
    let expect = json!({
        "db": {"tag": "17.6"}, "app": {"tag": "1.10"}, "web": {"tag": "00215e6"},
        "a": {"switch": "on", "msg": "a,b=c"}, "replicas": 3, "debug": true,
    });
    assert_eq!(values(&client, "ts"), expect);
    // What is exported says the same again.
    assert_eq!(plan(&client, &client.seed_export().unwrap().files).changes, []);

    let wrong = BTreeMap::from([("data.yaml".into(), files["data.yaml"].replace("\"3\"", "\"17.6\""))]);
    let refused = client.seed_plan(&PlanRequest { env: "small".into(), files: wrong, system: None }).unwrap_err();
    assert_eq!(refused.problem.code, "parameter.wrong_value");
    assert!(refused.problem.to_string().contains("replicas"), "{}", refused.problem);

    let Some(helm) = tool(test, Tool::Helm4) else { return };
    let string = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let schema = json!({
        "type": "object",
        "properties": {"db": string, "app": string, "web": string, "a": string, "replicas": {"type": "integer"}},
    });
    let chart = ChartFiles::new("shop", "0.1.0").with("values.schema.json", &schema.to_string()).with(
        "templates/all.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: all}\ndata: {values: {{ .Values | toJson | quote }}}\n",
    );
    let archive = chart.package(&helm);
    let helm = chart::Helm::find(Some(&helm), std::time::Duration::from_secs(60)).unwrap();
    let rendered = world.block_on(chart::render(&helm, &archive, &values(&client, "ts"), "ts0")).unwrap();
    let seen: Value = serde_json::from_str(rendered[0].body["data"]["values"].as_str().unwrap()).unwrap();
    assert_eq!(seen, expect);
}

#[test]
fn one_key_in_three_systems_has_three_values() {
    let world = World::start();
    let client = world.client();
    let hosts = [("hs", "col-hs:4317"), ("sn", "col-sn:4317"), ("media", "col-m:4317")];
    let with = |hosts: &[(&str, &str)]| {
        let lines: Vec<(String, String)> = hosts
            .iter()
            .map(|(code, host)| {
                ((*code).to_owned(), format!("{{key: global.otel.endpoint, default_value: \"{host}\"}}"))
            })
            .collect();
        let versions: Vec<[Version<'_>; 1]> = lines.iter().map(|(_, line)| [("1.0.0", false, line.as_str())]).collect();
        let systems: Vec<(&str, &[Version<'_>])> =
            lines.iter().zip(&versions).map(|((code, _), versions)| (code.as_str(), versions.as_slice())).collect();
        seed(&systems)
    };
    let read =
        || hosts.map(|(code, _)| values(&client, code)["global"]["otel"]["endpoint"].as_str().unwrap().to_owned());
    let mut reversed = hosts;
    reversed.reverse();
    for files in [with(&hosts), with(&reversed), with(&hosts)] {
        apply(&client, &files);
        assert_eq!(read(), hosts.map(|(_, host)| host));
        assert_eq!(plan(&client, &files).changes, []);
    }
    let edited = with(&[hosts[0], ("sn", "other:4317"), hosts[2]]);
    let changes = plan(&client, &edited).changes;
    assert_eq!(changes.iter().map(|change| change.system.as_deref()).collect::<Vec<_>>(), [Some("sn")]);
    apply(&client, &edited);
    assert_eq!(read(), ["col-hs:4317", "other:4317", "col-m:4317"]);
    assert_eq!(client.seed_drift(&SeedQuery::default()).unwrap().drift, []);
}

#[test]
fn a_new_version_has_what_it_does_not_name_unless_it_starts_anew() {
    let world = World::start();
    let client = world.client();
    let eleven: Vec<String> = (0..11).map(|n| format!("{{key: k{n}, default_value: \"old{n}\"}}")).collect();
    let (eleven, three) = (eleven.join(", "), (0..3).map(|n| format!("{{key: k{n}, default_value: \"new{n}\"}}")));
    let three = three.collect::<Vec<_>>().join(", ");
    apply(&client, &seed(&[("ts", &[("1.0.6", false, &eleven)])]));
    let old = client.helm("ts", Some("1.0.6")).unwrap();
    let second = seed(&[("ts", &[("1.0.6", false, &eleven), ("1.0.7", false, &three)])]);
    let planned = plan(&client, &second);
    let named = planned
        .changes
        .iter()
        .filter(|change| change.field.as_deref().is_some_and(|field| field.starts_with("value ")));
    assert_eq!(named.count(), 11, "the plan prints the effective set");
    apply(&client, &second);
    let expect: serde_json::Map<String, Value> =
        (0..11).map(|n| (format!("k{n}"), json!(format!("{}{n}", if n < 3 { "new" } else { "old" })))).collect();
    assert_eq!(values(&client, "ts"), Value::Object(expect));
    assert_eq!(client.helm("ts", Some("1.0.6")).unwrap(), old, "the version before is as it was");
    apply(&client, &seed(&[("ts", &[("1.0.6", false, &eleven), ("1.0.7", false, &three), ("1.0.8", true, &three)])]));
    assert_eq!(values(&client, "ts"), json!({"k0": "new0", "k1": "new1", "k2": "new2"}));
    let unknown = client.helm("ts", Some("1.0.9")).unwrap_err().problem;
    assert_eq!(unknown.code, "version.unknown");
    assert!(unknown.to_string().contains("1.0.8"), "{unknown}");
}

/// What a plan says of a values file is what applying it does; what is not there is filled in, and an empty one is refused.
#[test]
fn a_values_file_is_the_one_that_the_seed_has() {
    let world = World::start();
    let client = world.client();
    let mut files = seed(&[("ts", &[("1.0.0", false, "{key: a, default_value: x}")])]);
    apply(&client, &files);
    assert_eq!(values(&client, "ts"), json!({"a": "x"}), "a values file is optional");
    for (port, kind) in [(8080, ChangeKind::Added), (9090, ChangeKind::OverlayChanged)] {
        files.insert("ts.yaml".to_owned(), format!("web: {{port: {port}}}\n"));
        let planned = plan(&client, &files).changes;
        let kinds: Vec<ChangeKind> = planned.iter().map(|change| change.kind).collect();
        assert_eq!(kinds, [kind], "{planned:?}");
        assert_ne!(planned[0].before, planned[0].after);
        assert_eq!(apply(&client, &files).applied, planned);
        assert_eq!(values(&client, "ts"), json!({"a": "x", "web": {"port": port}}));
        assert!(!apply(&client, &files).changed);
    }
    for (text, code) in [("", "overlay.empty"), ("- a\n", "overlay.not_a_mapping"), ("text\n", "overlay.not_a_mapping")]
    {
        files.insert("ts.yaml".to_owned(), text.to_owned());
        let refused = client.seed_plan(&PlanRequest { env: "small".into(), files: files.clone(), system: None });
        let refused = refused.unwrap_err().problem;
        assert_eq!(refused.code, code);
        assert!(refused.place.as_deref().is_some_and(|place| place.starts_with("ts.yaml")), "{refused}");
    }
    assert_eq!(values(&client, "ts"), json!({"a": "x", "web": {"port": 9090}}));
}

/// A seed is what is installed: nothing in it is filled in on the way, also where it looks like a variable.
#[test]
fn a_placeholder_is_a_text_like_any_other() {
    let world = World::start();
    let client = world.client();
    let lines = "{key: url, default_value: \"${URL}\"}, {key: node, default_value: \"$(NODE_IP):4317\"}, {key: home, \
                 default_value: \"$HOME\"}";
    apply(&client, &seed(&[("ts", &[("1.0.0", false, lines)])]));
    assert_eq!(values(&client, "ts"), json!({"url": "${URL}", "node": "$(NODE_IP):4317", "home": "$HOME"}));
}

/// Many values are one change, and cost little more than few.
#[test]
fn six_hundred_values_are_applied_at_once_and_not_one_by_one() {
    let world = World::start();
    let client = world.client();
    let lines = |of: &str| {
        let lines: Vec<String> = (0..600).map(|n| format!("{{key: k{n}, default_value: \"{of}{n}\"}}")).collect();
        lines.join(", ")
    };
    for of in ["old", "new"] {
        let files = seed(&[("ts", &[("1.0.0", false, &lines(of))])]);
        let start = std::time::Instant::now();
        let applied = apply(&client, &files).applied;
        assert!(start.elapsed() < std::time::Duration::from_secs(10), "{:?}", start.elapsed());
        assert!(applied.len() >= 600, "{}", applied.len());
        let values = values(&client, "ts");
        assert_eq!((values.as_object().unwrap().len(), &values["k599"]), (600, &json!(format!("{of}599"))));
        assert!(!apply(&client, &files).changed);
    }
}

/// Registering again changes what is declared and nothing of what was decided or of when it began.
#[test]
fn a_second_registration_keeps_when_a_system_began_and_that_it_is_disabled() {
    let world = World::start();
    let client = world.client();
    let files = seed(&[("ts", &[("1.0.0", false, "{key: a, default_value: x}")])]);
    let wanted = request("ts", "small", files);
    client.register(&wanted).unwrap();
    let before = client.system("ts").unwrap().system;
    client.set_enabled("ts", false).unwrap();
    client.register(&RegisterRequest { force: true, ..wanted.clone() }).unwrap();
    world.block_on(world.store.migrate()).unwrap();
    let after = client.system("ts").unwrap().system;
    assert_eq!((&after.created_at, after.id, after.enabled), (&before.created_at, before.id, false));
    let versions = client.pedestal_versions("ts").unwrap();
    client.register(&RegisterRequest { force: true, ..wanted }).unwrap();
    assert_eq!(client.pedestal_versions("ts").unwrap(), versions);
}
