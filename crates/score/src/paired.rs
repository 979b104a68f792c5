//! Two sets of answers of the same algorithms on the same packs: did a change help?

use std::collections::BTreeMap;

use model::{Level, Onset};
use serde::{Deserialize, Serialize};

use crate::board::HEADLINE;
use crate::case::{Case, Options, Outcome};
use crate::compare::{Column, Comparison, compare_pairs};
use crate::layout::Layout;
use crate::ranking::{Scores, score};

/// The comparison of two evaluations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Paired {
    /// Distinct packs that both have.
    pub packs: usize,
    /// One for each algorithm that both have, by name; `first` and `second` of a comparison are the same name.
    pub comparisons: Vec<Comparison>,
}

/// Compares each algorithm's first answers with its second ones. `cases` are the valid packs that both scored.
pub fn paired(cases: &[&Case], first: &[Outcome], second: &[Outcome], options: &Options) -> Paired {
    let layout = Layout::new(cases);
    let (a, b) = (columns(cases, first, options), columns(cases, second, options));
    let pairs: Vec<(Column<'_>, Column<'_>)> = a
        .iter()
        .filter_map(|(name, values)| Some(((*name, values.as_slice()), (*name, b.get(name)?.as_slice()))))
        .collect();
    let comparisons = if cases.is_empty() { Vec::new() } else { compare_pairs(&layout, &pairs, HEADLINE, options) };
    Paired { packs: layout.packs(), comparisons }
}

fn columns<'a>(cases: &[&Case], outcomes: &'a [Outcome], options: &Options) -> BTreeMap<&'a str, Vec<Scores>> {
    let mut answered: BTreeMap<&str, BTreeMap<&str, &Outcome>> = BTreeMap::new();
    for outcome in outcomes.iter().filter(|outcome| outcome.onset == Onset::Known) {
        answered.entry(&outcome.algorithm).or_default().insert(&outcome.pack, outcome);
    }
    // What is not answered is a miss.
    let column = |packs: BTreeMap<&str, &Outcome>| {
        let value = |case: &&Case| {
            let answers = packs.get(case.pack.as_str())?.answers.as_deref()?;
            Some(score(answers, Level::Service, case.truth(options.rule)))
        };
        cases.iter().map(|case| value(case).unwrap_or_default()).collect()
    };
    answered.into_iter().map(|(name, packs)| (name, column(packs))).collect()
}
