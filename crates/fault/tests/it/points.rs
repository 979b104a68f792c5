//! Points: complete, resolvable, with ids that never change.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use fault::{
    Filter, Point, Requirement, TargetKind, capabilities, capability, point, points, resolve, system_of_point,
};
use serde_json::{Value, json};
use system::{Catalog, SystemData};

use crate::{TS, resolved, spec};

#[test]
fn ids_are_pinned() {
    let pinned = [
        (json!({ "capability": "pod_kill", "service": "ts-order-service" }), "ts-2c84085f3b48"),
        (
            json!({
                "capability": "network_delay", "service": "ts-order-service",
                "target": { "target_service": "mysql" }, "params": { "latency_ms": 1 },
            }),
            "ts-f6ea21589c1d",
        ),
        (
            json!({
                "capability": "http_response_replace_code", "service": "ts-order-service",
                "target": { "method": "get", "path": "/api/v1/orderservice/order/*" }, "params": { "status_code": 500 },
            }),
            "ts-069cc379a0d0",
        ),
        (
            json!({
                "capability": "jvm_method_exception", "service": "ts-order-service",
                "target": { "class": "OrderServiceImpl", "method": "create" },
            }),
            "ts-53fb2ae40846",
        ),
        (
            json!({
                "capability": "jvm_mysql_latency", "service": "ts-order-service",
                "target": { "table": "orders", "operation": "select" }, "params": { "delay_ms": 10 },
            }),
            "ts-23c922a0ba10",
        ),
    ];
    let found: Vec<String> = pinned.iter().map(|(request, _)| resolved(request.clone()).point).collect();
    let expect: Vec<&str> = pinned.iter().map(|(_, id)| *id).collect();
    assert_eq!(found, expect);
}

#[test]
fn an_id_depends_on_the_target_and_not_on_the_parameters() {
    let id = |latency: u32, peer: &str| {
        let target = json!({ "target_service": peer });
        let params = json!({ "latency_ms": latency });
        let service = "ts-order-service";
        resolved(json!({ "capability": "network_delay", "service": service, "target": target, "params": params })).point
    };
    assert_eq!(id(1, "mysql"), id(2, "mysql"));
    assert_ne!(id(1, "mysql"), id(1, "ts-station-service"));
}

#[test]
fn every_listed_point_resolves_to_its_own_id() {
    let all = points(&TS, &Filter::default()).unwrap();
    for found in all.iter().step_by(199) {
        assert_eq!(&point(&TS, &found.id).unwrap(), found);
    }
    for point in &all {
        let params = match point.capability {
            "memory_stress" => json!({ "size_mib": 1 }),
            "cpu_stress" => json!({ "load_pct": 1 }),
            "time_skew" => json!({ "offset_s": 1 }),
            "http_request_replace_path" => json!({ "new_path": "/nowhere" }),
            "http_request_replace_method" => json!({ "new_method": "OPTIONS" }),
            "http_response_replace_code" => json!({ "status_code": 500 }),
            "network_delay" => json!({ "latency_ms": 1 }),
            "network_loss" => json!({ "loss_pct": 1 }),
            "network_duplicate" => json!({ "duplicate_pct": 1 }),
            "network_corrupt" => json!({ "corrupt_pct": 1 }),
            "network_bandwidth" => json!({ "rate_kbytes_per_s": 1 }),
            "jvm_method_return" => json!({ "return_type": "int" }),
            "jvm_runtime_mutator" => json!({ "mutation": "operator", "strategy": "add_to_sub" }),
            name if capability(name).unwrap().params.iter().any(|param| param.name == "delay_ms") => {
                json!({ "delay_ms": 1 })
            }
            _ => json!({}),
        };
        let request = json!({
            "capability": point.capability, "service": point.service, "target": point.target, "params": params,
        });
        let fault = resolve(&spec(request), &TS).unwrap_or_else(|problem| panic!("{point:?}: {problem}"));
        assert_eq!(fault.point, point.id, "{point:?}");
    }
    assert!(all.iter().all(|point| point.service != "loadgenerator"));
}

/// The systems that have points.
fn systems() -> Vec<Arc<SystemData>> {
    let catalog = Catalog::builtin().unwrap();
    let all = catalog.codes().map(|code| catalog.get(code).unwrap());
    all.filter(|system| system.topology.is_some()).collect()
}

