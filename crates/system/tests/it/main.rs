//! The built-in systems hold together, and a user's folder is refused with file and line when it does not.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails by panicking, as the test does")]

mod data;
mod lint;

use std::fs;
use std::path::Path;

use model::{Problem, SystemCode};
use system::Catalog;

fn code(text: &str) -> SystemCode {
    SystemCode::parse(text).unwrap()
}

/// The folder `systems/` of the workspace, which is also the layout that a user's folder has.
fn own_systems() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../systems"))
}

/// A copy of one of our systems in a folder of its own, after an edit of one file.
fn edited(system: &str, file: &str, from: &str, to: &str) -> (tempfile::TempDir, Result<Catalog, Problem>) {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join(system);
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(own_systems().join(system)).unwrap() {
        let path = entry.unwrap().path();
        let mut text = fs::read_to_string(&path).unwrap();
        if path.ends_with(file) {
            assert!(text.contains(from), "{file} no longer contains `{from}`");
            text = text.replacen(from, to, 1);
        }
        fs::write(copy.join(path.file_name().unwrap()), text).unwrap();
    }
    let catalog = Catalog::with_folder(folder.path());
    (folder, catalog)
}

#[test]
fn eight_systems_are_built_in() {
    let catalog = Catalog::builtin().unwrap();
    let codes: Vec<&str> = catalog.codes().map(SystemCode::as_str).collect();
    assert_eq!(codes, ["hs", "media", "ob", "otel-demo", "sn", "sockshop", "teastore", "ts"]);
    let ts = catalog.get(&code("ts")).unwrap();
    assert_eq!(ts.registration.slot_number("ts7"), Some(7));
    assert_eq!(ts.registration.slot_number("xts7"), None);
}

#[test]
fn journeys_expand_to_whole_call_trees() {
    let ts = Catalog::builtin().unwrap().get(&code("ts")).unwrap();
    let topology = ts.topology().unwrap();
    let search = topology.journeys.iter().find(|journey| journey.name == "search_high_speed_trips").unwrap();
    let root = &search.requests[0].root;
    assert_eq!((root.from.as_str(), root.to.as_str()), ("loadgenerator", "ts-ui-dashboard"));
    let hops: Vec<&str> = root.walk().take(5).map(|step| step.to.as_str()).collect();
    assert_eq!(hops, ["ts-ui-dashboard", "ts-travel-service", "mysql", "ts-basic-service", "ts-station-service"]);
    let mut steps = topology.journeys.iter().flat_map(|journey| journey.steps());
    assert!(steps.any(|step| step.is_async && step.via.as_deref() == Some("rabbitmq")));
}

#[test]
fn a_folder_replaces_a_whole_system_and_keeps_the_others() {
    let (_folder, catalog) = edited("ts", "system.yaml", "warmup_s: 60", "warmup_s: 5");
    let catalog = catalog.unwrap();
    assert_eq!(catalog.get(&code("ts")).unwrap().registration.warmup_s, 5);
    assert_eq!(catalog.codes().count(), 8);
    let problem = catalog.get(&code("tt")).unwrap_err();
    assert_eq!((problem.code.as_ref(), problem.fix.as_deref()), ("system.unknown", Some("did you mean `ts`?")));
}

#[test]
fn a_system_without_data_can_be_registered_but_not_simulated() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("ob")).unwrap();
    fs::copy(own_systems().join("ob/system.yaml"), folder.path().join("ob/system.yaml")).unwrap();
    let ob = Catalog::with_folder(folder.path()).unwrap().get(&code("ob")).unwrap();
    assert_eq!(ob.topology().unwrap_err().code, "system.no_simulation_data");
    fs::write(folder.path().join("ob/points.yaml"), "format: 1\n").unwrap();
    let problem = Catalog::with_folder(folder.path()).unwrap_err();
    assert_eq!(problem.code, "system.file_missing");
    assert!(problem.place.as_deref().unwrap_or_default().ends_with("ob/topology.yaml"), "{problem}");
}

