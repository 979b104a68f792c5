//! `microrank`: PageRank over operations and traces of each side, then a spectrum of the two.
//!
//! Slips and shortcuts, kept: the sides are what ended before the onset and what ended after it, whole, slow or not; an
//! operation keeps the calls of the last of its spans only; the number of slow traces counts traces with any slow span,
//! while an operation's traces are counted over all of its side, so the spectrum can hold negative counts; weights are
//! single-precision numbers; the first eleven operations are answered.

use std::collections::{HashMap, HashSet};

use super::spans::Usual;
use super::{Operations, Ranking, Row, descending};

const DAMPING: f64 = 0.85;
const CALL_WEIGHT: f64 = 0.01;
const ITERATIONS: usize = 25;
const ABSENT: f64 = 1e-7;
/// Operations that the program answers with.
pub const ANSWERED: usize = 11;

/// All operations with their Dstar2 scores; the program stops after [`ANSWERED`] of them.
/// O(spans + 25 · pairs of trace and operation).
pub fn microrank(table: &Operations) -> Ranking {
    let (normal, abnormal) = table.split();
    if normal.is_empty() || abnormal.is_empty() {
        return Ranking::new();
    }
    let usual = Usual::of(&normal, table.names.len());
    let is_slow = |row: &&&Row| usual[row.operation].is_some_and(|usual| usual.is_slow(row));
    let slow_traces = abnormal.iter().filter(is_slow).map(|row| row.trace).collect::<HashSet<_>>().len() as f64;
    let after = Side::new(&abnormal).weigh(true);
    let before = Side::new(&normal).weigh(false);
    let mut ranking = Ranking::new();
    for (operation, weight, traces) in &after.list {
        let (ef, nf) = (weight * traces, weight * (slow_traces - traces));
        let ep = before.of(*operation).map_or(ABSENT, |(weight, traces)| weight * traces);
        ranking.push((*operation, ef * ef / (ep + nf)));
    }
    for (operation, weight, traces) in &before.list {
        if after.of(*operation).is_none() {
            ranking.push((*operation, ABSENT * ABSENT / ((1.0 + weight) * traces + ABSENT)));
        }
    }
    descending(ranking)
}

/// One side's operations, in the order in which they first occur: `(operation, weight, traces)`.
struct Weighed {
    list: Vec<(usize, f64, f64)>,
    place: HashMap<usize, usize>,
}

impl Weighed {
    fn of(&self, operation: usize) -> Option<(f64, f64)> {
        self.place.get(&operation).map(|place| (self.list[*place].1, self.list[*place].2))
    }
}

/// The graph of one side. Operations and traces are numbered in the order in which they first occur.
struct Side {
    operations: Vec<usize>,
    place: HashMap<usize, usize>,
    /// Per trace: its spans, and its distinct operations ascending.
    traces: Vec<(usize, Vec<usize>)>,
    /// Per operation: what the last of its spans calls.
    calls: Vec<Vec<usize>>,
    /// Per operation: traces with it.
    occurrences: Vec<usize>,
}

impl Side {
    fn new(rows: &[&Row]) -> Self {
        let mut side = Self {
            operations: Vec::new(),
            place: HashMap::new(),
            traces: Vec::new(),
            calls: Vec::new(),
            occurrences: Vec::new(),
        };
        let mut traces: HashMap<u128, usize> = HashMap::new();
        let mut children: HashMap<u64, Vec<usize>> = HashMap::new();
        let mut last: Vec<u64> = Vec::new();
        for row in rows {
            let operation = *side.place.entry(row.operation).or_insert_with(|| {
                side.operations.push(row.operation);
                last.push(row.id);
                side.operations.len() - 1
            });
            last[operation] = row.id;
            if row.parent != 0 {
                children.entry(row.parent).or_default().push(operation);
            }
            let trace = *traces.entry(row.trace).or_insert_with(|| {
                side.traces.push((0, Vec::new()));
                side.traces.len() - 1
            });
            side.traces[trace].0 += 1;
            side.traces[trace].1.push(operation);
        }
        side.occurrences = vec![0; side.operations.len()];
        for (_, members) in &mut side.traces {
            members.sort_unstable();
            members.dedup();
            members.iter().for_each(|member| side.occurrences[*member] += 1);
        }
        side.calls = last.iter().map(|id| children.remove(id).unwrap_or_default()).collect();
        for calls in &mut side.calls {
            calls.sort_unstable();
            calls.dedup();
        }
        side
    }

