//! The exact object and label of each of the 32 kinds.

use std::collections::BTreeMap;
use std::time::Duration;

use fault::{capabilities, render, truth};
use model::Role;
use serde_json::{Value, json};

use crate::{TS, resolved};

fn request(capability: &str, service: &str, target: Value, params: Value) -> Value {
    json!({ "capability": capability, "service": service, "target": target, "params": params })
}

/// One request for each kind, by id.
fn requests() -> Vec<Value> {
    let order = "ts-order-service";
    let http = || json!({ "method": "GET", "path": "/api/v1/orderservice/order/{orderId}" });
    let link = || json!({ "target_service": "mysql" });
    let dns = || json!({ "domain": "ts-station-service" });
    let method = || json!({ "class": "OrderServiceImpl", "method": "create" });
    let table = |operation: &str| json!({ "table": "orders", "operation": operation });
    let none = || json!({});
    vec![
        request("pod_kill", "rabbitmq", none(), none()),
        request("pod_failure", order, none(), none()),
        request("container_kill", order, none(), none()),
        request("memory_stress", order, none(), json!({ "size_mib": 256 })),
        request("cpu_stress", order, none(), json!({ "load_pct": 80, "workers": 2 })),
        request("http_request_abort", order, http(), none()),
        request("http_response_abort", order, http(), none()),
        request("http_request_delay", order, http(), json!({ "delay_ms": 1500 })),
        request("http_response_delay", order, http(), json!({ "delay_ms": 1500 })),
        request("http_response_replace_body", order, http(), none()),
        request("http_response_patch_body", order, http(), none()),
        request("http_request_replace_path", order, http(), json!({ "new_path": "/api/v1/other" })),
        request("http_request_replace_method", order, http(), json!({ "new_method": "POST" })),
        request("http_response_replace_code", order, http(), json!({ "status_code": 503 })),
        request("dns_error", order, dns(), none()),
        request("dns_random", order, dns(), none()),
        request("time_skew", order, none(), json!({ "offset_s": -600 })),
        request("network_delay", order, link(), json!({ "latency_ms": 200, "jitter_ms": 20 })),
        request("network_loss", order, link(), json!({ "loss_pct": 30 })),
        request("network_duplicate", order, link(), json!({ "duplicate_pct": 50 })),
        request("network_corrupt", order, link(), json!({ "corrupt_pct": 10, "correlation_pct": 25 })),
        request("network_bandwidth", order, link(), json!({ "rate_kbytes_per_s": 64 })),
        request("network_partition", order, link(), none()),
        request("jvm_method_latency", order, method(), json!({ "delay_ms": 3000 })),
        request("jvm_method_return", order, method(), json!({ "return_type": "string" })),
        request("jvm_method_exception", order, method(), none()),
        request("jvm_gc", order, none(), none()),
        request("jvm_cpu_stress", order, none(), json!({ "cpu_count": 2 })),
        request("jvm_memory_stress", order, none(), none()),
        request("jvm_mysql_latency", order, table("select"), json!({ "delay_ms": 500 })),
        request("jvm_mysql_exception", order, table("all"), none()),
        request("jvm_runtime_mutator", order, method(), json!({ "mutation": "constant", "from": "0", "to": "1" })),
    ]
}

#[test]
fn each_kind_has_its_exact_object_and_truth() {
    let labels = BTreeMap::from([("run".to_owned(), "r1".to_owned()), ("injection".to_owned(), "7".to_owned())]);
    let mut golden = serde_json::Map::new();
    for (row, request) in capabilities().iter().zip(requests()) {
        let fault = resolved(request);
        assert_eq!(fault.effect.name(), row.name);
        let object = render(&fault, &TS, "ts3", "f-1", &labels, Duration::from_secs(60)).unwrap();
        assert_eq!(object["metadata"]["labels"]["run"], "r1");
        let entries = truth(&fault, &TS, &["pod-a".to_owned()]).unwrap();
        let shown = json!({ "kind": object["kind"], "spec": object["spec"], "truth": entries });
        golden.insert(row.name.to_owned(), shown);
    }
    insta::assert_json_snapshot!("objects", golden);
}

#[test]
fn the_acting_side_is_the_root() {
    let roles = |capability: &str, service: &str, target: Value, params: Value| {
        let fault = resolved(request(capability, service, target, params));
        let entries = truth(&fault, &TS, &[]).unwrap();
        entries.into_iter().map(|entry| (entry.role, entry.service)).collect::<Vec<_>>()
    };
    let root = |name: &str| (Role::Root, name.to_owned());
    let peer = |name: &str| (Role::Peer, name.to_owned());
    // The way back of a call is a link of its own, with the callee as its source.
    assert_eq!(
        roles("network_loss", "mysql", json!({ "target_service": "ts-order-service" }), json!({ "loss_pct": 5 })),
        [root("mysql"), peer("ts-order-service")]
    );
    assert_eq!(
        roles("dns_error", "ts-cancel-service", json!({ "domain": "ts-user-service" }), json!({})),
        [root("ts-cancel-service"), peer("ts-user-service")]
    );
    assert_eq!(
        roles("jvm_mysql_exception", "ts-user-service", json!({ "operation": "select" }), json!({})),
        [root("ts-user-service"), peer("mysql")]
    );
}
