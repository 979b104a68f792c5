//! From scores of services to an answer list.

use std::collections::HashMap;

use model::{Answer, ErrorKind, Level, Problem, Result};

use crate::frame::Pack;

/// Ranks candidates by their best score, descending; equal scores stand in the order of their names and are ties by
/// their score. Names that are no candidates (load generators, nodes) and scores that are not finite are left out.
///
/// # Errors
/// `algorithm.no_suspect` when no candidate has a score.
pub fn ranked(name: &str, pack: &Pack, scores: impl IntoIterator<Item = (u32, f64)>) -> Result<Vec<Answer>> {
    let mut best: HashMap<u32, f64> = HashMap::new();
    for (service, score) in scores.into_iter().filter(|(_, score)| score.is_finite()) {
        let entry = best.entry(service).or_insert(score);
        *entry = entry.max(score);
    }
    let mut list: Vec<(&str, f64)> = pack
        .candidates
        .iter()
        .filter_map(|candidate| Some((candidate.as_str(), *best.get(&pack.names.find(candidate)?)?)))
        .collect();
    list.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    list.dedup_by(|a, b| a.0 == b.0);
    if list.is_empty() {
        return Err(no_suspect(name, "no candidate has a score"));
    }
    Ok(list.into_iter().zip(1..).map(|((name, score), rank)| answer(name, rank, Some(score))).collect())
}

/// A list whose order is all there is.
pub fn in_order<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<Answer> {
    names.into_iter().zip(1..).map(|(name, rank)| answer(name, rank, None)).collect()
}

fn answer(name: &str, rank: u32, score: Option<f64>) -> Answer {
    Answer { level: Level::Service, name: name.to_owned(), rank, score }
}

/// A method that looked and found nothing: told as such, never as an invented order.
pub fn no_suspect(name: &str, message: &str) -> Problem {
    Problem::new(ErrorKind::Failed, "algorithm.no_suspect", message).place(format!("algorithm {name}"))
}
