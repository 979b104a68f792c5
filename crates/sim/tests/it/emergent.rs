//! Behaviours that nobody wrote down as such: they follow from queues, timers and pools, as in a real system.
//!
//! Each test draws what it saw; `docs/simulation.md` shows the pictures.

use crate::picture::{Picture, by_second, count_by_second};
use crate::probe::{Probe, SECOND, Span, fault, quantile, with_fault};

const ORDER: &str = "ts-order-service";
const BEFORE: (i64, i64) = (20, 60);
const DURING: (i64, i64) = (62, 120);
const SHOWN: (i64, i64) = (20, 150);
const FAULT: Option<(f64, f64)> = Some((60.0, 120.0));
const MILLI: f64 = 1e6;

fn lasted_ms(span: &Span) -> f64 {
    span.lasted() as f64 / MILLI
}

fn latency<'a>(spans: impl IntoIterator<Item = &'a Span>) -> Vec<(f64, f64)> {
    by_second(spans, SHOWN, |span| span.end, |span| lasted_ms(span))
}

fn of<'a>(probe: &'a Probe, service: &'a str, kind: i32) -> impl Iterator<Item = &'a Span> {
    probe.spans.iter().filter(move |span| span.service == service && span.kind == kind)
}

/// The share of latencies that are at least so long, at each of `steps`.
fn tail(spans: &[&Span], steps: impl Iterator<Item = f64>) -> Vec<(f64, f64)> {
    let share = |ms: f64| spans.iter().filter(|span| lasted_ms(span) >= ms).count() as f64 / spans.len() as f64;
    steps.map(|ms| (ms, 100.0 * share(ms))).collect()
}

#[test]
fn a_slow_database_takes_down_the_callers_of_its_client() {
    let pairs = [("target_service", "mysql"), ("latency_ms", "400")];
    let (probe, _) = with_fault(7, 20.0, Some(&fault("network_delay", ORDER, &pairs)));
    let statements = |span: &&Span| span.attributes.get("server.address").is_some_and(|peer| peer == "mysql");
    let client: Vec<&Span> = of(&probe, ORDER, Span::CLIENT).filter(statements).collect();
    let served: Vec<&Span> = of(&probe, ORDER, Span::SERVER).collect();
    let callers: Vec<&Span> = of(&probe, "ts-seat-service", Span::SERVER).collect();
    let late = |spans: &[&Span], (from, to): (i64, i64)| {
        let inside = spans.iter().filter(|span| span.end >= from * SECOND && span.end < to * SECOND);
        quantile(inside.map(|span| span.lasted()), 0.5) as f64 / MILLI
    };
    // The statement itself takes 0.4 s more; the wait for one of ten connections is many times that.
    assert!((380.0..600.0).contains(&late(&client, (80, 118))), "{}", late(&client, (80, 118)));
    assert!(late(&served, (80, 118)) > 5.0 * late(&client, (80, 118)), "{}", late(&served, (80, 118)));
    assert!(late(&callers, (80, 118)) > late(&served, (80, 118)), "the callers wait for all their calls");
    assert!(late(&callers, BEFORE) < 100.0);
    Picture {
        name: "pool-exhaustion",
        title: "400 ms more on the way to the database: ten connections are too few",
        x: "s",
        y: "mean latency, ms",
        series: vec![
            ("caller (ts-seat-service)", latency(callers)),
            ("client of the database (ts-order-service)", latency(served)),
            ("its statements", latency(client)),
        ],
        fault: FAULT,
    }
    .check();
}

#[test]
fn throttling_shows_as_a_tail_in_steps_of_the_quota_period() {
    let resolved = fault("cpu_stress", ORDER, &[("load_pct", "100"), ("workers", "6")]);
    let (probe, _) = with_fault(7, 20.0, Some(&resolved));
    let (calm, stressed) = (probe.served(ORDER, BEFORE), probe.served(ORDER, DURING));
    let steps = || (0..80).map(|step| 5.0 * f64::from(step));
    let (before, during) = (tail(&calm, steps()), tail(&stressed, steps()));
    let drop = |from: f64, to: f64| {
        let at = |ms: f64| during.iter().find(|point| point.0 >= ms).expect("inside the picture").1;
        at(from) - at(to)
    };
    // A request that comes while the group stands still ends soon after the next period begins.
    assert!(drop(75.0, 105.0) > 2.0 * drop(45.0, 75.0), "{during:?}");
    assert!(drop(165.0, 195.0) > 1.5 * drop(115.0, 145.0), "{during:?}");
    Picture {
        name: "throttling-tail",
        title: "A container past its CPU quota: latencies in steps of 100 ms",
        x: "ms",
        y: "% of requests that take longer",
        series: vec![("during", during), ("before", before)],
        fault: None,
    }
    .check();
}

