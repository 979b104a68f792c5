//! The plan: every kind of difference shows as itself, with its reason and its place, and nothing else shows.

use std::collections::BTreeMap;

use seed::{ChangeKind, Consent, Consents, Plan, Seed, State, export, field};
use serde_json::json;

use crate::demo;

/// A seed with two systems that use the same keys, and a setting of all.
const DATA: &str = r#"
containers:
  - type: 1
    name: clickhouse
    versions:
      - name: 1.0.0
        image_ref: example.org/clickhouse:1
        command: run
        env_vars:
          - {key: NAMESPACE, default_value: a0}
  - type: 2
    name: aa
    versions:
      - name: 1.0.6
        helm_config:
          version: 0.2.0
          chart_name: shop
          repo_url: https://example.org/charts
          values:
            - {key: global.otel.endpoint, default_value: "col-aa:4317"}
            - {key: image.tag, default_value: "17.6"}
            - {key: web.replicas, value_type: 1, default_value: "2"}
    prerequisites:
      - {name: operator, kind: helm, chart: operator, namespace: operators, version: ">=3.4"}
  - type: 2
    name: bb
    versions:
      - name: 1.0.0
        helm_config:
          version: 0.1.0
          chart_name: hotel
          repo_url: oci://example.org/charts
          values:
            - {key: global.otel.endpoint, default_value: "col-bb:4317"}
datasets:
  - {name: packs, type: rca, versions: [{name: 1.0.0}]}
projects:
  - {name: pair, description: A project}
teams:
  - {name: team, description: A team}
users:
  - username: ann
    email: ann@example.org
    projects: [{name: pair, role: project_admin}]
    teams: [{name: team, role: team_member}]
service_accounts:
  - {name: chaos, scopes: "inject.read,inject.write"}
dynamic_configs:
  - {key: a.limit, default_value: "5", value_type: 2, scope: 1, min_value: 1, max_value: 50, category: limits}
  - {key: a.password, default_value: "hunter2", value_type: 0, scope: 1, is_secret: true}
"#;

const SYSTEM: &str = r#"
  - {key: injection.system.XX.count, default_value: "4", value_type: 2, scope: 2}
  - {key: injection.system.XX.ns_pattern, default_value: "^XX\\d+$", value_type: 0, scope: 2}
  - {key: injection.system.XX.extract_pattern, default_value: "^(XX)(\\d+)$", value_type: 0, scope: 2}
  - {key: injection.system.XX.display_name, default_value: "Shop XX", value_type: 0, scope: 2}
  - {key: injection.system.XX.app_label_key, default_value: app, value_type: 0, scope: 2}
  - {key: injection.system.XX.is_builtin, default_value: "false", value_type: 1, scope: 2}
  - {key: injection.system.XX.status, default_value: "1", value_type: 2, scope: 2}
"#;

const OVERLAY: &str = "web:\n  port: 8080\nmysql:\n  enabled: true\n";

fn files() -> BTreeMap<String, String> {
    let data = format!(
        "{DATA}{}{}",
        SYSTEM.trim_start_matches('\n').replace("XX", "aa"),
        SYSTEM.trim_start_matches('\n').replace("XX", "bb")
    );
    BTreeMap::from([("data.yaml".to_owned(), data), ("aa.yaml".to_owned(), OVERLAY.to_owned())])
}

fn state(files: &BTreeMap<String, String>) -> State {
    let seed = Seed::parse(files).unwrap_or_else(|findings| panic!("{findings}"));
    seed.check().unwrap_or_else(|findings| panic!("{findings}")).state(&seed)
}

/// The seed with texts replaced; each of them must be there.
fn with(changes: &[(&str, &str)]) -> State {
    let mut files = files();
    for (from, to) in changes {
        let file = if OVERLAY.contains(from) && !from.is_empty() { "aa.yaml" } else { "data.yaml" };
        let text = files.get_mut(file).unwrap();
        assert!(text.contains(from), "`{from}` is not in {file}");
        *text = text.replacen(from, to, 1);
    }
    state(&files)
}

/// What a plan says, one line a difference.
fn brief(plan: &Plan) -> Vec<String> {
    let line = |change: &seed::Change| {
        let field = change.field.as_deref().unwrap_or("-");
        let side = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        format!("{} {} {field}: {} -> {}", change.kind, change.name, side(&change.before), side(&change.after))
    };
    plan.changes.iter().map(line).chain(plan.drift.iter().map(|change| format!("(drift) {}", line(change)))).collect()
}

