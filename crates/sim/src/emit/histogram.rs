//! Histograms that a process keeps, cumulative since its start.

use std::collections::HashMap;

use crate::engine::Time;
use crate::plan::{CallId, OperationId};
use crate::request::Failure;

/// Boundaries that the HTTP conventions advise, in seconds.
pub const HTTP_BOUNDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];
/// Boundaries that the JVM conventions advise for collections, in seconds.
pub const GC_BOUNDS: &[f64] = &[0.01, 0.1, 1.0, 10.0];
/// The SDK's default boundaries, here for milliseconds.
pub const DEFAULT_BOUNDS: &[f64] =
    &[0.0, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1000.0, 2500.0, 5000.0, 7500.0, 10000.0];

#[derive(Debug, Clone)]
pub struct Histogram {
    pub bounds: &'static [f64],
    pub counts: Vec<u64>,
    pub count: u64,
    pub sum: f64,
    pub min: f64,
    pub max: f64,
}

impl Histogram {
    pub fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], count: 0, sum: 0.0, min: f64::INFINITY, max: 0.0 }
    }

    pub fn add(&mut self, value: f64) {
        // A value equal to a boundary belongs below it.
        self.counts[self.bounds.partition_point(|&bound| bound < value)] += 1;
        self.count += 1;
        self.sum += value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    pub fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, more)| *sum += more);
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

/// Series in the order in which they first appeared.
#[derive(Debug)]
pub struct Series<K> {
    index: HashMap<K, usize>,
    pub list: Vec<(K, Histogram)>,
}

impl<K> Default for Series<K> {
    fn default() -> Self {
        Self { index: HashMap::new(), list: Vec::new() }
    }
}

impl<K: Copy + Eq + std::hash::Hash> Series<K> {
    pub fn add(&mut self, key: K, value: f64, bounds: &'static [f64]) {
        let at = *self.index.entry(key).or_insert_with(|| {
            self.list.push((key, Histogram::new(bounds)));
            self.list.len() - 1
        });
        self.list[at].1.add(value);
    }
}

/// Call, status, and failure without an answer.
pub type ClientSeries = (CallId, u16, Option<Failure>);

/// What the meters of one process have seen since it started. Durations of requests are in seconds or milliseconds, as
/// the conventions of the instrumentation have it.
#[derive(Debug)]
pub struct Meters {
    /// By operation and status.
    pub server: Series<(OperationId, u16)>,
    pub client: Series<ClientSeries>,
    pub connection_use: Histogram,
    pub connection_wait: Histogram,
    /// Young and full collections.
    pub collections: [Histogram; 2],
}

impl Default for Meters {
    fn default() -> Self {
        Self {
            server: Series::default(),
            client: Series::default(),
            connection_use: Histogram::new(DEFAULT_BOUNDS),
            connection_wait: Histogram::new(DEFAULT_BOUNDS),
            collections: [Histogram::new(GC_BOUNDS), Histogram::new(GC_BOUNDS)],
        }
    }
}

/// The unit of a series of durations, with the boundaries that go with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    Millis,
}

impl Unit {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Millis => "ms",
        }
    }

    fn measure(self, lasted: Time) -> (f64, &'static [f64]) {
        match self {
            Self::Seconds => (lasted as f64 / 1e9, HTTP_BOUNDS),
            Self::Millis => (lasted as f64 / 1e6, DEFAULT_BOUNDS),
        }
    }
}

impl Meters {
    pub fn server(&mut self, operation: OperationId, status: u16, lasted: Time, unit: Unit) {
        let (value, bounds) = unit.measure(lasted);
        self.server.add((operation, status), value, bounds);
    }

    pub fn client(&mut self, series: ClientSeries, lasted: Time, unit: Unit) {
        let (value, bounds) = unit.measure(lasted);
        self.client.add(series, value, bounds);
    }

    pub fn connection(&mut self, waited: Time, used: Time) {
        self.connection_wait.add(waited as f64 / 1e6);
        self.connection_use.add(used as f64 / 1e6);
    }

    pub fn collection(&mut self, lasted: Time, full: bool) {
        self.collections[usize::from(full)].add(lasted as f64 / 1e9);
    }
}

/// Boundaries of the span-metrics connector, in milliseconds.
const SPAN_BOUNDS: &[f64] =
    &[2.0, 4.0, 6.0, 8.0, 10.0, 50.0, 100.0, 200.0, 400.0, 800.0, 1000.0, 1400.0, 2000.0, 5000.0, 10_000.0, 15_000.0];

/// Durations of one pod's spans as the collector counts them, by kind of span and whether it failed.
#[derive(Debug, Default)]
pub struct Derived {
    series: Series<(u16, bool)>,
}

impl Derived {
    pub fn add(&mut self, group: u16, failed: bool, lasted: Time) {
        self.series.add((group, failed), lasted as f64 / 1e6, SPAN_BOUNDS);
    }

    pub fn list(&self) -> &[((u16, bool), Histogram)] {
        &self.series.list
    }
}
