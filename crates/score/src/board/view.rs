//! The rows of one view of the cases, and what is cut out of them.

use std::collections::BTreeMap;

use model::{Level, Onset};

use super::{Answered, Flip, HEADLINE, LevelView, RobustnessRow, Row, Slice, View};
use crate::case::{Case, Options, Outcome};
use crate::compare::{Comparison, compare};
use crate::estimate::{Estimate, Estimates};
use crate::layout::{Layout, distinct};
use crate::ranking::{Scores, chance, score};

/// What becomes of a pack that the detector did not flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undetected {
    Counts,
    IsMiss,
}

pub struct ViewMaker<'a> {
    pub answered: &'a Answered<'a>,
    pub options: &'a Options,
}

/// The outcomes of one algorithm.
type Packs<'a> = BTreeMap<&'a str, &'a Outcome>;

impl ViewMaker<'_> {
    pub fn view(&self, cases: &[&Case], undetected: Undetected) -> View {
        let layout = Layout::new(cases);
        let (packs, clusters) = (layout.packs(), layout.clusters().count());
        let mut rows: Vec<Row> = if cases.is_empty() {
            Vec::new()
        } else {
            self.answered.iter().map(|(name, packs)| self.row(name, packs, cases, undetected)).collect()
        };
        rows.sort_by(|a, b| {
            let value = |row: &Row| row.scores.get(HEADLINE).value;
            value(b).total_cmp(&value(a)).then_with(|| a.algorithm.cmp(&b.algorithm))
        });
        let chance = self.chance(&layout, cases, undetected);
        View { packs, clusters, cells: layout.cells.len(), chance, rows }
    }

    fn row(&self, name: &str, packs: &Packs<'_>, cases: &[&Case], undetected: Undetected) -> Row {
        let whole = self.slice("", packs, cases, undetected);
        let ran: Vec<&&Outcome> = cases.iter().filter_map(|case| packs.get(case.pack.as_str())).collect();
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        for outcome in ran.iter().filter(|outcome| outcome.answers.is_none()) {
            let reason = outcome.reason.as_deref().unwrap_or("no reason recorded");
            *reasons.entry(reason.to_owned()).or_default() += 1;
        }
        let by = |text: &dyn Fn(&Case) -> String| self.slices(packs, cases, undetected, text);
        let difficulty = (0..3).flat_map(|kind| {
            by(&|case: &Case| {
                let mut classes = case.classes();
                std::mem::take(&mut classes[kind])
            })
        });
        Row {
            algorithm: name.to_owned(),
            in_house: self.options.in_house.iter().any(|ours| ours == name),
            baseline: self.options.baselines.iter().any(|baseline| baseline == name),
            packs: whole.packs,
            clusters: whole.clusters,
            failed: reasons.values().sum(),
            reasons,
            missing: cases.len() - ran.len(),
            seconds: median(ran.iter().map(|outcome| outcome.seconds).collect()),
            peak_memory: ran.iter().filter_map(|outcome| outcome.peak_memory).max(),
            unconfined: ran.iter().filter(|outcome| outcome.unconfined).count(),
            scores: whole.scores,
            by_family: by(&|case: &Case| case.family.clone()),
            by_system: by(&|case: &Case| case.system.clone()),
            by_difficulty: difficulty.collect(),
            by_roots: by(&|case: &Case| {
                let several = case.truth(self.options.rule).len() > 1;
                if several { "several roots" } else { "one root" }.to_owned()
            }),
        }
    }

    /// One slice for each distinct text.
    fn slices(
        &self,
        packs: &Packs<'_>,
        cases: &[&Case],
        undetected: Undetected,
        text: &dyn Fn(&Case) -> String,
    ) -> Vec<Slice> {
        let cut = |name: String| {
            let part: Vec<&Case> = cases.iter().copied().filter(|case| text(case) == name).collect();
            self.slice(&name, packs, &part, undetected)
        };
        distinct(cases, text).into_iter().map(cut).collect()
    }

    fn slice(&self, name: &str, packs: &Packs<'_>, cases: &[&Case], undetected: Undetected) -> Slice {
        let layout = Layout::new(cases);
        let chance = self.chance(&layout, cases, undetected);
        self.estimated(name, &layout, &self.values(packs, cases, undetected), chance)
    }

    fn estimated(&self, name: &str, layout: &Layout, values: &[Scores], chance: Scores) -> Slice {
        let sums = layout.sums(values);
        Slice {
            name: name.to_owned(),
            packs: layout.packs(),
            clusters: sums.clusters(),
            chance,
            scores: Estimates::new(&sums, layout.packs(), self.options.resamples, self.options.seed),
        }
    }

    /// The value of each case: what is not answered is a miss.
    fn values(&self, packs: &Packs<'_>, cases: &[&Case], undetected: Undetected) -> Vec<Scores> {
        let value = |case: &&Case| {
            let answers = packs.get(case.pack.as_str())?.answers.as_deref()?;
            counts(case, undetected).then(|| score(answers, Level::Service, case.truth(self.options.rule)))
        };
        cases.iter().map(|case| value(case).unwrap_or_default()).collect()
    }

    fn chance(&self, layout: &Layout, cases: &[&Case], undetected: Undetected) -> Scores {
        let value = |case: &&Case| {
            let truths = case.truth(self.options.rule).len();
            if counts(case, undetected) { chance(case.candidates, truths) } else { Scores::default() }
        };
        let values: Vec<Scores> = cases.iter().map(value).collect();
        Scores::from_array(layout.sums(&values).macro_mean())
    }

    pub fn comparisons(&self, cases: &[&Case]) -> Vec<Comparison> {
        if cases.is_empty() {
            return Vec::new();
        }
        let values: Vec<(&str, Vec<Scores>)> =
            self.answered.iter().map(|(name, packs)| (*name, self.values(packs, cases, Undetected::Counts))).collect();
        let columns: Vec<(&str, &[Scores])> = values.iter().map(|(name, values)| (*name, values.as_slice())).collect();
        compare(&Layout::new(cases), &columns, HEADLINE, self.options)
    }

    /// The levels below the service. What a level's inventory is nobody says, so there is no chance level.
    pub fn levels(&self, cases: &[&Case]) -> Vec<LevelView> {
        let view = |level: Level| {
            let here: Vec<&Case> = cases
                .iter()
                .copied()
                .filter(|case| case.truth_levels.get(&level).is_some_and(|t| !t.is_empty()))
                .collect();
            let layout = Layout::new(&here);
            let names = |packs: &Packs<'_>| {
                let mut answers = packs.values().filter_map(|outcome| outcome.answers.as_deref()).flatten();
                answers.any(|answer| answer.level == level)
            };
            let row = |(name, packs): (&&str, &Packs<'_>)| {
                // What is not answered is a miss here as well.
                let value = |case: &&Case| {
                    let answers = packs.get(case.pack.as_str())?.answers.as_deref()?;
                    Some(score(answers, level, case.truth_levels.get(&level)?))
                };
                let values: Vec<Scores> = here.iter().map(|case| value(case).unwrap_or_default()).collect();
                self.estimated(name, &layout, &values, Scores::default())
            };
            let mut rows: Vec<Slice> =
                self.answered.iter().filter(|(_, packs)| !here.is_empty() && names(packs)).map(row).collect();
            rows.sort_by(|a, b| b.scores.get(HEADLINE).value.total_cmp(&a.scores.get(HEADLINE).value));
            LevelView { level, packs: layout.packs(), rows }
        };
        Level::ALL[1..].iter().map(|level| view(*level)).filter(|view| !view.rows.is_empty()).collect()
    }

    pub fn robustness(&self, cases: &[&Case], other: &[(Onset, Answered<'_>)]) -> Vec<RobustnessRow> {
        let layout = Layout::new(cases);
        let estimate = |packs: &Packs<'_>| -> Estimate {
            let values = self.values(packs, cases, Undetected::Counts);
            self.estimated("", &layout, &values, Scores::default()).scores.get(HEADLINE).clone()
        };
        let told = |name: &str, onset: Onset| {
            let (_, answered) = other.iter().find(|(told, _)| *told == onset)?;
            answered.get(name).map(estimate)
        };
        let row = |(name, packs): (&&str, &Packs<'_>)| {
            let [early, late, detected] = [Onset::Early, Onset::Late, Onset::Detected].map(|onset| told(name, onset));
            let any = early.is_some() || late.is_some() || detected.is_some();
            (any && !cases.is_empty()).then(|| RobustnessRow {
                algorithm: (*name).to_owned(),
                packs: layout.packs(),
                known: estimate(packs),
                early,
                late,
                detected,
            })
        };
        self.answered.iter().filter_map(row).collect()
    }

    pub fn flips(&self, cases: &[&Case], rows: &[Row]) -> Vec<Flip> {
        let mut best = rows.iter().filter(|row| !row.baseline).map(|row| row.algorithm.as_str());
        let (Some(first), Some(second)) = (best.next(), best.next()) else { return Vec::new() };
        let value = |name: &str| self.answered.get(name).map(|packs| self.values(packs, cases, Undetected::Counts));
        let (Some(a), Some(b)) = (value(first), value(second)) else { return Vec::new() };
        let flip = |(case, (a, b)): (&&Case, (&Scores, &Scores))| {
            let (right, wrong) = match a.ac1 - b.ac1 {
                difference if difference > 0.5 => (first, second),
                difference if difference < -0.5 => (second, first),
                _ => return None,
            };
            Some(Flip {
                pack: case.pack.clone(),
                system: case.system.clone(),
                family: case.family.clone(),
                right: right.to_owned(),
                wrong: wrong.to_owned(),
            })
        };
        cases.iter().zip(a.iter().zip(&b)).filter_map(flip).collect()
    }
}

fn counts(case: &Case, undetected: Undetected) -> bool {
    case.detected || undetected == Undetected::Counts
}

fn median(mut seconds: Vec<f64>) -> Option<f64> {
    seconds.retain(|value| value.is_finite());
    seconds.sort_unstable_by(f64::total_cmp);
    let upper = *seconds.get(seconds.len() / 2)?;
    let lower = seconds[(seconds.len() - 1) / 2];
    Some(lower + (upper - lower) / 2.0)
}