#[test]
fn each_failure_of_a_seed_change_shows_as_itself() {
    let base = with(&[]);
    let live = with(&[]);
    let operators = {
        let mut live = with(&[]);
        set_by_operator(&mut live, "a.limit", "9");
        live
    };
    let bumped = r#"
      - name: 1.0.7
        helm_config:
          version: 0.3.0
          chart_name: shop
          repo_url: https://example.org/charts
          values:
            - {key: image.tag, default_value: "17.7"}
    prerequisites:"#;
    // Row of the table of failures, new seed, live state, what the plan says.
    let cases: Vec<(&str, State, &State, Vec<&str>)> = vec![
        (
            "31: a changed default is a change",
            with(&[("\"17.6\"", "\"17.7\"")]),
            &live,
            vec!["changed default pedestal aa 1.0.6 value image.tag: \"17.6\" -> \"17.7\""],
        ),
        (
            "31: of a setting as well",
            with(&[("default_value: \"5\"", "default_value: \"6\"")]),
            &live,
            vec!["changed default a.limit default: 5 -> 6"],
        ),
        (
            "32: a removed entry is a removal",
            with(&[(
                "  - {key: a.limit, default_value: \"5\", value_type: 2, scope: 1, min_value: 1, max_value: 50, category: limits}\n",
                "",
            )]),
            &live,
            vec!["removed a.limit -: 5 -> -"],
        ),
        (
            "34: the type is the declared one",
            with(&[("value_type: 1, default_value: \"2\"", "default_value: \"2\"")]),
            &live,
            vec!["changed default pedestal aa 1.0.6 value web.replicas: 2 (int) -> \"2\""],
        ),
        (
            "35: a changed overlay is a change",
            with(&[("port: 8080", "port: 9090")]),
            &live,
            vec!["overlay changed pedestal aa 1.0.6 overlay"],
        ),
        (
            "45: an operator's own value is no change of the seed",
            with(&[]),
            &operators,
            vec!["(drift) operator's value a.limit default: 9 -> 5"],
        ),
        (
            "45: a change of both sides is a conflict",
            with(&[("default_value: \"5\"", "default_value: \"6\"")]),
            &operators,
            vec!["conflict a.limit default: 9 -> 6"],
        ),
        (
            "46: a version that lists one of three values has all three",
            with(&[("\n    prerequisites:", bumped)]),
            &live,
            vec![
                "new version pedestal aa 1.0.7 chart_name: - -> shop",
                "new version pedestal aa 1.0.7 chart_version: - -> 0.3.0",
                "new version pedestal aa 1.0.7 overlay",
                "new version pedestal aa 1.0.7 repo_url: - -> https://example.org/charts",
                "new version pedestal aa 1.0.7 status: - -> enabled",
                "new version pedestal aa 1.0.7 value global.otel.endpoint: - -> \"col-aa:4317\"",
                "new version pedestal aa 1.0.7 value image.tag: - -> \"17.7\"",
                "new version pedestal aa 1.0.7 value web.replicas: - -> 2 (int)",
            ],
        ),
        (
            "47: the same key of another system is another value",
            with(&[("col-bb:4317", "other:4317")]),
            &live,
            vec!["changed default pedestal bb 1.0.0 value global.otel.endpoint: \"col-bb:4317\" -> \"other:4317\""],
        ),
        (
            "a chart under the same version's name cannot change",
            with(&[("version: 0.2.0", "version: 0.2.1")]),
            &live,
            vec!["immutable pedestal aa 1.0.6 chart_version: 0.2.0 -> 0.2.1"],
        ),
        (
            "every section counts",
            with(&[
                ("A project", "The project"),
                ("A team", "The team"),
                ("role: team_member", "role: team_admin"),
                ("inject.read,inject.write", "inject.read"),
                (">=3.4", ">=3.5"),
                ("{name: 1.0.0}]", "{name: 1.0.0}, {name: 1.0.1}]"),
            ]),
            &live,
            vec![
                "changed default pair description: A project -> The project",
                "changed default team description: A team -> The team",
                "changed default ann team team: team_member -> team_admin",
                "changed default chaos scopes: inject.read, inject.write -> inject.read",
                "added packs version 1.0.1: - -> enabled",
                "changed default aa operator version: >=3.4 -> >=3.5",
            ],
        ),
        ("nothing changed", with(&[]), &live, vec![]),
        ("only the lines moved", with(&[("\ncontainers:", "\n# one\n# two\ncontainers:")]), &live, vec![]),
    ];
    for (row, new, live, expect) in cases {
        let plan = Plan::of(&base, &new, live);
        let said = brief(&plan);
        assert_eq!(said.len(), expect.len(), "{row}: {said:#?}");
        for (said, expect) in said.iter().zip(&expect) {
            assert!(said.starts_with(expect), "{row}: {said} is not {expect}");
        }
        assert!(plan.changes.iter().all(|change| change.place.is_some() && !change.reason.is_empty()), "{row}");
        assert_eq!(plan.is_same(), expect.iter().all(|line| line.starts_with("(drift)")), "{row}");
    }
}