#[test]
fn loss_on_a_link_is_a_tail_of_latency_and_no_error() {
    let pairs = [("target_service", "ts-basic-service"), ("loss_pct", "30")];
    let (probe, _) = with_fault(7, 20.0, Some(&fault("network_loss", "ts-travel-service", &pairs)));
    let calls = |window| probe.calls("ts-travel-service", "ts-basic-service", window);
    let (before, during) = (calls(BEFORE), calls(DURING));
    let failed = |spans: &[&Span]| spans.iter().filter(|span| span.failed).count() as f64 / spans.len() as f64;
    assert!(failed(&during) < failed(&before) + 0.01, "{} {}", failed(&before), failed(&during));
    let share = |spans: &[&Span], ms: f64| tail(spans, std::iter::once(ms))[0].1;
    assert!(share(&during, 200.0) > 20.0 && share(&before, 200.0) < 1.0);
    Picture {
        name: "loss-tail",
        title: "30 % loss on one link: retransmission timers of 200 ms, doubling",
        x: "ms",
        y: "% of calls that take longer",
        series: vec![
            ("during", tail(&during, (0..100).map(|step| 20.0 * f64::from(step)))),
            ("before", tail(&before, (0..100).map(|step| 20.0 * f64::from(step)))),
        ],
        fault: None,
    }
    .check();
}

#[test]
fn requests_go_to_a_killed_pod_until_its_endpoint_is_gone() {
    let (probe, _) = with_fault(7, 30.0, Some(&fault("pod_kill", ORDER, &[])));
    let failed: Vec<&Span> = of(&probe, "ts-seat-service", Span::CLIENT)
        .filter(|span| span.failed && span.attributes.get("server.address").is_some_and(|peer| peer == ORDER))
        .collect();
    let kinds: std::collections::BTreeSet<&str> =
        failed.iter().filter_map(|span| span.attributes.get("error.type").map(String::as_str)).collect();
    assert!(!failed.is_empty(), "callers notice");
    assert!(failed.iter().all(|span| span.end >= 60 * SECOND), "not before the kill: {kinds:?}");
    let last = failed.iter().map(|span| span.end).max().unwrap_or_default() / SECOND;
    assert!((62..130).contains(&last), "until another pod is ready: {last}");
    Picture {
        name: "killed-pod",
        title: "A killed pod: failed calls of one caller until another pod is ready",
        x: "s",
        y: "calls a second",
        series: vec![
            ("failed", count_by_second(failed.iter(), SHOWN, |span| span.end)),
            ("all", count_by_second(probe.calls("ts-seat-service", ORDER, (0, 150)), SHOWN, |span| span.end)),
        ],
        fault: FAULT,
    }
    .check();
}

#[test]
fn a_slow_consumer_is_lag_and_not_latency() {
    let resolved = fault("pod_failure", "ts-delivery-service", &[]);
    let (probe, _) = with_fault(7, 30.0, Some(&resolved));
    let depth: Vec<(f64, f64)> = probe
        .points
        .iter()
        .filter(|point| point.name == "rabbitmq_queue_messages")
        .filter(|point| (20 * SECOND..150 * SECOND).contains(&point.at))
        .map(|point| (point.at as f64 / SECOND as f64, point.value))
        .collect();
    let entry: Vec<&Span> = of(&probe, "ts-food-service", Span::SERVER).collect();
    let median = |window: (i64, i64)| {
        let inside = entry.iter().filter(|span| span.end >= window.0 * SECOND && span.end < window.1 * SECOND);
        quantile(inside.map(|span| span.lasted()), 0.5) as f64 / MILLI
    };
    assert!(median(DURING) < 1.3 * median(BEFORE), "{} {}", median(BEFORE), median(DURING));
    let most = depth.iter().map(|point| point.1).fold(0.0, f64::max);
    assert!(most >= 10.0, "the queue grows: {depth:?}");
    Picture {
        name: "consumer-lag",
        title: "The consumer is gone: messages wait, the publishers do not",
        x: "s",
        y: "messages; ms",
        series: vec![("messages in the queue", depth), ("latency of the publisher, ms", latency(entry))],
        fault: FAULT,
    }
    .check();
}

#[test]
fn memory_past_its_limit_ends_in_back_off() {
    // Whoever takes the memory is gone with the container, so each restart is followed by another attack.
    let (mut probe, mut world) = (Probe::default(), crate::probe::world(7, 10.0));
    let resolved = fault("memory_stress", ORDER, &[("size_mib", "2000")]);
    for (number, second) in [60, 120, 190, 280].into_iter().enumerate() {
        world.run(second * SECOND, &mut probe).unwrap();
        world.start_fault(&format!("f{number}"), &resolved).unwrap();
    }
    world.run(400 * SECOND, &mut probe).unwrap();
    let served = count_by_second(of(&probe, ORDER, Span::SERVER), (20, 400), |span| span.end);
    let mut silences: Vec<f64> = Vec::new();
    let mut since = None;
    for &(second, count) in &served {
        match (count > 0.0, since) {
            (true, Some(start)) => {
                silences.extend((second - start > 8.0).then_some(second - start));
                since = None;
            }
            (false, None) => since = Some(second),
            _ => {}
        }
    }
    // The first restart is at once, the next ones wait 10 s, 20 s and 40 s; a start takes 20 to 45 s.
    assert_eq!(silences.len(), 4, "{silences:?}");
    assert!(silences[3] > silences[0] + 15.0, "{silences:?}");
    Picture {
        name: "memory-back-off",
        title: "Four times past the memory limit: killed, and started again after longer and longer pauses",
        x: "s",
        y: "requests served a second",
        series: vec![("requests", served)],
        fault: None,
    }
    .check();
}
