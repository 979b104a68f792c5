//! What the exporters report on each round: the agent in a process, the kubelet about pods and containers, the cluster
//! receiver about workloads, and the products' own exporters.

use system::{Kind, Language};
use telemetry::otlp::Resource;
use telemetry::otlp::common::{InstrumentationScope, KeyValue};
use telemetry::otlp::metrics::metric::Data;
use telemetry::otlp::metrics::number_data_point::Value;
use telemetry::otlp::metrics::{
    AggregationTemporality, Gauge, Histogram as OtlpHistogram, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum,
};

use super::attribute::{int, text};
use super::failure::of_connection;
use super::histogram::Histogram;
use super::{Recorder, resource};
use crate::engine::{SECOND, Time};
use crate::plan::CallKind;
use crate::pod::{Pod, PodState};
use crate::request::Failure;
use crate::rng::Draw;

/// Who reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exporter {
    /// The agent inside the process.
    Process,
    /// The kubelet of the pod's node.
    Kubelet,
    /// The receiver that watches the cluster's objects.
    Cluster,
}

impl Exporter {
    pub const ALL: [Self; 3] = [Self::Process, Self::Kubelet, Self::Cluster];
}

/// What is read of a pod at the moment of a round.
pub struct Reading<'a> {
    pub pod: &'a Pod,
    pub now: Time,
    /// CPU time so far and CPU use since the last round, in seconds and cores.
    pub cpu_time: f64,
    pub cpu_usage: f64,
    /// Messages at the broker that no consumer has taken, by queue, with those being worked on.
    pub queues: Vec<(String, u64, u64)>,
    /// Connections in use at a database.
    pub sessions: u64,
    pub draw: Draw,
}

/// Points of one resource and round under way.
struct Round<'a> {
    metrics: Vec<Metric>,
    time: u64,
    start: u64,
    points: &'a mut u64,
}

impl Round<'_> {
    fn gauge(&mut self, name: &str, unit: &str, points: &[(f64, &[KeyValue])]) {
        let data_points = self.numbers(unit, points, 0);
        self.push(name, unit, Data::Gauge(Gauge { data_points }));
    }

    /// A sum; `monotonic` tells a counter from an up-down counter.
    fn sum(&mut self, name: &str, unit: &str, monotonic: bool, points: &[(f64, &[KeyValue])]) {
        let data_points = self.numbers(unit, points, self.start);
        let cumulative = AggregationTemporality::Cumulative as i32;
        self.push(
            name,
            unit,
            Data::Sum(Sum { data_points, aggregation_temporality: cumulative, is_monotonic: monotonic }),
        );
    }

    fn histogram(&mut self, name: &str, unit: &str, points: Vec<(&Histogram, Vec<KeyValue>)>) {
        let data_points: Vec<HistogramDataPoint> = points
            .into_iter()
            .filter(|(histogram, _)| histogram.count > 0)
            .map(|(histogram, attributes)| HistogramDataPoint {
                attributes,
                start_time_unix_nano: self.start,
                time_unix_nano: self.time,
                count: histogram.count,
                sum: Some(histogram.sum),
                bucket_counts: histogram.counts.clone(),
                explicit_bounds: histogram.bounds.to_vec(),
                min: Some(histogram.min),
                max: Some(histogram.max),
                ..HistogramDataPoint::default()
            })
            .collect();
        if data_points.is_empty() {
            return;
        }
        *self.points += data_points.len() as u64;
        let cumulative = AggregationTemporality::Cumulative as i32;
        self.push(name, unit, Data::Histogram(OtlpHistogram { data_points, aggregation_temporality: cumulative }));
    }

    fn numbers(&mut self, unit: &str, points: &[(f64, &[KeyValue])], start: u64) -> Vec<NumberDataPoint> {
        *self.points += points.len() as u64;
        // There is no part of a byte.
        let number = |value: f64| if unit == "By" { value.round() } else { value };
        points
            .iter()
            .map(|(value, attributes)| NumberDataPoint {
                attributes: attributes.to_vec(),
                start_time_unix_nano: start,
                time_unix_nano: self.time,
                value: Some(Value::AsDouble(number(*value))),
                ..NumberDataPoint::default()
            })
            .collect()
    }

    fn push(&mut self, name: &str, unit: &str, data: Data) {
        let metric = Metric { name: name.to_owned(), unit: unit.to_owned(), data: Some(data), ..Metric::default() };
        self.metrics.push(metric);
    }
}

