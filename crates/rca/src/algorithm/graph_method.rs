//! What the graph methods share: a small wide table, a PC graph over it, the symptom, and services by their best column.

use std::collections::HashMap;

use model::{Answer, Result, Window};

use super::{Minimum, suspects};
use crate::causal::Mixed;
use crate::causal::skeleton::{FisherZ, Skeleton, skeleton};
use crate::frame::Pack;
use crate::minimum::insufficient;
use crate::rcaeval::GRAPH_COLUMNS;
use crate::statistics::correlation;
use crate::wide::Wide;

/// Conditions at most in a test of independence: what a minute of samples can bear.
const DEEPEST: usize = 3;

/// Said of every graph method.
pub const DEVIATIONS: [&str; 2] = [
    "takes at most 20 columns of the wide table, by its written rule, because the time grows with the subsets of columns",
    "a service is answered once, at its best column",
];

/// The small table of a pack.
pub struct Graph {
    pub table: Wide,
}

impl Graph {
    /// # Errors
    /// `algorithm.insufficient_data` when a window is too short or fewer than two columns vary in both.
    pub fn new(name: &str, pack: &Pack, minimum: Minimum) -> Result<Self> {
        minimum.check(name, &pack.windows)?;
        let whole = Wide::build(pack);
        let table = whole.reduced(GRAPH_COLUMNS);
        let (normal, rows) = (table.normal_rows(), table.times.len());
        if table.columns.len() < 2 || normal < minimum.normal_samples || rows - normal < minimum.abnormal_samples {
            return Err(insufficient(name, "no graph can be learned from so few columns or rows")
                .found(format!(
                    "{} columns, {} of them vary in both windows and differ; {rows} rows",
                    whole.columns.len(),
                    table.columns.len()
                ))
                .expected(format!(
                    "at least 2 columns, {} normal and {} abnormal rows",
                    minimum.normal_samples, minimum.abnormal_samples
                )));
        }
        Ok(Self { table })
    }

    pub fn size(&self) -> usize {
        self.table.columns.len()
    }

    pub fn values(&self) -> Vec<&[f64]> {
        self.table.columns.iter().map(|column| column.values.as_slice()).collect()
    }

    /// The PC graph of both windows together.
    ///
    /// # Errors
    /// `algorithm.insufficient_data` when the columns determine one another.
    pub fn pc(&self, name: &str, alpha: f64) -> Result<Mixed> {
        let found: std::result::Result<Skeleton, _> = skeleton(&FisherZ::new(&self.values()), alpha, DEEPEST);
        found.map(|skeleton| Mixed::orient(&skeleton)).map_err(|_| {
            insufficient(name, "the columns determine one another, so their independence cannot be tested")
        })
    }

    /// The column that stands for what users feel: the latency of the service that answers most root requests, or the
    /// column that moved most where that service has none.
    pub fn symptom(&self, pack: &Pack) -> usize {
        let entrance = entrance(pack);
        let felt = |service: &str| {
            self.table
                .columns
                .iter()
                .position(|column| column.service == service && column.name.ends_with("_latency-90"))
        };
        entrance.and_then(|service| felt(pack.names.get(service))).unwrap_or_else(|| self.most_moved())
    }

    fn most_moved(&self) -> usize {
        let onset: Vec<f64> =
            self.table.times.iter().map(|time| f64::from(u8::from(*time >= self.table.onset))).collect();
        let moved = |column: usize| correlation(&self.table.columns[column].values, &onset).abs();
        (0..self.size()).max_by(|a, b| moved(*a).total_cmp(&moved(*b)).then(b.cmp(a))).unwrap_or(0)
    }

    /// How closely each column goes with one of them, from 0 to 1.
    pub fn likeness(&self, symptom: usize) -> Vec<f64> {
        let values = self.values();
        values.iter().map(|column| correlation(column, values[symptom]).abs()).collect()
    }

    /// # Errors
    /// `algorithm.no_suspect`.
    pub fn ranked(&self, name: &str, pack: &Pack, scores: &[f64]) -> Result<Vec<Answer>> {
        let service = |column: usize| pack.names.find(&self.table.columns[column].service);
        let scored = scores.iter().enumerate().filter_map(|(column, score)| Some((service(column)?, *score)));
        suspects::ranked(name, pack, scored)
    }
}

/// The candidate that answers most requests which nobody of the candidates made.
fn entrance(pack: &Pack) -> Option<u32> {
    let spans = &pack.signals(Window::Normal).spans;
    let is_candidate: Vec<bool> =
        (0..pack.names.len() as u32).map(|id| pack.candidates.iter().any(|name| name == pack.names.get(id))).collect();
    let callers: HashMap<u64, u32> = spans.iter().map(|span| (span.id, span.service)).collect();
    let mut counts: HashMap<u32, u64> = HashMap::new();
    for span in spans.iter().filter(|span| is_candidate[span.service as usize]) {
        if callers.get(&span.parent).is_none_or(|caller| !is_candidate[*caller as usize]) {
            *counts.entry(span.service).or_default() += 1;
        }
    }
    counts.into_iter().max_by(|a, b| a.1.cmp(&b.1).then(pack.names.get(b.0).cmp(pack.names.get(a.0)))).map(|(id, _)| id)
}
