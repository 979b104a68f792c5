//! Each fault acts at its mechanism, shows where that mechanism shows, and touches nothing before its start.

mod batch;
mod contract;
mod endpoint;
mod lab;
mod sign;
mod train_ticket;

use std::collections::HashSet;

use fault::Resolved;

use crate::probe::{Probe, SECOND, Span, fault, quantile, with_fault};

const BEFORE: (i64, i64) = (20, 60);
const DURING: (i64, i64) = (62, 120);
const ORDER: &str = "ts-order-service";
const MILLI: i64 = 1_000_000;
const TICKETS_503: [(&str, &str); 3] =
    [("method", "POST"), ("path", "/api/v1/orderservice/order/tickets"), ("status_code", "503")];
const TICKETS_METHOD: [(&str, &str); 2] = [("class", "OrderController"), ("method", "getTicketListByDateAndTripId")];

fn run(resolved: &Resolved) -> Probe {
    let (probe, world) = with_fault(7, 20.0, Some(resolved));
    let witness = world.witness("f").unwrap();
    assert!(witness.exposed, "{}", witness.reason);
    probe
}

fn failed(spans: &[&Span]) -> f64 {
    spans.iter().filter(|span| span.failed).count() as f64 / spans.len().max(1) as f64
}

fn median(spans: &[&Span]) -> i64 {
    quantile(spans.iter().map(|span| span.lasted()), 0.5)
}

/// Records that were complete before the second, in an order that does not depend on batches.
fn complete_before(probe: &Probe, second: i64) -> (Vec<String>, Vec<String>) {
    let limit = second * SECOND;
    let mut spans: Vec<String> =
        probe.spans.iter().filter(|span| span.end < limit).map(|span| format!("{span:?}")).collect();
    let logs = probe.logs.iter().filter(|log| log.at < limit).map(|log| format!("{log:?}"));
    let points = probe.points.iter().filter(|point| point.at < limit).map(|point| format!("{point:?}"));
    let mut rest: Vec<String> = logs.chain(points).collect();
    spans.sort();
    rest.sort();
    (spans, rest)
}

#[test]
fn before_the_start_everything_is_as_in_the_control() {
    let (control, _) = with_fault(11, 8.0, None);
    let expect = complete_before(&control, 60);
    assert!(expect.0.len() > 5000);
    for resolved in [
        fault("pod_kill", ORDER, &[]),
        fault("network_delay", "ts-travel-service", &[("target_service", "ts-basic-service"), ("latency_ms", "300")]),
        fault("memory_stress", ORDER, &[("size_mib", "2000")]),
        fault("pod_failure", "mysql", &[]),
        fault("cpu_stress", ORDER, &[("load_pct", "100"), ("workers", "4")]),
        fault("network_loss", "ts-travel-service", &[("target_service", "ts-basic-service"), ("loss_pct", "50")]),
        fault("http_response_replace_code", ORDER, &TICKETS_503),
        fault("jvm_method_latency", ORDER, &[TICKETS_METHOD[0], TICKETS_METHOD[1], ("delay_ms", "700")]),
        fault("jvm_method_exception", ORDER, &TICKETS_METHOD),
    ] {
        let (probe, _) = with_fault(11, 8.0, Some(&resolved));
        assert_eq!(complete_before(&probe, 60), expect, "{:?}", resolved.effect);
    }
}

#[test]
fn after_the_start_only_what_lies_downstream_differs() {
    // Advice on one method of a service that few journeys reach.
    let resolved = fault(
        "jvm_method_latency",
        "ts-consign-service",
        &[("class", "ConsignController"), ("method", "updateConsign"), ("delay_ms", "1500")],
    );
    let (control, _) = with_fault(11, 8.0, None);
    let (probe, _) = with_fault(11, 8.0, Some(&resolved));
    let traces_of = |probe: &Probe| -> HashSet<Vec<u8>> {
        let consign = probe.spans.iter().filter(|span| span.service == "ts-consign-service");
        consign.map(|span| span.trace.clone()).collect()
    };
    let touched: HashSet<Vec<u8>> = traces_of(&control).union(&traces_of(&probe)).cloned().collect();
    let others = |probe: &Probe| -> HashSet<(Vec<u8>, String, i64)> {
        let spans = probe.spans.iter().filter(|span| !touched.contains(&span.trace) && span.end < 100 * SECOND);
        spans.map(|span| (span.id.clone(), span.name.clone(), span.lasted())).collect()
    };
    let (a, b) = (others(&control), others(&probe));
    // A later arrival at a shared processor moves others by microseconds; few traces meet that.
    let same = a.intersection(&b).count() as f64 / a.len() as f64;
    assert!(same > 0.97, "{same} of the untouched traces' spans are the same");
    // The requests themselves are the same, with the same identities.
    let ids = |set: &HashSet<(Vec<u8>, String, i64)>| set.iter().map(|span| span.0.clone()).collect::<HashSet<_>>();
    assert!(ids(&a).symmetric_difference(&ids(&b)).count() < a.len() / 200);
}