impl Recorder {
    /// One exporter's round over one pod.
    pub fn report(&mut self, exporter: Exporter, mut reading: Reading<'_>) {
        match exporter {
            Exporter::Process => self.process(&mut reading),
            Exporter::Kubelet => self.kubelet(&mut reading),
            Exporter::Cluster => self.cluster(&reading),
        }
    }

    fn process(&mut self, reading: &mut Reading<'_>) {
        if !reading.pod.runs() {
            return;
        }
        let service = &self.plan.services[reading.pod.service as usize];
        match service.kind {
            Kind::Mq => self.broker(reading),
            Kind::Db => self.database(reading),
            _ => self.agent(reading),
        }
    }

    /// The OpenTelemetry agent of a service.
    fn agent(&mut self, reading: &mut Reading<'_>) {
        let pod = reading.pod;
        let plan = self.plan.clone();
        let service = &plan.services[pod.service as usize];
        let meters = std::mem::take(&mut self.buffers[pod.slot as usize].meters);
        let mut points = 0;
        let mut round = self.round(reading, pod.process_start, &mut points);
        round.time = self.own_stamp(pod, reading.now, reading.now);
        if service.jvm {
            jvm(&mut round, reading);
            if service.has_database {
                hikari(&mut round, pod);
            }
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
            let pool = || vec![text("pool.name", "HikariPool-1")];
            round.histogram("db.client.connections.use_time", "ms", vec![(&meters.connection_use, pool())]);
            round.histogram("db.client.connections.wait_time", "ms", vec![(&meters.connection_wait, pool())]);
        }
        let server = meters.server.list.iter().map(|((operation, status), histogram)| {
            let (method, route) = self.answered(&plan, *operation);
            let mut attributes = vec![
                text("http.request.method", method),
                int("http.response.status_code", i64::from(*status)),
                text("http.route", route),
                text("network.protocol.version", "1.1"),
                text("url.scheme", "http"),
            ];
            if *status >= 500 {
                attributes.push(text("error.type", status.to_string()));
            }
            (histogram, attributes)
        });
        round.histogram("http.server.request.duration", "s", server.collect());
        let client = merged_clients(&plan, &meters.client.list);
        let client = client.iter().map(|(key, histogram)| (histogram, client_attributes(&plan, service.language, key)));
        round.histogram("http.client.request.duration", "s", client.collect());
        let metrics = round.metrics;
        self.buffers[pod.slot as usize].meters = meters;
        self.counts.points += points;
        let resource = resource::of_process(&self.namespace, service, pod);
        self.keep(resource, "io.opentelemetry.runtime-telemetry", metrics);
    }

    /// Method and route of a series of the server's.
    fn answered(&self, plan: &crate::plan::Plan, operation: u32) -> (String, String) {
        match operation.checked_sub(super::DETOURS) {
            Some(number) => {
                let detour = &self.detours[number as usize];
                (detour.method.clone(), detour.route.clone().unwrap_or_default())
            }
            None => {
                let operation = &plan.operations[operation as usize];
                (operation.method.clone(), operation.route.replace('*', "{id}"))
            }
        }
    }

    fn broker(&mut self, reading: &mut Reading<'_>) {
        let mut points = 0;
        let mut round = self.round(reading, reading.pod.process_start, &mut points);
        let names: Vec<Vec<KeyValue>> =
            reading.queues.iter().map(|(name, ..)| vec![text("queue", name.as_str())]).collect();
        let of = |value: fn(&(String, u64, u64)) -> u64| -> Vec<(f64, &[KeyValue])> {
            reading.queues.iter().zip(&names).map(|(queue, name)| (value(queue) as f64, name.as_slice())).collect()
        };
        round.gauge("rabbitmq_queue_messages_ready", "{messages}", &of(|queue| queue.1));
        round.gauge("rabbitmq_queue_messages_unacked", "{messages}", &of(|queue| queue.2));
        round.gauge("rabbitmq_queue_messages", "{messages}", &of(|queue| queue.1 + queue.2));
        round.sum("rabbitmq_global_messages_received_total", "{messages}", true, &[(reading.pod.requests as f64, &[])]);
        self.finish_round(reading.pod, round.metrics, points, "prometheus");
    }

