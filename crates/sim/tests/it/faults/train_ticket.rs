//! A place in Train Ticket for every kind of fault where it is felt, all in one run.

use std::collections::HashSet;

use fault::{Resolved, capabilities};

use crate::probe::{Probe, SECOND, fault, world};

/// Capability, service, target and parameters.
type Row = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const POINTS: [Row; 32] = [
    ("pod_kill", "ts-admin-user-service", &[]),
    ("pod_failure", "ts-admin-route-service", &[]),
    ("container_kill", "ts-admin-travel-service", &[]),
    ("memory_stress", "ts-execute-service", &[("size_mib", "200")]),
    ("cpu_stress", "ts-station-service", &[("load_pct", "100"), ("workers", "2")]),
    (
        "http_request_abort",
        "ts-verification-code-service",
        &[("method", "GET"), ("path", "/api/v1/verifycode/verify/{verifyCode}")],
    ),
    ("http_response_abort", "ts-user-service", &[("method", "GET"), ("path", "/api/v1/userservice/users/id/{userId}")]),
    (
        "http_request_delay",
        "ts-config-service",
        &[("method", "GET"), ("path", "/api/v1/configservice/configs/{configName}"), ("delay_ms", "30")],
    ),
    (
        "http_response_delay",
        "ts-route-service",
        &[("method", "GET"), ("path", "/api/v1/routeservice/routes/{routeId}"), ("delay_ms", "30")],
    ),
    (
        "http_response_replace_body",
        "ts-order-service",
        &[("method", "GET"), ("path", "/api/v1/orderservice/order/{orderId}")],
    ),
    (
        "http_response_patch_body",
        "ts-station-service",
        &[("method", "GET"), ("path", "/api/v1/stationservice/stations/id/{stationNameForId}")],
    ),
    (
        "http_request_replace_path",
        "ts-food-service",
        &[
            ("method", "GET"),
            ("path", "/api/v1/foodservice/foods/{date}/{startStation}/{endStation}/{tripId}"),
            ("new_path", "/api/v1/foodservice"),
        ],
    ),
    (
        "http_request_replace_method",
        "ts-assurance-service",
        &[("method", "GET"), ("path", "/api/v1/assuranceservice/assurances/types"), ("new_method", "DELETE")],
    ),
    (
        "http_response_replace_code",
        "ts-contacts-service",
        &[("method", "GET"), ("path", "/api/v1/contactservice/contacts/account/{accountId}"), ("status_code", "503")],
    ),
    ("dns_error", "ts-ui-dashboard", &[("domain", "ts-travel-service")]),
    ("dns_random", "ts-ui-dashboard", &[("domain", "ts-order-service")]),
    ("time_skew", "ts-cancel-service", &[("offset_s", "60")]),
    ("network_delay", "ts-travel-service", &[("target_service", "ts-basic-service"), ("latency_ms", "30")]),
    ("network_loss", "ts-basic-service", &[("target_service", "ts-train-service"), ("loss_pct", "5")]),
    ("network_duplicate", "ts-basic-service", &[("target_service", "ts-price-service"), ("duplicate_pct", "50")]),
    ("network_corrupt", "ts-seat-service", &[("target_service", "ts-config-service"), ("corrupt_pct", "5")]),
    (
        "network_bandwidth",
        "ts-route-service",
        &[("target_service", "mysql"), ("rate_kbytes_per_s", "100"), ("buffer_bytes", "1600")],
    ),
    ("network_partition", "ts-preserve-service", &[("target_service", "ts-security-service")]),
    (
        "jvm_method_latency",
        "ts-seat-service",
        &[("class", "SeatServiceImpl"), ("method", "getLeftTicketOfInterval"), ("delay_ms", "30")],
    ),
    (
        "jvm_method_return",
        "ts-travel2-service",
        &[("class", "Travel2Controller"), ("method", "queryInfo"), ("return_type", "string")],
    ),
    (
        "jvm_method_exception",
        "ts-order-other-service",
        &[("class", "OrderOtherController"), ("method", "queryOrdersForRefresh")],
    ),
    ("jvm_gc", "ts-train-service", &[]),
    ("jvm_cpu_stress", "ts-price-service", &[("cpu_count", "2")]),
    ("jvm_memory_stress", "ts-inside-payment-service", &[]),
    ("jvm_mysql_latency", "ts-train-service", &[("table", "train_type"), ("operation", "select"), ("delay_ms", "20")]),
    ("jvm_mysql_exception", "ts-user-service", &[("table", "user"), ("operation", "select")]),
    (
        "jvm_runtime_mutator",
        "ts-order-service",
        &[
            ("class", "OrderServiceImpl"),
            ("method", "queryOrdersForRefresh"),
            ("mutation", "operator"),
            ("strategy", "add_to_sub"),
        ],
    ),
];

#[test]
fn every_kind_is_felt_somewhere() {
    let named: HashSet<&str> = POINTS.iter().map(|row| row.0).collect();
    assert_eq!(named, capabilities().iter().map(|row| row.name).collect());
    let faults: Vec<Resolved> = POINTS.iter().map(|(name, service, pairs)| fault(name, service, pairs)).collect();
    let (mut probe, mut world) = (Probe::default(), world(7, 30.0));
    world.run(40 * SECOND, &mut probe).unwrap();
    for fault in &faults {
        world.start_fault(fault.effect.name(), fault).unwrap_or_else(|problem| panic!("{problem}"));
    }
    world.run(100 * SECOND, &mut probe).unwrap();
    let mut unfelt = Vec::new();
    for name in faults.iter().map(|fault| fault.effect.name()) {
        world.end_fault(name).unwrap();
        let witness = world.witness(name).unwrap();
        if !witness.exposed {
            unfelt.push(format!("{name}: {}", witness.reason));
        }
    }
    assert!(unfelt.is_empty(), "{}", unfelt.join("\n"));
}
