//! Puts a board together: funnel, rows, slices, comparisons; one part per environment.

mod view;

use std::collections::{BTreeMap, BTreeSet};

use model::{Level, Onset};
use serde::{Deserialize, Serialize};

use self::view::{Undetected, ViewMaker};
use crate::case::{Case, Environment, Options, Outcome, Rule};
use crate::compare::Comparison;
use crate::estimate::{Estimate, Estimates};
use crate::ranking::{Metric, Scores};

/// No-fault controls from which a false-alarm rate means something.
const ENOUGH_CONTROLS: usize = 100;
/// The metric of the paired tests and of the order of rows.
pub(crate) const HEADLINE: Metric = Metric::Avg5;

/// The scores of all algorithms. There is no number over several environments.
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
    /// `None` without a valid pack with a fault.
    pub misses: Option<Misses>,
    /// All exposed packs, whatever the detector said.
    pub ranking: View,
    /// All exposed packs, where an undetected one is a miss.
    pub pipeline: View,
    /// Only the packs that the detector flagged.
    pub detected_only: View,
    /// Every pair of algorithms on the view `ranking`.
    pub comparisons: Vec<Comparison>,
    /// Levels below the service, where a truth and an answer have them.
    pub levels: Vec<LevelView>,
    /// Algorithms that were also run with another start of the fault than the true one.
    pub robustness: Vec<RobustnessRow>,
    /// Packs on which exactly one of the two best algorithms that are no baselines names a root first.
    pub flips: Vec<Flip>,
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

/// The packs with a fault that the detector looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Misses {
    pub packs: usize,
    /// Share of them that the detector did not flag.
    pub missed: Estimate,
}

/// One level below the service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LevelView {
    pub level: Level,
    /// Distinct packs whose truth says something at this level.
    pub packs: usize,
    /// Those that name anything at this level, best first.
    pub rows: Vec<Slice>,
}

/// How one algorithm fares when it is told another start of the fault. `Avg@5`, over the same packs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RobustnessRow {
    pub algorithm: String,
    pub packs: usize,
    pub known: Estimate,
    pub early: Option<Estimate>,
    pub late: Option<Estimate>,
    pub detected: Option<Estimate>,
}

/// A pack on which two algorithms differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flip {
    pub pack: String,
    pub system: String,
    pub family: String,
    pub right: String,
    pub wrong: String,
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
    pub baseline: bool,
    pub packs: usize,
    pub clusters: usize,
    /// Packs on which it failed, with the reasons and how often each.
    pub failed: usize,
    pub reasons: BTreeMap<String, usize>,
    /// Packs on which it did not run; they count as misses too.
    pub missing: usize,
    /// Median wall time of a run.
    pub seconds: Option<f64>,
    /// Largest resident memory of a run, bytes.
    pub peak_memory: Option<u64>,
    /// Runs of a command that nothing kept apart.
    pub unconfined: usize,
    /// Macro means over system and family.
    #[serde(flatten)]
    pub scores: Estimates,
    pub by_family: Vec<Slice>,
    pub by_system: Vec<Slice>,
    /// Three ways to cut: effect at the entrance, distance of the root, number of candidates.
    pub by_difficulty: Vec<Slice>,
    /// `one root` and `several roots`: precision and recall are of interest for the second.
    pub by_roots: Vec<Slice>,
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

impl Row {
    /// It ran on none of the packs: its figures are the zeros of a run that never happened.
    pub fn not_run(&self) -> bool {
        self.scores.ac1.is_not_run()
    }
}

impl Board {
    pub fn environment(&self, environment: Environment) -> Option<&EnvironmentBoard> {
        self.environments.iter().find(|board| board.environment == environment)
    }
}

/// Scores the outcomes. The order of cases does not matter; of several outcomes of one algorithm on one pack the last
/// one counts, and so it is with several cases of one pack.
pub fn board(cases: &[Case], outcomes: &[Outcome], options: &Options) -> Board {
    let environments = Environment::ALL.into_iter().filter_map(|environment| {
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
pub(crate) type Answered<'a> = BTreeMap<&'a str, BTreeMap<&'a str, &'a Outcome>>;

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
    let told = |onset: Onset| {
        let mut answered: Answered<'_> = BTreeMap::new();
        let here = outcomes.iter().filter(|outcome| outcome.onset == onset);
        for outcome in here.filter(|outcome| cases.contains_key(outcome.pack.as_str())) {
            answered.entry(&outcome.algorithm).or_default().insert(&outcome.pack, outcome);
        }
        answered
    };
    let mut answered = told(Onset::Known);
    // A baseline that ran on nothing has a row that says so: nobody should have to know that one is missing.
    for baseline in &options.baselines {
        answered.entry(baseline).or_default();
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
    let ranking = maker.view(&valid, Undetected::Counts);
    let other: Vec<(Onset, Answered<'_>)> = Onset::ALL[1..].iter().map(|onset| (*onset, told(*onset))).collect();
    EnvironmentBoard {
        environment,
        funnel,
        controls: self::controls(&controls),
        misses: misses(&valid),
        levels: maker.levels(&valid),
        robustness: maker.robustness(&valid, &other),
        flips: maker.flips(&valid, &ranking.rows),
        ranking,
        pipeline: maker.view(&valid, Undetected::IsMiss),
        detected_only: maker.view(&detected, Undetected::Counts),
        comparisons: maker.comparisons(&valid),
        notes: notes(environment, &valid, &answered, options),
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

fn misses(cases: &[&Case]) -> Option<Misses> {
    if cases.is_empty() {
        return None;
    }
    let missed = cases.iter().filter(|case| !case.detected).count();
    Some(Misses { packs: cases.len(), missed: Estimate::exact(missed as f64 / cases.len() as f64, cases.len()) })
}

fn notes(environment: Environment, cases: &[&Case], answered: &Answered<'_>, options: &Options) -> Vec<String> {
    let mut notes = vec![format!("{} packs, onset known", environment.as_str())];
    if environment == Environment::Imported {
        notes.push("that a fault was felt is taken from the label: nothing else is known of imported packs".to_owned());
    }
    let without = cases.iter().filter(|case| case.candidates == 0).count();
    if without > 0 {
        notes.push(format!("{without} packs have no list of candidates: their chance level counts as zero"));
    }
    let absent: Vec<&str> =
        options.baselines.iter().map(String::as_str).filter(|name| answered[name].is_empty()).collect();
    if !cases.is_empty() && !absent.is_empty() {
        let names = absent.join(", ");
        notes.push(format!("these baselines ran on none of the packs: {names}; an evaluation runs all of them"));
    }
    notes
}
