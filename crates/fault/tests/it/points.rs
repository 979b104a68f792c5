//! Points: complete, resolvable, with ids that never change.

use std::collections::BTreeMap;

use fault::{Filter, capability, points, resolve};
use serde_json::json;

use crate::{TS, resolved, spec};

fn count(capability: &str) -> usize {
    points(&TS, &Filter { capability: Some(capability), ..Filter::default() }).unwrap().len()
}

#[test]
fn ids_are_pinned() {
    let pinned = [
        (json!({ "capability": "pod_kill", "service": "ts-order-service" }), "2c84085f3b486961"),
        (
            json!({
                "capability": "network_delay", "service": "ts-order-service",
                "target": { "target_service": "mysql" }, "params": { "latency_ms": 1 },
            }),
            "f6ea21589c1d9a53",
        ),
        (
            json!({
                "capability": "http_response_replace_code", "service": "ts-order-service",
                "target": { "method": "get", "path": "/api/v1/orderservice/order/*" }, "params": { "status_code": 500 },
            }),
            "36d875d03852a2c6",
        ),
        (
            json!({
                "capability": "jvm_method_exception", "service": "ts-order-service",
                "target": { "class": "OrderServiceImpl", "method": "create" },
            }),
            "53fb2ae40846d631",
        ),
        (
            json!({
                "capability": "jvm_mysql_latency", "service": "ts-order-service",
                "target": { "table": "orders", "operation": "select" }, "params": { "delay_ms": 10 },
            }),
            "23c922a0ba1044ee",
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
    let mut seen = BTreeMap::new();
    for point in &all {
        if let Some(other) = seen.insert(point.id.clone(), point) {
            panic!("{point:?} and {other:?} share an id");
        }
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

#[test]
fn counts_follow_from_the_data() {
    let topology = TS.topology().unwrap();
    assert_eq!(count("pod_kill"), 47, "all services but the load generator");
    assert_eq!(count("http_request_abort"), topology.endpoints.len());
    assert_eq!(count("jvm_method_latency"), topology.methods.len());
    assert_eq!(count("jvm_mysql_latency"), topology.statements.len());
    let links = topology.calls.iter().filter(|call| call.via.is_none() && call.from != "loadgenerator").count();
    assert_eq!(count("network_delay"), links);
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