#[test]
fn a_killed_pod_comes_back_under_another_name_and_callers_fail_meanwhile() {
    let probe = run(&fault("pod_kill", ORDER, &[]));
    let pods: HashSet<&str> =
        probe.spans.iter().filter(|span| span.service == ORDER).map(|span| span.pod.as_str()).collect();
    assert_eq!(pods.len(), 2, "{pods:?}");
    assert_eq!(failed(&probe.calls("ts-seat-service", ORDER, BEFORE)), 0.0);
    assert!(failed(&probe.calls("ts-seat-service", ORDER, (61, 75))) > 0.9);
    assert!(!probe.served(ORDER, (125, 150)).is_empty(), "the new pod serves");
    let phases = probe.at(ORDER, "k8s.container.ready");
    assert!(phases.iter().any(|&(at, ready)| at > 60 * SECOND && ready == 0.0));
}

#[test]
fn a_failed_pod_answers_nothing_until_the_end() {
    let probe = run(&fault("pod_failure", ORDER, &[]));
    assert!(probe.served(ORDER, (61, 121)).is_empty());
    assert_eq!(failed(&probe.calls("ts-seat-service", ORDER, DURING)), 1.0);
    assert!(failed(&probe.served("ts-seat-service", DURING)) > 0.9, "callers answer 500");
    let restarts = probe.at(ORDER, "k8s.container.restarts");
    assert!(restarts.iter().any(|&(at, count)| at > 62 * SECOND && count >= 1.0));
}

#[test]
fn a_dead_database_makes_its_clients_wait_and_their_callers_give_up() {
    let probe = run(&fault("pod_failure", "mysql", &[]));
    // The pools wait 30 s for a connection; users have no more patience than that.
    let roots: Vec<&Span> = probe.calls("loadgenerator", "ts-ui-dashboard", (95, 119));
    assert!(failed(&roots) > 0.7, "only requests without data succeed: {}", failed(&roots));
    let waits = probe.spans.iter().filter(|span| span.name == "OrdersRepository.findById" && span.failed);
    assert!(waits.filter(|span| span.lasted() >= 30 * SECOND).count() > 10);
    assert!(probe.logs.iter().any(|log| log.body.contains("Connection is not available")));
    assert_eq!(probe.at("mysql", "k8s.container.restarts").last().unwrap().1, 2.0);
}

#[test]
fn a_delay_on_a_link_lies_between_client_and_server() {
    let pairs = [("target_service", "ts-basic-service"), ("latency_ms", "200"), ("jitter_ms", "10")];
    let probe = run(&fault("network_delay", "ts-travel-service", &pairs));
    let gap = |window| {
        let calls = median(&probe.calls("ts-travel-service", "ts-basic-service", window));
        calls - median(&probe.served("ts-basic-service", window))
    };
    assert!(gap(BEFORE) < 20 * MILLI, "{}", gap(BEFORE));
    assert!((180 * MILLI..260 * MILLI).contains(&gap(DURING)), "{}", gap(DURING));
    assert!(failed(&probe.calls("ts-travel-service", "ts-basic-service", DURING)) < 0.05);
}

#[test]
fn loss_shows_as_a_tail_of_timers_and_not_as_errors() {
    let pairs = [("target_service", "ts-basic-service"), ("loss_pct", "20")];
    let probe = run(&fault("network_loss", "ts-travel-service", &pairs));
    let calls = |window| probe.calls("ts-travel-service", "ts-basic-service", window);
    let tail = |window| quantile(calls(window).iter().map(|span| span.lasted()), 0.95);
    assert!(tail(DURING) - tail(BEFORE) > 150 * MILLI, "{} {}", tail(BEFORE), tail(DURING));
    assert!(median(&calls(DURING)) - median(&calls(BEFORE)) < 100 * MILLI);
    assert!(failed(&calls(DURING)) < 0.05);
}

