//! How each sign of a contract is read from telemetry, against the control.

use std::collections::HashMap;

use fault::Sign;

use super::lab::{CONTROL, Case, DURING, END, START};
use crate::probe::{Probe, SECOND, Span, quantile};

const MILLI: i64 = 1_000_000;
/// Users, who are the most impatient callers here, wait so long.
const PATIENCE: i64 = 30 * SECOND;
/// Effects that need open connections to be closed first have taken hold by then.
const LATE: (i64, i64) = (END - 20, END);

/// Whether the sign shows in the case.
pub fn shows(sign: Sign, case: &Case) -> bool {
    match sign {
        Sign::CallsFail => failing(case).1 > 0.5,
        Sign::CallsFailAtOnce => {
            let (calls, share) = failing(case);
            share > 0.5 && median(calls.iter().filter(|call| call.failed).map(|call| call.lasted())) < SECOND
        }
        Sign::CallsHang => hangs(case),
        Sign::CallsSlow => slower(&case.calls(&case.probe, DURING), &case.calls(&CONTROL, DURING)),
        Sign::CallsTail => {
            let calls = |probe| ok(case.calls(probe, DURING));
            let grows = |share| quantile(calls(&case.probe), share) - quantile(calls(&CONTROL), share);
            grows(0.95) > 150 * MILLI && grows(0.5) < 100 * MILLI
        }
        Sign::CallersFail => {
            let answered: Vec<&Span> =
                case.calls(&case.probe, DURING).into_iter().filter(|call| !call.failed).collect();
            let handlings = case.handlings(&case.probe, &answered);
            share(&handlings, |span| span.failed) > 0.5
        }
        Sign::ServerSpansVanish => {
            // What was on its way may still come in.
            let spans = |probe| case.served(probe, (START + 3, END)).len();
            (spans(&case.probe) as f64) < 0.1 * spans(&CONTROL) as f64
        }
        Sign::ServerSpansFail => share(&case.served(&case.probe, DURING), |span| span.failed) > 0.2,
        Sign::ServerSpansSlow => slower(&case.served(&case.probe, DURING), &case.served(&CONTROL, DURING)),
        Sign::ServerRefuses => {
            let of_server = |span: &&Span| span.kind == Span::SERVER && span.service == case.server();
            let spans = case.probe.spans.iter().filter(of_server);
            spans.filter(|span| span.status().is_some_and(|status| status.starts_with('4'))).count() > 50
        }
        Sign::CallsBelowVanish => {
            let below = |probe| case.below(probe, DURING) as f64;
            below(&case.probe) < 0.5 * below(&CONTROL)
        }
        Sign::PodReplaced => case.probe.points.iter().any(|point| {
            let own = point.service == case.fault.service() && !point.pod.is_empty();
            own && !CONTROL.points.iter().any(|other| other.pod == point.pod)
        }),
        Sign::ContainerRestarted => {
            let restarts = case.probe.at(case.fault.service(), "k8s.container.restarts");
            restarts.iter().any(|&(at, count)| at > START * SECOND && count >= 1.0)
        }
        Sign::NotReady => {
            let ready = case.probe.at(case.fault.service(), "k8s.container.ready");
            ready.iter().any(|&(at, ready)| at > START * SECOND && ready == 0.0)
        }
        Sign::CpuRises => rises(case, "container.cpu.usage", 0.3),
        Sign::ProcessCpuRises => grows(case, "jvm.cpu.time", 0.3 * (END - START) as f64),
        Sign::Throttled => grows(case, "container_cpu_cfs_throttled_periods_total", 100.0),
        Sign::MemoryRises => rises(case, "container.memory.working_set", 100.0 * 1024.0 * 1024.0),
        Sign::HeapRises => rises(case, "jvm.memory.usage.after.gc", 0.2),
        Sign::FullCollections => {
            let count = |probe: &Probe| probe.collections(case.fault.service());
            count(&case.probe) > count(&CONTROL)
        }
        Sign::BytesRise => {
            // Beside what the service sends to others; the control sends the same messages.
            let bytes = |probe: &Probe| increase(probe, case.fault.service(), "k8s.pod.network.io");
            bytes(&case.probe) > 1.01 * bytes(&CONTROL)
        }
        Sign::StampsShift => {
            let starts = |probe: &Probe| {
                let served = |span: &&Span| span.kind == Span::SERVER && span.service == case.server();
                let spans = probe.spans.iter().filter(served).map(|span| (span.id.clone(), span.start));
                spans.collect::<HashMap<Vec<u8>, i64>>()
            };
            let (with, without) = (starts(&case.probe), starts(&CONTROL));
            let moved = |(id, start): &(&Vec<u8>, &i64)| {
                without.get(*id).is_some_and(|other| (**start - other).abs() > 10 * SECOND)
            };
            with.iter().filter(moved).count() > 100
        }
    }
}

