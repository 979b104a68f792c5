//! A store in memory, a simulated cluster with a fault of its own, and a worker that runs until a run has ended.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::spec::{AlgorithmChoice, Environment, FORMAT, Fault, Release, RunSpec, SlotValues, WindowLengths};
use async_trait::async_trait;
use cluster::{
    Cluster, ClusterInfo, Distractor, FaultObject, FaultObservation, Fence, JournalEntry, Reach, Recovery,
    ReleaseObservation, ReleaseSpec, Result, Witness,
};
use fault::Spec;
use model::{DataTime, ErrorKind, GroupId, Problem, ProjectId, RunId, Slot, SystemCode, TaskKind, Truth};
use serde_json::{Value, json};
use sim::SimCluster;
use store::{Incarnation, IncarnationId, NewInjection, NewRun, NewTask, Run, Store, Submission};
use system::{Catalog, SystemData};
use tokio::sync::watch;

/// Refuses to start faults of one capability, as a cluster does whose fault controller rejects an object.
pub struct Stubborn {
    pub inner: SimCluster,
    pub refused: &'static str,
}

#[async_trait]
impl Cluster for Stubborn {
    fn info(&self) -> ClusterInfo {
        self.inner.info()
    }
    fn can_run(&self, system: &SystemCode) -> Result<()> {
        self.inner.can_run(system)
    }
    fn can_inject(&self, system: &SystemCode, capability: &str) -> Result<()> {
        self.inner.can_inject(system, capability)
    }
    async fn ensure_release(&self, fence: &Fence, want: &ReleaseSpec) -> Result<ReleaseObservation> {
        self.inner.ensure_release(fence, want).await
    }
    async fn observe_release(&self, slot: &Slot) -> Result<Option<ReleaseObservation>> {
        self.inner.observe_release(slot).await
    }
    async fn releases(&self) -> Result<Vec<ReleaseObservation>> {
        self.inner.releases().await
    }
    async fn remove_namespace(&self, fence: &Fence, slot: &Slot) -> Result<()> {
        self.inner.remove_namespace(fence, slot).await
    }
    async fn now(&self, slot: &Slot) -> Result<DataTime> {
        self.inner.now(slot).await
    }
    async fn run_until(&self, fence: &Fence, slot: &Slot, until: DataTime) -> Result<Reach> {
        self.inner.run_until(fence, slot, until).await
    }
    async fn ensure_fault(&self, fence: &Fence, want: &FaultObject) -> Result<FaultObservation> {
        if want.capability == self.refused {
            let message = "the fault controller rejects the object";
            return Err(Problem::new(ErrorKind::Failed, "fault.rejected", message).into());
        }
        self.inner.ensure_fault(fence, want).await
    }
    async fn observe_fault(&self, slot: &Slot, name: &str) -> Result<Option<FaultObservation>> {
        self.inner.observe_fault(slot, name).await
    }
    async fn faults(&self) -> Result<Vec<FaultObservation>> {
        self.inner.faults().await
    }
    async fn remove_fault(&self, fence: &Fence, slot: &Slot, name: &str) -> Result<FaultObservation> {
        self.inner.remove_fault(fence, slot, name).await
    }
    async fn witness(&self, slot: &Slot, name: &str) -> Result<Witness> {
        self.inner.witness(slot, name).await
    }
    async fn recovery(&self, slot: &Slot) -> Result<Recovery> {
        self.inner.recovery(slot).await
    }
    async fn snapshot(&self, slot: &Slot) -> Result<Value> {
        self.inner.snapshot(slot).await
    }
    async fn distractors(&self, slot: &Slot) -> Result<Vec<Distractor>> {
        self.inner.distractors(slot).await
    }
    async fn journal(&self) -> Result<Vec<JournalEntry>> {
        self.inner.journal().await
    }
}

/// An installation without a daemon.
pub struct Stand {
    pub store: Store,
    pub cluster: Arc<Stubborn>,
    catalog: Arc<Catalog>,
    signals: telemetry::SignalStore,
    folder: tempfile::TempDir,
}

impl Stand {
    pub async fn new(refused: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::connect("sqlite::memory:").await.unwrap();
        store.migrate().await.unwrap();
        let catalog = Arc::new(Catalog::builtin().unwrap());
        let signals = telemetry::SignalStore::open(folder.path().join("telemetry")).unwrap();
        let inner =
            SimCluster::open(&folder.path().join("sim"), Arc::clone(&catalog), Arc::new(signals.clone())).unwrap();
        Self { store, cluster: Arc::new(Stubborn { inner, refused }), catalog, signals, folder }
    }

