//! MicroRank: PageRank over operations and traces, then a spectrum of slow against usual traces.

use std::collections::{BTreeSet, HashMap};

use model::{Answer, Result};

use super::operations::{self, Operation, durations, operation};
use super::{About, Algorithm, Input, Minimum, Samples, suspects};
use crate::frame::{Pack, Span};
use crate::minimum::insufficient;
use crate::statistics::{deviation, mean};

const MINIMUM: Minimum = Minimum { window_s: 30, normal_samples: 2, abnormal_samples: 1, samples: Samples::Requests };

const DAMPING: f64 = 0.85;
const CALL_WEIGHT: f64 = 0.01;
const ITERATIONS: usize = 25;
/// Stands for a side of the spectrum on which an operation does not occur.
const ABSENT: f64 = 1e-7;
/// Operations kept from the spectrum's ranking.
const KEPT: usize = 11;

pub struct MicroRank;

impl Algorithm for MicroRank {
    fn name(&self) -> &'static str {
        "microrank"
    }

    fn about(&self) -> About {
        About {
            summary: "services by a Dstar2 spectrum of their operations, weighted by PageRank over slow and usual traces",
            source: "MicroRank (Yu et al., WWW 2021) in the reduction of RCAEval",
            input: &[Input::Traces],
            shapes: "spans of each window, with operation (service and name), trace, parent, kind and status",
            units: "durations in milliseconds; score without a unit",
            complexity: "O(spans log spans)",
            minimum: MINIMUM,
            deviations: &[
                "a trace is slow when its spans together last longer than the sum over its operations of mean and 1.5 deviations, as in the paper, rather than when any span is slow",
                "only slow traces stand on the abnormal side, in the graph and in the counts, so no count is negative",
                "an operation keeps the calls of all its spans, not of its last one",
                "a service is answered once, at its best operation",
            ],
            control: false,
            in_house: false,
        }
    }

    fn rank(&self, pack: &Pack, _seed: u64) -> Result<Vec<Answer>> {
        MINIMUM.check(self.name(), &pack.windows)?;
        let (normal, abnormal) = operations::split(pack);
        let limits: HashMap<Operation, f64> = durations(normal.iter().copied())
            .into_iter()
            .filter(|(_, sample)| sample.len() >= MINIMUM.normal_samples)
            .map(|(operation, sample)| (operation, mean(&sample) + 1.5 * deviation(&sample, 1)))
            .collect();
        if limits.is_empty() {
            return Err(insufficient(self.name(), "no operation has a normal baseline"));
        }
        let usual = Graph::new(traces(normal));
        let slow = Graph::new(traces(abnormal).into_iter().filter(|trace| is_slow(trace, &limits)).collect());
        if slow.traces.is_empty() {
            return Err(suspects::no_suspect(self.name(), "no trace is slower than its operations usually are"));
        }
        let mut scores = spectrum(&slow, &usual);
        scores.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        scores.truncate(KEPT);
        suspects::ranked(self.name(), pack, scores.into_iter().map(|((service, _), score)| (service, score)))
    }
}

/// The spans of each trace, traces in the order of their ids.
fn traces(mut spans: Vec<&Span>) -> Vec<Vec<&Span>> {
    spans.sort_by_key(|span| span.trace);
    spans.chunk_by(|a, b| a.trace == b.trace).map(<[&Span]>::to_vec).collect()
}

/// Whether the spans with a baseline together last longer than expected of them.
fn is_slow(trace: &[&Span], limits: &HashMap<Operation, f64>) -> bool {
    let known = trace.iter().filter_map(|span| Some((operations::milliseconds(span), limits.get(&operation(span))?)));
    let (found, expected) = known.fold((0.0, 0.0), |sum, (found, limit)| (sum.0 + found, sum.1 + limit));
    found > expected
}

/// The traces of one side over their operations.
struct Graph {
    operations: Vec<Operation>,
    /// Per trace: how many spans it has, and its distinct operations, ascending.
    traces: Vec<(usize, Vec<usize>)>,
    /// Per operation: the operations that it calls, ascending.
    calls: Vec<Vec<usize>>,
    /// Per operation: in how many traces it occurs.
    occurrences: Vec<usize>,
}

impl Graph {
    fn new(traces: Vec<Vec<&Span>>) -> Self {
        let distinct: BTreeSet<Operation> = traces.iter().flatten().map(|span| operation(span)).collect();
        let operations: Vec<Operation> = distinct.into_iter().collect();
        let index: HashMap<Operation, usize> = operations.iter().copied().zip(0..).collect();
        let mut calls = vec![BTreeSet::new(); operations.len()];
        let mut occurrences = vec![0; operations.len()];
        let mut list = Vec::with_capacity(traces.len());
        for trace in &traces {
            let by_id: HashMap<u64, usize> = trace.iter().map(|span| (span.id, index[&operation(span)])).collect();
            for span in trace.iter().filter(|span| span.parent != 0) {
                if let Some(&parent) = by_id.get(&span.parent) {
                    calls[parent].insert(index[&operation(span)]);
                }
            }
            let mut members: Vec<usize> = trace.iter().map(|span| index[&operation(span)]).collect();
            members.sort_unstable();
            members.dedup();
            members.iter().for_each(|&member| occurrences[member] += 1);
            list.push((trace.len(), members));
        }
        let calls = calls.into_iter().map(|set| set.into_iter().collect()).collect();
        Self { operations, traces: list, calls, occurrences }
    }

