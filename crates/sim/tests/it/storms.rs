//! What feeds on itself, what goes cold, and what falls silent: more behaviours that follow from timers and queues.

use fault::{Resolved, Spec, resolve};

use crate::picture::{Picture, count_by_second};
use crate::probe::{Probe, SECOND, Span, fault, with_fault};
use crate::tiny::Tiny;

const SHOWN: (i64, i64) = (10, 150);

fn share_failed(spans: &[&Span]) -> f64 {
    spans.iter().filter(|span| span.failed).count() as f64 / spans.len().max(1) as f64
}

/// A service of two cores that can do 100 requests a second, and a caller that waits 400 ms for it and then asks again.
const EAGER: Tiny = Tiny {
    services: "- {name: b, language: go, kind: web, protocol: http, port: 81}",
    calls: "  a:\n  - {to: b, protocol: http, operations: [GET /b], timeout_ms: 400, retry: {times: 3, back_off_ms: 20}}",
    points: "  b:\n  - {method: GET, route: /b}",
    handlers: "  a:\n    GET /:\n    - {to: b, operation: GET /b}",
    behaviour: "- {services: [b], source: t, work_cv: 0.3, cpu_limit: 2, memory_limit_mib: 8192, operations: {GET /b: 20.0}}",
};

/// Half a minute of another load on the callee's processor.
fn disturbed(tiny: &Tiny) -> Probe {
    let (mut probe, (mut world, system)) = (Probe::default(), tiny.world(60.0));
    let pairs = [("load_pct", "100"), ("workers", "8")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let resolved: Resolved = resolve(&Spec::from_pairs("cpu_stress", "b", pairs).unwrap(), &system).unwrap();
    world.run(60 * SECOND, &mut probe).unwrap();
    world.start_fault("f", &resolved).unwrap();
    world.run(90 * SECOND, &mut probe).unwrap();
    world.end_fault("f").unwrap();
    world.run(150 * SECOND, &mut probe).unwrap();
    probe
}

#[test]
fn retries_keep_an_overload_alive_after_its_cause_is_gone() {
    let eager = disturbed(&EAGER);
    let once =
        disturbed(&Tiny { calls: "  a:\n  - {to: b, protocol: http, operations: [GET /b], timeout_ms: 400}", ..EAGER });
    let after = (110, 140);
    assert!(share_failed(&eager.served("a", (20, 58))) < 0.01 && share_failed(&once.served("a", (20, 58))) < 0.01);
    assert!(share_failed(&once.served("a", after)) < 0.02, "{}", share_failed(&once.served("a", after)));
    assert!(share_failed(&eager.served("a", after)) > 0.5, "{}", share_failed(&eager.served("a", after)));
    let attempts = eager.calls("a", "b", after).len() as f64 / eager.served("a", after).len() as f64;
    assert!(attempts > 2.5, "{attempts} attempts for each request");
    let answered = |probe: &Probe| {
        let good: Vec<Span> = probe.served("a", (0, 150)).into_iter().filter(|span| !span.failed).cloned().collect();
        count_by_second(good, SHOWN, |span| span.end)
    };
    Picture {
        name: "retry-storm",
        title: "30 s of load on a callee: with retries the overload stays when its cause is gone",
        x: "s",
        y: "a second",
        series: vec![
            ("attempts of an eager caller", count_by_second(eager.calls("a", "b", (0, 150)), SHOWN, |span| span.end)),
            ("its requests that succeed", answered(&eager)),
            ("the same without retries", answered(&once)),
        ],
        fault: Some((60.0, 90.0)),
    }
    .check();
}

/// A cache of 600 keys in front of a store.
const CACHED: Tiny = Tiny {
    services: "- {name: mc, language: none, kind: cache, protocol: memcached, port: 11211, product: memcached}\n- {name: db, language: none, kind: db, protocol: mongo, port: 27017, product: mongodb}",
    calls: "  a:\n  - {to: mc, protocol: memcached, operations: [get, set]}\n  - {to: db, protocol: mongo, operations: [find things]}",
    points: "statements:\n  a:\n  - {instance: mc, system: memcached, verbs: [get, set]}\n  - {instance: db, system: mongodb, database: d, table: things, verbs: [find]}",
    handlers: "  a:\n    GET /:\n    - {to: mc, operation: get, tolerated: true}\n    - {to: db, operation: find things, on_miss: true}\n    - {to: mc, operation: set, on_miss: true, tolerated: true}",
    behaviour: "caches:\n- {client: a, store: mc, keys: 600, entries: 600, skew: 0.8, source: t}",
};

#[test]
fn a_cache_is_cold_after_its_restart() {
    let (mut probe, (mut world, system)) = (Probe::default(), CACHED.world(60.0));
    let resolved = resolve(&Spec::from_pairs("container_kill", "mc", []).unwrap(), &system).unwrap();
    world.run(80 * SECOND, &mut probe).unwrap();
    world.start_fault("f", &resolved).unwrap();
    world.run(150 * SECOND, &mut probe).unwrap();
    let finds = |window| probe.calls("a", "db", window).len() as f64 / probe.served("a", window).len() as f64;
    assert!(finds((60, 80)) < 0.1, "warm: {}", finds((60, 80)));
    assert!(finds((81, 85)) > 0.4, "cold: {}", finds((81, 85)));
    assert!(finds((140, 150)) < 0.15, "warm again: {}", finds((140, 150)));
    Picture {
        name: "cold-cache",
        title: "A cache restarts at 80 s: its keys have to be fetched from the store again",
        x: "s",
        y: "a second",
        series: vec![
            ("requests", count_by_second(probe.served("a", (0, 150)), SHOWN, |span| span.end)),
            ("queries to the store", count_by_second(probe.calls("a", "db", (0, 150)), SHOWN, |span| span.end)),
        ],
        fault: Some((80.0, 80.5)),
    }
    .check();
}

#[test]
fn a_partition_is_silence_and_not_refusal() {
    let pairs = [("target_service", "ts-basic-service")];
    let (probe, _) = with_fault(7, 10.0, Some(&fault("network_partition", "ts-travel-service", &pairs)));
    let calls = |window| probe.calls("ts-travel-service", "ts-basic-service", window);
    let usual = calls((20, 60)).len() as f64 / 40.0;
    // What was under way ends in the first second; after that nothing ends, well or badly.
    let silent = calls((62, 88));
    assert!((silent.len() as f64) < 0.02 * 26.0 * usual, "{} calls ended, usual are {usual:.1}/s", silent.len());
    let refused =
        probe.spans.iter().filter(|span| span.attributes.values().any(|value| value.contains("ConnectException")));
    assert_eq!(refused.filter(|span| span.end < 90 * SECOND && span.start > 60 * SECOND).count(), 0, "nobody refuses");
    let users = probe.calls("loadgenerator", "ts-ui-dashboard", (92, 119));
    assert!(users.iter().any(|span| span.lasted() >= 30 * SECOND), "users wait as long as they have patience");
    Picture {
        name: "partition",
        title: "A partition between two services: calls neither succeed nor fail, they do not end",
        x: "s",
        y: "calls that end a second",
        series: vec![
            ("across the partition", count_by_second(calls((0, 150)), SHOWN, |span| span.end)),
            (
                "of another caller to the same service",
                count_by_second(probe.calls("ts-travel2-service", "ts-basic-service", (0, 150)), SHOWN, |span| {
                    span.end
                }),
            ),
        ],
        fault: Some((60.0, 120.0)),
    }
    .check();
}
