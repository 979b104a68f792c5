//! The ranking metrics of one answer list, and their values by chance.

use std::collections::HashSet;

use model::{Answer, Level};
use serde::{Deserialize, Serialize};

/// A column of the board.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    Ac1,
    Ac3,
    Ac5,
    Avg3,
    Avg5,
    Mrr,
    Precision3,
    Precision5,
    Recall3,
    Recall5,
}

/// How many metrics there are.
pub(crate) const METRICS: usize = 10;
/// One value for each metric, in the order of [`Metric::ALL`].
pub(crate) type Values = [f64; METRICS];

impl Metric {
    pub const ALL: [Self; METRICS] = [
        Self::Ac1,
        Self::Ac3,
        Self::Ac5,
        Self::Avg3,
        Self::Avg5,
        Self::Mrr,
        Self::Precision3,
        Self::Precision5,
        Self::Recall3,
        Self::Recall5,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ac1 => "AC@1",
            Self::Ac3 => "AC@3",
            Self::Ac5 => "AC@5",
            Self::Avg3 => "Avg@3",
            Self::Avg5 => "Avg@5",
            Self::Mrr => "MRR",
            Self::Precision3 => "P@3",
            Self::Precision5 => "P@5",
            Self::Recall3 => "R@3",
            Self::Recall5 => "R@5",
        }
    }

    /// Whether a pack counts as hit or missed, so that a binomial interval applies.
    pub(crate) const fn is_proportion(self) -> bool {
        matches!(self, Self::Ac1 | Self::Ac3 | Self::Ac5)
    }
}

/// The metrics of one answer list, each 0 to 1; expected values where there are ties.
/// The default is what a miss earns: nothing.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Scores {
    pub ac1: f64,
    pub ac3: f64,
    pub ac5: f64,
    pub avg3: f64,
    pub avg5: f64,
    pub mrr: f64,
    pub precision3: f64,
    pub precision5: f64,
    pub recall3: f64,
    pub recall5: f64,
}

impl Scores {
    pub const fn get(&self, metric: Metric) -> f64 {
        self.array()[metric as usize]
    }

    /// In the order of [`Metric::ALL`].
    pub(crate) const fn array(&self) -> Values {
        [
            self.ac1,
            self.ac3,
            self.ac5,
            self.avg3,
            self.avg5,
            self.mrr,
            self.precision3,
            self.precision5,
            self.recall3,
            self.recall5,
        ]
    }

    pub(crate) const fn from_array(values: Values) -> Self {
        let [ac1, ac3, ac5, avg3, avg5, mrr, precision3, precision5, recall3, recall5] = values;
        Self { ac1, ac3, ac5, avg3, avg5, mrr, precision3, precision5, recall3, recall5 }
    }

    /// Adds a group of `size` equal suspects behind `before` others, of which `hits` are among the `truths`: each place
    /// of the group holds one of them with the same chance.
    fn count(&mut self, before: usize, size: usize, hits: usize, truths: usize) {
        let share = |k: usize| (hits * k.saturating_sub(before).min(size)) as f64 / size as f64;
        self.precision3 += share(3) / 3.0;
        self.precision5 += share(5) / 5.0;
        self.recall3 += share(3) / truths as f64;
        self.recall5 += share(5) / truths as f64;
    }

    /// The metrics when the first hit is in a group of `size` equal suspects behind `before` others and `hits` of the
    /// group are hits.
    fn of_group(before: usize, size: usize, hits: usize) -> Self {
        let mut ac = [0.0; 5];
        let mut mrr = 0.0;
        // The chance that no hit is among the first `place` of the group in a random order.
        let mut none = 1.0;
        for place in 1..=size - hits + 1 {
            let left = size - (place - 1);
            let hit_here = none * hits as f64 / left as f64;
            none *= (left - hits) as f64 / left as f64;
            let rank = before + place;
            mrr += hit_here / rank as f64;
            for at in ac.iter_mut().skip(rank - 1) {
                *at += hit_here;
            }
        }
        // A hit that is certain is one, not the sum of rounded parts.
        for (k, at) in (1..).zip(&mut ac) {
            if k > before + size - hits {
                *at = 1.0;
            }
        }
        let mean = |k: usize| ac[..k].iter().sum::<f64>() / k as f64;
        Self { ac1: ac[0], ac3: ac[2], ac5: ac[4], avg3: mean(3), avg5: mean(5), mrr, ..Self::default() }
    }
}

