//! Registering systems from seeds: five layers, or none.

use std::collections::BTreeMap;

use api::setting::{ChangeQuery, SetRequest};
use api::system::{Layer, LayerState, SystemDetail};
use client::Failure;
use serde_json::json;

use crate::world::{World, files, own_seed, request};

fn state(detail: &SystemDetail, layer: Layer) -> LayerState {
    detail.system.layers.iter().find(|status| status.layer == layer).unwrap().state
}

fn code(failure: Failure) -> String {
    failure.problem.code.into_owned()
}

#[test]
fn a_seed_fills_five_layers_once_and_again_only_by_force() {
    let world = World::start();
    let client = world.client();
    let mut wanted = request("ts", "demo", own_seed());

    let plan = client.register(&api::system::RegisterRequest { dry_run: true, ..wanted.clone() }).unwrap();
    assert!(plan.dry_run && plan.writes.iter().all(|write| write.change == "new"));
    assert_eq!(client.systems(api::PageQuery::default()).unwrap().pagination.total, 0, "a dry run stores nothing");

    let report = client.register(&wanted).unwrap();
    assert_eq!(json!(report.writes), json!(plan.writes), "what was foretold is what was done");
    let detail = client.system("ts").unwrap();
    for (layer, expect) in Layer::ALL.into_iter().zip([
        LayerState::Ok,
        LayerState::Ok,
        LayerState::Ok,
        LayerState::NotFetched,
        LayerState::Ok,
    ]) {
        assert_eq!(state(&detail, layer), expect, "{layer}");
    }
    let pedestal = detail.pedestal.as_ref().unwrap();
    assert_eq!(pedestal.values["services"]["tsUiDashboard"]["nodePort"], 31000);
    assert!(pedestal.origins.iter().any(|origin| origin.origin.contains("data.yaml")), "{:?}", pedestal.origins);
    assert_eq!(client.system(&detail.system.id.to_string()).unwrap().system.name, "ts", "a number leads there too");

    assert_eq!(code(client.register(&wanted).unwrap_err()), "system.already_registered");
    wanted.force = true;
    let again = client.register(&wanted).unwrap();
    assert!(again.writes.iter().all(|write| write.change == "same"), "{:#?}", again.writes);

    let done = client.unregister("ts").unwrap();
    assert!(done.removed.values().all(|count| *count > 0), "{:?}", done.removed);
    assert_eq!(code(client.system("ts").unwrap_err()), "system.unknown");
}

#[test]
fn a_seed_that_is_wrong_is_told_with_its_line_and_leaves_nothing() {
    let world = World::start();
    let client = world.client();
    let broken = |change: &dyn Fn(&str) -> String| {
        let mut files = own_seed();
        let data = change(&files["data.yaml"]);
        files.insert("data.yaml".into(), data);
        client.register(&request("ts", "demo", files)).unwrap_err()
    };
    let tab = broken(&|text| text.replacen("  - type: 1", "\t- type: 1", 1));
    let place = tab.problem.place.clone().unwrap();
    assert!(place.starts_with("data.yaml:") && tab.exit_code() == 2, "{tab}");
    let twice = broken(&|text| text.replacen("    name: ts\n", "    name: ts\n    name: ts\n", 1));
    assert!(twice.problem.code.contains("duplicate"), "{twice}");
    let typed = broken(&|text| text.replacen("    is_public: true\n", "    is_public: perhaps\n", 1));
    assert_eq!(typed.problem.code, "seed.wrong_type", "{typed}");
    let unknown = client.register(&request("tx", "demo", own_seed())).unwrap_err();
    assert_eq!((unknown.problem.code.as_ref(), unknown.exit_code()), ("seed.system_unknown", 7));
    assert_eq!(client.systems(api::PageQuery::default()).unwrap().pagination.total, 0);
    assert!(world.block_on(world.store.settings("injection.")).unwrap().is_empty());
    assert!(world.block_on(world.store.containers(None)).unwrap().is_empty());
}

#[test]
fn every_system_of_the_public_seed_registers_and_says_what_it_lacks() {
    let Some(folder) = testkit::shared("public seed", "seeds/public-prod") else { return };
    let world = World::start();
    let client = world.client();
    let files = files(&folder);
    for name in ["ts", "otel-demo", "ob", "sockshop", "hs", "sn", "media", "teastore"] {
        let report =
            client.register(&request(name, "public-prod", files.clone())).unwrap_or_else(|e| panic!("{name}: {e}"));
        let detail = client.system(name).unwrap();
        let runs = name != "hs";
        let telemetry = if runs { LayerState::Ok } else { LayerState::NoSimulationData };
        assert_eq!((state(&detail, Layer::Telemetry), detail.system.enabled), (telemetry, runs), "{name}");
        assert_eq!(state(&detail, Layer::Database), LayerState::Ok, "{name}: {report:?}");
        if !runs {
            assert_eq!(code(client.set_enabled(name, true).unwrap_err()), "system.no_simulation_data", "{name}");
        }
    }
    // A container of the seed is another version than the built-in method of its name, and cannot run here.
    let random: Vec<_> = client.algorithms().unwrap().into_iter().filter(|one| one.name == "random").collect();
    let runnable: Vec<_> = random.iter().map(|one| (one.version.as_str(), one.runnable)).collect();
    assert_eq!(runnable, [("builtin", true), ("1.0.0", false)]);
    let ts = client.system("ts").unwrap().pedestal.unwrap();
    assert_eq!(ts.values["services"]["tsUiDashboard"]["nodePort"], 31000);
}

