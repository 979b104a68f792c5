//! Puts a board together: funnel, rows, slices by family and system, comparisons; one part per environment.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::case::{Case, Environment, Options, Outcome, Rule};
use crate::compare::{Comparison, compare};
use crate::estimate::{Estimate, Estimates};
use crate::layout::{Layout, distinct};
use crate::ranking::{Metric, Scores, chance, score};

/// No-fault controls from which a false-alarm rate means something.
const ENOUGH_CONTROLS: usize = 100;
/// The metric of the paired tests and of the order of rows.
const HEADLINE: Metric = Metric::Avg5;

/// The scores of all algorithms. There is no number over both environments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Board {
    pub rule: Rule,
    pub seed: u64,
    /// Those that have a case, simulated first.
    pub environments: Vec<EnvironmentBoard>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnvironmentBoard {
    pub environment: Environment,
    pub funnel: Funnel,
    /// `None` without no-fault controls.
    pub controls: Option<Controls>,
    /// All exposed packs, whatever the detector said.
    pub ranking: View,
    /// All exposed packs, where an undetected one is a miss.
    pub pipeline: View,
    /// Only the packs that the detector flagged.
    pub detected_only: View,
    /// Every pair of algorithms on the view `ranking`.
    pub comparisons: Vec<Comparison>,
    /// What a reader has to know beside the numbers.
    pub notes: Vec<String>,
}

/// How many injections with a fault are left at each stage; each stage counts what passed all before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Funnel {
    pub submitted: usize,
    pub completed: usize,
    pub exposed: usize,
    /// Passed validation, and has a truth under the board's rule.
    pub valid: usize,
    /// At least one algorithm ran on it, whatever came of it.
    pub scored: usize,
}

/// The no-fault controls that came to their end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Controls {
    pub packs: usize,
    /// Share of them that the detector flagged.
    pub false_alarms: Estimate,
}

/// One way to count the same packs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// Distinct packs: repeats of one seed are one.
    pub packs: usize,
    /// Distinct points within system and family.
    pub clusters: usize,
    /// Systems times families that have a pack.
    pub cells: usize,
    /// What a random order of the candidates scores, as macro mean.
    pub chance: Scores,
    /// Best first; empty without packs.
    pub rows: Vec<Row>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub algorithm: String,
    pub in_house: bool,
    pub packs: usize,
    pub clusters: usize,
    /// Packs on which it failed, with the reasons and how often each.
    pub failed: usize,
    pub reasons: BTreeMap<String, usize>,
    /// Packs on which it did not run; they count as misses too.
    pub missing: usize,
    /// Median wall time of a run.
    pub seconds: Option<f64>,
    /// Macro means over system and family.
    #[serde(flatten)]
    pub scores: Estimates,
    pub by_family: Vec<Slice>,
    pub by_system: Vec<Slice>,
}

/// The part of a row that belongs to one family or one system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    pub name: String,
    pub packs: usize,
    pub clusters: usize,
    pub chance: Scores,
    #[serde(flatten)]
    pub scores: Estimates,
}

impl Board {
    pub fn environment(&self, environment: Environment) -> Option<&EnvironmentBoard> {
        self.environments.iter().find(|board| board.environment == environment)
    }
}

/// Scores the outcomes. The order of cases does not matter; of several outcomes of one algorithm on one pack the last
/// one counts, and so it is with several cases of one pack.
pub fn board(cases: &[Case], outcomes: &[Outcome], options: &Options) -> Board {
    let environments = [Environment::Simulated, Environment::Cluster].into_iter().filter_map(|environment| {
        let here = cases.iter().filter(|case| case.environment == environment);
        let by_name: BTreeMap<&str, &Case> = here.map(|case| (case.pack.as_str(), case)).collect();
        (!by_name.is_empty()).then(|| environment_board(environment, &by_name, outcomes, options))
    });
    let mut board = Board { rule: options.rule, seed: options.seed, environments: environments.collect() };
    let known: BTreeSet<&str> = cases.iter().map(|case| case.pack.as_str()).collect();
    let strange = outcomes.iter().filter(|outcome| !known.contains(outcome.pack.as_str())).count();
    if strange > 0 {
        let note = format!("{strange} outcomes belong to packs that are not on this board and are left out");
        board.environments.iter_mut().for_each(|environment| environment.notes.push(note.clone()));
    }
    board
}

/// The outcomes of each algorithm by pack.
type Answered<'a> = BTreeMap<&'a str, BTreeMap<&'a str, &'a Outcome>>;

