//! Several faults at once: each acts as if it were alone, and starting or ending one leaves the others as they are.

use fault::check_batch;

use super::lab::{CONTROL, Case, END, START, fault, run, world};
use crate::probe::{Probe, SECOND, Span, quantile};

const MILLI: i64 = 1_000_000;
const ITEMS: [(&str, &str); 2] = [("method", "GET"), ("path", "/items")];

fn with(
    base: &[(&'static str, &'static str)],
    more: &[(&'static str, &'static str)],
) -> Vec<(&'static str, &'static str)> {
    [base, more].concat()
}

/// Median of the calls from the shop to the stock's items that began in the window.
fn median(probe: &Probe, (from, to): (i64, i64)) -> i64 {
    let calls = probe.spans.iter().filter(|span| {
        span.kind == Span::CLIENT
            && span.service == "shop"
            && span.attributes.get("url.full").is_some_and(|url| url.ends_with("/items"))
            && (from * SECOND..to * SECOND).contains(&span.start)
    });
    quantile(calls.map(Span::lasted), 0.5)
}

#[test]
fn three_delays_add_up_and_each_ends_on_its_own() {
    let method = [("class", "ItemController"), ("method", "items"), ("delay_ms", "300")];
    let faults = [
        fault("network_delay", "shop", &[("target_service", "stock"), ("latency_ms", "100")]),
        fault("http_response_delay", "stock", &with(&ITEMS, &[("delay_ms", "200")])),
        fault("jvm_method_latency", "stock", &method),
    ];
    check_batch(&faults).unwrap();
    let (mut probe, mut world) = (Probe::default(), world());
    world.run(30 * SECOND, &mut probe).unwrap();
    for (at, fault) in faults.iter().enumerate() {
        world.start_fault(&format!("f{at}"), fault).unwrap();
    }
    // The one that was started first ends last.
    for (at, until) in [(2, 45), (1, 60), (0, 75)] {
        world.run(until * SECOND, &mut probe).unwrap();
        world.end_fault(&format!("f{at}")).unwrap();
    }
    world.run(90 * SECOND, &mut probe).unwrap();
    let calm = median(&probe, (20, 30));
    for (window, added) in [((31, 44), 600), ((46, 59), 300), ((61, 74), 100), ((76, 88), 0)] {
        let more = (median(&probe, window) - calm) / MILLI;
        assert!((more - added).abs() < 25, "{more} ms instead of {added} in {window:?}");
    }
    for at in 0..3 {
        let witness = world.witness(&format!("f{at}")).unwrap();
        assert!(witness.exposed, "{}", witness.reason);
    }
}

#[test]
fn two_kinds_on_one_link_are_both_felt() {
    let link = |kind: &str, more: &[(&'static str, &'static str)]| {
        fault(kind, "shop", &with(&[("target_service", "stock")], more))
    };
    let faults = [link("network_delay", &[("latency_ms", "100")]), link("network_loss", &[("loss_pct", "20")])];
    check_batch(&faults).unwrap();
    let (probe, witnesses) = run(&faults);
    assert!(witnesses.iter().all(|witness| witness.exposed), "{witnesses:?}");
    assert_eq!(witnesses[0].passed, witnesses[1].passed, "the same messages pass both");
    assert!(witnesses[1].touched * 3 < witnesses[1].passed && witnesses[0].touched == witnesses[0].passed);
    let window = (START + 2, END - 2);
    let calls = probe.spans.iter().filter(|span| {
        span.kind == Span::CLIENT
            && span.service == "shop"
            && (window.0 * SECOND..window.1 * SECOND).contains(&span.start)
    });
    let stock: Vec<i64> = calls.filter(|span| span.attributes["server.address"] == "stock").map(Span::lasted).collect();
    assert!(quantile(stock.iter().copied(), 0.1) > 100 * MILLI, "the delay holds each");
    assert!(quantile(stock.iter().copied(), 0.95) > 300 * MILLI, "the timer comes on top");
}

