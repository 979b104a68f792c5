//! Each wrong request has a stable code, and says what to do.

use fault::{Resolved, Spec, check_batch, resolve};
use model::SystemCode;
use serde_json::{Value, json};
use system::SystemData;

use crate::{TS, resolved, spec};

const ORDER: &str = "ts-order-service";

fn refused(value: Value, code: &str, told: &str) {
    let text = value.to_string();
    let problem = resolve(&spec(value), &TS).expect_err(&text);
    assert_eq!(problem.code, code, "{text}: {problem}");
    assert!(problem.to_string().contains(told), "{text}: {problem}");
}

#[test]
fn names_that_do_not_exist() {
    let exception = |target: Value| json!({ "capability": "jvm_method_exception", "service": ORDER, "target": target });
    let abort = |target: Value| json!({ "capability": "http_request_abort", "service": ORDER, "target": target });
    let cases = [
        (json!({ "capability": "network_dealy", "service": ORDER }), "capability.unknown", "`network_delay`"),
        (json!({ "capability": "NetworkDelay", "service": ORDER }), "capability.unknown", "called `network_delay`"),
        (json!({ "capability": "pod_kill", "service": "ts-ordr-service" }), "service.unknown", "`ts-order-service`"),
        (
            json!({ "capability": "cpu_stress", "service": ORDER, "params": { "load_pc": 50 } }),
            "param.unknown",
            "`load_pct`",
        ),
        (
            json!({ "capability": "network_bandwidth", "service": ORDER, "target": { "target_service": "mysql" },
                "params": { "rate_kbps": 50 } }),
            "param.unknown",
            "called `rate_kbytes_per_s`",
        ),
        (
            json!({ "capability": "pod_kill", "service": ORDER, "params": { "duration_s": 30 } }),
            "param.unknown",
            "abnormal window",
        ),
        (
            json!({ "capability": "cpu_stress", "service": ORDER, "target": { "container": "ts-order-servic" },
                "params": { "load_pct": 50 } }),
            "container.unknown",
            "`ts-order-service`",
        ),
        (
            json!({ "capability": "pod_kill", "service": ORDER, "target": { "pod": "x" } }),
            "target.field_unknown",
            "pod",
        ),
        (abort(json!({ "http_method": "GET" })), "target.field_unknown", "called `method`"),
        (abort(json!({ "method": "GET", "path": "/api/v1/orderservice/ordr" })), "endpoint.unknown", "did you mean"),
        (abort(json!({ "method": "TRACE" })), "endpoint.unknown", "GET"),
        (exception(json!({ "class": "OrderServiceImp" })), "method.unknown", "target.class"),
        (exception(json!({ "class": "OrderServiceImpl", "method": "creat" })), "method.unknown", "`create`"),
        (
            json!({ "capability": "network_partition", "service": ORDER,
                "target": { "target_service": "ts-train-service" } }),
            "peer.unknown",
            "ts-station-service",
        ),
        (
            json!({ "capability": "network_partition", "service": "ts-ui-dashboard",
                "target": { "target_service": "loadgenerator" } }),
            "peer.unknown",
            "target.target_service",
        ),
        (
            json!({ "capability": "dns_error", "service": ORDER, "target": { "domain": "ts-train-service" } }),
            "domain.unknown",
            "ts-station-service",
        ),
        (
            json!({ "capability": "jvm_mysql_exception", "service": ORDER, "target": { "table": "order" } }),
            "statement.unknown",
            "`orders`",
        ),
    ];
    for (value, code, told) in cases {
        refused(value, code, told);
    }
}