#[test]
fn no_two_points_share_an_id() {
    let mut seen: BTreeMap<String, Point> = BTreeMap::new();
    for system in systems() {
        for point in points(&system, &Filter::default()).unwrap() {
            assert_eq!(system_of_point(&point.id).as_ref(), Some(system.code()), "{point:?}");
            if let Some(other) = seen.insert(point.id.clone(), point.clone()) {
                panic!("{point:?} and {other:?} share an id");
            }
        }
    }
    assert!(seen.len() > 2000, "{}", seen.len());
    for text in ["", "ts", "ts-", "ts-7f3a9c2e41b", "ts-7f3a9c2e41b0f", "ts-7F3a9c2e41b0", "-7f3a9c2e41b0"] {
        assert_eq!(system_of_point(text), None, "{text}");
    }
    let problem = point(&TS, "ts-000000000000").unwrap_err();
    assert_eq!(problem.code, "point.unknown");
}

#[test]
fn counts_are_the_rows_of_the_data() {
    for system in systems() {
        let data = Rows::read(&own_systems().join(system.code().as_str()));
        let all = points(&system, &Filter::default()).unwrap();
        for row in capabilities() {
            let count = all.iter().filter(|point| point.capability == row.name).count();
            let jvm = row.requires.contains(&Requirement::Jvm);
            assert_eq!(count, data.count(row.target, jvm), "{} on {}", row.name, system.code());
        }
    }
}

/// A system's files as they are, read without the product's own types.
struct Rows {
    topology: Value,
    points: Value,
}

impl Rows {
    fn read(folder: &Path) -> Self {
        let file =
            |name: &str| serde_saphyr::from_str::<Value>(&std::fs::read_to_string(folder.join(name)).unwrap()).unwrap();
        Self { topology: file("topology.yaml"), points: file("points.yaml") }
    }

    fn services(&self) -> impl Iterator<Item = &Value> {
        let all = self.topology["services"].as_array().unwrap().iter();
        all.filter(|service| service["kind"] != "loadgen" && service["disabled"] != true)
    }

    fn service(&self, name: &Value) -> Option<&Value> {
        self.services().find(|service| service["name"] == *name)
    }

    fn runs_on_jvm(service: &Value) -> bool {
        service["jvm"] == true || service["language"] == "java" || service["language"] == "kotlin"
    }

    /// The rows of a list by service, where faults may act on the service.
    fn rows(list: &Value, keep: impl Fn(&Value) -> bool) -> usize {
        let empty = serde_json::Map::new();
        let lists = list.as_object().unwrap_or(&empty);
        let kept = lists.iter().filter(|(name, _)| keep(&Value::from(name.as_str())));
        kept.map(|(_, rows)| rows.as_array().unwrap().len()).sum::<usize>()
    }

    fn calls(&self) -> impl Iterator<Item = (Value, &Value)> {
        let lists = self.topology["calls"].as_object().unwrap().iter();
        let all =
            lists.flat_map(|(from, calls)| calls.as_array().unwrap().iter().map(|call| (from.as_str().into(), call)));
        all.filter(|(from, _)| self.service(from).is_some())
    }

    fn count(&self, kind: TargetKind, jvm: bool) -> usize {
        let fits = |name: &Value| self.service(name).is_some_and(|service| !jvm || Self::runs_on_jvm(service));
        match kind {
            TargetKind::Service | TargetKind::Container => self.services().filter(|one| fits(&one["name"])).count(),
            TargetKind::Http => Self::rows(&self.points["endpoints"], fits),
            TargetKind::Link => {
                let direct = self.calls().filter(|(_, call)| call["via"].is_null());
                direct.filter(|(_, call)| self.service(&call["to"]).is_some()).count()
            }
            TargetKind::Dns => {
                let peers = self.calls().map(|(from, call)| {
                    let via = &call["via"];
                    (from.to_string(), if via.is_null() { call["to"].clone() } else { via.clone() })
                });
                let looked_up = peers.filter(|(_, to)| self.service(to).is_some_and(|peer| peer["registry"].is_null()));
                looked_up.map(|(from, to)| (from, to.to_string())).collect::<BTreeSet<_>>().len()
            }
            TargetKind::JvmMethod => {
                let empty = serde_json::Map::new();
                let classes = self.points["methods"].as_object().unwrap_or(&empty).iter();
                let of_jvm = classes.filter(|(name, _)| fits(&Value::from(name.as_str())));
                of_jvm
                    .flat_map(|(_, classes)| classes.as_object().unwrap().values())
                    .map(|m| m.as_array().unwrap().len())
                    .sum()
            }
            TargetKind::Table => {
                let empty = serde_json::Map::new();
                let clients = self.points["statements"].as_object().unwrap_or(&empty).iter();
                let rows = clients
                    .filter(|(name, _)| fits(&Value::from(name.as_str())))
                    .flat_map(|(_, rows)| rows.as_array().unwrap());
                let mysql = |row: &&Value| row["system"] == "mysql";
                rows.filter(mysql).map(|row| row["verbs"].as_array().unwrap().len()).sum()
            }
        }
    }
}

