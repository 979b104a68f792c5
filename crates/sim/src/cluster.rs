//! The simulated cluster behind the trait: a folder that outlives every process, and live simulations made from it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use cluster::{
    Cluster, ClusterError, ClusterInfo, Distractor, FaultObject, FaultObservation, Fence, JournalEntry, Reach,
    Recovery, ReleaseObservation, ReleaseSpec, Result, Witness,
};
use model::{DataTime, ErrorKind, Problem, Slot, SystemCode};
use serde_json::Value;
use system::Catalog;

use crate::plan::Plan;
use crate::slot::{self, Live};
use crate::state::{FileLock, Folder, SlotState};
use crate::telemetry_out::Telemetry;

/// A simulated cluster in a folder. Clones share it; several processes may open the same folder.
#[derive(Clone)]
pub struct SimCluster {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub folder: Folder,
    catalog: Arc<Catalog>,
    pub telemetry: Arc<dyn Telemetry>,
    /// One live simulation per slot, made again from the folder whenever it is missing or behind.
    live: Mutex<HashMap<String, Arc<Mutex<Option<Live>>>>>,
    plans: Mutex<HashMap<SystemCode, Arc<Plan>>>,
}

/// A slot that this thread alone may change.
pub(crate) struct Held<'a> {
    pub state: SlotState,
    pub live: MutexGuard<'a, Option<Live>>,
    _lock: FileLock,
}

impl SimCluster {
    /// Opens or makes the cluster in `folder`; telemetry goes to `telemetry`.
    ///
    /// # Errors
    /// `cluster.folder_unusable`, `cluster.format_unknown`, `cluster.journal_damaged`.
    pub fn open(folder: &Path, catalog: Arc<Catalog>, telemetry: Arc<dyn Telemetry>) -> model::Result<Self> {
        let folder = Folder::open(folder)?;
        // Whoever reads the journal's file from outside finds it whole, although its last writer died.
        crate::journal::mend(&folder)?;
        let inner = Inner { folder, catalog, telemetry, live: Mutex::default(), plans: Mutex::default() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Runs blocking work on a thread that may block.
    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&Inner) -> Result<T> + Send + 'static) -> Result<T> {
        let inner = self.inner.clone();
        tokio::task::spawn_blocking(move || work(&inner)).await.unwrap_or_else(|error| {
            Err(ClusterError {
                problem: Problem::internal("cluster.work_died", "an operation of the simulated cluster died")
                    .cause(error),
                effect_possible: true,
            })
        })
    }

    /// Runs work on one slot that nobody else changes meanwhile.
    async fn on_slot<T: Send + 'static>(
        &self,
        slot: &Slot,
        work: impl FnOnce(&Inner, &mut Held<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let slot = slot.clone();
        self.blocking(move |inner| {
            let place = inner.place(&slot);
            let live = lock(&place);
            let file = inner.folder.lock_slot(&slot)?;
            let state = inner.folder.read(&slot)?;
            work(inner, &mut Held { state, live, _lock: file })
        })
        .await
    }
}

impl Inner {
    fn place(&self, slot: &Slot) -> Arc<Mutex<Option<Live>>> {
        lock(&self.live).entry(slot.namespace()).or_default().clone()
    }

    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The system's plan, made once per process.
    pub fn plan(&self, code: &SystemCode) -> std::result::Result<Arc<Plan>, Problem> {
        if let Some(plan) = lock(&self.plans).get(code) {
            return Ok(plan.clone());
        }
        let system = self.catalog.get(code)?;
        let plan = Arc::new(Plan::new(code.as_str(), &system.registration.app_label_key, system.topology()?)?);
        lock(&self.plans).insert(code.clone(), plan.clone());
        Ok(plan)
    }
}

impl Held<'_> {
    /// Takes note of the owner's token, for good.
    ///
    /// # Errors
    /// `fence.stale` when a later owner has acted.
    pub fn admit(&mut self, folder: &Folder, fence: &Fence) -> Result<()> {
        if fence.token < self.state.fence {
            return Err(Problem::new(ErrorKind::Conflict, "fence.stale", "the slot has a later owner")
                .place(format!("namespace {}", self.state.slot))
                .found(format!("token {} of run {}", fence.token, fence.run))
                .expected(format!("token {} or later", self.state.fence))
                .fix("stop; the run that owns the slot now goes on by itself")
                .into());
        }
        if fence.token > self.state.fence {
            self.state.fence = fence.token;
            self.write(folder)?;
        }
        Ok(())
    }

    /// Writes the state; a live simulation that was up to date stays so.
    pub fn write(&mut self, folder: &Folder) -> Result<()> {
        let before = self.state.revision;
        if let Err(problem) = folder.write(&mut self.state) {
            *self.live = None;
            return Err(problem.into());
        }
        if let Some(live) = self.live.as_mut().filter(|live| live.revision == before) {
            live.revision = self.state.revision;
        }
        Ok(())
    }

    /// Writes the state together with the effect that led to it.
    pub fn record(&mut self, folder: &Folder, effect: &str, object: &str, at: DataTime) -> Result<()> {
        let before = self.state.revision;
        if let Err(problem) = crate::journal::record(folder, &mut self.state, effect, object, at) {
            *self.live = None;
            // The write may have reached the disk before it failed.
            return Err(ClusterError { problem, effect_possible: true });
        }
        if let Some(live) = self.live.as_mut().filter(|live| live.revision == before) {
            live.revision = self.state.revision;
        }
        Ok(())
    }
}

