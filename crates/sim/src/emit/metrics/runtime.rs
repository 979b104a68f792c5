//! What runtimes and the pools in a process report: the Java virtual machine, Go, Node, Python, .NET.

use system::{ServiceTelemetry, Stack};

use super::{Reading, Round};
use crate::emit::attribute::{boolean, int, text};
use crate::emit::histogram::Meters;
use crate::emit::stack::is_java;
use crate::plan::ServicePlan;
use crate::pod::Pod;
use crate::profile::MIB;
use crate::rng::{join, name_key};

pub fn scope(stack: Stack) -> &'static str {
    match stack {
        Stack::Go | Stack::Caddy => "go.opentelemetry.io/contrib/instrumentation/runtime",
        Stack::Node | Stack::Next => "@opentelemetry/instrumentation-runtime-node",
        Stack::Python => "opentelemetry.instrumentation.system_metrics",
        Stack::Dotnet => "OpenTelemetry.Instrumentation.Runtime",
        stack if is_java(stack) => "io.opentelemetry.runtime-telemetry-java17",
        _ => "",
    }
}

pub fn report(
    round: &mut Round<'_>,
    reading: &mut Reading<'_>,
    service: &ServicePlan,
    profile: &ServiceTelemetry,
    meters: &Meters,
) {
    let own = Own::of(service);
    match profile.stack {
        Stack::Go => go(round, reading, &own),
        Stack::Node | Stack::Next => node(round, reading, &own),
        Stack::Python => python(round, reading, &own),
        Stack::Dotnet => dotnet(round, reading, &own),
        stack if is_java(stack) => {
            jvm(round, reading, &own);
            let [young, full] = &meters.collections;
            let collector = |name, action| vec![text("jvm.gc.name", name), text("jvm.gc.action", action)];
            round.histogram(
                "jvm.gc.duration",
                "s",
                vec![
                    (young, collector("G1 Young Generation", "end of minor GC")),
                    (full, collector("G1 Old Generation", "end of major GC")),
                ],
            );
            if stack == Stack::SpringAgent {
                micrometer(round, reading, &own);
            }
            if service.has_database && stack == Stack::SpringAgent {
                hikari(round, reading.pod);
                let pool = || vec![text("pool.name", "HikariPool-1")];
                round.histogram("db.client.connections.use_time", "ms", vec![(&meters.connection_use, pool())]);
                round.histogram("db.client.connections.wait_time", "ms", vec![(&meters.connection_wait, pool())]);
            }
        }
        _ => {}
    }
}

/// What differs from program to program although the kind is the same: sizes of code, numbers of helpers.
struct Own(u64);

impl Own {
    fn of(service: &ServicePlan) -> Self {
        Self(name_key(&service.name))
    }

    /// A whole number that belongs to the program.
    fn pick(&self, what: u64, low: u64, high: u64) -> f64 {
        (low + join(self.0, what) % (high - low + 1)) as f64
    }
}