    fn database(&mut self, reading: &mut Reading<'_>) {
        let mut points = 0;
        let mut round = self.round(reading, reading.pod.process_start, &mut points);
        let kind = |kind: &str| [text("kind", kind)];
        let running = reading.pod.workers.busy() as f64;
        round.sum(
            "mysql.threads",
            "{threads}",
            false,
            &[(reading.sessions as f64, &kind("connected")), (running + 2.0, &kind("running"))],
        );
        round.sum("mysql.query.count", "{queries}", true, &[(reading.pod.requests as f64, &[])]);
        round.gauge("mysql.buffer_pool.usage", "By", &[(reading.pod.working_set(reading.now) * 0.7, &[])]);
        self.finish_round(reading.pod, round.metrics, points, "mysql");
    }

    fn finish_round(&mut self, pod: &Pod, metrics: Vec<Metric>, points: u64, scope: &str) {
        self.counts.points += points;
        let resource = resource::of_container(&self.namespace, &self.plan.services[pod.service as usize], pod);
        self.keep(resource, scope, metrics);
    }

    fn kubelet(&mut self, reading: &mut Reading<'_>) {
        let pod = reading.pod;
        if pod.state == PodState::Pending {
            return;
        }
        let profile = pod.profile;
        let working_set = pod.working_set(reading.now) * reading.draw.between(0.998, 1.002);
        // Beside the process there are the kernel's share and cached files, which do not grow with it.
        let resident = working_set - profile.memory_base * 0.06;
        let used = working_set + profile.memory_base * reading.draw.between(0.095, 0.1);
        let usage = reading.cpu_usage;
        let mut points = 0;
        let mut round = self.round(reading, pod.created, &mut points);
        round.gauge("k8s.pod.cpu.usage", "{cpu}", &[(usage, &[])]);
        round.gauge("k8s.pod.cpu_limit_utilization", "1", &[(usage / profile.cpu_limit, &[])]);
        round.gauge("k8s.pod.memory.working_set", "By", &[(working_set, &[])]);
        round.gauge("k8s.pod.memory.usage", "By", &[(used, &[])]);
        round.gauge("k8s.pod.memory.rss", "By", &[(resident, &[])]);
        round.gauge("k8s.pod.memory_limit_utilization", "1", &[(working_set / profile.memory_limit, &[])]);
        round.sum("k8s.pod.cpu.time", "s", true, &[(reading.cpu_time, &[])]);
        round.sum("k8s.pod.uptime", "s", true, &[((reading.now - pod.created) as f64 / SECOND as f64, &[])]);
        let way = |way: &str| [text("interface", "eth0"), text("direction", way)];
        let traffic = pod.traffic;
        round.sum(
            "k8s.pod.network.io",
            "By",
            true,
            &[(traffic.received as f64, &way("receive")), (traffic.sent as f64, &way("transmit"))],
        );
        round.sum(
            "k8s.pod.network.errors",
            "{errors}",
            true,
            &[(0.0, &way("receive")), (traffic.errors as f64, &way("transmit"))],
        );
        let metrics = round.metrics;
        let resource = resource::of_pod(&self.namespace, &self.plan.services[pod.service as usize], pod);
        self.keep(resource, "kubeletstats", metrics);
        let mut round = self.round(reading, pod.process_start, &mut points);
        round.gauge("container.cpu.usage", "{cpu}", &[(usage, &[])]);
        round.gauge("container.memory.working_set", "By", &[(working_set, &[])]);
        round.gauge("container.memory.usage", "By", &[(used, &[])]);
        round.gauge("container.memory.rss", "By", &[(resident, &[])]);
        round.gauge("container.memory.available", "By", &[((profile.memory_limit - working_set).max(0.0), &[])]);
        round.sum("container.cpu.time", "s", true, &[(reading.cpu_time, &[])]);
        let (periods, cut, still) = pod.cpu.throttling();
        round.sum("container_cpu_cfs_periods_total", "{periods}", true, &[(periods as f64, &[])]);
        round.sum("container_cpu_cfs_throttled_periods_total", "{periods}", true, &[(cut as f64, &[])]);
        round.sum("container_cpu_cfs_throttled_seconds_total", "s", true, &[(still as f64 / SECOND as f64, &[])]);
        self.finish_round(pod, round.metrics, points, "kubeletstats");
    }