#[test]
fn bad_data_is_refused_with_its_place() {
    let cases = [
        // (file, from, to, code, what the place must contain)
        ("system.yaml", "warmup_s: 60", "warmup_sec: 60", "system.key_unknown", "ts/system.yaml:8:"),
        ("system.yaml", "warmup_s: 60", "warmup_s: sixty", "system.file_malformed", "ts/system.yaml:8:"),
        ("system.yaml", "warmup_s: 60", "warmup_s: 60\nwarmup_s: 61", "system.file_malformed", "ts/system.yaml:9:"),
        ("system.yaml", "'^ts\\d+$'", "'^(ts\\d+$'", "system.pattern_malformed", "namespace_pattern"),
        ("system.yaml", "'^ts\\d+$'", "'^tt\\d+$'", "system.pattern_misses_code", "namespace_pattern"),
        (
            "system.yaml",
            "service: ts-ui-dashboard",
            "service: ts-ui-dashbord",
            "system.service_unknown",
            "system.yaml: entrance.service",
        ),
        (
            "topology.yaml",
            "name: mysql,",
            "name: rabbitmq,",
            "system.name_repeated",
            "topology.yaml: services.rabbitmq",
        ),
        (
            "topology.yaml",
            "to: ts-ui-dashboard",
            "to: ts-ui",
            "system.service_unknown",
            "topology.yaml: calls.loadgenerator.ts-ui",
        ),
        ("points.yaml", "table: assurance", "table: insurance", "system.operation_unserved", "topology.yaml: calls"),
        ("journeys.yaml", "weight: 10", "weight: 0", "system.weight_not_positive", "journeys.login.weight"),
        (
            "journeys.yaml",
            "operation: select auth_user",
            "operation: select auth",
            "system.operation_unserved",
            "select auth",
        ),
    ];
    let of_other_systems = [
        ("ob", "journeys.yaml", "times: 9", "times: 0", "system.data_inconsistent", "times"),
        ("ob", "points.yaml", "status: 302", "status: 404", "system.data_inconsistent", "GET /logout"),
        ("ob", "points.yaml", "hipstershop.AdService/GetAds", "GetAds", "system.operation_unserved", "adservice"),
        ("hs", "topology.yaml", "port: 5000, ", "", "system.data_inconsistent", "services.frontend"),
        ("hs", "journeys.yaml", "to: geo,", "to: consul,", "system.data_inconsistent", "handlers.search"),
        ("sockshop", "system.yaml", "  version:", "  versions:", "system.key_unknown", "sockshop/system.yaml:"),
    ];
    let of_ts = cases.map(|(file, from, to, code, place)| ("ts", file, from, to, code, place));
    for (system, file, from, to, code, place) in of_ts.into_iter().chain(of_other_systems) {
        let (_folder, catalog) = edited(system, file, from, to);
        let problem = catalog.expect_err(to);
        assert_eq!(problem.code, code, "{problem}");
        assert!(problem.place.as_deref().unwrap_or_default().contains(place), "{problem}");
    }
}

#[test]
fn a_call_cycle_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("loop");
    fs::create_dir(&copy).unwrap();
    let ts = fs::read_to_string(own_systems().join("ob/system.yaml")).unwrap();
    let registration = ts
        .replace("code: ob", "code: loop")
        .replace("^ob", "^loop")
        .replace("^(ob)", "^(loop)")
        .replace("service: frontend", "service: a")
        .replace("loadgenerator", "users");
    fs::write(copy.join("system.yaml"), registration).unwrap();
    fs::write(
        copy.join("topology.yaml"),
        "format: 1\nservices:\n- {name: users, language: go, kind: loadgen, protocol: http}\n\
         - {name: a, language: go, kind: rpc, protocol: grpc, port: 1}\n\
         - {name: b, language: go, kind: rpc, protocol: grpc, port: 1}\ncalls:\n  users:\n\
         \x20 - {to: a, protocol: grpc, operations: [p.A/x]}\n  a:\n  - {to: b, protocol: grpc, operations: [p.B/y]}\n\
         \x20 b:\n  - {to: a, protocol: grpc, operations: [p.A/x]}\n",
    )
    .unwrap();
    fs::write(copy.join("points.yaml"), "format: 1\nrpcs:\n  a: [{operation: p.A/x}]\n  b: [{operation: p.B/y}]\n")
        .unwrap();
    fs::write(
        copy.join("journeys.yaml"),
        "format: 1\nhandlers:\n  a:\n    p.A/x: [{to: b, operation: p.B/y}]\n  b:\n    p.B/y: [{to: a, operation: p.A/x}]\n\
         journeys:\n- {name: round, weight: 1, requests: [{operation: p.A/x}]}\n",
    )
    .unwrap();
    let problem = Catalog::with_folder(folder.path()).unwrap_err();
    assert_eq!(problem.code, "system.calls_cyclic");
    assert_eq!(problem.found.as_deref(), Some("a `p.A/x` -> b `p.B/y` -> a `p.A/x`"), "{problem}");
}