fn set_by_operator(live: &mut State, key: &str, value: &str) {
    let id = live.objects.keys().find(|id| id.name == key).unwrap().clone();
    let field = live.objects.get_mut(&id).unwrap().fields.get_mut(field::DEFAULT).unwrap();
    (field.value, field.operators) = (json!(value), true);
}

#[test]
fn what_needs_consent_says_so_and_what_cannot_be_is_refused_with_a_way_out() {
    let base = with(&[]);
    let mut live = with(&[]);
    set_by_operator(&mut live, "a.limit", "9");
    let new = with(&[
        ("default_value: \"5\"", "default_value: \"6\""),
        ("  - {name: chaos, scopes: \"inject.read,inject.write\"}\n", ""),
        ("service_accounts:\n", ""),
    ]);
    let plan = Plan::of(&base, &new, &live);
    let consents: Vec<Consent> = plan.changes.iter().map(|change| change.consent).collect();
    assert_eq!(consents, [Consent::Prune, Consent::OverwriteOperator]);
    assert_eq!(plan.accepted(Consents::default()).count(), 0);
    assert_eq!(plan.accepted(Consents { prune: true, ..Consents::default() }).count(), 1);
    let words: Vec<&str> = plan.impact.iter().map(|impact| impact.effect.as_str()).collect();
    assert!(
        words.iter().any(|text| text.contains("--prune"))
            && words.iter().any(|text| text.contains("--overwrite-operator")),
        "{words:?}"
    );

    let refused = Plan::of(&base, &with(&[("example.org/clickhouse:1", "example.org/clickhouse:2")]), &base);
    let change = refused.refused().next().unwrap();
    assert_eq!((change.kind, change.name.as_str()), (ChangeKind::Immutable, "benchmark clickhouse 1.0.0"));
    assert!(change.fix.as_deref().unwrap().contains("`1.0.1`"), "{change:?}");
}

#[test]
fn lost_and_changed_rows_are_told_apart() {
    let base = with(&[]);
    let mut live = with(&[]);
    live.objects.retain(|id, _| id.name != "injection.system.aa.status");
    let version = live.objects.iter_mut().find(|(id, _)| id.name == "pedestal bb 1.0.0").unwrap().1;
    version.put(field::CHART_VERSION, seed::Field::new("0.9.9", None));
    let plan = Plan::of(&base, &base, &live);
    assert!(plan.changes.iter().all(|change| change.kind == ChangeKind::Backfilled), "{:#?}", brief(&plan));
    assert!(plan.changes.iter().any(|change| change.name == "injection.system.aa.status"));
    assert_eq!(brief(&plan).last().unwrap(), "(drift) drift pedestal bb 1.0.0 chart_version: 0.9.9 -> 0.1.0");
}

#[test]
fn no_secret_is_shown() {
    let new = with(&[("hunter2", "hunter3")]);
    let plan = serde_json::to_string(&Plan::of(&with(&[]), &new, &with(&[]))).unwrap();
    assert!(plan.contains("a secret") && !plan.contains("hunter"), "{plan}");
}

#[test]
fn the_hash_names_the_three_states_and_nothing_else() {
    let (one, other) = (with(&[]), with(&[("\"17.6\"", "\"17.7\"")]));
    let hash = |base: &State, new: &State, live: &State| Plan::of(base, new, live).hash;
    let moved = with(&[("\ncontainers:", "\n# moved\ncontainers:")]);
    assert_eq!(hash(&one, &other, &one), hash(&moved, &other, &one));
    let mut operators = one.clone();
    set_by_operator(&mut operators, "a.limit", "5");
    let hashes = [
        hash(&one, &one, &one),
        hash(&one, &other, &one),
        hash(&other, &one, &one),
        hash(&one, &one, &other),
        hash(&one, &one, &operators),
    ];
    assert!((1..hashes.len()).all(|at| !hashes[..at].contains(&hashes[at])), "{hashes:#?}");
}

#[test]
fn the_impact_says_what_the_next_run_installs() {
    let plan = Plan::of(&with(&[]), &with(&[("\"17.6\"", "\"17.7\""), ("port: 8080", "port: 9090")]), &with(&[]));
    let impact = plan.impact.iter().find(|impact| impact.system.as_deref() == Some("aa")).unwrap();
    let keys: Vec<&str> = impact.values.iter().map(|value| value.key.as_str()).collect();
    assert_eq!(keys, ["image.tag", "web.port"]);
    assert!(impact.values[1].origin.starts_with("overlay, aa.yaml:2:"), "{:?}", impact.values[1]);
    assert!(impact.effect.contains("shop 0.2.0") && impact.effect.contains("2 values"), "{}", impact.effect);
    assert!(plan.impact.iter().all(|impact| impact.system.as_deref() != Some("bb")));
}

