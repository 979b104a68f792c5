//! Counters of what was accepted and what was refused, by kind of request and reason.

use std::collections::BTreeMap;

use model::Problem;
use serde::Serialize;

use crate::Export;
use crate::refusal::Tally;

/// What a process has accepted and refused since it opened the store. Steps count when they are committed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Status {
    pub kinds: BTreeMap<Export, KindStatus>,
}

/// The same for one kind of request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct KindStatus {
    /// Records kept.
    pub accepted: u64,
    /// Records refused, by code.
    pub refused: BTreeMap<String, u64>,
    /// Whole requests refused, by code.
    pub requests_refused: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Counters {
    accepted: [u64; 3],
    refused: [Tally; 3],
    requests: BTreeMap<(Export, String), u64>,
}

impl Counters {
    pub fn records(&mut self, export: Export, accepted: u64, refused: &Tally) {
        self.accepted[export as usize] += accepted;
        self.refused[export as usize].merge(refused);
    }

    pub fn request_refused(&mut self, export: Export, problem: &Problem) {
        *self.requests.entry((export, problem.code.to_string())).or_default() += 1;
    }

    pub fn merge(&mut self, other: &Self) {
        for export in Export::ALL {
            self.records(export, other.accepted[export as usize], &other.refused[export as usize]);
        }
        for (key, count) in &other.requests {
            *self.requests.entry(key.clone()).or_default() += count;
        }
    }

    pub fn status(&self) -> Status {
        let kind = |export: Export| KindStatus {
            accepted: self.accepted[export as usize],
            refused: self.refused[export as usize].list().into_iter().map(|(code, n)| (code.to_owned(), n)).collect(),
            requests_refused: self
                .requests
                .iter()
                .filter(|((kind, _), _)| *kind == export)
                .map(|((_, code), count)| (code.clone(), *count))
                .collect(),
        };
        Status { kinds: Export::ALL.into_iter().map(|export| (export, kind(export))).collect() }
    }
}
