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
    bounds: &'static [f64],
}

impl<K: Copy + Eq + std::hash::Hash> Series<K> {
    fn new(bounds: &'static [f64]) -> Self {
        Self { index: HashMap::new(), list: Vec::new(), bounds }
    }

    fn add(&mut self, key: K, value: f64) {
        let at = *self.index.entry(key).or_insert_with(|| {
            self.list.push((key, Histogram::new(self.bounds)));
            self.list.len() - 1
        });
        self.list[at].1.add(value);
    }
}

/// Call, status, and failure without an answer.
pub type ClientSeries = (CallId, u16, Option<Failure>);

/// What the meters of one process have seen since it started.
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
            server: Series::new(HTTP_BOUNDS),
            client: Series::new(HTTP_BOUNDS),
            connection_use: Histogram::new(DEFAULT_BOUNDS),
            connection_wait: Histogram::new(DEFAULT_BOUNDS),
            collections: [Histogram::new(GC_BOUNDS), Histogram::new(GC_BOUNDS)],
        }
    }
}

impl Meters {
    pub fn server(&mut self, operation: OperationId, status: u16, lasted: Time) {
        self.server.add((operation, status), lasted as f64 / 1e9);
    }

    pub fn client(&mut self, call: CallId, status: u16, failure: Option<Failure>, lasted: Time) {
        self.client.add((call, status, failure), lasted as f64 / 1e9);
    }

    pub fn connection(&mut self, waited: Time, used: Time) {
        self.connection_wait.add(waited as f64 / 1e6);
        self.connection_use.add(used as f64 / 1e6);
    }

    pub fn collection(&mut self, lasted: Time, full: bool) {
        self.collections[usize::from(full)].add(lasted as f64 / 1e9);
    }
}