/// The folder `systems/` of the workspace.
fn own_systems() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../systems"))
}

#[test]
fn ids_survive_another_order_more_rows_other_slots_and_another_chart() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("ts")).unwrap();
    let rewrite = |file: &str, change: &dyn Fn(&mut Value)| {
        let text = std::fs::read_to_string(own_systems().join("ts").join(file)).unwrap();
        let mut value: Value = serde_saphyr::from_str(&text).unwrap();
        change(&mut value);
        // JSON is YAML.
        std::fs::write(folder.path().join("ts").join(file), value.to_string()).unwrap();
    };
    rewrite("system.yaml", &|file| {
        file["namespace_pattern"] = json!(r"^ts\d{1,3}$");
        file["extract_pattern"] = json!(r"^(ts)(\d{1,3})$");
        file["chart"]["known_versions"] = json!(["99.0.0"]);
    });
    rewrite("topology.yaml", &|file| {
        let services = file["services"].as_array_mut().unwrap();
        services.reverse();
        for service in services.iter_mut().filter(|service| service["kind"] == "web") {
            service["port"] = json!(service["port"].as_u64().unwrap() + 1);
            service["container"] = json!("main");
        }
        services.push(
            json!({"name": "another", "language": "java", "kind": "web", "protocol": "http", "port": 80, "idle": true}),
        );
        file["calls"].as_object_mut().unwrap().values_mut().for_each(|calls| calls.as_array_mut().unwrap().reverse());
    });
    rewrite("points.yaml", &|file| {
        file["endpoints"].as_object_mut().unwrap().values_mut().for_each(|rows| rows.as_array_mut().unwrap().reverse());
        file["endpoints"]["another"] = json!([{"method": "GET", "route": "/"}]);
        file["methods"]["another"] = json!({"a.B": [{"name": "c"}]});
    });
    rewrite("journeys.yaml", &|_| {});
    let changed = Catalog::with_folder(folder.path()).unwrap().get(TS.code()).unwrap();
    let ids = |system: &SystemData| -> BTreeSet<String> {
        points(system, &Filter::default()).unwrap().into_iter().map(|point| point.id).collect()
    };
    let (before, after) = (ids(&TS), ids(&changed));
    assert!(before.is_subset(&after), "{:?}", before.difference(&after).take(3).collect::<Vec<_>>());
    assert!(after.len() > before.len() + 10, "the new service has points of its own");
}

#[test]
fn a_point_of_an_inferred_service_is_inferred() {
    for system in systems() {
        let topology = system.topology().unwrap();
        for point in points(&system, &Filter::default()).unwrap() {
            assert!(point.inferred || !topology.service(&point.service).unwrap().inferred, "{point:?}");
        }
    }
}

#[test]
fn filters_narrow_to_what_users_reach() {
    let filter = Filter { service: Some("ts-order-service"), on_path: true, simulated: true, ..Filter::default() };
    let found = points(&TS, &filter).unwrap();
    assert!(found.iter().all(|point| point.service == "ts-order-service" && point.on_path && point.simulated));
    assert!(found.iter().any(|point| point.capability == "jvm_method_latency"));
    assert!(found.iter().any(|point| point.capability == "dns_error"));
    let idle = Filter { service: Some("ts-voucher-service"), on_path: true, ..Filter::default() };
    assert_eq!(points(&TS, &idle).unwrap(), []);
    let unknown = Filter { capability: Some("pod_kil"), ..Filter::default() };
    assert_eq!(points(&TS, &unknown).unwrap_err().fix.as_deref(), Some("did you mean `pod_kill`?"));
}