fn jvm(round: &mut Round<'_>, reading: &mut Reading<'_>, own: &Own) {
    let pod = reading.pod;
    let Some(heap) = pod.heap else { return };
    let pool = |kind: &str, name: &str| [text("jvm.memory.type", kind), text("jvm.memory.pool.name", name)];
    let settled = 1.0 - (-reading.uptime() / 60.0).exp() * 0.1;
    let metaspace = pod.profile.memory_base * own.pick(1, 34, 46) / 100.0 * settled;
    let classes = metaspace * 0.125;
    let code = pod.profile.memory_base * own.pick(2, 11, 17) / 100.0 * settled;
    let survivor = (heap.plan.young * 0.03 + heap.old_used * 0.01).round();
    round.sum(
        "jvm.memory.used",
        "By",
        false,
        &[
            (heap.young_used, &pool("heap", "G1 Eden Space")),
            (survivor, &pool("heap", "G1 Survivor Space")),
            (heap.old_used, &pool("heap", "G1 Old Gen")),
            (metaspace, &pool("non_heap", "Metaspace")),
            (classes, &pool("non_heap", "Compressed Class Space")),
            (code, &pool("non_heap", "CodeCache")),
        ],
    );
    round.sum(
        "jvm.memory.committed",
        "By",
        false,
        &[
            (heap.plan.young, &pool("heap", "G1 Eden Space")),
            (survivor * 1.2, &pool("heap", "G1 Survivor Space")),
            (heap.old_used.max(heap.plan.live * 1.4), &pool("heap", "G1 Old Gen")),
            (metaspace * 1.012, &pool("non_heap", "Metaspace")),
            (classes * 1.05, &pool("non_heap", "Compressed Class Space")),
            (code * 1.02, &pool("non_heap", "CodeCache")),
        ],
    );
    round.sum("jvm.memory.limit", "By", false, &[(heap.plan.max, &pool("heap", "G1 Old Gen"))]);
    round.sum(
        "jvm.memory.used_after_last_gc",
        "By",
        false,
        &[(heap.old_used, &pool("heap", "G1 Old Gen")), (0.0, &pool("heap", "G1 Eden Space"))],
    );
    let busy = f64::from(pod.workers.busy());
    let workers = busy.max(10.0);
    let threads = |daemon: bool, state: &str| [boolean("jvm.thread.daemon", daemon), text("jvm.thread.state", state)];
    // A worker that waits for an answer reads from a socket: the virtual machine calls that running.
    round.sum(
        "jvm.thread.count",
        "{thread}",
        false,
        &[
            (busy + own.pick(3, 4, 7), &threads(true, "runnable")),
            (workers - busy + own.pick(4, 5, 9), &threads(true, "timed_waiting")),
            (own.pick(5, 8, 15), &threads(true, "waiting")),
            (own.pick(6, 1, 3), &threads(false, "runnable")),
            (own.pick(7, 1, 2), &threads(false, "timed_waiting")),
            (own.pick(8, 2, 5), &threads(false, "waiting")),
        ],
    );
    let loaded = own.pick(9, 14_100, 18_900) + (900.0 * (1.0 - (-reading.uptime() / 40.0).exp())).floor();
    round.sum("jvm.class.loaded", "{class}", true, &[(loaded + own.pick(10, 2, 60), &[])]);
    round.sum("jvm.class.unloaded", "{class}", true, &[(own.pick(10, 2, 60), &[])]);
    round.sum("jvm.class.count", "{class}", false, &[(loaded, &[])]);
    round.sum("jvm.cpu.time", "s", true, &[(reading.cpu_spent(), &[])]);
    round.sum("jvm.cpu.count", "{cpu}", false, &[(pod.profile.cpu_limit.ceil(), &[])]);
    let share = reading.cpu_usage / pod.profile.cpu_limit * reading.draw.between(0.97, 1.03);
    round.gauge("jvm.cpu.recent_utilization", "1", &[(share.min(1.0), &[])]);
}

/// Micrometer's registry, bridged by the agent: its own view of the same.
fn micrometer(round: &mut Round<'_>, reading: &mut Reading<'_>, own: &Own) {
    let pod = reading.pod;
    let Some(heap) = pod.heap else { return };
    let share = reading.cpu_usage / pod.profile.cpu_limit * reading.draw.between(0.96, 1.04);
    let busy = f64::from(pod.workers.busy());
    round.gauge("process.cpu.usage", "1", &[(share.min(1.0), &[])]);
    round.gauge("process.uptime", "s", &[(reading.uptime(), &[])]);
    round.gauge("process.files.open", "{files}", &[(own.pick(20, 36, 88) + busy, &[])]);
    round.gauge("jvm.threads.live", "{threads}", &[(own.pick(21, 24, 37) + busy.max(10.0), &[])]);
    round.gauge("jvm.memory.usage.after.gc", "1", &[(heap.old_used / heap.plan.max, &[])]);
    round.gauge("tomcat.threads.busy", "{threads}", &[(busy, &[])]);
    round.gauge("tomcat.threads.current", "{threads}", &[(busy.max(10.0), &[])]);
    round.gauge("tomcat.sessions.active.current", "{sessions}", &[(0.0, &[])]);
}

