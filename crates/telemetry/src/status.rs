//! Counters of what was accepted and what was refused, by kind of request, namespace and reason.

use std::collections::BTreeMap;

use model::Problem;
use serde::Serialize;

use crate::Export;
use crate::convert::Count;

/// What a process has accepted and refused since it opened the store. Steps count when they are committed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Status {
    pub kinds: BTreeMap<Export, KindStatus>,
    /// The same records by namespace, in the order of their names.
    pub namespaces: Vec<NamespaceStatus>,
    /// Requests for none of the kinds, by code: a wrong path or method.
    pub strays: BTreeMap<String, u64>,
    /// What was received and is in no segment yet; absent when this process does not receive.
    pub queue: Option<Queue>,
    pub kept: Kept,
}

/// What became of one kind of request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct KindStatus {
    /// Records kept.
    pub accepted: u64,
    /// Records refused, by code.
    pub refused: BTreeMap<String, u64>,
    /// Whole requests refused, by code.
    pub requests_refused: BTreeMap<String, u64>,
}

/// What became of the records of one kind and namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamespaceStatus {
    /// As the resource names it; empty when it names none.
    pub namespace: String,
    pub kind: Export,
    pub accepted: u64,
    /// By code.
    pub refused: BTreeMap<String, u64>,
}

/// What was received and is in no segment yet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Queue {
    /// Rows in memory, bytes.
    pub waiting_bytes: u64,
    /// Journals whose rows are neither in memory nor in segments, bytes.
    pub backlog_bytes: u64,
    /// Why the last attempt to write segments failed.
    pub failure: Option<String>,
}

/// What retention did since the store was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Kept {
    /// Chunks removed because of their age.
    pub expired_by_age: u64,
    /// Chunks removed because there were too many bytes.
    pub expired_by_size: u64,
    /// Chunks that were merged into larger ones.
    pub merged: u64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Counters {
    records: BTreeMap<(String, Export), Count>,
    /// `None`: for none of the kinds.
    requests: BTreeMap<(Option<Export>, String), u64>,
    pub kept: Kept,
}

impl Counters {
    pub fn records(&mut self, export: Export, counts: &BTreeMap<String, Count>) {
        for (namespace, count) in counts {
            let sum = match self.records.get_mut(&(namespace.clone(), export)) {
                Some(sum) => sum,
                None => self.records.entry((namespace.clone(), export)).or_default(),
            };
            sum.accepted += count.accepted;
            sum.refused.merge(&count.refused);
        }
    }

    pub fn request_refused(&mut self, export: Option<Export>, problem: &Problem) {
        *self.requests.entry((export, problem.code.to_string())).or_default() += 1;
    }

    pub fn merge(&mut self, other: &Self) {
        for ((namespace, export), count) in &other.records {
            self.records(*export, &BTreeMap::from([(namespace.clone(), *count)]));
        }
    }

    pub fn status(&self, queue: Option<Queue>) -> Status {
        let codes = |count: &Count| count.refused.list().into_iter().map(|(code, n)| (code.to_owned(), n)).collect();
        let namespaces: Vec<NamespaceStatus> = self
            .records
            .iter()
            .map(|((namespace, kind), count)| NamespaceStatus {
                namespace: namespace.clone(),
                kind: *kind,
                accepted: count.accepted,
                refused: codes(count),
            })
            .collect();
        let mut kinds: BTreeMap<Export, KindStatus> = Export::ALL.map(|kind| (kind, KindStatus::default())).into();
        for part in &namespaces {
            let kind = kinds.entry(part.kind).or_default();
            kind.accepted += part.accepted;
            for (code, count) in &part.refused {
                *kind.refused.entry(code.clone()).or_default() += count;
            }
        }
        let mut strays = BTreeMap::new();
        for ((export, code), count) in &self.requests {
            let place = match export {
                Some(export) => &mut kinds.entry(*export).or_default().requests_refused,
                None => &mut strays,
            };
            place.insert(code.clone(), *count);
        }
        Status { kinds, namespaces, strays, queue, kept: self.kept }
    }
}
