//! What a datapack is built from: the run's facts and a source of telemetry.

use std::collections::{BTreeSet, HashMap};

use arrow::array::RecordBatch;
use model::{InjectionId, Result, Slot, Truth, Window, Windows};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::schema::Signal;

/// Which signals must hold rows in both windows; an empty one refuses the pack. The others may be empty, with a warning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    pub required: BTreeSet<Signal>,
}

impl Profile {
    /// What every public consumer accepts.
    pub fn strict() -> Self {
        Self { required: Signal::ALL.into() }
    }
}

/// Everything about a run except its telemetry.
#[derive(Debug, Clone)]
pub struct PackInput {
    pub slot: Slot,
    /// With the slot it makes the pack's neutral name.
    pub number: InjectionId,
    pub windows: Windows,
    pub profile: Profile,
    /// The cluster's objects, an object of lists as a Kubernetes client gives them. Must name no fault.
    pub k8s: Map<String, Value>,
    /// The public injection object (`id`, `fault_type`, `engine_config`, ...). `name` and `ground_truth` are set by the
    /// builder, so that they cannot disagree with the pack.
    pub injection: Map<String, Value>,
    /// What really was made to fail; no entries for a no-fault control.
    pub truth: Truth,
    /// The faults as they were resolved; empty for a no-fault control.
    pub faults: Vec<Value>,
    /// What the mechanism says about the faults' effect.
    pub witness: Value,
    /// What was seen of the recovery.
    pub receipt: Value,
    /// Ids, wall times and versions. Stands in the manifest's provenance part, the only one that may differ between two
    /// builds from the same telemetry.
    pub provenance: Map<String, Value>,
    /// Words that would give the answer away if the open part had them: names of fault objects, capabilities, ids.
    pub forbidden: Vec<String>,
}

impl PackInput {
    /// The pack's name: the system's code and a number, nothing of the fault.
    pub fn name(&self) -> String {
        name(&self.slot, self.number)
    }
}

/// `<code>-<number>`, six digits at least: the name of the injection that the pack belongs to.
pub fn name(slot: &Slot, number: InjectionId) -> String {
    format!("{}-{:06}", slot.system, number.0)
}

/// The batches of one window and signal, in any order.
pub type Batches<'a> = Box<dyn Iterator<Item = Result<RecordBatch>> + 'a>;

/// Where telemetry comes from.
///
/// A batch has at least the columns of the signal's [`Table`](crate::Table), in any order. Rows that already are in the
/// table's order are written as they come; otherwise the source is read a second time and sorted in memory.
pub trait Source: Sync {
    /// The rows in `[start, end)` of the window. Never asked for [`Signal::TraceIdTs`].
    fn batches(&self, window: Window, signal: Signal) -> Result<Batches<'_>>;

    /// Why there are none, if the source can tell: another namespace has them, nothing newer arrived, ...
    fn why_empty(&self, _window: Window, _signal: Signal) -> Result<Option<String>> {
        Ok(None)
    }
}

/// A source in memory.
#[derive(Debug, Clone, Default)]
pub struct InMemory {
    batches: HashMap<(Window, Signal), Vec<RecordBatch>>,
}

impl InMemory {
    pub fn push(&mut self, window: Window, signal: Signal, batch: RecordBatch) {
        self.batches.entry((window, signal)).or_default().push(batch);
    }

    /// Replaces what was pushed; gives it back.
    pub fn replace(&mut self, window: Window, signal: Signal, batches: Vec<RecordBatch>) -> Vec<RecordBatch> {
        self.batches.insert((window, signal), batches).unwrap_or_default()
    }
}

impl Source for InMemory {
    fn batches(&self, window: Window, signal: Signal) -> Result<Batches<'_>> {
        let batches = self.batches.get(&(window, signal)).map_or(&[][..], Vec::as_slice);
        Ok(Box::new(batches.iter().cloned().map(Ok)))
    }
}