/// Calls begun when the effect has taken hold, and the share of them that failed. Spans that never came count as failed.
fn failing(case: &Case) -> (Vec<&Span>, f64) {
    let expect = case.calls(&CONTROL, LATE).len();
    // A target that comes back fails its callers only until then.
    let window = if case.fault.capability().length == fault::Length::OneShot { (START, START + 10) } else { LATE };
    let calls = case.calls(&case.probe, window);
    assert!(expect > 50, "the control has too few calls to compare with: {expect}");
    let share = share(&calls, |call| call.failed);
    (calls, share)
}

/// No call that began under the fault's full effect has an answer before somebody's patience ends.
fn hangs(case: &Case) -> bool {
    let calls = case.calls(&case.probe, LATE);
    let quick = calls.iter().filter(|call| call.lasted() < 10 * SECOND && call.end < END * SECOND).count();
    let expect = case.calls(&CONTROL, LATE).len();
    assert!(PATIENCE > 10 * SECOND && expect > 50);
    (quick as f64) < 0.25 * expect as f64
}

/// Whether most spans take half as long again, and at least some milliseconds more.
fn slower(with: &[&Span], without: &[&Span]) -> bool {
    let typical = |spans: &[&Span]| median(spans.iter().map(|span| span.lasted()));
    !with.is_empty() && typical(with) > typical(without) * 3 / 2 + 3 * MILLI
}

fn ok(spans: Vec<&Span>) -> Vec<i64> {
    spans.into_iter().filter(|span| !span.failed).map(Span::lasted).collect()
}

fn median(values: impl Iterator<Item = i64>) -> i64 {
    quantile(values, 0.5)
}

fn share(spans: &[&Span], of: impl Fn(&Span) -> bool) -> f64 {
    spans.iter().filter(|span| of(span)).count() as f64 / spans.len().max(1) as f64
}

/// Mean of a gauge under the fault, over the control's, exceeds `by`.
fn rises(case: &Case, name: &str, by: f64) -> bool {
    let mean = |probe: &Probe| {
        let inside = |&(at, _): &(i64, f64)| at > (START + 10) * SECOND && at < END * SECOND;
        let values: Vec<f64> = probe.at(case.fault.service(), name).into_iter().filter(inside).map(|p| p.1).collect();
        values.iter().sum::<f64>() / values.len().max(1) as f64
    };
    mean(&case.probe) - mean(&CONTROL) > by
}

/// A counter grew by so much more than in the control.
fn grows(case: &Case, name: &str, by: f64) -> bool {
    let service = case.fault.service();
    increase(&case.probe, service, name) - increase(&CONTROL, service, name) > by
}

fn increase(probe: &Probe, service: &str, name: &str) -> f64 {
    let last = |second: i64| {
        let points = probe.at(service, name).into_iter().filter(|(at, _)| *at < second * SECOND);
        points.map(|point| point.1).fold(0.0, f64::max)
    };
    last(END + 15) - last(START)
}
