//! The cluster in its folder: it outlives its users, counts each effect once and refuses those who came too late.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use ::cluster::{Cluster, FaultObject, FaultPhase, Fence, Reach, ReleaseSpec};
use model::{DataTime, Result, Slot, SystemCode};
use serde_json::json;
use sim::{SimCluster, Sink, StepSink, Telemetry};
use system::Catalog;
use telemetry::otlp::{ExportLogsServiceRequest, ExportMetricsServiceRequest, ExportTraceServiceRequest};
use telemetry::{Signal, SignalStore, Stream};

use crate::probe::{ORIGIN, Probe, environment, fault, json as resolved_json};

/// Keeps the bytes of every committed step by its start.
#[derive(Default, Clone)]
struct Kept(Arc<Mutex<BTreeMap<DataTime, Vec<u8>>>>);

struct KeptStep {
    kept: Kept,
    from: DataTime,
    probe: Probe,
}

impl Telemetry for Kept {
    fn step(&self, _: &Stream, from: DataTime, _: DataTime) -> Result<Box<dyn StepSink>> {
        Ok(Box::new(KeptStep { kept: self.clone(), from, probe: Probe::default() }))
    }
}

impl Sink for KeptStep {
    fn traces(&mut self, request: &ExportTraceServiceRequest) -> Result<()> {
        self.probe.traces(request)
    }
    fn metrics(&mut self, request: &ExportMetricsServiceRequest) -> Result<()> {
        self.probe.metrics(request)
    }
    fn logs(&mut self, request: &ExportLogsServiceRequest) -> Result<()> {
        self.probe.logs(request)
    }
}

impl StepSink for KeptStep {
    fn commit(self: Box<Self>) -> Result<()> {
        self.kept.0.lock().unwrap().insert(self.from, self.probe.bytes);
        Ok(())
    }
}

fn open(folder: &Path, kept: &Kept) -> SimCluster {
    SimCluster::open(folder, Arc::new(Catalog::builtin().unwrap()), Arc::new(kept.clone())).unwrap()
}

fn slot() -> Slot {
    Slot::new(SystemCode::parse("ts").unwrap(), 0)
}

fn release() -> ReleaseSpec {
    ReleaseSpec {
        slot: slot(),
        chart: "trainticket".into(),
        chart_version: "0.4.6".into(),
        repository: "https://example.invalid/charts".into(),
        chart_digest: None,
        values: json!({}),
        values_digest: "0".repeat(64),
        environment: environment(5, 10.0),
    }
}

fn fence(token: i64) -> Fence {
    Fence { run: release().environment.run, token }
}

fn at(second: i64) -> DataTime {
    DataTime::from_seconds(ORIGIN + second)
}

fn object(name: &str, capability: &str, service: &str, pairs: &[(&str, &str)]) -> FaultObject {
    FaultObject {
        name: name.into(),
        slot: slot(),
        capability: capability.into(),
        resolved: resolved_json(&fault(capability, service, pairs)),
        manifest: json!({ "kind": "PodChaos" }),
        labels: BTreeMap::new(),
    }
}

fn pod_kill() -> FaultObject {
    object("f1", "pod_kill", "ts-order-service", &[])
}

/// The steps of a run; before each one the cluster is obtained anew.
async fn whole_run(next: impl Fn() -> SimCluster) {
    let (fence, slot) = (fence(1), slot());
    assert!(next().ensure_release(&fence, &release()).await.unwrap().ready);
    for second in [20, 40] {
        assert_eq!(next().run_until(&fence, &slot, at(second)).await.unwrap(), Reach::Reached);
    }
    let started = next().ensure_fault(&fence, &pod_kill()).await.unwrap();
    assert_eq!((started.phase, started.pods.len()), (FaultPhase::Active, 1));
    assert_eq!(started.truth[0].service, "ts-order-service");
    assert_eq!(next().ensure_fault(&fence, &pod_kill()).await.unwrap(), started, "the same object");
    next().run_until(&fence, &slot, at(70)).await.unwrap();
    for _ in 0..2 {
        let ended = next().remove_fault(&fence, &slot, "f1").await.unwrap();
        assert_eq!((ended.phase, ended.ended_at), (FaultPhase::Recovered, Some(at(70))));
    }
    next().run_until(&fence, &slot, at(150)).await.unwrap();
    assert_eq!(next().now(&slot).await.unwrap(), at(150));
}

