//! A cluster that installs from fetched archives, as a real one does, and is simulated in everything else.

use async_trait::async_trait;
use cluster::{
    Cluster, ClusterInfo, Distractor, FaultObject, FaultObservation, Fence, JournalEntry, Reach, Recovery,
    ReleaseObservation, ReleaseSpec, Result, Witness,
};
use model::{DataTime, Slot, SystemCode};
use serde_json::Value;
use sim::SimCluster;

pub struct Needy(pub SimCluster);

#[async_trait]
impl Cluster for Needy {
    fn info(&self) -> ClusterInfo {
        ClusterInfo { needs_chart: true, ..self.0.info() }
    }
    fn can_run(&self, system: &SystemCode) -> Result<()> {
        self.0.can_run(system)
    }
    fn can_inject(&self, system: &SystemCode, capability: &str) -> Result<()> {
        self.0.can_inject(system, capability)
    }
    async fn ensure_release(&self, fence: &Fence, want: &ReleaseSpec) -> Result<ReleaseObservation> {
        self.0.ensure_release(fence, want).await
    }
    async fn observe_release(&self, slot: &Slot) -> Result<Option<ReleaseObservation>> {
        self.0.observe_release(slot).await
    }
    async fn releases(&self) -> Result<Vec<ReleaseObservation>> {
        self.0.releases().await
    }
    async fn remove_namespace(&self, fence: &Fence, slot: &Slot) -> Result<()> {
        self.0.remove_namespace(fence, slot).await
    }
    async fn now(&self, slot: &Slot) -> Result<DataTime> {
        self.0.now(slot).await
    }
    async fn run_until(&self, fence: &Fence, slot: &Slot, until: DataTime) -> Result<Reach> {
        self.0.run_until(fence, slot, until).await
    }
    async fn ensure_fault(&self, fence: &Fence, want: &FaultObject) -> Result<FaultObservation> {
        self.0.ensure_fault(fence, want).await
    }
    async fn observe_fault(&self, slot: &Slot, name: &str) -> Result<Option<FaultObservation>> {
        self.0.observe_fault(slot, name).await
    }
    async fn faults(&self) -> Result<Vec<FaultObservation>> {
        self.0.faults().await
    }
    async fn remove_fault(&self, fence: &Fence, slot: &Slot, name: &str) -> Result<FaultObservation> {
        self.0.remove_fault(fence, slot, name).await
    }
    async fn witness(&self, slot: &Slot, name: &str) -> Result<Witness> {
        self.0.witness(slot, name).await
    }
    async fn recovery(&self, slot: &Slot) -> Result<Recovery> {
        self.0.recovery(slot).await
    }
    async fn snapshot(&self, slot: &Slot) -> Result<Value> {
        self.0.snapshot(slot).await
    }
    async fn distractors(&self, slot: &Slot) -> Result<Vec<Distractor>> {
        self.0.distractors(slot).await
    }
    async fn journal(&self) -> Result<Vec<JournalEntry>> {
        self.0.journal().await
    }
}
