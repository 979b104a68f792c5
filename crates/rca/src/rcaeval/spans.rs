//! The table of spans that RCAEval's trace methods take.
//!
//! The rule by which a datapack becomes one: a row is a span, in the order of its start, normal window first; an operation
//! is `<service>_<span name>`; start and duration are whole microseconds, rounded down. At most [`super::OPERATIONS`]
//! operations stay: those with the most spans that ended before the onset, equal ones by name; spans of others are left
//! out. An operation that no span of ended before the onset is always left out, because the program ends with an error
//! where it meets one.

use std::collections::{HashMap, HashSet};

use model::Window;

use super::OPERATIONS;
use crate::frame::{Pack, Span};

/// A span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    pub trace: u128,
    pub id: u64,
    /// Zero for none.
    pub parent: u64,
    /// Index into [`Operations::names`].
    pub operation: usize,
    /// Microseconds since the Unix epoch.
    pub start: i64,
    /// Microseconds.
    pub duration: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operations {
    /// `(service, method)`, in no order that matters.
    pub names: Vec<(String, String)>,
    pub rows: Vec<Row>,
    /// Start of the abnormal window, microseconds since the Unix epoch.
    pub onset: i64,
}

impl Operations {
    pub fn build(pack: &Pack) -> Self {
        let onset = pack.windows.abnormal_start.0.div_euclid(1000);
        let spans = || Window::BOTH.into_iter().flat_map(|window| &pack.signals(window).spans);
        let (start, duration) = (|span: &Span| span.time.div_euclid(1000), |span: &Span| (span.duration / 1000) as i64);
        let mut before: HashMap<(u32, u32), u64> = HashMap::new();
        for span in spans().filter(|span| start(span) + duration(span) < onset) {
            *before.entry((span.service, span.name)).or_default() += 1;
        }
        let mut kept: Vec<((u32, u32), u64)> = before.into_iter().collect();
        let text = |(service, name): (u32, u32)| (pack.names.get(service), pack.names.get(name));
        kept.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| text(a.0).cmp(&text(b.0))));
        kept.truncate(OPERATIONS);
        let index: HashMap<(u32, u32), usize> = kept.iter().map(|(operation, _)| *operation).zip(0..).collect();
        let names = kept.iter().map(|(operation, _)| text(*operation)).map(|(s, m)| (s.to_owned(), m.to_owned()));
        let row = |span: &Span| {
            Some(Row {
                trace: span.trace,
                id: span.id,
                parent: span.parent,
                operation: *index.get(&(span.service, span.name))?,
                start: start(span),
                duration: duration(span),
            })
        };
        Self { names: names.collect(), rows: spans().filter_map(row).collect(), onset }
    }

    /// At most `limit` whole traces, every so-manieth in the order in which they first appear, with the operations that are
    /// left.
    #[must_use]
    pub fn thinned(&self, limit: usize) -> Self {
        let mut seen: HashMap<u128, usize> = HashMap::new();
        for row in &self.rows {
            let next = seen.len();
            seen.entry(row.trace).or_insert(next);
        }
        let step = seen.len().div_ceil(limit.max(1)).max(1);
        let rows: Vec<Row> = self.rows.iter().copied().filter(|row| seen[&row.trace].is_multiple_of(step)).collect();
        let before: HashSet<usize> =
            rows.iter().filter(|row| row.start + row.duration < self.onset).map(|row| row.operation).collect();
        let rows = rows.into_iter().filter(|row| before.contains(&row.operation)).collect();
        Self { names: self.names.clone(), rows, onset: self.onset }
    }

    /// Rows whose spans ended before the onset, and the others.
    pub(super) fn split(&self) -> (Vec<&Row>, Vec<&Row>) {
        self.rows.iter().partition(|row| row.start + row.duration < self.onset)
    }

    /// Comma-separated, as the program reads its `traces.csv`.
    pub fn to_csv(&self) -> String {
        use std::fmt::Write;
        let mut text =
            String::from("traceID,spanID,serviceName,methodName,operationName,startTime,duration,parentSpanID\n");
        for row in &self.rows {
            let (service, method) = &self.names[row.operation];
            let method = method.replace('"', "\"\"");
            let parent = if row.parent == 0 { String::new() } else { format!("s{:016x}", row.parent) };
            writeln!(
                text,
                "t{:032x},s{:016x},{service},\"{method}\",\"{method}\",{},{},{parent}",
                row.trace, row.id, row.start, row.duration
            )
            .expect("a string takes any text");
        }
        text
    }
}

/// What the program takes for the usual duration of an operation: mean and sample deviation in milliseconds, each rounded
/// to two decimals. The deviation of a single span is not a number, and then no span is slow and none is not.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usual {
    mean: f64,
    deviation: f64,
}

impl Usual {
    /// Per operation; `None` for one without a normal span.
    pub fn of(normal: &[&Row], operations: usize) -> Vec<Option<Self>> {
        let mut durations: Vec<Vec<i64>> = vec![Vec::new(); operations];
        normal.iter().for_each(|row| durations[row.operation].push(row.duration));
        durations.iter().map(|sample| (!sample.is_empty()).then(|| Self::of_sample(sample))).collect()
    }

    fn of_sample(sample: &[i64]) -> Self {
        let count = sample.len() as f64;
        let mean = sample.iter().sum::<i64>() as f64 / count;
        let squares: f64 = sample.iter().map(|x| (*x as f64 - mean).powi(2)).sum();
        // Zero by zero is what pandas gives for one value.
        let deviation = (squares / (count - 1.0)).sqrt();
        Self { mean: two_decimals(mean / 1000.0), deviation: two_decimals(deviation / 1000.0) }
    }

    fn limit(self) -> f64 {
        self.mean + 3.0 * self.deviation
    }

    pub fn is_slow(self, row: &Row) -> bool {
        row.duration as f64 / 1000.0 >= self.limit()
    }
}

/// Rounds as numpy does: half to even, after multiplication.
fn two_decimals(x: f64) -> f64 {
    (x * 100.0).round_ties_even() / 100.0
}
