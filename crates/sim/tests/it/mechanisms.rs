//! What callers, callees and the things between them do, each on a system of a few parts.

use fault::{Spec, resolve};
use sim::World;

use crate::probe::{Probe, SECOND, Span, quantile};
use crate::tiny::Tiny;

const MILLI: i64 = 1_000_000;

fn lasted(spans: &[&Span], share: f64) -> i64 {
    quantile(spans.iter().map(|span| span.lasted()), share)
}

/// Two procedures in a row, the last of which takes two seconds; the front gives up after 100 ms.
const CHAIN: Tiny = Tiny {
    services: "- {name: b, language: go, kind: rpc, protocol: grpc, port: 81}\n- {name: c, language: go, kind: rpc, protocol: grpc, port: 82}",
    calls: "  a:\n  - {to: b, protocol: grpc, operations: [t.B/Do], timeout_ms: 100}\n  b:\n  - {to: c, protocol: grpc, operations: [t.C/Do]}",
    points: "rpcs:\n  b:\n  - {operation: t.B/Do}\n  c:\n  - {operation: t.C/Do}",
    handlers: "  a:\n    GET /:\n    - {to: b, operation: t.B/Do}\n  b:\n    t.B/Do:\n    - {to: c, operation: t.C/Do}",
    behaviour: "- {services: [b], source: t, work_cv: 0.01, operations: {t.B/Do: 1.0}}\n- {services: [c], source: t, work_cv: 0.01, cpu_limit: 16, operations: {t.C/Do: 2000.0}}",
};

#[test]
fn a_deadline_calls_off_the_work_behind_it_where_the_protocol_does_that() {
    let probe = CHAIN.run(1.0, 40);
    let calls = probe.calls("b", "c", (10, 35));
    assert!(calls.len() > 10 && lasted(&calls, 0.9) < 120 * MILLI, "{}", lasted(&calls, 0.9));
    let served = probe.served("b", (10, 35));
    // A server's span of a cancelled call is no error by the conventions; its status is 1, CANCELLED.
    let status = |span: &&Span| span.attributes.get("rpc.grpc.status_code").cloned();
    assert!(served.iter().all(|span| status(span).as_deref() == Some("1")), "{:?}", served.first());
    assert!(lasted(&served, 0.9) < 120 * MILLI);
    // Over HTTP nobody tells the callee.
    let http = Tiny {
        services: "- {name: b, language: java, kind: web, protocol: http, port: 81}\n- {name: c, language: java, kind: web, protocol: http, port: 82}",
        calls: "  a:\n  - {to: b, protocol: http, operations: [GET /b], timeout_ms: 100}\n  b:\n  - {to: c, protocol: http, operations: [GET /c]}",
        points: "  b:\n  - {method: GET, route: /b}\n  c:\n  - {method: GET, route: /c}",
        handlers: "  a:\n    GET /:\n    - {to: b, operation: GET /b}\n  b:\n    GET /b:\n    - {to: c, operation: GET /c}",
        behaviour: "- {services: [b], source: t, work_cv: 0.01, operations: {GET /b: 1.0}}\n- {services: [c], source: t, work_cv: 0.01, cpu_limit: 16, operations: {GET /c: 2000.0}}",
    };
    let probe = http.run(1.0, 40);
    assert!(lasted(&probe.calls("a", "b", (10, 35)), 0.5) < 120 * MILLI);
    let served = probe.served("b", (12, 35));
    assert!(lasted(&served, 0.5) > 1900 * MILLI && served.iter().all(|span| !span.failed));
}