/// What is exported and read again is what it was.
#[track_caller]
fn round_trip(state: &State) {
    let files = export(state, state);
    let again = self::state(&files);
    let plan = Plan::of(state, &again, state);
    assert!(plan.is_same() && plan.drift.is_empty(), "{:#?}\n{}", brief(&plan), files["data.yaml"]);
    assert_eq!(again.digest(), state.digest());
}

#[test]
fn an_export_reads_as_the_same_state() {
    round_trip(&with(&[]));
    round_trip(&state(&demo()));
    let lower = "    prerequisites:\n      - {name: operator";
    let versions = r#"
      - name: 1.0.7
        helm_config: {version: 0.3.0, chart_name: shop, values: [{key: image.tag, default_value: "1.10"}]}
      - name: 1.0.8
        status: 0
        helm_config: {version: 0.3.0, chart_name: shop, reset: true, value_file: other.yaml, values: [{key: a, default_value: "{{ .Name }}", type: 0}]}
"#;
    let mut files = files();
    let data = files["data.yaml"].replacen(lower, &format!("{}{lower}", versions.trim_start_matches('\n')), 1);
    files.insert("data.yaml".to_owned(), data);
    files.insert("other.yaml".to_owned(), "{}\n".to_owned());
    round_trip(&state(&files));
    let Some(folder) = testkit::shared("an export of the public seed", "seeds/public-prod") else { return };
    let seed = Seed::load(&folder).unwrap();
    round_trip(&seed.check().unwrap().state(&seed));
}

#[test]
fn each_failure_that_is_found_before_anything_is_written() {
    let named = ("chart_name: shop\n", "chart_name: shop\n          value_file: shop.yaml\n");
    let indexed =
        ("{key: image.tag, default_value: \"17.6\"}", "{key: \"init[0].image\", default_value: \"mirror/busybox:1\"}");
    let odd = ("- name: 1.0.6", "- name: nightly");
    // Row of the table of failures, what is changed in the seed, the overlay, the finding and where.
    let cases: [(&str, (&str, &str), &str, &str); 6] = [
        ("36: a missing values file is named", named, OVERLAY, "overlay.missing data.yaml:18:23"),
        ("36: an empty values file is named", ("", ""), "", "overlay.empty aa.yaml"),
        ("36: and so is one that is no mapping", ("", ""), "- a\n", "overlay.not_a_mapping aa.yaml:1:1"),
        ("33: what an indexed key would lose is said", indexed, OVERLAY, "parameter.list_unknown data.yaml:21:15"),
        (
            "34: a number that is no whole one is refused",
            ("default_value: \"2\"", "default_value: \"17.6\""),
            OVERLAY,
            "parameter.wrong_value data.yaml:22:",
        ),
        ("38: a version that cannot be ordered is told", odd, OVERLAY, "version.not_ordered data.yaml:14:15"),
    ];
    for (row, (from, to), overlay, expect) in cases {
        let mut files = files();
        let data = files["data.yaml"].replacen(from, to, 1);
        files.extend([("data.yaml".to_owned(), data), ("aa.yaml".to_owned(), overlay.to_owned())]);
        let said: Vec<String> = match Seed::parse(&files) {
            Err(findings) => crate::brief(&findings.into_vec()),
            Ok(seed) => {
                let composed = seed.system("aa").map(|system| system.revision().compose(None, &json!(null), 0));
                let mut findings = seed.lint();
                if let Ok(Err(refused)) = composed {
                    findings.extend(refused.into_vec());
                }
                crate::brief(&findings)
            }
        };
        assert!(said.iter().any(|line| line.starts_with(expect)), "{row}: {said:?}");
    }
}

#[test]
fn the_version_that_runs_use_is_the_highest_whatever_is_written_beside_it() {
    let more = r#"
      - name: nightly
        helm_config: {version: 9.0.0, chart_name: unpublished}
      - name: 1.0.10
        helm_config: {version: 0.4.0, chart_name: shop}
    prerequisites:"#;
    let plan = Plan::of(&with(&[]), &with(&[("\n    prerequisites:", more)]), &with(&[]));
    let effect = &plan.impact.iter().find(|impact| impact.system.as_deref() == Some("aa")).unwrap().effect;
    assert!(
        effect.starts_with("the next run installs version 1.0.10 (shop 0.4.0) instead of version 1.0.6"),
        "{effect}"
    );
}
