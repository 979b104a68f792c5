//! One imported datapack that is scored: its label, and what the detector says of it.

use std::collections::BTreeMap;
use std::path::Path;

use datapack::Pack;
use model::{ErrorKind, Problem, Result, Truth, Verdict, counted};
use rca::detector::{Conclusion, Profile};
use score::{Case, Environment};
use serde_json::Value;
use server::scoring::{self, Label};
use worker::child::{Child, Order};

pub struct Subject {
    pub pack: Pack,
    pub number: u64,
    truth: Truth,
}

/// What the detector says.
#[derive(Debug, Default)]
pub struct Flagged {
    verdict: Option<Verdict>,
    /// How far the fault moved the entrance.
    effect: Option<f64>,
    /// Why it judged nothing.
    undecided: Option<String>,
}

impl Subject {
    /// # Errors
    /// `score.not_imported`, `datapack.number_missing`, and what opening a datapack refuses.
    pub fn open(folder: &Path) -> Result<Self> {
        let within = |problem: Problem| match problem.place {
            Some(_) => problem,
            None => problem.place(folder.display().to_string()),
        };
        let pack = Pack::open(folder).map_err(within)?;
        let more = &pack.manifest().provenance.more;
        if more.get("origin").and_then(Value::as_str) != Some(Environment::Imported.as_str()) {
            return Err(within(
                Problem::new(ErrorKind::Invalid, "score.not_imported", "the datapack is of a run of an installation")
                    .fix("ask that installation: `aegisctl board`, or `aegisctl evaluation create --pack NAME`"),
            ));
        }
        let number = pack.injection().map_err(within)?.get("id").and_then(Value::as_u64).ok_or_else(|| {
            let message = "the injection of the datapack has no number";
            within(Problem::new(ErrorKind::Failed, "datapack.number_missing", message).fix("import it again"))
        })?;
        let truth = pack.truth().map_err(within)?;
        Ok(Self { pack, number, truth })
    }

    pub fn is_control(&self) -> bool {
        self.truth.entries.is_empty()
    }

    /// Another benchmark's system is not known here, so the detector's profile is the usual one, and it finds the entrance by
    /// itself.
    ///
    /// # Errors
    /// Only what is our own fault or the machine's.
    pub async fn flagged(&self, child: &Child<'_>) -> Result<Flagged> {
        let profile = serde_json::to_value(Profile::default()).map_err(|error| {
            Problem::internal("exec.profile", "the detector's profile cannot be written").cause(error)
        })?;
        let order = Order::Detect { pack: self.pack.open_part(), load_generators: Vec::new(), profile };
        let (judged, _) = worker::detect::judge(child, &order, "detector").await?;
        Ok(match judged {
            Ok(conclusion) => Flagged::from(&conclusion),
            Err(problem) => Flagged { undecided: Some(problem.code.to_string()), ..Flagged::default() },
        })
    }

    /// # Errors
    /// `datapack.fault_unnamed`.
    pub fn case(&self, flagged: &Flagged, candidates: usize) -> Result<Case> {
        let provenance = &self.pack.manifest().provenance;
        let faults = Value::Array(provenance.faults.clone());
        let label = Label {
            pack: self.pack.name(),
            system: self.pack.manifest().content.system.as_str(),
            faults: &faults,
            truth: &self.truth,
            seed: 0,
            built: true,
            exposed: true,
            // A control that nobody judged says nothing of false alarms.
            verdict: if self.is_control() { flagged.verdict.or(Some(Verdict::NoData)) } else { flagged.verdict },
        };
        let mut case = scoring::case(&label, candidates, Environment::Imported)?;
        case.difficulty.effect = flagged.effect;
        Ok(case)
    }
}

impl From<&Conclusion> for Flagged {
    fn from(conclusion: &Conclusion) -> Self {
        let rows: Vec<_> = conclusion.rows.iter().map(worker::detect::row).collect();
        let decided = matches!(conclusion.verdict, Verdict::Anomaly | Verdict::NoAnomaly);
        Self {
            // A case without traces is a datapack all the same, and one that the detector cannot flag.
            verdict: decided.then_some(conclusion.verdict),
            effect: scoring::effect(&rows, None),
            undecided: (!decided).then(|| conclusion.verdict.to_string()),
        }
    }
}

/// How many datapacks the detector could not judge.
pub fn note<'a>(all: impl Iterator<Item = &'a Flagged>) -> Option<String> {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in all.filter_map(|one| one.undecided.as_deref()) {
        *reasons.entry(reason).or_default() += 1;
    }
    let packs = counted(reasons.values().sum::<usize>(), "datapack");
    let words: Vec<String> = reasons.iter().map(|(reason, count)| format!("{reason}: {count}")).collect();
    (!words.is_empty())
        .then(|| format!("the detector could not judge {packs} ({}), which counts as not flagged", words.join(", ")))
}
