//! What the exporters report on each round: the instrumentation in a process, the kubelet about pods and containers, the
//! cluster receiver about workloads, the products' own exporters, and the collector about spans that passed it.

mod describe;
mod kubelet;
mod products;
mod requests;
mod runtime;

use system::Kind;
use telemetry::otlp::Resource;
use telemetry::otlp::common::{InstrumentationScope, KeyValue};
use telemetry::otlp::metrics::metric::Data;
use telemetry::otlp::metrics::number_data_point::Value;
use telemetry::otlp::metrics::{
    AggregationTemporality, Gauge, Histogram as OtlpHistogram, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum,
};

use super::histogram::Histogram;
use super::{Recorder, resource};
use crate::engine::{SECOND, Time};
use crate::pod::Pod;
use crate::rng::Draw;

/// Who reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exporter {
    /// The instrumentation inside the process, or the product's exporter.
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

impl Reading<'_> {
    /// CPU time since the process began, its start and the time before the origin included.
    fn cpu_spent(&self) -> f64 {
        let profile = &self.pod.profile;
        let before = (-resource::began(self.pod)).max(0) as f64 / SECOND as f64;
        let start = if profile.heap.is_some() { 0.7 * profile.start.0 } else { 0.2 };
        self.cpu_time + profile.cpu_idle * before + if before > 0.0 { start } else { 0.0 }
    }

    /// Seconds since the process began.
    fn uptime(&self) -> f64 {
        (self.now - resource::began(self.pod)) as f64 / SECOND as f64
    }
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
        self.metrics.push(Metric {
            name: name.to_owned(),
            description: describe::metric(name).to_owned(),
            unit: unit.to_owned(),
            data: Some(data),
            ..Metric::default()
        });
    }
}

impl Recorder {
    /// One exporter's round over one pod.
    pub fn report(&mut self, exporter: Exporter, mut reading: Reading<'_>) {
        match exporter {
            Exporter::Process => self.inside(&mut reading),
            Exporter::Kubelet => self.kubelet(&mut reading),
            Exporter::Cluster => self.cluster(&mut reading),
        }
    }

    fn inside(&mut self, reading: &mut Reading<'_>) {
        self.report_derived(reading);
        if !reading.pod.runs() {
            return;
        }
        let mut draw = reading.draw.clone();
        self.background(reading.now, reading.pod, &mut draw);
        let service = &self.plan.services[reading.pod.service as usize];
        let profile = &self.profiles[reading.pod.service as usize];
        match service.kind {
            Kind::Mq | Kind::Db | Kind::Cache if profile.runtime_metrics => self.product(reading),
            Kind::Mq | Kind::Db | Kind::Cache => {}
            _ => self.instrumented(reading),
        }
    }

    /// The instrumentation of a service: its runtime, its pools, its requests.
    fn instrumented(&mut self, reading: &mut Reading<'_>) {
        let pod = reading.pod;
        let plan = self.plan.clone();
        let service = &plan.services[pod.service as usize];
        let meters = std::mem::take(&mut self.buffers[pod.slot as usize].meters);
        let mut points = 0;
        let profile = &self.profiles[pod.service as usize];
        let since = resource::began(pod);
        let own = self.own_stamp(pod, reading.now, reading.now);
        if profile.runtime_metrics {
            let mut round = self.round(reading, since, &mut points);
            round.time = own;
            runtime::report(&mut round, reading, service, profile, &meters);
            let scope = runtime::scope(profile.stack);
            let metrics = round.metrics;
            self.keep(self.process(pod), scope, metrics);
        }
        let profile = &self.profiles[pod.service as usize];
        let mut round = self.round(reading, since, &mut points);
        round.time = own;
        requests::report(&mut round, &plan, &self.detours, service, profile, &meters);
        let (metrics, scope) = (round.metrics, requests::scope(profile.stack));
        self.keep(self.process(pod), scope, metrics);
        self.buffers[pod.slot as usize].meters = meters;
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
        if metrics.is_empty() {
            return;
        }
        let scope = InstrumentationScope { name: scope.to_owned(), ..InstrumentationScope::default() };
        self.metrics.push(ResourceMetrics {
            resource: Some(resource),
            scope_metrics: vec![ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() }],
            ..ResourceMetrics::default()
        });
    }
}