#[test]
fn values_that_are_not_allowed() {
    let link = json!({ "target_service": "mysql" });
    let delay =
        |params: Value| json!({ "capability": "network_delay", "service": ORDER, "target": link, "params": params });
    let order = json!({ "method": "GET", "path": "/api/v1/orderservice/order/{orderId}" });
    let http = |capability: &str, params: Value| json!({ "capability": capability, "service": ORDER, "target": order, "params": params });
    let create = json!({ "class": "OrderServiceImpl", "method": "create" });
    let jvm = |capability: &str, params: Value| json!({ "capability": capability, "service": ORDER, "target": create, "params": params });
    let skew = |offset: i64| json!({ "capability": "time_skew", "service": ORDER, "params": { "offset_s": offset } });
    let cases = [
        (delay(json!({})), "param.missing", "add `latency_ms`"),
        (delay(json!({ "latency_ms": 0 })), "param.out_of_range", "1 to 60000 ms"),
        (delay(json!({ "latency_ms": 60_001 })), "param.out_of_range", "params.latency_ms"),
        (delay(json!({ "latency_ms": -5 })), "param.out_of_range", "`-5`"),
        (delay(json!({ "latency_ms": u64::MAX })), "param.out_of_range", "60000"),
        (delay(json!({ "latency_ms": "200" })), "param.wrong_type", "a whole number"),
        (delay(json!({ "latency_ms": 2.5 })), "param.wrong_type", "`2.5`"),
        (skew(0), "param.out_of_range", "not 0"),
        (http("http_request_replace_method", json!({ "new_method": "GTE" })), "param.not_a_choice", "`GET`"),
        (http("http_request_replace_method", json!({ "new_method": "GET" })), "param.no_effect", "already"),
        (http("http_request_replace_path", json!({ "new_path": "/a/*" })), "param.malformed", "concrete"),
        (
            http("http_request_replace_path", json!({ "new_path": "/api/v1/orderservice/order/7" })),
            "param.no_effect",
            "like the old one",
        ),
        (http("http_response_patch_body", json!({ "patch_json": "{" })), "param.malformed", "JSON object"),
        (http("http_response_replace_body", json!({ "body": "" })), "param.out_of_range", "1 to 1024"),
        (http("http_response_replace_body", json!({ "body": "chaos" })), "param.gives_away", "`chaos`"),
        (jvm("jvm_method_exception", json!({ "exception": "IOException" })), "param.malformed", "java.io.IOException"),
        (jvm("jvm_runtime_mutator", json!({ "mutation": "constant", "from": "1" })), "param.combination", "`to`"),
        (
            jvm("jvm_runtime_mutator", json!({ "mutation": "operator", "strategy": "empty" })),
            "param.combination",
            "add_to_sub",
        ),
    ];
    for (value, code, told) in cases {
        refused(value, code, told);
    }
}

#[test]
fn targets_without_what_the_fault_needs() {
    let plain = |capability: &str, service: &str| json!({ "capability": capability, "service": service });
    let cases = [
        // A JVM fault on Go, HTTP faults on a database, statements of a service without one.
        (plain("jvm_gc", "ts-news-service"), "target.lacks_jvm", "(go)"),
        (plain("http_request_abort", "mysql"), "target.lacks_http", "mysql"),
        (plain("jvm_mysql_exception", "ts-basic-service"), "target.lacks_statements", "ts-basic-service"),
        (plain("network_partition", "ts-news-service"), "target.lacks_link", "ts-news-service"),
        (plain("dns_error", "ts-news-service"), "target.lacks_lookups", "ts-news-service"),
        (plain("pod_kill", "loadgenerator"), "service.not_targetable", "users"),
        (plain("http_request_abort", ORDER), "target.ambiguous", "method=GET path=/api/v1/orderservice/order"),
        (
            json!({ "capability": "network_partition", "service": ORDER, "target": {
                "target_service": "mysql", "direction": "from" } }),
            "direction.unsupported",
            "swap",
        ),
    ];
    for (value, code, told) in cases {
        refused(value, code, told);
    }
    let registered_only = SystemData { registration: TS.registration.clone(), topology: None };
    let problem = resolve(&spec(plain("pod_kill", "ts-order-service")), &registered_only).unwrap_err();
    assert_eq!(problem.code, "system.no_simulation_data");
}

#[test]
fn a_partial_target_with_one_match_is_completed() {
    // The consign price service calls MySQL only.
    let fault = resolved(json!({ "capability": "network_partition", "service": "ts-consign-price-service" }));
    assert_eq!(fault.target.peer(), Some("mysql"));
    let fault = resolved(json!({ "capability": "cpu_stress", "service": ORDER, "params": { "load_pct": 50 } }));
    assert_eq!(fault.target.identity()["container"], ORDER);
}

