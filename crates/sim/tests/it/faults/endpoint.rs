//! What callers meet at a pod that was killed, until its endpoint is gone and its successor is ready.

use sim::{Plan, World};

use super::lab::{LAB, START, fault};
use crate::probe::{Probe, SECOND, Span, environment};

/// Calls from the shop to the stock that began in a window of tenths of a second after the kill, and how many had no answer.
fn calls(probe: &Probe, (from, to): (i64, i64)) -> (usize, usize) {
    let at = |tenths: i64| START * SECOND + tenths * SECOND / 10;
    let began = |span: &&Span| (at(from)..at(to)).contains(&span.start);
    let stock = |span: &&Span| span.attributes.get("server.address").is_some_and(|address| address == "stock");
    let calls = probe.spans.iter().filter(|span| span.service == "shop" && span.kind == Span::CLIENT);
    let calls: Vec<&Span> = calls.filter(began).filter(stock).collect();
    (calls.len(), calls.iter().filter(|call| call.status().is_none()).count())
}

#[test]
fn requests_are_sent_to_a_killed_pod_until_its_endpoint_is_gone() {
    let mut plan = Plan::new("lab", "app", LAB.topology().unwrap()).unwrap();
    plan.services.iter_mut().find(|service| service.name == "stock").unwrap().replicas = 2;
    let mut world = World::new(plan.into(), "lab0", environment(5, 200.0));
    let mut probe = Probe::default();
    world.run(START * SECOND, &mut probe).unwrap();
    let killed = world.start_fault("f", &fault("pod_kill", "stock", &[])).unwrap();
    assert_eq!(killed.len(), 1, "one of two");
    world.run((START + 10) * SECOND, &mut probe).unwrap();
    // What was under way at the kill is broken by it.
    assert_eq!(calls(&probe, (-100, -1)).1, 0);
    // The endpoint stays for half a second at least: every other new connection goes there and is refused. Open ones to
    // the other pod go on.
    let (sent, failed) = calls(&probe, (0, 5));
    assert!(failed >= 1 && failed * 2 < sent, "{failed} of {sent}");
    // After two seconds at most it is gone, and the other pod answers alone.
    let (sent, failed) = calls(&probe, (21, 90));
    assert!(sent > 300 && failed == 0, "{failed} of {sent}");
}
