//! One system out of a seed: what is wrong with it is found before anything is registered.

use seed::{Seed, Severity};
use serde_json::json;

use crate::{brief, demo, demo_with, only};

fn refuse(seed: &Seed) -> Vec<String> {
    let findings = seed.system("ts").expect_err("the system is wrong").into_vec();
    findings.iter().filter(|f| f.severity == Severity::Error).map(|f| f.code.to_string()).collect()
}

#[test]
fn an_unknown_system_leads_to_the_one_that_is_meant() {
    let seed = Seed::parse(&demo()).unwrap();
    for (wrong, meant) in [("trainticket", "ts"), ("tx", "ts"), ("mm", "media"), ("hotelreservation", "hs")] {
        let finding = only(seed.system(wrong).unwrap_err());
        assert_eq!(finding.code, "seed.system_unknown");
        assert_eq!(finding.fix, Some(format!("did you mean `{meant}`?")));
    }
}

#[test]
fn a_pedestal_has_the_name_of_its_system_and_no_other() {
    // Wrong in the container alone, and wrong everywhere in the same way.
    let cases = [("mm", "media"), ("tea", "teastore"), ("hotelreservation", "hs")];
    for (wrong, right) in cases {
        let data = demo()["data.yaml"].replace("name: ts\n", &format!("name: {wrong}\n"));
        for data in [data.clone(), data.replace("system.ts.", &format!("system.{wrong}.")).replace("ts0", "x0")] {
            let seed = Seed::parse(&[("data.yaml".to_owned(), data)].into()).unwrap();
            let finding = seed.lint().into_iter().find(|f| f.code == "pedestal.name_not_code").expect(wrong);
            assert_eq!(finding.fix, Some(format!("did you mean `{right}`?")));
        }
    }
    let shared = demo_with("name: clickhouse", "name: ts");
    assert_eq!(refuse(&shared), ["container.name_taken"]);
}

#[test]
fn what_the_seed_does_not_use_is_not_registered() {
    let seed =
        demo_with("name: ts\n    is_public: true\n    status: 1", "name: ts\n    is_public: true\n    status: 0");
    assert_eq!(refuse(&seed), ["seed.system_disabled"]);
    assert!(seed.systems().is_empty());
}

#[test]
fn what_cannot_run_is_refused() {
    let cases = [
        ("command: bash /entrypoint.sh", "command: ''", "command.empty"),
        ("        command: bash /entrypoint.sh\n", "", "command.empty"),
        ("image_ref: docker.io/clickhouse/clickhouse-server:25.8.2.29", "image_ref: ' '", "image.missing"),
        ("version: 0.4.6", "version: '>=0.4'", "chart.version_not_exact"),
        ("version: 0.4.6", "version: 0.4", "chart.version_not_exact"),
        ("repo_url: https:", "repo_url: htps:", "chart.repo_url_malformed"),
        ("key: NAMESPACE", "key: NAMESPCE", "benchmark.no_namespace"),
        ("required: true, overridable: true", "overridable: false", "benchmark.namespace_fixed"),
        ("default_value: ts0,", "default_value: \"ts0\\n\",", "parameter.control_character"),
        ("default_value: \"false\"", "default_value: off", "parameter.wrong_value"),
        ("template_string: 31%03d", "template_string: 31%s", "template.malformed"),
        ("key: mysql.service.type", "key: mysql..type", "parameter.key_malformed"),
        ("key: mysql.service.type", "key: global.image.tag", "parameter.duplicate"),
        ("key: mysql.service.type", "key: global.image", "parameter.key_shadows"),
        ("chart_name: trainticket", "chart_name: trainticket\n          value_file: tt.yaml", "overlay.missing"),
    ];
    for (from, to, code) in cases {
        assert_eq!(refuse(&demo_with(from, to)), [code], "{to}");
    }
}