    /// Submits a run of `ts` with these faults.
    pub async fn submit(&self, faults: &[(&str, &str, Value)]) -> RunId {
        let code = SystemCode::parse("ts").unwrap();
        let data = self.catalog.get(&code).unwrap();
        let faults: Vec<Fault> = faults.iter().map(|fault| resolved(&data, fault)).collect();
        let spec = spec(&data, faults);
        let run = NewRun {
            id: RunId::random(),
            system: code,
            spec: spec.to_json(),
            seed: 7,
            control_of: None,
            origin_kind: "simulated".into(),
            injection: NewInjection {
                fault_type: -1,
                fault_name: "several".into(),
                services: "several".into(),
                faults: json!([]),
                truth: Truth::default(),
                display_config: json!({}),
                labels: json!({}),
                pre_duration: 1,
                origin: spec.environment.origin,
            },
            first: NewTask::new(TaskKind::RestartPedestal),
        };
        let id = run.id;
        let submission = Submission { group: GroupId::random(), project: ProjectId(1), runs: vec![run], key: None };
        self.store.submit(&submission).await.unwrap();
        id
    }

    /// Works until the run has ended.
    pub async fn work(&self, run: RunId) -> Run {
        let incarnation = Incarnation {
            id: IncarnationId::random(),
            folder: model::RunId::random().0,
            host: "host".into(),
            pid: 1,
            role: "all".into(),
        };
        self.store.enter(&incarnation).await.unwrap();
        let (stop, stopped) = watch::channel(false);
        let worker = tokio::spawn(worker::run(self.parts(incarnation.id), stopped));
        let ended = tokio::time::timeout(Duration::from_secs(60), async {
            loop {
                let seen = self.store.run(run).await.unwrap();
                if seen.state.is_terminal() {
                    return seen;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        let ended = ended.await.expect("the run ends");
        stop.send(true).unwrap();
        worker.await.unwrap().unwrap();
        ended
    }

    /// Where the datapacks are published.
    pub fn packs(&self) -> PathBuf {
        self.folder.path().join("packs")
    }

    fn parts(&self, incarnation: IncarnationId) -> worker::Parts {
        let inner = |name: &str| {
            let path = self.folder.path().join(name);
            std::fs::create_dir_all(&path).unwrap();
            path
        };
        worker::Parts {
            store: self.store.clone(),
            cluster: Arc::clone(&self.cluster) as Arc<dyn Cluster>,
            signals: self.signals.clone(),
            catalog: Arc::clone(&self.catalog),
            packs: inner("packs"),
            scratch: inner("scratch"),
            program: Path::new("/nonexistent").to_owned(),
            incarnation,
            capacity: 1,
            server: None,
        }
    }
}

fn resolved(data: &SystemData, (service, capability, pairs): &(&str, &str, Value)) -> Fault {
    let pairs = pairs.as_object().unwrap().clone();
    let row = fault::capability(capability).unwrap();
    let is_target = |key: &str| row.target.fields().iter().any(|field| field.name == key);
    let (target, params): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|(key, _)| is_target(key));
    let target = target.into_iter().map(|(key, value)| (key, value.as_str().unwrap().to_owned())).collect();
    let spec = Spec {
        capability: (*capability).to_owned(),
        service: (*service).to_owned(),
        target,
        params: params.into_iter().collect(),
    };
    let resolved = fault::resolve(&spec, data).unwrap();
    Fault { capability: (*capability).to_owned(), service: (*service).to_owned(), resolved: resolved.to_value() }
}

fn spec(data: &SystemData, faults: Vec<Fault>) -> RunSpec {
    RunSpec {
        format: FORMAT,
        system: data.code().clone(),
        slots: vec![0],
        release: Release {
            version: "1".into(),
            revision: "r".into(),
            chart: "ts".into(),
            chart_version: "1".into(),
            repository: "https://charts.example".into(),
            chart_digest: None,
            values: json!({}),
            per_slot: vec![SlotValues { slot: 0, changes: vec![], digest: "d".into() }],
        },
        faults,
        windows: WindowLengths { warmup_seconds: 5, normal_seconds: 20, abnormal_seconds: 20 },
        environment: Environment { origin: DataTime::from_seconds(1_767_603_600), seed: 7, load: 5.0, noise: 1.0 },
        detector: AlgorithmChoice {
            name: "detector".into(),
            version: "builtin".into(),
            limit_seconds: 10,
            limit_memory_mib: 512,
            remote: false,
        },
        algorithms: vec![],
        always_rank: false,
        strict: false,
        control_of: None,
        profile: serde_json::to_value(&data.registration).unwrap(),
    }
}