    fn weigh(self, abnormal: bool) -> Weighed {
        let preference = self.preference(abnormal);
        let services = self.pagerank(&preference);
        let share: f64 = services.iter().sum::<f64>();
        let count = services.len() as f64;
        let list = self.operations.iter().zip(&services).zip(&self.occurrences);
        let list = list.map(|((operation, rank), traces)| (*operation, rank * share / count, *traces as f64));
        Weighed { list: list.collect(), place: self.place }
    }

    /// The restart distribution, times what restarts, in single precision.
    fn preference(&self, abnormal: bool) -> Vec<f64> {
        let mut counts: HashMap<&[usize], usize> = HashMap::new();
        for (_, members) in &self.traces {
            *counts.entry(members).or_default() += 1;
        }
        let kinds: Vec<f64> = self.traces.iter().map(|(_, members)| counts[members.as_slice()] as f64).collect();
        let rarity: f64 = kinds.iter().map(|kind| 1.0 / kind).sum();
        let brevity: f64 = self.traces.iter().map(|(length, _)| 1.0 / *length as f64).sum();
        let value = |(kind, (length, _)): (&f64, &(usize, Vec<usize>))| match abnormal {
            false => 1.0 / kind / rarity,
            true => 1.0 / (kind / rarity * 0.5 + 1.0 / *length as f64) / brevity * 0.5,
        };
        kinds
            .iter()
            .zip(&self.traces)
            .map(value)
            .map(|value| f64::from((1.0 - DAMPING) as f32 * value as f32))
            .collect()
    }

    fn pagerank(&self, preference: &[f64]) -> Vec<f64> {
        let single = |count: usize| f64::from((1.0 / count as f64) as f32);
        let of_trace: Vec<f64> = self.traces.iter().map(|(_, members)| single(members.len())).collect();
        let of_operation: Vec<f64> = self.occurrences.iter().map(|count| single(*count)).collect();
        let of_calls: Vec<f64> = self.calls.iter().map(|calls| single(calls.len().max(1))).collect();
        let start = 1.0 / (self.operations.len() + self.traces.len()) as f64;
        let mut services = vec![start; self.operations.len()];
        let mut requests = vec![start; self.traces.len()];
        for _ in 0..ITERATIONS {
            let mut next = vec![0.0; services.len()];
            for (((_, members), weight), request) in self.traces.iter().zip(&of_trace).zip(&requests) {
                members.iter().for_each(|member| next[*member] += weight * request);
            }
            let mut called = vec![0.0; services.len()];
            for ((calls, weight), service) in self.calls.iter().zip(&of_calls).zip(&services) {
                calls.iter().for_each(|child| called[*child] += weight * service);
            }
            for (value, called) in next.iter_mut().zip(called) {
                *value = DAMPING * (*value + CALL_WEIGHT * called);
            }
            for (((_, members), request), preference) in self.traces.iter().zip(&mut requests).zip(preference) {
                let reached: f64 = members.iter().map(|member| of_operation[*member] * services[*member]).sum();
                *request = DAMPING * reached + preference;
            }
            scale(&mut next);
            scale(&mut requests);
            services = next;
        }
        services
    }
}

fn scale(values: &mut [f64]) {
    let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    values.iter_mut().for_each(|value| *value /= highest);
}