    fn cluster(&mut self, reading: &Reading<'_>) {
        let pod = reading.pod;
        let plan = self.plan.clone();
        let service = &plan.services[pod.service as usize];
        let mut points = 0;
        // The receiver's numbers: 1 pending, 2 running.
        let phase = if pod.state == PodState::Pending { 1.0 } else { 2.0 };
        let ready = f64::from(u8::from(pod.serves()));
        let mut round = self.round(reading, pod.created, &mut points);
        round.gauge("k8s.pod.phase", "", &[(phase, &[])]);
        let metrics = round.metrics;
        self.keep(resource::of_pod(&self.namespace, service, pod), "k8scluster", metrics);
        let mut round = self.round(reading, pod.created, &mut points);
        round.gauge("k8s.container.ready", "", &[(ready, &[])]);
        round.gauge("k8s.container.restarts", "{restart}", &[(f64::from(pod.restarts), &[])]);
        round.gauge("k8s.container.cpu_limit", "{cpu}", &[(pod.profile.cpu_limit, &[])]);
        round.gauge("k8s.container.memory_limit", "By", &[(pod.profile.memory_limit, &[])]);
        let metrics = round.metrics;
        self.keep(resource::of_container(&self.namespace, service, pod), "k8scluster", metrics);
        let (desired, available) = match service.workload {
            crate::plan::Workload::Deployment => ("k8s.deployment.desired", "k8s.deployment.available"),
            crate::plan::Workload::StatefulSet => ("k8s.statefulset.desired_pods", "k8s.statefulset.ready_pods"),
        };
        let mut round = self.round(reading, pod.created, &mut points);
        round.gauge(desired, "{pod}", &[(f64::from(service.replicas), &[])]);
        round.gauge(available, "{pod}", &[(ready, &[])]);
        let metrics = round.metrics;
        self.keep(resource::of_workload(&self.namespace, service), "k8scluster", metrics);
        self.counts.points += points;
    }

    fn round<'a>(&self, reading: &Reading<'_>, since: Time, points: &'a mut u64) -> Round<'a> {
        Round {
            metrics: Vec::with_capacity(24),
            time: self.stamp(reading.pod, reading.now),
            start: self.stamp(reading.pod, since),
            points,
        }
    }

    fn keep(&mut self, resource: Resource, scope: &str, metrics: Vec<Metric>) {
        let scope = InstrumentationScope { name: scope.to_owned(), ..InstrumentationScope::default() };
        self.metrics.push(ResourceMetrics {
            resource: Some(resource),
            scope_metrics: vec![ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() }],
            ..ResourceMetrics::default()
        });
    }
}

fn jvm(round: &mut Round<'_>, reading: &mut Reading<'_>) {
    let pod = reading.pod;
    let Some(heap) = pod.heap else { return };
    let pool = |kind: &str, name: &str| [text("jvm.memory.type", kind), text("jvm.memory.pool.name", name)];
    let age = (reading.now - pod.process_start) as f64 / SECOND as f64;
    let metaspace = pod.profile.memory_base * 0.42 * (1.0 - (-age / 60.0).exp() * 0.1);
    round.sum(
        "jvm.memory.used",
        "By",
        false,
        &[
            (heap.young_used, &pool("heap", "G1 Eden Space")),
            (heap.old_used, &pool("heap", "G1 Old Gen")),
            (metaspace, &pool("non_heap", "Metaspace")),
        ],
    );
    round.sum(
        "jvm.memory.committed",
        "By",
        false,
        &[
            (heap.plan.young, &pool("heap", "G1 Eden Space")),
            (heap.old_used.max(heap.plan.live * 1.4), &pool("heap", "G1 Old Gen")),
            (metaspace * 1.03, &pool("non_heap", "Metaspace")),
        ],
    );
    round.sum("jvm.memory.limit", "By", false, &[(heap.plan.max, &pool("heap", "G1 Old Gen"))]);
    // Idle workers linger: a floor of ten, and more under load.
    let workers = f64::from(pod.workers.busy()).max(10.0);
    let busy = f64::from(pod.workers.busy());
    let threads = |daemon: &str, state: &str| [text("jvm.thread.daemon", daemon), text("jvm.thread.state", state)];
    // A worker that waits for an answer reads from a socket: the virtual machine calls that running.
    round.sum(
        "jvm.thread.count",
        "{thread}",
        false,
        &[
            (busy + 5.0, &threads("true", "runnable")),
            (workers - busy + 6.0, &threads("true", "timed_waiting")),
            (11.0, &threads("true", "waiting")),
            (2.0, &threads("false", "runnable")),
            (1.0, &threads("false", "timed_waiting")),
            (3.0, &threads("false", "waiting")),
        ],
    );
    round.sum("jvm.class.count", "{class}", false, &[((15_500.0 + 900.0 * (1.0 - (-age / 40.0).exp())).floor(), &[])]);
    round.sum("jvm.cpu.time", "s", true, &[(reading.cpu_time, &[])]);
    let share = reading.cpu_usage / pod.profile.cpu_limit * reading.draw.between(0.97, 1.03);
    round.gauge("jvm.cpu.recent_utilization", "1", &[(share.min(1.0), &[])]);
    // The micrometer registry's own view of the same.
    round.gauge("process.cpu.usage", "1", &[(share.min(1.0), &[])]);
    round.gauge("jvm.threads.live", "{threads}", &[(28.0 + workers, &[])]);
    round.gauge("tomcat.threads.busy", "{threads}", &[(f64::from(pod.workers.busy()), &[])]);
    round.gauge("jvm.memory.usage.after.gc", "1", &[(heap.old_used / heap.plan.max, &[])]);
}