fn hikari(round: &mut Round<'_>, pod: &Pod) {
    let pool = [text("pool.name", "HikariPool-1")];
    let Some(connections) = pod.database() else { return };
    let busy = f64::from(connections.busy());
    let (idle, waiting) = (f64::from(connections.servers()) - busy, f64::from(connections.waiting()));
    let state = |state: &str| [text("pool.name", "HikariPool-1"), text("state", state)];
    round.sum("db.client.connections.usage", "{connection}", false, &[(busy, &state("used")), (idle, &state("idle"))]);
    round.sum("db.client.connections.max", "{connection}", false, &[(busy + idle, &pool)]);
    round.sum("db.client.connections.pending_requests", "{request}", false, &[(waiting, &pool)]);
    let pool = [text("pool", "HikariPool-1")];
    round.gauge("hikaricp.connections", "{connections}", &[(busy + idle, &pool)]);
    round.gauge("hikaricp.connections.active", "{connections}", &[(busy, &pool)]);
    round.gauge("hikaricp.connections.idle", "{connections}", &[(idle, &pool)]);
    round.gauge("hikaricp.connections.pending", "{connections}", &[(waiting, &pool)]);
}

fn go(round: &mut Round<'_>, reading: &mut Reading<'_>, own: &Own) {
    let pod = reading.pod;
    let used = pod.working_set(reading.now);
    let kind = |kind: &str| [text("go.memory.type", kind)];
    let stack = 0.6 * MIB + f64::from(pod.workers.busy()) * 8192.0;
    round.sum(
        "go.memory.used",
        "By",
        false,
        &[(stack, &kind("stack")), (used * 0.55 * reading.draw.between(0.9, 1.1), &kind("other"))],
    );
    let allocated = own.pick(1, 18, 60) * MIB + pod.requests as f64 * own.pick(2, 24_000, 91_000);
    round.sum("go.memory.allocated", "By", true, &[(allocated, &[])]);
    round.sum("go.memory.allocations", "{allocation}", true, &[((allocated / 118.0).floor(), &[])]);
    round.sum("go.memory.gc.goal", "By", false, &[(4.0 * MIB + used * 0.3, &[])]);
    round.sum(
        "go.goroutine.count",
        "{goroutine}",
        false,
        &[(own.pick(3, 14, 44) + f64::from(pod.workers.busy()) * 2.0, &[])],
    );
    round.sum("go.processor.limit", "{thread}", false, &[(own.pick(4, 16, 16), &[])]);
    round.sum("go.config.gogc", "%", false, &[(100.0, &[])]);
}

fn node(round: &mut Round<'_>, reading: &mut Reading<'_>, own: &Own) {
    let pod = reading.pod;
    let load = (reading.cpu_usage / pod.profile.cpu_limit.min(1.0)).min(1.0);
    // The loop is as late as the work that is queued on its one thread.
    let late = 0.0101 + 0.002 * load + 0.004 * f64::from(pod.workers.waiting()) * reading.draw.between(0.8, 1.2);
    round.gauge("nodejs.eventloop.delay.min", "s", &[(0.0094, &[])]);
    round.gauge("nodejs.eventloop.delay.mean", "s", &[(late, &[])]);
    round.gauge("nodejs.eventloop.delay.p50", "s", &[(late * 0.998, &[])]);
    round.gauge("nodejs.eventloop.delay.p90", "s", &[(late * (1.03 + 0.3 * load), &[])]);
    round.gauge("nodejs.eventloop.delay.p99", "s", &[(late * (1.12 + 1.4 * load), &[])]);
    round.gauge("nodejs.eventloop.delay.max", "s", &[(late * (1.5 + 4.0 * load), &[])]);
    round.gauge("nodejs.eventloop.utilization", "1", &[(load * reading.draw.between(0.9, 1.0), &[])]);
    let space = |space: &str| [text("v8js.heap.space.name", space)];
    let used = pod.working_set(reading.now);
    let old = used * own.pick(1, 28, 36) / 100.0;
    round.gauge(
        "v8js.memory.heap.used",
        "By",
        &[(old, &space("old_space")), (used * 0.02 * reading.draw.between(0.2, 1.0), &space("new_space"))],
    );
    round.gauge(
        "v8js.memory.heap.limit",
        "By",
        &[(old * 1.3, &space("old_space")), (used * 0.04, &space("new_space"))],
    );
}

