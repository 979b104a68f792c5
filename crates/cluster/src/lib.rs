//! The outside world where systems run: one trait, two implementations (simulated here, Kubernetes in a crate of its own).
//!
//! Operations are declared by deterministic name and are idempotent; each returns an *observation* of what is there,
//! never "done". Time passes only through [`Cluster::now`] and [`Cluster::run_until`]: Kubernetes waits, the simulator
//! simulates. No operation assumes that the caller survives it.

use std::collections::BTreeMap;

use async_trait::async_trait;
use model::{DataTime, Problem, RunId, Slot, SystemCode, TruthEntry, WallTime};
use serde::{Deserialize, Serialize};

/// A failed operation on a cluster.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub struct ClusterError {
    pub problem: Problem,
    /// Whether the effect may have happened all the same; the caller re-observes before it goes on.
    pub effect_possible: bool,
}

impl From<Problem> for ClusterError {
    /// The effect did not happen.
    fn from(problem: Problem) -> Self {
        Self { problem, effect_possible: false }
    }
}

impl From<ClusterError> for Problem {
    fn from(error: ClusterError) -> Self {
        error.problem
    }
}

pub type Result<T> = std::result::Result<T, ClusterError>;

/// The right of one owner to act on a slot. A cluster refuses an effect whose token is lower than one it has seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    pub run: RunId,
    /// Strictly increasing per slot with every change of owner.
    pub token: i64,
}

/// What is to be installed. The release's name is the slot's namespace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReleaseSpec {
    pub slot: Slot,
    /// Chart name, exact version and where it comes from.
    pub chart: String,
    pub chart_version: String,
    pub repository: String,
    /// SHA-256 of the chart archive where one was fetched.
    pub chart_digest: Option<String>,
    /// The composed values, exactly as they are to be installed.
    pub values: serde_json::Value,
    /// SHA-256 of the canonical form of `values`.
    pub values_digest: String,
    /// What the run observes. On the simulator this is the whole input of the simulation; Kubernetes ignores it.
    pub environment: Environment,
}

/// What a simulated run starts from. Same environment and same faults at the same data times: same telemetry, byte for byte.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    pub run: RunId,
    /// Where the run's data time starts, a whole second.
    pub origin: DataTime,
    pub seed: u64,
    /// Journeys per second of the load generator.
    pub load: f64,
    /// Strength of the noise that real systems have, 0 to 2; 1 is the default.
    pub noise: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReleaseObservation {
    pub release: String,
    pub chart: String,
    pub chart_version: String,
    /// SHA-256 of the chart archive that it was installed from, where that is known.
    #[serde(default)]
    pub chart_digest: Option<String>,
    pub values_digest: String,
    pub ready: bool,
    /// Why it is not ready, in words.
    pub waiting_for: Option<String>,
    /// Data time of the installation.
    pub installed_at: DataTime,
}

/// A fault that is to be active. `name` derives from the task, so that a repeated call finds the same object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FaultObject {
    pub name: String,
    pub slot: Slot,
    pub capability: String,
    /// The resolved target and parameters in the form of the `fault` crate (`fault::Resolved` as JSON).
    pub resolved: serde_json::Value,
    /// The rendered Chaos Mesh object; the simulator only records its digest.
    pub manifest: serde_json::Value,
    /// Labels that every object of ours carries: run and injection id.
    pub labels: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultPhase {
    /// Accepted, not active yet.
    Pending,
    /// At least one target is hit.
    Active,
    /// The cluster has undone it, nothing is left on the target.
    Recovered,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FaultObservation {
    pub name: String,
    pub slot: Slot,
    /// Those of the object: run and injection id. Empty when the object is gone.
    pub labels: BTreeMap<String, String>,
    /// The run that answers for it.
    pub run: RunId,
    pub phase: FaultPhase,
    /// Pods that were hit.
    pub pods: Vec<String>,
    /// Labels that were found when the selector matched nothing.
    pub started_at: Option<DataTime>,
    pub ended_at: Option<DataTime>,
    /// Ground truth with the pods that were really hit.
    pub truth: Vec<TruthEntry>,
}

/// Whether data time has been reached or when to ask again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    Reached,
    /// Ask again at this wall time; nothing needs to be held until then.
    Wake(WallTime),
}