fn hikari(round: &mut Round<'_>, pod: &Pod) {
    let pool = [text("pool.name", "HikariPool-1")];
    let Some(connections) = pod.database() else { return };
    let busy = f64::from(connections.busy());
    let (idle, waiting) = (f64::from(connections.servers()) - busy, f64::from(connections.waiting()));
    let state = |state: &str| [text("pool.name", "HikariPool-1"), text("state", state)];
    round.sum("db.client.connections.usage", "{connection}", false, &[(busy, &state("used")), (idle, &state("idle"))]);
    round.sum("db.client.connections.pending_requests", "{request}", false, &[(waiting, &pool)]);
    round.gauge("hikaricp.connections", "{connections}", &[(busy + idle, &pool)]);
    round.gauge("hikaricp.connections.active", "{connections}", &[(busy, &pool)]);
    round.gauge("hikaricp.connections.idle", "{connections}", &[(idle, &pool)]);
    round.gauge("hikaricp.connections.pending", "{connections}", &[(waiting, &pool)]);
}

/// Peer, method, status and failure: what tells the client's series apart.
type ClientKey<'a> = (u16, &'a str, u16, Option<Failure>);

/// Calls to one peer with one method are one series.
fn merged_clients<'a>(
    plan: &'a crate::plan::Plan,
    list: &[(super::histogram::ClientSeries, Histogram)],
) -> Vec<(ClientKey<'a>, Histogram)> {
    let mut merged: Vec<(ClientKey<'a>, Histogram)> = Vec::new();
    for ((call, status, failure), histogram) in list {
        let call = &plan.calls[*call as usize];
        debug_assert_eq!(call.kind, CallKind::Http);
        let key = (call.to, plan.operations[call.operation as usize].method.as_str(), *status, *failure);
        match merged.iter_mut().find(|(other, _)| *other == key) {
            Some((_, sum)) => sum.merge(histogram),
            None => merged.push((key, histogram.clone())),
        }
    }
    merged
}

fn client_attributes(plan: &crate::plan::Plan, language: Language, key: &ClientKey<'_>) -> Vec<KeyValue> {
    let (peer, method, status, failure) = *key;
    let peer = &plan.services[peer as usize];
    let mut attributes = vec![
        text("http.request.method", method),
        text("network.protocol.version", "1.1"),
        text("server.address", peer.dns_name.as_str()),
        int("server.port", i64::from(peer.port.unwrap_or(80))),
    ];
    if status > 0 {
        attributes.push(int("http.response.status_code", i64::from(status)));
    }
    if status >= 400 {
        attributes.push(text("error.type", status.to_string()));
    } else if let Some((class, _)) = failure.and_then(|failure| of_connection(language, failure)) {
        attributes.push(text("error.type", class));
    }
    attributes
}