fn python(round: &mut Round<'_>, reading: &mut Reading<'_>, own: &Own) {
    let pod = reading.pod;
    let used = pod.working_set(reading.now);
    let kind = |kind: &str| [text("type", kind)];
    round.sum(
        "process.runtime.cpython.memory",
        "By",
        false,
        &[(used * 0.93, &kind("rss")), (used * 0.93 + own.pick(1, 260, 420) * MIB, &kind("vms"))],
    );
    let spent = reading.cpu_spent();
    round.sum(
        "process.runtime.cpython.cpu_time",
        "s",
        true,
        &[(spent * 0.86, &kind("user")), (spent * 0.14, &kind("system"))],
    );
    let share = reading.cpu_usage * reading.draw.between(0.95, 1.05);
    round.gauge("process.runtime.cpython.cpu.utilization", "1", &[(share, &[])]);
    round.sum("process.runtime.cpython.thread_count", "{thread}", false, &[(own.pick(2, 11, 19), &[])]);
    let passes = 300.0 + pod.requests as f64 * 0.4;
    let generation = |number: i64| [int("count", number)];
    let passes = [
        (passes.floor(), &generation(0)[..]),
        ((passes / 11.0).floor(), &generation(1)[..]),
        ((passes / 140.0).floor(), &generation(2)[..]),
    ];
    round.sum("process.runtime.cpython.gc_count", "{collection}", true, &passes);
}

fn dotnet(round: &mut Round<'_>, reading: &mut Reading<'_>, own: &Own) {
    let pod = reading.pod;
    let allocated = own.pick(1, 40, 90) * MIB + pod.requests as f64 * own.pick(2, 30_000, 80_000);
    let generation = |name: &str| [text("generation", name)];
    let collections = (allocated / (own.pick(3, 14, 30) * MIB)).floor();
    let counts = [
        (collections, &generation("gen0")[..]),
        ((collections / 3.0).floor(), &generation("gen1")[..]),
        ((collections / 11.0).floor(), &generation("gen2")[..]),
    ];
    round.sum("process.runtime.dotnet.gc.collections.count", "{collections}", true, &counts);
    round.sum("process.runtime.dotnet.gc.allocations.size", "By", true, &[(allocated, &[])]);
    let heap = pod.working_set(reading.now) * 0.22 * reading.draw.between(0.9, 1.1);
    round.sum("process.runtime.dotnet.gc.objects.size", "By", false, &[(heap, &[])]);
    round.sum(
        "process.runtime.dotnet.thread_pool.threads.count",
        "{threads}",
        false,
        &[(own.pick(4, 3, 6) + f64::from(pod.workers.busy()).min(20.0), &[])],
    );
    round.sum(
        "process.runtime.dotnet.thread_pool.queue.length",
        "{work_items}",
        false,
        &[(f64::from(pod.workers.waiting()), &[])],
    );
    round.sum("process.runtime.dotnet.exceptions.count", "{exceptions}", true, &[(own.pick(5, 0, 9), &[])]);
    round.sum("kestrel.active_connections", "{connection}", false, &[(own.pick(6, 2, 5), &[])]);
}
