//! Every row is complete and agrees with the typed effect.

use std::collections::{BTreeMap, BTreeSet};

use fault::{Capability, Domain, Filter, Length, Presence, Spec, Target, Unit, capabilities, points, resolve, schema};
use serde_json::{Value, json};

use crate::TS;

/// A legal request for the capability, with required parameters only.
fn any_spec(row: &Capability) -> Spec {
    let filter = Filter { capability: Some(row.name), on_path: true, ..Filter::default() };
    let point = points(&TS, &filter).unwrap().into_iter().next().expect("train ticket has every kind of target");
    let mut params: BTreeMap<String, Value> = row
        .params
        .iter()
        .filter(|param| param.presence == Presence::Required)
        .map(|param| (param.name.to_owned(), edge(param.domain, false)))
        .collect();
    match row.name {
        "http_request_replace_path" => drop(params.insert("new_path".to_owned(), json!("/nowhere"))),
        "http_request_replace_method" => drop(params.insert("new_method".to_owned(), json!("HEAD"))),
        "jvm_runtime_mutator" => {
            params.insert("mutation".to_owned(), json!("string"));
            params.insert("strategy".to_owned(), json!("empty"));
        }
        _ => {}
    }
    Spec { capability: row.name.to_owned(), service: point.service, target: point.target, params }
}

fn edge(domain: Domain, upper: bool) -> Value {
    match domain {
        Domain::Integer { min, max } | Domain::NonZero { min, max } => json!(if upper { max } else { min }),
        Domain::Choice(choices) => json!(choices[0]),
        Domain::Text { .. } => json!("text"),
    }
}

#[test]
fn ids_are_the_public_contract() {
    let rows = capabilities();
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), (0..32).collect::<Vec<_>>());
    assert_eq!(rows.iter().map(|row| row.name).collect::<BTreeSet<_>>().len(), 32);
    assert_eq!(rows.iter().map(|row| row.chaos_type).collect::<BTreeSet<_>>().len(), 32);
    let pinned = [(0, "PodKill"), (4, "CPUStress"), (13, "HTTPResponseReplaceCode"), (17, "NetworkDelay")];
    for (id, chaos_type) in pinned.into_iter().chain([(25, "JVMException"), (31, "JVMRuntimeMutator")]) {
        assert_eq!(rows[id].chaos_type, chaos_type);
    }
}

#[test]
fn names_carry_units_and_defaults_are_legal() {
    let suffixes = ["_ms", "_s", "_pct", "_mib", "_bytes"];
    for row in capabilities() {
        assert!(row.summary.ends_with('.'), "{} has no summary", row.name);
        assert!(!row.witness.why.is_empty() && (0.0..=1.0).contains(&row.witness.min_share), "{}", row.name);
        for param in row.params {
            let place = format!("{}.{}", row.name, param.name);
            assert!(param.name.ends_with(param.unit.suffix()), "{place} lacks its unit");
            assert!(param.unit != Unit::None || !suffixes.iter().any(|unit| param.name.ends_with(unit)), "{place}");
            assert!(!row.target.fields().iter().any(|field| field.name == param.name), "{place} is a target key too");
            if let Domain::Integer { min, max } | Domain::NonZero { min, max } = param.domain {
                assert!(min < max, "{place}");
            }
        }
    }
}

#[test]
fn every_value_that_the_table_allows_makes_an_effect() {
    for row in capabilities() {
        let base = any_spec(row);
        let fault = resolve(&base, &TS).unwrap_or_else(|problem| panic!("{}: {problem}", row.name));
        assert_eq!(fault.effect.name(), row.name);
        assert!(std::ptr::eq(fault.capability(), row));
        for param in row.params {
            for upper in [false, true] {
                if matches!(param.domain, Domain::Text { .. }) || row.name == "jvm_runtime_mutator" {
                    continue;
                }
                let mut spec = base.clone();
                spec.params.insert(param.name.to_owned(), edge(param.domain, upper));
                if row.name == "http_request_replace_method" {
                    spec.params.insert(param.name.to_owned(), json!("OPTIONS"));
                }
                let fault = resolve(&spec, &TS).unwrap_or_else(|problem| panic!("{problem}"));
                let stored = fault.to_value();
                assert_eq!(stored["effect"][param.name], spec.params[param.name], "{}", row.name);
                assert_eq!(fault::Resolved::from_value(&stored).unwrap(), fault);
            }
        }
    }
}

#[test]
fn every_kind_is_simulated() {
    for row in capabilities() {
        assert!(row.simulated, "{}", row.name);
    }
}

#[test]
fn every_row_has_a_contract_that_does_not_contradict_itself() {
    for row in capabilities() {
        let fault::Contract { must, must_not, why } = row.contract;
        assert!(why.len() > 40, "{}", row.name);
        assert!(!must_not.is_empty() && must.iter().all(|sign| !must_not.contains(sign)), "{}", row.name);
        assert!(!row.witness.unfelt.is_empty(), "{}", row.name);
    }
    // What nothing must show by the mechanism says so.
    let silent: Vec<&str> =
        capabilities().iter().filter(|row| row.contract.must.is_empty()).map(|row| row.name).collect();
    assert_eq!(silent, ["http_response_patch_body", "jvm_runtime_mutator"]);
    assert_eq!(schema()["capabilities"][18]["contract"]["must"], json!(["calls_tail"]));
}

#[test]
fn what_happens_once_counts_until_the_target_is_back() {
    let once: Vec<&str> =
        capabilities().iter().filter(|row| row.length == Length::OneShot).map(|row| row.name).collect();
    assert_eq!(once, ["pod_kill", "container_kill", "jvm_gc"]);
    assert_eq!(Length::OneShot.effect(10, Some(30), 60), (10, 30));
    assert_eq!(Length::OneShot.effect(10, Some(90), 60), (10, 60), "bounded by the window");
    assert_eq!(Length::OneShot.effect(10, None, 60), (10, 60), "never back");
    assert_eq!(Length::Window.effect(10, Some(30), 60), (10, 60));
}

#[test]
fn defaults_do_not_give_the_fault_away() {
    for row in capabilities() {
        let fault = resolve(&any_spec(row), &TS).unwrap();
        let Value::Object(effect) = serde_json::to_value(&fault.effect).unwrap() else { panic!("an effect is a map") };
        for (_, value) in effect.iter().filter(|(key, _)| *key != "kind") {
            let text = value.to_string().to_lowercase();
            for word in ["chaos", "inject", "byteman", "fault"] {
                assert!(!text.contains(word), "{}: {text}", row.name);
            }
        }
    }
}

#[test]
fn the_schema_lists_every_row_and_parameter() {
    let schema = schema();
    let rows = schema["capabilities"].as_array().unwrap();
    assert_eq!(rows.len(), 32);
    let delay = &rows[17];
    assert_eq!(delay["target"]["fields"][0]["name"], "target_service");
    assert_eq!(delay["params"][0]["unit"], "milliseconds");
    assert_eq!(delay["params"][0]["required"], true);
    assert_eq!(delay["params"][1]["default"], 0);
    assert_eq!(rows[16]["params"][0]["zero"], false);
}

#[test]
fn the_witness_needs_both_share_and_count() {
    let delay = capabilities()[17].witness;
    assert!(delay.exposed(100, 100));
    assert!(!delay.exposed(9, 9), "too few");
    assert!(!delay.exposed(1000, 499), "too small a share");
    assert!(!delay.exposed(0, 0), "nothing passed");
    let link = Target::Link { source: "a".into(), target: "b".into() };
    assert_eq!(link.to_string(), "a target_service=b");
}
