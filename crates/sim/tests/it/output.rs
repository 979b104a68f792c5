//! What comes out of an undisturbed run.

use std::collections::{HashMap, HashSet};

use crate::probe::{Probe, SECOND, Span, with_fault, world};

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_does_not() {
    let bytes = |seed| {
        let (mut probe, mut world) = (Probe::default(), world(seed, 10.0));
        world.run(30 * SECOND, &mut probe).unwrap();
        probe.bytes
    };
    assert_eq!(bytes(1), bytes(1));
    assert_ne!(bytes(1), bytes(2));
}

#[test]
fn a_run_looks_like_the_real_pipeline() {
    let (mut probe, mut world) = (Probe::default(), world(1, 20.0));
    world.run(90 * SECOND, &mut probe).unwrap();
    let journeys = world.journeys() as f64;
    assert!((journeys / 90.0 / 20.0 - 1.0).abs() < 0.25, "{journeys} journeys");
    assert!(probe.spans.len() as f64 / journeys >= 30.0, "{} spans", probe.spans.len());

    // Trees hold together: a parent is there, begins earlier and belongs to the same trace.
    let by_id: HashMap<&[u8], &Span> = probe.spans.iter().map(|span| (span.id.as_slice(), span)).collect();
    assert_eq!(by_id.len(), probe.spans.len(), "ids are unique");
    let settled = |span: &&Span| span.end < 85 * SECOND;
    let (mut orphans, mut children) = (0, 0);
    for span in probe.spans.iter().filter(settled).filter(|span| !span.parent.is_empty()) {
        children += 1;
        match by_id.get(span.parent.as_slice()) {
            Some(parent) => {
                assert_eq!(parent.trace, span.trace);
                // Between two processes clocks differ; inside one, a caller outlasts what it calls, if only a little.
                let inside = parent.start < span.start && span.end < parent.end;
                assert!(inside || parent.service != span.service, "{} is not inside {}", span.name, parent.name);
            }
            None => orphans += 1,
        }
    }
    assert!(orphans * 200 < children, "{orphans} of {children} spans have no parent although nothing was killed");
    let roots: Vec<&Span> = probe.spans.iter().filter(|span| span.parent.is_empty()).collect();
    assert!(roots.iter().all(|span| span.service == "loadgenerator"));
    let failed = roots.iter().filter(|span| span.failed).count() as f64 / roots.len() as f64;
    assert!(failed < 0.03, "{failed} of the requests fail without a fault");

    // Every signal, and the metrics of every layer.
    let names: HashSet<&str> = probe.points.iter().map(|point| point.name.as_str()).collect();
    for name in [
        "k8s.pod.cpu.usage",
        "k8s.pod.memory.working_set",
        "container.cpu.usage",
        "container.memory.rss",
        "jvm.memory.used",
        "jvm.thread.count",
        "jvm.gc.duration",
        "db.client.connections.usage",
        "db.client.connections.use_time",
        "hikaricp.connections.active",
        "k8s.container.restarts",
        "k8s.pod.phase",
        "k8s.container.ready",
        "k8s.pod.network.io",
        "http.server.request.duration",
        "http.client.request.duration",
        "rabbitmq_queue_messages_ready",
        "container_cpu_cfs_throttled_periods_total",
    ] {
        assert!(names.contains(name), "{name} is missing");
    }
    let mut bytes = probe.points.iter().filter(|point| point.name.contains("memory.") && point.value > 1.0);
    assert!(bytes.all(|point| point.value.fract() == 0.0), "there is a part of a byte");
    let traced: HashSet<&str> = probe.spans.iter().map(|span| span.service.as_str()).collect();
    assert!(traced.len() > 30, "only {} services have spans", traced.len());
    for name in ["SELECT ts.orders", "food_delivery publish", "food_delivery process"] {
        assert!(probe.spans.iter().any(|span| span.name == name), "no span is called {name}");
    }
    assert!(probe.logs.len() as f64 > journeys, "{} log lines", probe.logs.len());
}

#[test]
fn no_word_gives_the_simulation_or_a_fault_away() {
    let resolved = crate::probe::fault("pod_failure", "ts-order-service", &[]);
    let (probe, world) = with_fault(3, 10.0, Some(&resolved));
    let snapshot = world.snapshot().to_string();
    let text = String::from_utf8_lossy(&probe.bytes).to_lowercase() + &snapshot.to_lowercase();
    for word in ["chaos", "inject", "fault", "simul", "aegis", "stress", "byteman"] {
        // `default` contains `fault`; nothing else may.
        let found = text.replace("default", "").matches(word).count();
        assert_eq!(found, 0, "`{word}` appears in the output");
    }
}

#[test]
fn the_snapshot_is_that_of_the_time_before() {
    let resolved = crate::probe::fault("pod_kill", "ts-order-service", &[]);
    let (_, disturbed) = with_fault(3, 5.0, Some(&resolved));
    let (_, calm) = with_fault(3, 5.0, None);
    assert_eq!(disturbed.snapshot(), calm.snapshot());
}