#[test]
fn pairs_of_a_command_line_become_target_and_parameters() {
    let pairs = |list: &[(&str, &str)]| {
        let pairs = list.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Spec::from_pairs("http_response_replace_code", ORDER, pairs)
    };
    let spec = pairs(&[("method", "GET"), ("path", "/api/v1/orderservice/order"), ("status_code", "503")]).unwrap();
    assert_eq!(spec.params["status_code"], json!(503));
    assert_eq!(spec.target["method"], "GET");
    assert!(resolve(&spec, &TS).is_ok());
    let problem = resolve(&pairs(&[("status_code", "many")]).unwrap(), &TS).unwrap_err();
    assert_eq!(problem.code, "target.ambiguous");
    let problem = pairs(&[("status_cod", "503")]).unwrap_err();
    assert_eq!((problem.code.as_ref(), problem.fix.as_deref()), ("param.unknown", Some("did you mean `status_code`?")));
}

#[test]
fn contradicting_faults_are_refused_and_others_may_act_together() {
    let plain = |capability: &str| resolved(json!({ "capability": capability, "service": ORDER }));
    let stress =
        |load: u32| resolved(json!({ "capability": "cpu_stress", "service": ORDER, "params": { "load_pct": load } }));
    let link = |capability: &str, params: Value| {
        let target = json!({ "target_service": "mysql" });
        resolved(json!({ "capability": capability, "service": ORDER, "target": target, "params": params }))
    };
    let delay = || link("network_delay", json!({ "latency_ms": 100 }));
    let method = |capability: &str, params: Value| {
        let target = json!({ "class": "OrderServiceImpl", "method": "create" });
        resolved(json!({ "capability": capability, "service": ORDER, "target": target, "params": params }))
    };
    let order = |capability: &str, params: Value| {
        let target = json!({ "method": "GET", "path": "/api/v1/orderservice/order/{orderId}" });
        resolved(json!({ "capability": capability, "service": ORDER, "target": target, "params": params }))
    };
    let code = || order("http_response_replace_code", json!({ "status_code": 503 }));
    let contradictions = [
        [plain("pod_failure"), stress(50)],
        [delay(), plain("pod_kill")],
        [plain("pod_kill"), plain("container_kill")],
        [plain("container_kill"), plain("jvm_gc")],
        [stress(50), stress(60)],
        [link("network_partition", json!({})), delay()],
        [order("http_request_abort", json!({})), code()],
        [code(), order("http_response_abort", json!({}))],
        [method("jvm_method_return", json!({ "return_type": "int" })), method("jvm_method_exception", json!({}))],
    ];
    for pair in &contradictions {
        let problem = check_batch(pair).expect_err("a contradiction");
        assert_eq!(problem.code, "batch.contradiction");
        assert!(problem.to_string().contains(pair[0].effect.name()), "{problem}");
    }
    check_batch(&[delay(), stress(50), plain("jvm_gc"), link("network_loss", json!({ "loss_pct": 1 }))]).unwrap();
    check_batch(&[plain("container_kill"), delay(), code()]).unwrap();
    check_batch(&[plain("jvm_gc"), plain("jvm_cpu_stress"), stress(50)]).unwrap();
    check_batch(&[order("http_request_delay", json!({ "delay_ms": 5 })), order("http_response_abort", json!({}))])
        .unwrap();
    check_batch(&[]).unwrap();
    let elsewhere = resolved(json!({ "capability": "pod_kill", "service": "mysql" }));
    check_batch(&[elsewhere.clone(), delay()]).unwrap();
    let other = Resolved { system: SystemCode::parse("ob").unwrap(), ..elsewhere };
    assert_eq!(check_batch(&[delay(), other]).unwrap_err().code, "batch.mixed_systems");
}

#[test]
fn a_stored_fault_of_another_format_is_refused() {
    let mut stored = resolved(json!({ "capability": "pod_kill", "service": ORDER })).to_value();
    stored["extra"] = json!(1);
    assert_eq!(Resolved::from_value(&stored).unwrap_err().code, "fault.malformed");
    stored["format"] = json!(2);
    assert_eq!(Resolved::from_value(&stored).unwrap_err().code, "fault.format_unknown");
}