#[test]
fn a_disabled_system_takes_no_runs() {
    let world = World::start().with_ts();
    let client = world.client();
    assert_eq!(client.set_enabled("ts", false).unwrap().status, "disabled");
    let run: api::submit::RunRequest = serde_json::from_str(r#"{"system": "ts", "no_fault": true}"#).unwrap();
    assert_eq!(code(client.submit(&run, None).unwrap_err()), "system.disabled");
    assert_eq!(client.set_enabled("ts", true).unwrap().status, "enabled");
    assert!(client.submit(&run, None).is_ok());
    assert_eq!(code(client.unregister("ts").unwrap_err()), "system.has_live_runs");
}

#[test]
fn the_systems_that_the_program_knows_register_without_a_seed() {
    let world = World::start();
    let client = world.client();
    let names = client.registrable(&BTreeMap::new()).unwrap();
    assert_eq!(names.len(), 8, "{names:?}");
    for name in &names {
        client.register(&request(name, "", BTreeMap::new())).unwrap_or_else(|failure| panic!("{name}: {failure}"));
        let detail = client.system(name).unwrap();
        assert_eq!((state(&detail, Layer::Config), state(&detail, Layer::Database)), (LayerState::Ok, LayerState::Ok));
        assert!(detail.system.layers.iter().all(|layer| !layer.source.is_empty()), "{:?}", detail.system.layers);
        assert!(detail.pedestal.is_some_and(|pedestal| !pedestal.chart_version.is_empty()), "{name}");
    }
    for (wrong, right) in [("mm", "media"), ("tea", "teastore"), ("hotelreservation", "hs")] {
        for files in [BTreeMap::new(), own_seed()] {
            let refused = client.register(&request(wrong, "", files)).unwrap_err();
            assert_eq!(refused.problem.kind, model::ErrorKind::NotFound, "{refused}");
            let fix = refused.problem.fix.unwrap_or_default();
            assert_eq!(fix, format!("did you mean `{right}`?"), "{wrong}");
        }
    }
    assert_eq!(client.registrable(&own_seed()).unwrap(), ["ts"]);
}

#[test]
fn a_setting_is_shown_changed_rolled_back_and_watched() {
    let world = World::start().with_ts();
    let client = world.client();
    let count = "injection.system.ts.count";
    let before = client.setting(count).unwrap();
    assert_eq!((before.value.as_str(), before.owner.as_str(), before.max), ("4", "seed", Some(20.0)));
    let start = client.setting_changes(&ChangeQuery::default()).unwrap().revision;
    let set = |value: &str, revision| client.set_setting(count, &SetRequest { value: value.into(), revision });
    let after = set("6", before.revision).unwrap();
    assert_eq!((after.value.as_str(), after.owner.as_str()), ("6", "operator"));
    assert_eq!(client.system("ts").unwrap().system.count, 6);
    assert_eq!(code(set("7", before.revision).unwrap_err()), "setting.changed_meanwhile");
    assert_eq!(code(set("21", None).unwrap_err()), "setting.out_of_bounds");
    let typo = client.setting("injection.system.ts.coun").unwrap_err();
    assert_eq!(typo.problem.fix.as_deref(), Some("did you mean `injection.system.ts.count`?"));
    let history = client.setting_history(count).unwrap();
    client.roll_back_setting(count, history[1].revision).unwrap();
    let seen = client.setting_changes(&ChangeQuery { after: Some(start), wait: Some(1) }).unwrap();
    let values: Vec<_> = seen.changes.iter().map(|change| change.value.as_deref()).collect();
    assert_eq!(values, [Some("6"), Some("4")]);
    let end = client.setting_changes(&ChangeQuery { after: Some(seen.revision), wait: None }).unwrap();
    assert_eq!((end.revision, end.changes), (seen.revision, vec![]));
    // An operator's word on `status` is what enables and disables.
    let status = SetRequest { value: "0".into(), revision: None };
    client.set_setting("injection.system.ts.status", &status).unwrap();
    assert!(!client.system("ts").unwrap().system.enabled);
}