    /// The weight of each operation by personalised PageRank.
    fn weights(&self, preference: &[f64]) -> Vec<f64> {
        let start = 1.0 / (self.operations.len() + self.traces.len()) as f64;
        let mut services = vec![start; self.operations.len()];
        let mut requests = vec![start; self.traces.len()];
        for _ in 0..ITERATIONS {
            let next_services = self.to_services(&services, &requests);
            let next_requests = self.to_requests(&services, preference);
            services = next_services;
            requests = next_requests;
        }
        let share = services.iter().sum::<f64>() / services.len().max(1) as f64;
        services.iter().map(|weight| weight * share).collect()
    }

    fn to_services(&self, services: &[f64], requests: &[f64]) -> Vec<f64> {
        let mut next = vec![0.0; services.len()];
        for ((length, members), request) in self.traces.iter().zip(requests) {
            members.iter().for_each(|&member| next[member] += request / *length as f64);
        }
        for (parent, children) in self.calls.iter().enumerate() {
            let share = CALL_WEIGHT * services[parent] / children.len().max(1) as f64;
            children.iter().for_each(|&child| next[child] += share);
        }
        next.iter_mut().for_each(|value| *value *= DAMPING);
        scale_to_one(&mut next);
        next
    }

    fn to_requests(&self, services: &[f64], preference: &[f64]) -> Vec<f64> {
        let reached = |members: &[usize]| -> f64 {
            members.iter().map(|&member| services[member] / self.occurrences[member] as f64).sum()
        };
        let mut next: Vec<f64> = self
            .traces
            .iter()
            .zip(preference)
            .map(|((_, members), preference)| DAMPING * reached(members) + (1.0 - DAMPING) * preference)
            .collect();
        scale_to_one(&mut next);
        next
    }

    /// For each trace: how many traces have the same set of operations.
    fn kinds(&self) -> Vec<f64> {
        let mut counts: HashMap<&[usize], usize> = HashMap::new();
        for (_, members) in &self.traces {
            *counts.entry(members).or_default() += 1;
        }
        self.traces.iter().map(|(_, members)| counts[members.as_slice()] as f64).collect()
    }

    /// Rare kinds of traces first.
    fn usual_preference(&self) -> Vec<f64> {
        let kinds = self.kinds();
        let total: f64 = kinds.iter().map(|kind| 1.0 / kind).sum();
        kinds.iter().map(|kind| 1.0 / kind / total).collect()
    }

    /// Rare kinds and long traces first.
    fn slow_preference(&self) -> Vec<f64> {
        let kinds = self.kinds();
        let rarity: f64 = kinds.iter().map(|kind| 1.0 / kind).sum();
        let brevity: f64 = self.traces.iter().map(|(length, _)| 1.0 / *length as f64).sum();
        kinds
            .iter()
            .zip(&self.traces)
            .map(|(kind, (length, _))| 0.5 / (0.5 * kind / rarity + 1.0 / *length as f64) / brevity)
            .collect()
    }
}

fn scale_to_one(values: &mut [f64]) {
    let highest = values.iter().copied().fold(0.0, f64::max);
    if highest > 0.0 {
        values.iter_mut().for_each(|value| *value /= highest);
    }
}

/// What the spectrum knows about an operation on one side: its weight and the number of traces with it.
#[derive(Debug, Clone, Copy)]
struct Side {
    weight: f64,
    traces: f64,
}

fn spectrum(slow: &Graph, usual: &Graph) -> Vec<(Operation, f64)> {
    let sides = |graph: &Graph, weights: Vec<f64>| -> HashMap<Operation, Side> {
        let side = |index: usize| Side { weight: weights[index], traces: graph.occurrences[index] as f64 };
        graph.operations.iter().copied().enumerate().map(|(index, operation)| (operation, side(index))).collect()
    };
    let abnormal = sides(slow, slow.weights(&slow.slow_preference()));
    let normal = sides(usual, usual.weights(&usual.usual_preference()));
    let all: BTreeSet<Operation> = abnormal.keys().chain(normal.keys()).copied().collect();
    let count = slow.traces.len() as f64;
    all.into_iter().map(|op| (op, dstar2(abnormal.get(&op).copied(), count, normal.get(&op).copied()))).collect()
}

/// `ef² / (ep + nf)` with ef and nf from the slow side of `count` traces and ep from the usual side.
fn dstar2(slow: Option<Side>, count: f64, usual: Option<Side>) -> f64 {
    let (ef, nf) =
        slow.map_or((ABSENT, ABSENT), |side| (side.weight * side.traces, side.weight * (count - side.traces)));
    let ep = match (usual, slow) {
        (Some(side), Some(_)) => side.weight * side.traces,
        (Some(side), None) => (1.0 + side.weight) * side.traces,
        (None, _) => ABSENT,
    };
    ef * ef / (ep + nf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dstar2_matches_the_golden_vector() {
        let score = dstar2(Some(Side { weight: 0.9, traces: 8.0 }), 10.0, Some(Side { weight: 0.4, traces: 3.0 }));
        assert!((score - 17.28).abs() < 1e-9, "{score}");
        let only_usual = dstar2(None, 10.0, Some(Side { weight: 0.4, traces: 3.0 }));
        assert!(only_usual < 1e-13, "{only_usual}");
    }
}