#[test]
fn a_caller_tries_again_with_a_growing_pause() {
    let slow = Tiny {
        services: "- {name: b, language: go, kind: web, protocol: http, port: 81}",
        calls: "  a:\n  - {to: b, protocol: http, operations: [GET /b], timeout_ms: 50, retry: {times: 2, back_off_ms: 100}}",
        points: "  b:\n  - {method: GET, route: /b}",
        handlers: "  a:\n    GET /:\n    - {to: b, operation: GET /b}",
        behaviour: "- {services: [b], source: t, work_cv: 0.01, cpu_limit: 16, operations: {GET /b: 300.0}}",
    };
    let probe = slow.run(2.0, 40);
    let requests = probe.served("a", (10, 35));
    let attempts = probe.calls("a", "b", (10, 35));
    let ratio = attempts.len() as f64 / requests.len() as f64;
    assert!((2.8..3.2).contains(&ratio), "{ratio} attempts for each request");
    // Three times 50 ms, and pauses of 100 and 200 ms.
    assert!((445 * MILLI..480 * MILLI).contains(&lasted(&requests, 0.5)), "{}", lasted(&requests, 0.5));
    assert!(probe.served("b", (10, 35)).len() as f64 > 2.5 * requests.len() as f64, "the callee does all the work");
}

#[test]
fn a_full_pool_makes_calls_wait_and_then_fail() {
    let narrow = Tiny {
        services: "- {name: b, language: java, kind: web, protocol: http, port: 81}\n- {name: db, language: none, kind: db, protocol: sql, port: 3306, product: mysql 8}",
        calls: "  a:\n  - {to: b, protocol: http, operations: [GET /b]}\n  b:\n  - {to: db, protocol: sql, operations: [select t]}",
        points: "  b:\n  - {method: GET, route: /b}\nstatements:\n  b:\n  - {instance: db, system: mysql, database: d, table: t, verbs: [select]}",
        handlers: "  a:\n    GET /:\n    - {to: b, operation: GET /b}\n  b:\n    GET /b:\n    - {to: db, operation: select t}",
        behaviour: "- {services: [db], source: t, work_cv: 0.01, work_ms: [100, 100]}\nclients:\n- {from: [b], to: [db], connections: 1, wait_ms: 300, source: t}",
    };
    // One connection serves ten statements a second; twenty come.
    let probe = narrow.run(20.0, 40);
    let served = probe.served("b", (15, 35));
    let failed = served.iter().filter(|span| span.failed).count() as f64 / served.len() as f64;
    assert!((0.35..0.65).contains(&failed), "{failed}");
    let refused: Vec<&Span> = served.iter().copied().filter(|span| span.failed).collect();
    assert!(lasted(&refused, 0.5) >= 300 * MILLI && lasted(&refused, 0.9) < 400 * MILLI);
    // With room for all, nobody waits.
    let wide = Tiny { behaviour: "- {services: [db], source: t, work_cv: 0.01, work_ms: [10, 10]}", ..narrow };
    assert!(wide.run(20.0, 40).served("b", (15, 35)).iter().all(|span| !span.failed));
}

#[test]
fn calls_at_the_same_time_take_as_long_as_the_longest_and_a_tolerated_failure_is_none() {
    let fan = |second: &'static str, third: &'static str| Tiny {
        services: "- {name: b, language: go, kind: rpc, protocol: thrift, port: 81}",
        calls: "  a:\n  - {to: b, protocol: thrift, operations: [B/Do, B/Fail], timeout_ms: 400}",
        points: "rpcs:\n  b:\n  - {operation: B/Do}\n  - {operation: B/Fail}",
        handlers: match (second, third) {
            ("parallel", _) => {
                "  a:\n    GET /:\n    - {to: b, operation: B/Do}\n    - {to: b, operation: B/Do, times: 2, parallel: true}"
            }
            ("tolerated", _) => {
                "  a:\n    GET /:\n    - {to: b, operation: B/Fail, tolerated: true}\n    - {to: b, operation: B/Do}"
            }
            _ => "  a:\n    GET /:\n    - {to: b, operation: B/Do, times: 3}",
        },
        behaviour: "- {services: [b], source: t, work_cv: 0.01, cpu_limit: 16, operations: {B/Do: 100.0, B/Fail: 900.0}}",
    };
    let took = |tiny: Tiny| {
        let probe = tiny.run(2.0, 40);
        let served = probe.served("a", (10, 35));
        assert!(served.iter().all(|span| !span.failed));
        lasted(&served, 0.5) / MILLI
    };
    assert!((300..330).contains(&took(fan("", ""))));
    assert!((100..125).contains(&took(fan("parallel", ""))));
    assert!((500..530).contains(&took(fan("tolerated", ""))));
}