/// Scores one answer list against what counts as a hit at one level.
///
/// Only answers at this level count, each name once, at its first rank. Neighbours with equal scores are a tie.
pub fn score(answers: &[Answer], level: Level, truth: &[String]) -> Scores {
    let mut list: Vec<&Answer> = answers.iter().filter(|answer| answer.level == level).collect();
    list.sort_by_key(|answer| answer.rank);
    let mut seen = HashSet::new();
    list.retain(|answer| seen.insert(answer.name.as_str()));
    let truths = truth.iter().collect::<HashSet<_>>();
    let mut scores: Option<Scores> = None;
    let mut before = 0;
    for group in list.chunk_by(|a, b| a.score.is_some() && a.score == b.score) {
        let hits = group.iter().filter(|answer| truths.contains(&answer.name)).count();
        if hits > 0 {
            let scores = scores.get_or_insert_with(|| Scores::of_group(before, group.len(), hits));
            scores.count(before, group.len(), hits, truths.len());
        }
        before += group.len();
    }
    scores.unwrap_or_default()
}

/// The expected scores of a random order of `candidates` services of which `truths` are hits.
pub fn chance(candidates: usize, truths: usize) -> Scores {
    let truths = truths.min(candidates);
    if truths == 0 {
        return Scores::default();
    }
    let mut scores = Scores::of_group(0, candidates, truths);
    scores.count(0, candidates, truths, truths);
    scores
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(names: &[(&str, Option<f64>)]) -> Vec<Answer> {
        let answer = |(&(name, score), rank): (&(&str, Option<f64>), u32)| Answer {
            level: Level::Service,
            name: name.to_owned(),
            rank,
            score,
        };
        names.iter().zip(1..).map(answer).collect()
    }

    fn near(found: f64, expect: f64) {
        assert!((found - expect).abs() < 1e-12, "{found} is not {expect}");
    }

    #[test]
    fn ranks_one_three_none_and_six_give_the_golden_means() {
        let names = ["a", "b", "c", "d", "e", "f", "g"].map(|name| (name, None));
        let truths = ["a", "c", "x", "f"];
        let all: Vec<Scores> =
            truths.iter().map(|truth| score(&list(&names), Level::Service, &[(*truth).to_owned()])).collect();
        let mean = |metric| all.iter().map(|scores| scores.get(metric)).sum::<f64>() / 4.0;
        for (metric, expect) in Metric::ALL.into_iter().zip([0.25, 0.5, 0.5, 1.0 / 3.0, 0.4, 0.375]) {
            near(mean(metric), expect);
        }
    }

    #[test]
    fn ties_count_as_their_expectation() {
        let tied = list(&[("a", Some(2.0)), ("b", Some(1.0)), ("c", Some(1.0)), ("d", Some(0.0))]);
        let scores = score(&tied, Level::Service, &["c".to_owned()]);
        near(scores.ac1, 0.0);
        near(scores.ac3, 1.0);
        near(scores.mrr, (1.0 / 2.0 + 1.0 / 3.0) / 2.0);
        near(scores.avg5, (0.0 + 0.5 + 3.0) / 5.0);
        // No score is no tie.
        near(score(&list(&[("a", None), ("b", None)]), Level::Service, &["b".to_owned()]).ac1, 0.0);
    }

    #[test]
    fn a_service_counts_once_and_other_levels_do_not() {
        let mut answers = list(&[("a", None), ("a", None), ("a", None), ("b", None)]);
        answers[1].level = Level::Metric;
        near(score(&answers, Level::Service, &["b".to_owned()]).mrr, 0.5);
    }

    #[test]
    fn chance_matches_the_published_dummy() {
        near(chance(12, 1).avg5, 0.25);
        near(chance(43, 1).avg5, 3.0 / 43.0);
        near(chance(4, 2).ac1, 0.5);
        near(chance(4, 2).ac3, 1.0);
        near(chance(3, 1).mrr, (1.0 + 0.5 + 1.0 / 3.0) / 3.0);
        assert_eq!(chance(0, 1), Scores::default());
    }

    #[test]
    fn precision_and_recall_count_every_root() {
        let names = ["a", "b", "c", "d", "e"].map(|name| (name, None));
        let truth = ["a", "e", "x"].map(str::to_owned);
        let scores = score(&list(&names), Level::Service, &truth);
        near(scores.precision3, 1.0 / 3.0);
        near(scores.precision5, 2.0 / 5.0);
        near(scores.recall3, 1.0 / 3.0);
        near(scores.recall5, 2.0 / 3.0);
        // Two of four equal suspects behind one other: of the places 2 and 3 half are hits.
        let tied = list(&[("z", Some(2.0)), ("a", Some(1.0)), ("b", Some(1.0)), ("e", Some(1.0)), ("y", Some(1.0))]);
        near(score(&tied, Level::Service, &truth[..2]).recall3, 0.5);
        near(chance(10, 2).recall5, 0.5);
        near(chance(10, 2).precision5, 0.2);
    }

    fn answers() -> impl Strategy<Value = Vec<Answer>> {
        // Few distinct scores, so that ties are common.
        proptest::collection::vec((0..8_u8, proptest::option::of(0..3_u8)), 0..10).prop_map(|pairs| {
            let mut pairs = pairs;
            pairs.sort_by_key(|(_, score)| std::cmp::Reverse(*score));
            let to = |((name, score), rank): ((u8, Option<u8>), u32)| Answer {
                level: Level::Service,
                name: format!("s{name}"),
                rank,
                score: score.map(f64::from),
            };
            pairs.into_iter().zip(1..).map(to).collect()
        })
    }

    proptest! {
        #[test]
        fn scores_are_ordered_and_do_not_depend_on_the_order_of_storage(
            answers in answers(),
            truth in proptest::collection::vec(0..8_u8, 1..4),
            turn in 0..10_usize,
        ) {
            let truth: Vec<String> = truth.into_iter().map(|name| format!("s{name}")).collect();
            let scores = score(&answers, Level::Service, &truth);
            prop_assert!(0.0 <= scores.ac1 && scores.ac1 <= scores.ac3 + 1e-12 && scores.ac3 <= scores.ac5 + 1e-12);
            prop_assert!(scores.ac5 <= 1.0 + 1e-12 && scores.ac1 <= scores.mrr + 1e-12 && scores.mrr <= 1.0 + 1e-12);
            prop_assert!(scores.ac1 - 1e-12 <= scores.avg5 && scores.avg5 <= scores.ac5 + 1e-12);
            let mut turned = answers.clone();
            if !turned.is_empty() {
                let by = turn % turned.len();
                turned.rotate_left(by);
            }
            prop_assert_eq!(score(&turned, Level::Service, &truth), scores);
        }

        #[test]
        fn the_order_inside_a_tie_does_not_matter(size in 1..9_usize, hit in 0..9_usize) {
            let names: Vec<String> = (0..size).map(|index| format!("s{index}")).collect();
            let tied: Vec<(&str, Option<f64>)> = names.iter().map(|name| (name.as_str(), Some(1.0))).collect();
            let found = score(&list(&tied), Level::Service, &[format!("s{}", hit % size)]);
            for (a, b) in found.array().into_iter().zip(chance(size, 1).array()) {
                prop_assert!((a - b).abs() < 1e-12);
            }
        }
    }
}
