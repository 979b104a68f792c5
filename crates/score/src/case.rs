//! What goes into a board: the packs with their truth, and what the algorithms answered.

use std::collections::BTreeMap;

use model::{Answer, Level, Onset};
use serde::{Deserialize, Serialize};

/// Where a pack comes from. Results of the two are never merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Environment {
    Simulated,
    Cluster,
    /// Data of another benchmark, of which nothing but its label is known.
    Imported,
}

impl Environment {
    pub const ALL: [Self; 3] = [Self::Simulated, Self::Cluster, Self::Imported];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::Cluster => "cluster",
            Self::Imported => "imported",
        }
    }
}

/// One submitted injection and the pack that came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The pack's name, which the injection has from its submission on.
    pub pack: String,
    pub system: String,
    /// Fault family.
    pub family: String,
    /// Id of the injected point.
    pub point: String,
    pub environment: Environment,
    /// The simulator's seed; `None` where there is none, and each pack is a sample of its own.
    pub seed: Option<u64>,
    /// The run came to its end and left a pack.
    pub completed: bool,
    /// The target felt the fault.
    pub exposed: bool,
    /// The pack passed validation.
    pub valid: bool,
    /// The detector said `anomaly`.
    pub detected: bool,
    /// Services in role root. Empty for a no-fault control.
    pub truth_roots: Vec<String>,
    /// Every service of the public label. Empty for a no-fault control.
    pub truth_public: Vec<String>,
    /// What fails at the levels below the service, where the truth says it.
    #[serde(default)]
    pub truth_levels: BTreeMap<Level, Vec<String>>,
    /// Number of services that could have been named.
    pub candidates: usize,
    #[serde(default)]
    pub difficulty: Difficulty,
}

/// How hard a pack is, fixed before any algorithm runs. What is not known is absent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Difficulty {
    /// How far the fault moved the entrance: the largest relative change of an endpoint's mean duration, or ten times the
    /// loss of its success rate, against the paired control where there is one and against the normal window else.
    pub effect: Option<f64>,
    /// Calls from the entrance to the nearest root; 0 at the entrance itself.
    pub distance: Option<u32>,
}

impl Case {
    /// The classes that the pack is in, one of each kind.
    pub(crate) fn classes(&self) -> [String; 3] {
        let effect = match self.difficulty.effect {
            None => "effect: not known",
            Some(effect) if effect < 0.5 => "effect: below 50 %",
            Some(effect) if effect < 3.0 => "effect: 50 % to 300 %",
            Some(_) => "effect: above 300 %",
        };
        let distance = match self.difficulty.distance {
            None => "distance: not known",
            Some(0 | 1) => "distance: 0 or 1 call",
            Some(2) => "distance: 2 calls",
            Some(_) => "distance: 3 calls or more",
        };
        let candidates = match self.candidates {
            0 => "candidates: not known",
            1..=15 => "candidates: 15 or fewer",
            16..=30 => "candidates: 16 to 30",
            _ => "candidates: more than 30",
        };
        [effect, distance, candidates].map(str::to_owned)
    }
}

impl Case {
    /// A run without a fault: it measures false alarms and is no part of a ranking.
    pub fn is_control(&self) -> bool {
        self.truth_roots.is_empty() && self.truth_public.is_empty()
    }

    pub(crate) fn truth(&self, rule: Rule) -> &[String] {
        match rule {
            Rule::Root => &self.truth_roots,
            Rule::Public => &self.truth_public,
        }
    }
}

/// One run of one algorithm on one pack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub algorithm: String,
    pub pack: String,
    /// `None`: it failed, crashed or ran out of time or memory, which counts as a miss.
    pub answers: Option<Vec<Answer>>,
    /// Why there are no answers.
    pub reason: Option<String>,
    /// Wall time of the run.
    pub seconds: f64,
    /// Largest resident memory, bytes.
    #[serde(default)]
    pub peak_memory: Option<u64>,
    /// What it was told of the fault's start.
    #[serde(default)]
    pub onset: Onset,
    /// A command that nothing kept apart from the rest of the machine.
    #[serde(default)]
    pub unconfined: bool,
}

/// What a hit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// A service in role root: the acting side.
    #[default]
    Root,
    /// Any service of the public label.
    Public,
}

impl Rule {
    pub const ALL: [Self; 2] = [Self::Root, Self::Public];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Public => "public",
        }
    }
}

/// The settings of a board. None of them changes what a miss is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Options {
    pub rule: Rule,
    /// Seed of the resampling and of the permutations.
    pub seed: u64,
    /// Bootstrap resamples.
    pub resamples: usize,
    /// Random sign flips of a paired test that is too large to enumerate.
    pub permutations: usize,
    /// Algorithms that were devised in this project.
    pub in_house: Vec<String>,
    /// Trivial methods that a real one has to beat. They are on every board; the row of one that ran on nothing says `not run`.
    pub baselines: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rule: Rule::Root,
            seed: 1,
            resamples: 2000,
            permutations: 10_000,
            in_house: Vec::new(),
            baselines: Vec::new(),
        }
    }
}