/// Look-ups in a cache in front of a store.
const CACHED: Tiny = Tiny {
    services: "- {name: mc, language: none, kind: cache, protocol: memcached, port: 11211, product: memcached}\n- {name: db, language: none, kind: db, protocol: mongo, port: 27017, product: mongodb}",
    calls: "  a:\n  - {to: mc, protocol: memcached, operations: [get, set]}\n  - {to: db, protocol: mongo, operations: [find things]}",
    points: "statements:\n  a:\n  - {instance: mc, system: memcached, verbs: [get, set]}\n  - {instance: db, system: mongodb, database: d, table: things, verbs: [find]}",
    handlers: "  a:\n    GET /:\n    - {to: mc, operation: get, tolerated: true}\n    - {to: db, operation: find things, on_miss: true}\n    - {to: mc, operation: set, on_miss: true, tolerated: true}",
    behaviour: "caches:\n- {client: a, store: mc, keys: 300, entries: 300, skew: 0.5, source: t}",
};

#[test]
fn a_restarted_cache_is_cold_and_moves_load_to_the_store() {
    let (mut probe, (mut world, system)) = (Probe::default(), CACHED.world(50.0));
    world.run(100 * SECOND, &mut probe).unwrap();
    let spec = Spec::from_pairs("container_kill", "mc", []).unwrap();
    world.start_fault("f", &resolve(&spec, &system).unwrap()).unwrap();
    world.run(160 * SECOND, &mut probe).unwrap();
    let misses = |window| {
        let finds = probe.calls("a", "db", window).len() as f64;
        finds / probe.served("a", window).len() as f64
    };
    assert!(misses((0, 2)) > 0.7, "cold at first: {}", misses((0, 2)));
    assert!(misses((60, 100)) < 0.02, "warm: {}", misses((60, 100)));
    assert!(misses((102, 106)) > 0.5, "cold again: {}", misses((102, 106)));
    assert!(misses((150, 160)) < 0.05, "and warm again: {}", misses((150, 160)));
}

/// One topic with two groups of consumers, one of which is slow.
const TOPIC: Tiny = Tiny {
    services: "- {name: kafka, language: none, kind: mq, protocol: kafka, port: 9092, product: kafka}\n- {name: slow, language: go, kind: worker, protocol: kafka}\n- {name: quick, language: go, kind: worker, protocol: kafka}",
    calls: "  a:\n  - {to: kafka, protocol: kafka, operations: [publish orders]}\n  - {to: slow, protocol: kafka, operations: [orders], async: true, via: kafka}\n  - {to: quick, protocol: kafka, operations: [orders], async: true, via: kafka}\n  slow:\n  - {to: kafka, protocol: kafka, operations: [consume orders], async: true}\n  quick:\n  - {to: kafka, protocol: kafka, operations: [consume orders], async: true}",
    points: "",
    handlers: "  a:\n    GET /:\n    - {to: kafka, operation: publish orders}\n    - {to: slow, operation: orders}\n    - {to: quick, operation: orders}",
    behaviour: "- {services: [slow], source: t, work_cv: 0.01, cpu_limit: 4, operations: {orders: 200.0}}\n- {services: [quick], source: t, work_cv: 0.01, operations: {orders: 1.0}}",
};

#[test]
fn a_slow_group_lags_behind_its_topic_and_nobody_else_feels_it() {
    let (mut probe, (mut world, system)) = (Probe::default(), TOPIC.world(10.0));
    world.run(60 * SECOND, &mut probe).unwrap();
    let lag = |world: &World, consumer: &str| {
        world.backlogs().into_iter().find(|backlog| backlog.consumer == consumer).unwrap().lag()
    };
    // Ten come a second, five are done.
    let slow = lag(&world, "slow");
    assert!((200..400).contains(&slow), "{slow}");
    assert!(lag(&world, "quick") <= 2);
    assert!(lasted(&probe.served("a", (10, 60)), 0.95) < 5 * MILLI);
    // A consumer that ends without a word keeps its partitions until its session is over.
    let spec = Spec::from_pairs("pod_kill", "quick", []).unwrap();
    world.start_fault("f", &resolve(&spec, &system).unwrap()).unwrap();
    world.run(100 * SECOND, &mut probe).unwrap();
    let while_away = lag(&world, "quick");
    assert!(while_away > 350, "{while_away}");
    world.run(115 * SECOND, &mut probe).unwrap();
    assert!(lag(&world, "quick") <= 2, "it has caught up: {}", lag(&world, "quick"));
}