#[tokio::test]
async fn a_run_whose_cluster_dies_between_all_steps_gives_the_same_telemetry() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (calm, shaken) = (Kept::default(), Kept::default());
    let steady = open(one.path(), &calm);
    whole_run(|| steady.clone()).await;
    whole_run(|| open(other.path(), &shaken)).await;
    let (calm, shaken) = (calm.0.lock().unwrap().clone(), shaken.0.lock().unwrap().clone());
    assert!(calm.values().all(|bytes| bytes.len() > 10_000));
    assert!(calm == shaken, "steps differ");

    let journal = steady.journal().await.unwrap();
    let effects: Vec<&str> = journal.iter().map(|entry| entry.effect.as_str()).collect();
    assert_eq!(effects, ["release_installed", "fault_started", "fault_ended"]);
    assert_eq!(open(other.path(), &Kept::default()).journal().await.unwrap(), journal);
    assert!(steady.faults().await.unwrap().is_empty());

    let witness = steady.witness(&slot(), "f1").await.unwrap();
    assert!(witness.exposed && witness.touched == 1, "{}", witness.reason);
    let recovery = steady.recovery(&slot()).await.unwrap();
    assert!(recovery.residue.is_empty(), "{:?}", recovery.residue);
    assert!(recovery.back_at.is_some_and(|back| back >= at(70)), "{}", recovery.measure);
    let snapshot = steady.snapshot(&slot()).await.unwrap();
    assert_eq!(snapshot["pods"].as_array().unwrap().len(), 48);

    steady.remove_namespace(&fence(2), &slot()).await.unwrap();
    steady.remove_namespace(&fence(2), &slot()).await.unwrap();
    assert_eq!(steady.journal().await.unwrap().len(), 4);
    assert_eq!(steady.observe_release(&slot()).await.unwrap(), None);
    assert_eq!(steady.now(&slot()).await.unwrap_err().problem.code, "release.absent");
}

#[tokio::test]
async fn a_step_that_was_not_recorded_is_made_again_alike() {
    let folder = tempfile::tempdir().unwrap();
    let kept = Kept::default();
    let cluster = open(folder.path(), &kept);
    cluster.ensure_release(&fence(1), &release()).await.unwrap();
    cluster.run_until(&fence(1), &slot(), at(10)).await.unwrap();
    // The telemetry of the second step is committed, the process dies before the slot's state is.
    let state = folder.path().join("slots/ts0.json");
    let before = std::fs::read(&state).unwrap();
    cluster.run_until(&fence(1), &slot(), at(20)).await.unwrap();
    let first = kept.0.lock().unwrap().clone();
    std::fs::write(&state, before).unwrap();
    open(folder.path(), &kept).run_until(&fence(1), &slot(), at(20)).await.unwrap();
    assert!(*kept.0.lock().unwrap() == first);
}

#[tokio::test]
async fn an_owner_who_was_replaced_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = open(folder.path(), &Kept::default());
    cluster.ensure_release(&fence(2), &release()).await.unwrap();
    let (old, slot) = (fence(1), slot());
    let code = |problem: ::cluster::ClusterError| problem.problem.code.into_owned();
    assert_eq!(code(cluster.run_until(&old, &slot, at(5)).await.unwrap_err()), "fence.stale");
    assert_eq!(code(cluster.ensure_fault(&old, &pod_kill()).await.unwrap_err()), "fence.stale");
    assert_eq!(code(cluster.remove_namespace(&old, &slot).await.unwrap_err()), "fence.stale");
    assert_eq!(cluster.journal().await.unwrap().len(), 1);
    // A new owner counts from its first call on, whether that changes something or not, and for every process.
    cluster.ensure_release(&fence(3), &release()).await.unwrap();
    let other = open(folder.path(), &Kept::default());
    assert_eq!(code(other.run_until(&fence(2), &slot, at(5)).await.unwrap_err()), "fence.stale");
}

#[tokio::test]
async fn a_selector_that_matches_nothing_names_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = open(folder.path(), &Kept::default());
    cluster.ensure_release(&fence(1), &release()).await.unwrap();
    let failure = object("f0", "pod_failure", "ts-order-service", &[]);
    cluster.ensure_fault(&fence(1), &failure).await.unwrap();
    let error = cluster.ensure_fault(&fence(1), &pod_kill()).await.unwrap_err();
    assert_eq!(error.problem.code, "fault.no_targets");
    let found = error.problem.found.unwrap();
    assert!(found.contains("app=ts-travel-service (1)") && !found.contains("app=ts-order-service "), "{found}");
    assert!(!error.effect_possible);
    let names: Vec<String> = cluster.faults().await.unwrap().into_iter().map(|fault| fault.name).collect();
    assert_eq!(names, ["f0"]);
    assert!(cluster.can_inject(&slot().system, "dns_error").is_ok());
}

#[tokio::test]
async fn slots_run_side_by_side_and_the_store_takes_every_record() {
    let (folder, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = SignalStore::open(data.path()).unwrap();
    let catalog = Arc::new(Catalog::builtin().unwrap());
    let cluster = SimCluster::open(folder.path(), catalog, Arc::new(store.clone())).unwrap();
    let run = |number| {
        let cluster = cluster.clone();
        async move {
            let slot = Slot { number, ..slot() };
            let want = ReleaseSpec { slot: slot.clone(), ..release() };
            cluster.ensure_release(&fence(1), &want).await.unwrap();
            cluster.run_until(&fence(1), &slot, at(30)).await.unwrap();
        }
    };
    tokio::join!(run(0), run(1));
    let rows = store.stats().unwrap().rows;
    for signal in Signal::ALL {
        assert!(rows.get(&signal).is_some_and(|rows| *rows > 100), "{signal}: {rows:?}");
    }
}