#[test]
fn a_killed_pod_and_a_link_of_its_caller_are_both_felt() {
    let faults = [
        fault("pod_kill", "stock", &[]),
        fault("network_delay", "front", &[("target_service", "shop"), ("latency_ms", "200")]),
    ];
    check_batch(&faults).unwrap();
    let (probe, witnesses) = run(&faults);
    assert!(witnesses.iter().all(|witness| witness.exposed), "{witnesses:?}");
    let refused = probe.spans.iter().filter(|span| span.service == "shop" && span.kind == Span::CLIENT && span.failed);
    assert!(refused.count() > 100);
    let slow = probe.spans.iter().filter(|span| {
        span.service == "front"
            && span.kind == Span::CLIENT
            && span.attributes["server.address"] == "shop"
            && (START * SECOND..END * SECOND).contains(&span.start)
    });
    assert!(quantile(slow.map(Span::lasted), 0.2) > 200 * MILLI);
    // A one-shot fault's effect ends when its target is back, the other one's with the window.
    let until = |at: usize| witnesses[at].effect.unwrap().until.0 / SECOND - crate::probe::ORIGIN;
    assert!((START + 10..END).contains(&until(0)), "{}", until(0));
    assert_eq!(until(1), END);
}

#[test]
fn what_is_changed_in_the_network_outlives_a_container_and_what_is_changed_in_the_process_does_not() {
    let faults = [
        fault("container_kill", "shop", &[]),
        fault("network_delay", "shop", &[("target_service", "stock"), ("latency_ms", "200")]),
    ];
    check_batch(&faults).unwrap();
    let case = Case::of(run(&faults), &faults[1]);
    // Back within the window, the new process still sends through the old pod's network.
    let calls = case.calls(&case.probe, (END - 10, END - 2));
    assert!(calls.len() > 20, "{}", calls.len());
    assert!(quantile(calls.iter().map(|call| call.lasted()), 0.1) > 200 * MILLI);
}

#[test]
fn a_fault_that_nothing_meets_says_why() {
    let unfelt = |fault| {
        let (_, witnesses) = run(&[fault]);
        assert!(!witnesses[0].exposed);
        witnesses[0].reason.clone()
    };
    let path = [("method", "GET"), ("path", "/reservations")];
    assert_eq!(unfelt(fault("http_request_abort", "stock", &path)), "no request passed the endpoint");
    let reason = unfelt(fault("cpu_stress", "archive", &[("load_pct", "10")]));
    assert!(reason.contains("cpu_periods were touched"), "{reason}");
    // The virtual machine knows the address for half a minute, and its connections are used again.
    let (mut probe, mut world) = (Probe::default(), world());
    world.run(START * SECOND, &mut probe).unwrap();
    world.start_fault("f", &fault("dns_error", "shop", &[("domain", "price")])).unwrap();
    world.run((START + 3) * SECOND, &mut probe).unwrap();
    world.end_fault("f").unwrap();
    let witness = world.witness("f").unwrap();
    assert!(witness.reason.starts_with("no look-up of the name happened ("), "{}", witness.reason);
    assert!(!witness.exposed && witness.facts["connections were used again"] > 10, "{witness:?}");
}

#[test]
fn a_stack_that_is_filled_is_one_mebibyte_and_ends_in_its_own_thread() {
    let (probe, witnesses) = run(&[fault("jvm_memory_stress", "stock", &[("memory_type", "stack")])]);
    assert_eq!((witnesses[0].exposed, witnesses[0].touched), (true, 1 << 20));
    let control = &*CONTROL;
    assert_eq!(probe.collections("stock"), control.collections("stock"));
    assert_eq!(
        probe.spans.iter().filter(|span| span.failed).count(),
        control.spans.iter().filter(|s| s.failed).count()
    );
}

#[test]
fn callers_of_a_wrong_value_fail_alike_in_every_run() {
    let broken = |method: &str, kind: &str| {
        let (class, method) = method.split_once('.').unwrap();
        let pairs = [("class", class), ("method", method), ("return_type", kind)];
        let (probe, witnesses) = run(&[fault("jvm_method_return", "stock", &pairs)]);
        assert!(witnesses[0].exposed, "{}", witnesses[0].reason);
        let failed = |service: &str| {
            let own = |span: &&Span| span.service == service && span.kind == Span::SERVER;
            let begun = |span: &&Span| (START * SECOND..END * SECOND).contains(&span.start);
            probe.spans.iter().filter(own).filter(begun).filter(|span| span.failed).count() > 50
        };
        (failed("stock"), failed("shop"))
    };
    // What a controller returns is the answer itself; no caller can read it, and the service knows of no error.
    assert_eq!(broken("ItemController.items", "string"), (false, true));
    let inside = broken("ItemServiceImpl.find", "int");
    assert_eq!(broken("ItemServiceImpl.find", "int"), inside);
}