#[test]
fn a_message_that_was_lost_is_sent_again_under_the_conditions_of_that_moment() {
    // Towards the broker, and from there to a consumer: nothing arrives for ten seconds, then everything does.
    for (from, to) in [("a", "kafka"), ("kafka", "quick")] {
        let (mut probe, (mut world, system)) = (Probe::default(), TOPIC.world(10.0));
        let done = |world: &World| world.backlogs().into_iter().find(|one| one.consumer == "quick").unwrap().done;
        world.run(20 * SECOND, &mut probe).unwrap();
        let pairs = [("target_service".to_owned(), to.to_owned())];
        let spec = Spec::from_pairs("network_partition", from, pairs).unwrap();
        world.start_fault("f", &resolve(&spec, &system).unwrap()).unwrap();
        let before = done(&world);
        world.run(30 * SECOND, &mut probe).unwrap();
        assert!(done(&world) <= before + 2, "{from} -> {to}: {before}, then {}", done(&world));
        world.end_fault("f").unwrap();
        // What waited for its timer since second 20 is sent again after twice that time at the latest.
        world.run(45 * SECOND, &mut probe).unwrap();
        let published = probe.served("a", (0, 45)).len() as u64;
        assert!(done(&world).abs_diff(published) <= 3, "{from} -> {to}: {} of {published}", done(&world));
    }
}

/// A procedure whose server is found in a registry.
const REGISTERED: Tiny = Tiny {
    services: "- {name: consul, language: none, kind: web, protocol: http, port: 8500, product: consul}\n- {name: b, language: go, kind: rpc, protocol: grpc, port: 81, registry: consul}",
    calls: "  a:\n  - {to: b, protocol: grpc, operations: [t.B/Do], timeout_ms: 500}\n  - {to: consul, protocol: http, operations: ['GET /health'], phase: watch}\n  b:\n  - {to: consul, protocol: http, operations: [PUT /register], phase: startup}",
    points: "  consul:\n  - {method: GET, route: /health}\n  - {method: PUT, route: /register}\nrpcs:\n  b:\n  - {operation: t.B/Do}",
    handlers: "  a:\n    GET /:\n    - {to: b, operation: t.B/Do}",
    behaviour: "",
};

#[test]
fn known_addresses_outlive_their_registry_and_new_ones_need_it() {
    let (mut probe, (mut world, system)) = (Probe::default(), REGISTERED.world(10.0));
    let fault = |world: &mut World, name: &str, capability: &str, service: &str| {
        let spec = Spec::from_pairs(capability, service, []).unwrap();
        world.start_fault(name, &resolve(&spec, &system).unwrap()).unwrap();
    };
    world.run(20 * SECOND, &mut probe).unwrap();
    fault(&mut world, "away", "pod_failure", "consul");
    world.run(50 * SECOND, &mut probe).unwrap();
    fault(&mut world, "kill", "pod_kill", "b");
    world.run(100 * SECOND, &mut probe).unwrap();
    world.end_fault("away").unwrap();
    world.run(240 * SECOND, &mut probe).unwrap();
    let failed = |window| {
        let served = probe.served("a", window);
        served.iter().filter(|span| span.failed).count() as f64 / served.len().max(1) as f64
    };
    assert_eq!(failed((21, 50)), 0.0, "the registry is away and nobody misses it");
    assert!(failed((55, 100)) > 0.95, "the new server cannot register, and nobody knows it: {}", failed((55, 100)));
    assert!(failed((210, 240)) < 0.05, "all is well again: {}", failed((210, 240)));
}
