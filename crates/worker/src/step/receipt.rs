//! What is told of a run's faults afterwards: whether each was felt, what was removed, and when the system was back.

use api::spec::Fault;
use cluster::{FaultObservation, Recovery, Witness};
use fault::Length;
use model::{DataTime, Result, counted};
use serde::{Deserialize, Serialize};

/// A fault of the batch, its place and its name for people.
pub fn label(faults: &[Fault], index: usize) -> String {
    let fault = &faults[index];
    let name = format!("{} on {}", fault.capability, fault.service);
    if faults.len() == 1 { name } else { format!("fault {} of {} ({name})", index + 1, faults.len()) }
}

/// What the mechanism said about one fault of the batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Felt {
    /// Place in the batch, from 0.
    pub index: usize,
    pub capability: String,
    pub service: String,
    #[serde(flatten)]
    pub witness: Witness,
    /// How the end of the effect was measured, in words.
    pub effect_measure: String,
}

impl Felt {
    /// # Errors
    /// `capability.unknown` when the fault is none of the table.
    pub fn new(faults: &[Fault], index: usize, witness: Witness) -> Result<Self> {
        let Fault { capability, service, .. } = faults[index].clone();
        let effect_measure = match fault::capability(&capability)?.length {
            Length::Window => "until the fault was removed",
            Length::OneShot => {
                "it happens once: until the target was back, as the cluster saw it, or until the window's end before that"
            }
        };
        Ok(Self { index, capability, service, witness, effect_measure: effect_measure.to_owned() })
    }
}

/// Which faults of a batch nobody felt, and why; nothing when every one was felt. A batch is as exposed as its least
/// exposed fault: an algorithm that is asked for several roots must have had a chance to see each.
pub fn unfelt(faults: &[Fault], felt: &[Felt]) -> Option<String> {
    let reasons: Vec<String> = (0..faults.len())
        .filter_map(|index| {
            let name = label(faults, index);
            match felt.iter().find(|one| one.index == index) {
                None => Some(format!("{name}: no witness")),
                Some(one) if !one.witness.exposed => Some(format!("{name}: {}", one.witness.reason)),
                Some(_) => None,
            }
        })
        .collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// A fault that is gone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Removed {
    pub name: String,
    pub capability: String,
    pub service: String,
    /// Pods that were hit.
    pub pods: Vec<String>,
    pub started_at: Option<DataTime>,
    pub ended_at: Option<DataTime>,
}

impl Removed {
    pub fn new(fault: &Fault, seen: FaultObservation) -> Self {
        let Fault { capability, service, .. } = fault.clone();
        let FaultObservation { name, pods, started_at, ended_at, .. } = seen;
        Self { name, capability, service, pods, started_at, ended_at }
    }
}

/// The recovery receipt of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    pub removed: Vec<Removed>,
    /// What was still there when it was last looked, in words; empty = clean.
    pub residue: Vec<String>,
    /// When the system was back inside its normal band; absent when it was not, or was not looked at.
    pub back_at: Option<DataTime>,
    /// How that was measured, in words.
    pub measure: String,
    /// Until when it was looked.
    pub looked_until: Option<DataTime>,
}

impl Receipt {
    pub fn verified(removed: Vec<Removed>, recovery: Recovery, looked_until: DataTime) -> Self {
        let Recovery { residue, back_at, measure } = recovery;
        Self { removed, residue, back_at, measure, looked_until: Some(looked_until) }
    }

    /// Of a run that ended before its time: the faults were removed with the whole namespace, so there is nothing left
    /// that could be back.
    pub fn cut_short(removed: Vec<Removed>) -> Self {
        let measure = "not measured: the run ended early, and its namespace was emptied";
        Self { removed, residue: Vec::new(), back_at: None, measure: measure.to_owned(), looked_until: None }
    }

    pub fn words(&self) -> String {
        let faults = match self.removed.as_slice() {
            [] => "there was no fault to remove".to_owned(),
            removed => format!("{} removed", counted(removed.len(), "fault")),
        };
        let left = match self.residue.as_slice() {
            [] => "nothing of it is left".to_owned(),
            residue => format!("something is left: {}", residue.join("; ")),
        };
        let back = match (self.back_at, self.looked_until) {
            (Some(at), _) => format!("back inside the normal band at {at}"),
            (None, Some(until)) => format!("not back inside the normal band until {until}"),
            (None, None) => self.measure.clone(),
        };
        format!("{faults}; {left}; {back}")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use super::*;

    #[test]
    fn a_batch_is_felt_only_when_every_fault_is_and_the_others_are_named() {
        let fault = |service: &str| Fault {
            capability: "network_delay".into(),
            service: service.into(),
            resolved: Value::Null,
        };
        let faults = [fault("a"), fault("b")];
        let felt = |index, exposed| {
            let witness = Witness {
                fault: "f".into(),
                exposed,
                unit: "messages".into(),
                passed: 9,
                touched: 0,
                threshold_share: 0.1,
                threshold_count: 5,
                reason: "0 of 9 messages were touched".into(),
                pods: Vec::new(),
                facts: BTreeMap::new(),
                effect: None,
            };
            Felt::new(&faults, index, witness).unwrap()
        };
        assert_eq!(unfelt(&faults, &[felt(0, true), felt(1, true)]), None);
        let one = unfelt(&faults, &[felt(0, true), felt(1, false)]).unwrap();
        assert_eq!(one, "fault 2 of 2 (network_delay on b): 0 of 9 messages were touched");
        assert_eq!(unfelt(&faults, &[felt(0, true)]).unwrap(), "fault 2 of 2 (network_delay on b): no witness");
        assert_eq!(unfelt(&[], &[]), None, "without a fault there is nothing to feel");
    }
}
