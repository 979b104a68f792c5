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
    Avg5,
    Mrr,
}

impl Metric {
    pub const ALL: [Self; 5] = [Self::Ac1, Self::Ac3, Self::Ac5, Self::Avg5, Self::Mrr];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ac1 => "AC@1",
            Self::Ac3 => "AC@3",
            Self::Ac5 => "AC@5",
            Self::Avg5 => "Avg@5",
            Self::Mrr => "MRR",
        }
    }

    /// Whether a pack counts as hit or missed, so that a binomial interval applies.
    pub(crate) const fn is_proportion(self) -> bool {
        matches!(self, Self::Ac1 | Self::Ac3 | Self::Ac5)
    }
}

/// The metrics of one answer list, each 0 to 1; expected values where there are ties.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Scores {
    pub ac1: f64,
    pub ac3: f64,
    pub ac5: f64,
    pub avg5: f64,
    pub mrr: f64,
}

impl Scores {
    pub const fn get(&self, metric: Metric) -> f64 {
        match metric {
            Metric::Ac1 => self.ac1,
            Metric::Ac3 => self.ac3,
            Metric::Ac5 => self.ac5,
            Metric::Avg5 => self.avg5,
            Metric::Mrr => self.mrr,
        }
    }

    /// In the order of [`Metric::ALL`].
    pub(crate) const fn array(&self) -> [f64; 5] {
        [self.ac1, self.ac3, self.ac5, self.avg5, self.mrr]
    }

    pub(crate) const fn from_array(values: [f64; 5]) -> Self {
        let [ac1, ac3, ac5, avg5, mrr] = values;
        Self { ac1, ac3, ac5, avg5, mrr }
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
        Self { ac1: ac[0], ac3: ac[2], ac5: ac[4], avg5: ac.iter().sum::<f64>() / 5.0, mrr }
    }
}

/// Scores one answer list against the services that count as a hit.
///
/// Only answers at service level count, each service once, at its first rank. Neighbours with equal scores are a tie.
pub fn score(answers: &[Answer], truth: &[String]) -> Scores {
    let mut list: Vec<&Answer> = answers.iter().filter(|answer| answer.level == Level::Service).collect();
    list.sort_by_key(|answer| answer.rank);
    let mut seen = HashSet::new();
    list.retain(|answer| seen.insert(answer.name.as_str()));
    let is_hit = |answer: &&Answer| truth.contains(&answer.name);
    let mut before = 0;
    for group in list.chunk_by(|a, b| a.score.is_some() && a.score == b.score) {
        let hits = group.iter().filter(|answer| is_hit(answer)).count();
        if hits > 0 {
            return Scores::of_group(before, group.len(), hits);
        }
        before += group.len();
    }
    Scores::default()
}

/// The expected scores of a random order of `candidates` services of which `truths` are hits.
pub fn chance(candidates: usize, truths: usize) -> Scores {
    let truths = truths.min(candidates);
    if truths == 0 { Scores::default() } else { Scores::of_group(0, candidates, truths) }
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
        let all: Vec<Scores> = truths.iter().map(|truth| score(&list(&names), &[(*truth).to_owned()])).collect();
        let mean = |metric| all.iter().map(|scores| scores.get(metric)).sum::<f64>() / 4.0;
        for (metric, expect) in Metric::ALL.into_iter().zip([0.25, 0.5, 0.5, 0.4, 0.375]) {
            near(mean(metric), expect);
        }
    }

    #[test]
    fn ties_count_as_their_expectation() {
        let tied = list(&[("a", Some(2.0)), ("b", Some(1.0)), ("c", Some(1.0)), ("d", Some(0.0))]);
        let scores = score(&tied, &["c".to_owned()]);
        near(scores.ac1, 0.0);
        near(scores.ac3, 1.0);
        near(scores.mrr, (1.0 / 2.0 + 1.0 / 3.0) / 2.0);
        near(scores.avg5, (0.0 + 0.5 + 3.0) / 5.0);
        // No score is no tie.
        near(score(&list(&[("a", None), ("b", None)]), &["b".to_owned()]).ac1, 0.0);
    }

    #[test]
    fn a_service_counts_once_and_other_levels_do_not() {
        let mut answers = list(&[("a", None), ("a", None), ("a", None), ("b", None)]);
        answers[1].level = Level::Metric;
        near(score(&answers, &["b".to_owned()]).mrr, 0.5);
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
            let scores = score(&answers, &truth);
            prop_assert!(0.0 <= scores.ac1 && scores.ac1 <= scores.ac3 + 1e-12 && scores.ac3 <= scores.ac5 + 1e-12);
            prop_assert!(scores.ac5 <= 1.0 + 1e-12 && scores.ac1 <= scores.mrr + 1e-12 && scores.mrr <= 1.0 + 1e-12);
            prop_assert!(scores.ac1 - 1e-12 <= scores.avg5 && scores.avg5 <= scores.ac5 + 1e-12);
            let mut turned = answers.clone();
            if !turned.is_empty() {
                let by = turn % turned.len();
                turned.rotate_left(by);
            }
            prop_assert_eq!(score(&turned, &truth), scores);
        }

        #[test]
        fn the_order_inside_a_tie_does_not_matter(size in 1..9_usize, hit in 0..9_usize) {
            let names: Vec<String> = (0..size).map(|index| format!("s{index}")).collect();
            let tied: Vec<(&str, Option<f64>)> = names.iter().map(|name| (name.as_str(), Some(1.0))).collect();
            let found = score(&list(&tied), &[format!("s{}", hit % size)]);
            for (a, b) in found.array().into_iter().zip(chance(size, 1).array()) {
                prop_assert!((a - b).abs() < 1e-12);
            }
        }
    }
}