#[test]
fn a_processor_past_its_limit_is_throttled() {
    let probe = run(&fault("cpu_stress", ORDER, &[("load_pct", "100"), ("workers", "4")]));
    let throttled = probe.at(ORDER, "container_cpu_cfs_throttled_periods_total");
    let until = |second: i64| throttled.iter().filter(|(at, _)| *at < second * SECOND).map(|p| p.1).fold(0.0, f64::max);
    assert!(until(120) - until(60) > 300.0, "{} {}", until(60), until(120));
    assert!(median(&probe.served(ORDER, DURING)) > 2 * median(&probe.served(ORDER, BEFORE)));
}

#[test]
fn stress_below_the_limit_is_not_felt() {
    let resolved = fault("cpu_stress", "ts-consign-service", &[("load_pct", "10"), ("workers", "1")]);
    let (_, world) = with_fault(7, 20.0, Some(&resolved));
    let witness = world.witness("f").unwrap();
    assert!(!witness.exposed, "{}", witness.reason);
}

#[test]
fn memory_past_its_limit_ends_the_process() {
    let probe = run(&fault("memory_stress", ORDER, &[("size_mib", "900")]));
    let restarts = probe.at(ORDER, "k8s.container.restarts");
    assert!(restarts.iter().any(|&(at, count)| at > 62 * SECOND && count == 1.0), "{restarts:?}");
    assert!(failed(&probe.calls("ts-seat-service", ORDER, (63, 75))) > 0.9);
    let pods: HashSet<&str> =
        probe.spans.iter().filter(|span| span.service == ORDER).map(|span| span.pod.as_str()).collect();
    assert_eq!(pods.len(), 1, "restarted in place");
    let below = fault("memory_stress", ORDER, &[("size_mib", "200")]);
    let probe = run(&below);
    let used = probe.at(ORDER, "container.memory.working_set");
    let level = |from: i64, to: i64| {
        let inside: Vec<f64> =
            used.iter().filter(|(at, _)| (from * SECOND..to * SECOND).contains(at)).map(|p| p.1).collect();
        inside.iter().sum::<f64>() / inside.len() as f64
    };
    assert!(level(65, 120) - level(20, 60) > 150.0 * 1024.0 * 1024.0);
    assert!(probe.at(ORDER, "k8s.container.restarts").iter().all(|point| point.1 == 0.0));
}

#[test]
fn a_replaced_status_is_seen_by_the_caller_alone() {
    let probe = run(&fault("http_response_replace_code", ORDER, &TICKETS_503));
    let tickets = |span: &&&Span| span.attributes.values().any(|value| value.ends_with("/order/tickets"));
    let calls = probe.calls("ts-seat-service", ORDER, DURING);
    let seen: Vec<_> = calls.iter().filter(tickets).map(|span| span.status()).collect();
    assert!(seen.len() > 50 && seen.iter().all(|status| *status == Some("503")), "{seen:?}");
    let served = probe.served(ORDER, DURING);
    let ok = served.iter().filter(tickets).filter(|span| span.status() == Some("200")).count();
    assert!(ok > 50, "the server itself answers 200");
}

#[test]
fn advice_on_a_method_slows_or_breaks_its_endpoint_alone() {
    let method = |capability: &str, extra: &[(&str, &str)]| {
        let mut pairs = TICKETS_METHOD.to_vec();
        pairs.extend_from_slice(extra);
        run(&fault(capability, ORDER, &pairs))
    };
    let route = |spans: Vec<&'_ Span>, wanted: bool| -> Vec<i64> {
        let matching = spans.into_iter().filter(|span| span.name.ends_with("/order/tickets") == wanted);
        matching.map(Span::lasted).collect()
    };
    let slow = method("jvm_method_latency", &[("delay_ms", "500")]);
    let (hit, others) = (route(slow.served(ORDER, DURING), true), route(slow.served(ORDER, DURING), false));
    assert!(quantile(hit.iter().copied(), 0.05) >= 500 * MILLI);
    assert!(quantile(others.iter().copied(), 0.5) < 100 * MILLI);
    let broken = method("jvm_method_exception", &[("exception", "java.io.IOException(\"broken pipe\")")]);
    let served = broken.served(ORDER, DURING);
    let hit: Vec<_> = served.iter().filter(|span| span.name.ends_with("/order/tickets")).collect();
    assert!(hit.len() > 50 && hit.iter().all(|span| span.failed && span.status() == Some("500")));
    let lines =
        broken.logs.iter().filter(|log| log.service == ORDER && log.body.contains("java.io.IOException: broken pipe"));
    assert!(lines.count() > 50);
}