/// A poisoned lock guards nothing that the folder cannot make again.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl Cluster for SimCluster {
    fn info(&self) -> ClusterInfo {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        ClusterInfo { kind: "simulated".to_owned(), version, needs_chart: false }
    }

    fn can_run(&self, system: &SystemCode) -> Result<()> {
        self.inner.plan(system)?;
        Ok(())
    }

    fn can_inject(&self, system: &SystemCode, capability: &str) -> Result<()> {
        self.can_run(system)?;
        fault::capability(capability)?;
        Ok(())
    }

    async fn ensure_release(&self, fence: &Fence, want: &ReleaseSpec) -> Result<ReleaseObservation> {
        let (fence, want) = (fence.clone(), want.clone());
        self.on_slot(&want.slot.clone(), move |inner, held| slot::install(inner, held, &fence, want)).await
    }

    async fn observe_release(&self, slot: &Slot) -> Result<Option<ReleaseObservation>> {
        let slot = slot.clone();
        self.blocking(move |inner| Ok(slot::observed(&inner.folder.read(&slot)?))).await
    }

    async fn releases(&self) -> Result<Vec<ReleaseObservation>> {
        self.blocking(|inner| Ok(inner.folder.read_all()?.iter().filter_map(slot::observed).collect())).await
    }

    async fn remove_namespace(&self, fence: &Fence, slot: &Slot) -> Result<()> {
        let fence = fence.clone();
        self.on_slot(slot, move |inner, held| slot::remove(inner, held, &fence)).await
    }

    async fn now(&self, slot: &Slot) -> Result<DataTime> {
        let slot = slot.clone();
        self.blocking(move |inner| Ok(inner.folder.read(&slot)?.release()?.committed)).await
    }

    async fn run_until(&self, fence: &Fence, slot: &Slot, until: DataTime) -> Result<Reach> {
        let fence = fence.clone();
        self.on_slot(slot, move |inner, held| slot::run_until(inner, held, &fence, until)).await
    }

    async fn ensure_fault(&self, fence: &Fence, want: &FaultObject) -> Result<FaultObservation> {
        let (fence, want) = (fence.clone(), want.clone());
        self.on_slot(&want.slot.clone(), move |inner, held| slot::start_fault(inner, held, &fence, want)).await
    }

    async fn observe_fault(&self, slot: &Slot, name: &str) -> Result<Option<FaultObservation>> {
        let (slot, name) = (slot.clone(), name.to_owned());
        self.blocking(move |inner| {
            let state = inner.folder.read(&slot)?;
            let mut faults = state.release.iter().flat_map(|release| &release.faults);
            let run = state.release.as_ref().map(|release| release.spec.environment.run);
            let found = faults.find(|fault| fault.object.name == name);
            Ok(found.zip(run).map(|(fault, run)| slot::observed_fault(fault, run)))
        })
        .await
    }

    async fn faults(&self) -> Result<Vec<FaultObservation>> {
        self.blocking(|inner| {
            let states = inner.folder.read_all()?;
            let releases = states.iter().flat_map(|state| &state.release);
            let active = releases.flat_map(|release| {
                let live = release.faults.iter().filter(|fault| fault.ended_at.is_none());
                live.map(|fault| slot::observed_fault(fault, release.spec.environment.run))
            });
            Ok(active.collect())
        })
        .await
    }

    async fn remove_fault(&self, fence: &Fence, slot: &Slot, name: &str) -> Result<FaultObservation> {
        let (fence, name) = (fence.clone(), name.to_owned());
        self.on_slot(slot, move |inner, held| slot::end_fault(inner, held, &fence, &name)).await
    }

    async fn witness(&self, slot: &Slot, name: &str) -> Result<Witness> {
        let name = name.to_owned();
        self.on_slot(slot, move |inner, held| Ok(slot::live(inner, held)?.world.witness(&name)?)).await
    }

    async fn recovery(&self, slot: &Slot) -> Result<Recovery> {
        self.on_slot(slot, slot::recovery).await
    }

    async fn snapshot(&self, slot: &Slot) -> Result<Value> {
        self.on_slot(slot, |inner, held| Ok(slot::live(inner, held)?.world.snapshot())).await
    }

    async fn distractors(&self, slot: &Slot) -> Result<Vec<Distractor>> {
        self.on_slot(slot, |inner, held| Ok(slot::live(inner, held)?.world.distractors().to_vec())).await
    }

    async fn journal(&self) -> Result<Vec<JournalEntry>> {
        self.blocking(|inner| Ok(crate::journal::read(&inner.folder)?)).await
    }
}