fn environment_board(
    environment: Environment,
    cases: &BTreeMap<&str, &Case>,
    outcomes: &[Outcome],
    options: &Options,
) -> EnvironmentBoard {
    let (controls, faults): (Vec<&Case>, Vec<&Case>) = cases.values().partition(|case| case.is_control());
    let completed: Vec<&Case> = faults.iter().copied().filter(|case| case.completed).collect();
    let exposed: Vec<&Case> = completed.iter().copied().filter(|case| case.exposed).collect();
    let valid: Vec<&Case> =
        exposed.iter().copied().filter(|case| case.valid && !case.truth(options.rule).is_empty()).collect();
    let mut answered: Answered<'_> = BTreeMap::new();
    for outcome in outcomes.iter().filter(|outcome| cases.contains_key(outcome.pack.as_str())) {
        answered.entry(&outcome.algorithm).or_default().insert(&outcome.pack, outcome);
    }
    let was_run = |case: &&&Case| answered.values().any(|packs| packs.contains_key(case.pack.as_str()));
    let funnel = Funnel {
        submitted: faults.len(),
        completed: completed.len(),
        exposed: exposed.len(),
        valid: valid.len(),
        scored: valid.iter().filter(was_run).count(),
    };
    let detected: Vec<&Case> = valid.iter().copied().filter(|case| case.detected).collect();
    let maker = ViewMaker { answered: &answered, options };
    EnvironmentBoard {
        environment,
        funnel,
        controls: self::controls(&controls),
        ranking: maker.view(&valid, Undetected::Counts),
        pipeline: maker.view(&valid, Undetected::IsMiss),
        detected_only: maker.view(&detected, Undetected::Counts),
        comparisons: maker.comparisons(&valid),
        notes: notes(environment, &valid),
    }
}

fn controls(cases: &[&Case]) -> Option<Controls> {
    let done: Vec<&&Case> = cases.iter().filter(|case| case.completed && case.valid).collect();
    if done.is_empty() {
        return None;
    }
    let alarms = done.iter().filter(|case| case.detected).count();
    let mut false_alarms = Estimate::exact(alarms as f64 / done.len() as f64, done.len());
    if done.len() < ENOUGH_CONTROLS {
        false_alarms.note = Some(format!("fewer than {ENOUGH_CONTROLS} controls"));
    }
    Some(Controls { packs: done.len(), false_alarms })
}

fn notes(environment: Environment, cases: &[&Case]) -> Vec<String> {
    let mut notes = vec![format!("{} packs, onset known", environment.as_str())];
    let without = cases.iter().filter(|case| case.candidates == 0).count();
    if without > 0 {
        notes.push(format!("{without} packs have no list of candidates: their chance level counts as zero"));
    }
    notes
}

/// What becomes of a pack that the detector did not flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Undetected {
    Counts,
    IsMiss,
}

struct ViewMaker<'a> {
    answered: &'a Answered<'a>,
    options: &'a Options,
}

impl ViewMaker<'_> {
    fn view(&self, cases: &[&Case], undetected: Undetected) -> View {
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

    fn row(&self, name: &str, packs: &BTreeMap<&str, &Outcome>, cases: &[&Case], undetected: Undetected) -> Row {
        let whole = self.slice("", packs, cases, undetected);
        let ran: Vec<&&Outcome> = cases.iter().filter_map(|case| packs.get(case.pack.as_str())).collect();
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        for outcome in ran.iter().filter(|outcome| outcome.answers.is_none()) {
            let reason = outcome.reason.as_deref().unwrap_or("no reason recorded");
            *reasons.entry(reason.to_owned()).or_default() += 1;
        }
        let slices = |text: fn(&Case) -> &str| {
            let names = distinct(cases, text).into_iter();
            names
                .map(|value| {
                    let part: Vec<&Case> = cases.iter().copied().filter(|case| text(case) == value).collect();
                    self.slice(value, packs, &part, undetected)
                })
                .collect()
        };
        Row {
            algorithm: name.to_owned(),
            in_house: self.options.in_house.iter().any(|ours| ours == name),
            packs: whole.packs,
            clusters: whole.clusters,
            failed: reasons.values().sum(),
            reasons,
            missing: cases.len() - ran.len(),
            seconds: median(ran.iter().map(|outcome| outcome.seconds).collect()),
            scores: whole.scores,
            by_family: slices(|case| &case.family),
            by_system: slices(|case| &case.system),
        }
    }

    fn slice(&self, name: &str, packs: &BTreeMap<&str, &Outcome>, cases: &[&Case], undetected: Undetected) -> Slice {
        let layout = Layout::new(cases);
        let sums = layout.sums(&self.values(packs, cases, undetected));
        Slice {
            name: name.to_owned(),
            packs: layout.packs(),
            clusters: sums.clusters(),
            chance: self.chance(&layout, cases, undetected),
            scores: Estimates::new(&sums, layout.packs(), self.options.resamples, self.options.seed),
        }
    }

    /// The value of each case: what is not answered is a miss.
    fn values(&self, packs: &BTreeMap<&str, &Outcome>, cases: &[&Case], undetected: Undetected) -> Vec<Scores> {
        let value = |case: &&Case| {
            let answers = packs.get(case.pack.as_str())?.answers.as_deref()?;
            counts(case, undetected).then(|| score(answers, case.truth(self.options.rule)))
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

    fn comparisons(&self, cases: &[&Case]) -> Vec<Comparison> {
        if cases.is_empty() {
            return Vec::new();
        }
        let values: Vec<(&str, Vec<Scores>)> =
            self.answered.iter().map(|(name, packs)| (*name, self.values(packs, cases, Undetected::Counts))).collect();
        let columns: Vec<(&str, &[Scores])> = values.iter().map(|(name, values)| (*name, values.as_slice())).collect();
        compare(&Layout::new(cases), &columns, HEADLINE, self.options)
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
