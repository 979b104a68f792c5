//! The rows of one view of the cases, and what is cut out of them.

use std::collections::BTreeMap;

use model::{Level, Onset};
use rayon::prelude::*;

use super::{Answered, Flip, HEADLINE, LevelView, RobustnessRow, Row, Slice, View};
use crate::case::{Case, Options, Outcome};
use crate::compare::{Comparison, compare};
use crate::estimate::Estimates;
use crate::layout::{Layout, Sums};
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

/// What a part of a view's cases is cut by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Whole,
    Family,
    System,
    Difficulty,
    Roots,
}

/// Some of a view's cases.
struct Part {
    cut: Cut,
    name: String,
    /// Indexes into the view's cases; those of the layout refer to this list.
    cases: Vec<usize>,
    layout: Layout,
    chance: Scores,
}

impl ViewMaker<'_> {
    pub fn view(&self, cases: &[&Case], undetected: Undetected) -> View {
        let parts = self.parts(cases, undetected);
        let columns = self.columns(cases, undetected);
        let cut: Vec<Vec<Slice>> = parts.par_iter().map(|part| self.slices(part, &columns)).collect();
        let row = |(index, (name, packs)): (usize, (&&str, &Packs<'_>))| {
            let slices = |wanted: Cut| -> Vec<Slice> {
                let here = parts.iter().zip(&cut).filter(|(part, _)| part.cut == wanted);
                here.map(|(_, slices)| slices[index].clone()).collect()
            };
            self.row(name, packs, cases, slices)
        };
        let mut rows: Vec<Row> = self.answered.iter().enumerate().filter(|_| !cases.is_empty()).map(row).collect();
        rows.sort_by(|a, b| {
            let value = |row: &Row| row.scores.get(HEADLINE).value;
            let by_value = value(b).total_cmp(&value(a));
            a.not_run().cmp(&b.not_run()).then(by_value).then_with(|| a.algorithm.cmp(&b.algorithm))
        });
        let whole = &parts[0];
        View {
            packs: whole.layout.packs(),
            clusters: whole.layout.clusters().count(),
            cells: whole.layout.cells.len(),
            chance: whole.chance,
            rows,
        }
    }

    fn row(&self, name: &str, packs: &Packs<'_>, cases: &[&Case], slices: impl Fn(Cut) -> Vec<Slice>) -> Row {
        let ran: Vec<&&Outcome> = cases.iter().filter_map(|case| packs.get(case.pack.as_str())).collect();
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        for outcome in ran.iter().filter(|outcome| outcome.answers.is_none()) {
            let reason = outcome.reason.as_deref().unwrap_or("no reason recorded");
            *reasons.entry(reason.to_owned()).or_default() += 1;
        }
        let slices = |cut: Cut| {
            let mut slices = slices(cut);
            if ran.is_empty() {
                slices.iter_mut().for_each(|slice| slice.scores = Estimates::not_run());
            }
            slices
        };
        let whole = slices(Cut::Whole).swap_remove(0);
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
            by_family: slices(Cut::Family),
            by_system: slices(Cut::System),
            by_difficulty: slices(Cut::Difficulty),
            by_roots: slices(Cut::Roots),
        }
    }

    /// All cases first, then one part for each distinct text of each cut.
    fn parts(&self, cases: &[&Case], undetected: Undetected) -> Vec<Part> {
        let part = |cut: Cut, name: String, indexes: Vec<usize>| {
            let here: Vec<&Case> = indexes.iter().map(|&index| cases[index]).collect();
            let layout = Layout::new(&here);
            let chance = self.chance(&layout, &here, undetected);
            Part { cut, name, cases: indexes, layout, chance }
        };
        let by = |cut: Cut, text: &dyn Fn(&Case) -> String| {
            let mut found: BTreeMap<String, Vec<usize>> = BTreeMap::new();
            for (index, case) in cases.iter().enumerate() {
                found.entry(text(case)).or_default().push(index);
            }
            found.into_iter().map(|(name, indexes)| part(cut, name, indexes)).collect::<Vec<_>>()
        };
        let several = |case: &Case| case.truth(self.options.rule).len() > 1;
        let mut parts = vec![part(Cut::Whole, String::new(), (0..cases.len()).collect())];
        parts.extend(by(Cut::Family, &|case| case.family.clone()));
        parts.extend(by(Cut::System, &|case| case.system.clone()));
        for kind in 0..3 {
            parts.extend(by(Cut::Difficulty, &|case| std::mem::take(&mut case.classes()[kind])));
        }
        parts.extend(by(Cut::Roots, &|case| if several(case) { "several roots" } else { "one root" }.to_owned()));
        parts
    }

    /// One slice for each algorithm.
    fn slices(&self, part: &Part, columns: &[(&str, Vec<Scores>)]) -> Vec<Slice> {
        let values: Vec<Vec<Scores>> =
            columns.iter().map(|(_, values)| part.cases.iter().map(|&index| values[index]).collect()).collect();
        self.estimated(&part.name, &part.layout, &values, part.chance)
    }

    /// One slice for each list of values.
    fn estimated(&self, name: &str, layout: &Layout, values: &[Vec<Scores>], chance: Scores) -> Vec<Slice> {
        let sums: Vec<Sums> = values.iter().map(|values| layout.sums(values)).collect();
        let (packs, clusters) = (layout.packs(), layout.clusters().count());
        let estimates = Estimates::all(&sums, packs, self.options.resamples, self.options.seed);
        estimates.into_iter().map(|scores| Slice { name: name.to_owned(), packs, clusters, chance, scores }).collect()
    }

    /// The value of each algorithm on each case.
    fn columns(&self, cases: &[&Case], undetected: Undetected) -> Vec<(&str, Vec<Scores>)> {
        let answered: Vec<(&&str, &Packs<'_>)> = self.answered.iter().collect();
        answered.into_par_iter().map(|(name, packs)| (*name, self.values(packs, cases, undetected))).collect()
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
        let values = self.columns(cases, Undetected::Counts);
        let ran = |name: &str| cases.iter().any(|case| self.answered[name].contains_key(case.pack.as_str()));
        let compared = values.iter().filter(|(name, _)| ran(name));
        let columns: Vec<(&str, &[Scores])> = compared.map(|(name, values)| (*name, values.as_slice())).collect();
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
            // What is not answered is a miss here as well.
            let values = |packs: &Packs<'_>| -> Vec<Scores> {
                let value = |case: &&Case| {
                    let answers = packs.get(case.pack.as_str())?.answers.as_deref()?;
                    Some(score(answers, level, case.truth_levels.get(&level)?))
                };
                here.iter().map(|case| value(case).unwrap_or_default()).collect()
            };
            let naming: Vec<(&&str, &Packs<'_>)> =
                self.answered.iter().filter(|(_, packs)| !here.is_empty() && names(packs)).collect();
            let columns: Vec<Vec<Scores>> = naming.iter().map(|(_, packs)| values(packs)).collect();
            let mut rows = self.estimated("", &layout, &columns, Scores::default());
            rows.iter_mut().zip(&naming).for_each(|(row, (name, _))| (**name).clone_into(&mut row.name));
            rows.sort_by(|a, b| b.scores.get(HEADLINE).value.total_cmp(&a.scores.get(HEADLINE).value));
            LevelView { level, packs: layout.packs(), rows }
        };
        Level::ALL[1..].iter().map(|level| view(*level)).filter(|view| !view.rows.is_empty()).collect()
    }

    pub fn robustness(&self, cases: &[&Case], other: &[(Onset, Answered<'_>)]) -> Vec<RobustnessRow> {
        let layout = Layout::new(cases);
        let told = |onset: Onset| other.iter().find(|(told, _)| *told == onset).map(|(_, answered)| answered);
        let row = |(name, packs): (&&str, &Packs<'_>)| {
            let others = [Onset::Early, Onset::Late, Onset::Detected].map(|onset| told(onset)?.get(name));
            let ran: Vec<&Packs<'_>> = std::iter::once(packs).chain(others.into_iter().flatten()).collect();
            if ran.len() == 1 || cases.is_empty() {
                return None;
            }
            let values: Vec<Vec<Scores>> =
                ran.into_iter().map(|packs| self.values(packs, cases, Undetected::Counts)).collect();
            let slices = self.estimated("", &layout, &values, Scores::default());
            let mut estimates = slices.into_iter().map(|slice| slice.scores.get(HEADLINE).clone());
            let known = estimates.next()?;
            let [early, late, detected] = others.map(|ran| ran.and_then(|_| estimates.next()));
            Some(RobustnessRow { algorithm: (*name).to_owned(), packs: layout.packs(), known, early, late, detected })
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