/// What the mechanism itself says about a fault's effect, against the same system without the fault.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Witness {
    pub fault: String,
    /// Whether the share of what the fault touched passes the capability's threshold. Decides scoring.
    pub exposed: bool,
    /// What was counted: `requests`, `messages`, `cpu_periods`, `bytes`, `statements`, `processes`.
    pub unit: String,
    /// How many units passed the mechanism while the fault was on, and how many of them it touched.
    pub passed: u64,
    pub touched: u64,
    pub threshold_share: f64,
    pub threshold_count: u64,
    /// The decision in words.
    pub reason: String,
    /// The same counts pod by pod.
    #[serde(default)]
    pub pods: Vec<PodReading>,
    /// What else was counted at the mechanism, by name.
    #[serde(default)]
    pub facts: BTreeMap<String, u64>,
    /// From the fault's start until its target was back, for a fault that happens once; else until its end. Bounded by
    /// the fault's end; `None` while it is on.
    #[serde(default)]
    pub effect: Option<EffectSpan>,
}

/// What passed one pod while a fault was on, and what of it was touched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodReading {
    pub pod: String,
    pub passed: u64,
    pub touched: u64,
}

/// When a fault had an effect, as its capability's rule counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectSpan {
    pub from: DataTime,
    pub until: DataTime,
}

/// Something harmless that a cluster did besides, and that can be taken for a fault: nothing but a run's private truth may
/// name it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Distractor {
    /// `periodic_job` or `lost_scrape`.
    pub kind: String,
    pub service: String,
    pub pod: String,
    /// Half-open, in data time.
    pub from: DataTime,
    pub until: DataTime,
    /// What a job takes of the processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<f64>,
}

/// How the cluster looks after a fault was removed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    /// Fault objects and residues (unready pods, leftover rules) that are still there, in words; empty = clean.
    pub residue: Vec<String>,
    /// When the system was back inside its normal band, if it is.
    pub back_at: Option<DataTime>,
    /// How that was measured, in words.
    pub measure: String,
}

/// One line of the cluster's own journal of effects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JournalEntry {
    pub number: u64,
    pub effect: String,
    pub object: String,
    pub slot: String,
    pub fence: i64,
    pub at: DataTime,
}

/// What a cluster can and cannot do, found before a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClusterInfo {
    /// `simulated` or `cluster`: boards never mix the two.
    pub kind: String,
    pub version: String,
    /// Whether a release needs a fetched chart archive.
    pub needs_chart: bool,
}

#[async_trait]
pub trait Cluster: Send + Sync {
    fn info(&self) -> ClusterInfo;

    /// `Ok` when this cluster can run the system; else why not (`system.no_simulation_data`, ...).
    fn can_run(&self, system: &SystemCode) -> Result<()>;

    /// `Ok` when this cluster can carry the fault; else why not (`capability.unknown`, ...).
    fn can_inject(&self, system: &SystemCode, capability: &str) -> Result<()>;

    /// Installs, or replaces a release that differs. A release of another run's environment is replaced.
    async fn ensure_release(&self, fence: &Fence, want: &ReleaseSpec) -> Result<ReleaseObservation>;

    async fn observe_release(&self, slot: &Slot) -> Result<Option<ReleaseObservation>>;

    /// Every release that is there.
    async fn releases(&self) -> Result<Vec<ReleaseObservation>>;

    /// Removes the release and everything in the namespace. Idempotent.
    async fn remove_namespace(&self, fence: &Fence, slot: &Slot) -> Result<()>;

    /// The slot's data time.
    async fn now(&self, slot: &Slot) -> Result<DataTime>;

    /// Lets data time pass to `until`. Telemetry of a step that was cut short is replaced on the next call, not appended.
    async fn run_until(&self, fence: &Fence, slot: &Slot, until: DataTime) -> Result<Reach>;

    /// Starts the fault now. A selector that matches nothing fails with `fault.no_targets` and names the labels found.
    async fn ensure_fault(&self, fence: &Fence, want: &FaultObject) -> Result<FaultObservation>;

    async fn observe_fault(&self, slot: &Slot, name: &str) -> Result<Option<FaultObservation>>;

    /// Every fault object of ours that is not removed, for the kill switch and for tests.
    async fn faults(&self) -> Result<Vec<FaultObservation>>;

    /// Ends the fault now. Idempotent: a fault that is gone is an observation, not an error.
    async fn remove_fault(&self, fence: &Fence, slot: &Slot, name: &str) -> Result<FaultObservation>;

    /// Measured after the fault ended.
    async fn witness(&self, slot: &Slot, name: &str) -> Result<Witness>;

    async fn recovery(&self, slot: &Slot) -> Result<Recovery>;

    /// The cluster's objects as `k8s.json` wants them. Names no fault and no chaos object.
    async fn snapshot(&self, slot: &Slot) -> Result<serde_json::Value>;

    /// The harmless events of the slot's release so far, in the order of their beginning, as far as the cluster knows them:
    /// a real one knows of none.
    async fn distractors(&self, slot: &Slot) -> Result<Vec<Distractor>>;

    /// The append-only journal of effects.
    async fn journal(&self) -> Result<Vec<JournalEntry>>;
}