#[test]
fn the_seven_keys_are_there_typed_and_fitting() {
    let cases = [
        ("ts.count\n", "ts.cuont\n", "system.key_missing"),
        ("default_value: '4'", "default_value: '21'", "setting.default_out_of_bounds"),
        ("default_value: '4'", "default_value: four", "setting.wrong_default"),
        ("default_value: 'true'\n    value_type: 1", "default_value: '1'\n    value_type: 2", "system.key_wrong_type"),
        ("value_type: 1\n    scope: 2", "value_type: 1\n    scope: 1", "system.key_wrong_scope"),
        ("default_value: ^ts\\d+$", "default_value: ^tt\\d+$", "system.pattern_wrong"),
        ("default_value: ^ts\\d+$", "default_value: ts\\d+", "system.pattern_wrong"),
        ("default_value: ^ts\\d+$", "default_value: ^ts(\\d+$", "system.pattern_malformed"),
        ("default_value: ^(ts)(\\d+)$", "default_value: ^ts(\\d+)$", "system.pattern_wrong"),
        ("default_value: Train Ticket", "default_value: ''", "system.key_empty"),
    ];
    for (from, to, code) in cases {
        assert!(refuse(&demo_with(from, to)).contains(&code.to_owned()), "{to}");
    }
    let seed = demo_with("ts.count\n", "ts.cuont\n");
    let findings = seed.system("ts").unwrap_err().into_vec();
    let unknown = findings.iter().find(|finding| finding.code == "system.key_unknown").unwrap();
    assert_eq!(unknown.fix.as_deref(), Some("did you mean `count`?"));
}

#[test]
fn settings_do_not_stand_below_each_other() {
    let seed = demo_with("key: algo.detector", "key: injection.system.ts.count.max");
    assert_eq!(refuse(&seed), ["setting.key_below_key"]);
}

#[test]
fn lint_finds_what_no_single_system_shows() {
    let mut files = demo();
    let more = "\
users:
  - username: u
    email: u@example.org
    teams: [{name: nobody, role: team_admn}]
    projects: [{name: defualt, role: project_admin}]
";
    files.get_mut("data.yaml").unwrap().push_str(more);
    files.insert("st.yaml".to_owned(), "a: 1\n".to_owned());
    let found = brief(&Seed::parse(&files).unwrap().lint());
    let codes: Vec<&str> = found.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(codes, ["user.unknown_team", "user.unknown_role", "user.unknown_project", "overlay.unused"]);
}

#[test]
fn a_higher_version_keeps_the_values_that_it_does_not_name() {
    let higher = "      - name: 1.0.1\n        helm_config:\n          version: 0.4.6\n          chart_name: trainticket\n          values:\n            - {key: global.image.tag, default_value: '1.10'}\n\nprojects:";
    let seed = demo_with("projects:", higher);
    let system = seed.system("ts").unwrap();
    let newest = system.revision();
    assert_eq!(newest.version, "1.0.1");
    let held: Vec<(&str, &str)> = newest.parameters.iter().map(|p| (p.key.as_str(), p.version.as_str())).collect();
    assert_eq!(held.len(), 5);
    assert!(held.contains(&("global.image.tag", "1.0.1")) && held.contains(&("mysql.service.type", "1.0.0")));
    let values = newest.compose(None, &json!(null), 0).unwrap().values;
    assert_eq!(values["global"]["image"]["tag"], json!("1.10"));
    let lower = system.pedestal.versions[0].revision.as_ref().unwrap();
    assert_eq!(lower.compose(None, &json!(null), 0).unwrap().values["global"]["image"]["tag"], json!("0.4.4"));

    let reset = demo_with("projects:", &higher.replace("values:", "reset: true\n          values:"));
    let alone = reset.system("ts").unwrap();
    assert_eq!(alone.revision().parameters.len(), 1);
}

#[test]
fn a_revision_is_known_by_its_content() {
    let hash = |seed: &Seed| seed.system("ts").unwrap().revision().content_hash();
    let base = hash(&Seed::parse(&demo()).unwrap());
    assert_eq!(base, hash(&demo_with("projects:\n", "# a comment moves every line below\nprojects:\n")));
    assert_eq!(base, hash(&demo_with("containers:\n", "\n\ncontainers:\n")));
    assert_ne!(base, hash(&demo_with("default_value: \"0.4.4\"", "default_value: \"0.4.5\"")));
    let mut files = demo();
    files.get_mut("ts.yaml").unwrap().push_str("# one more byte\n");
    assert_ne!(base, hash(&Seed::parse(&files).unwrap()));

    let system = Seed::parse(&demo()).unwrap().system("ts").unwrap();
    let stored = serde_json::to_string(system.revision()).unwrap();
    let read: seed::Revision = serde_json::from_str(&stored).unwrap();
    assert_eq!(&read, system.revision());
}
