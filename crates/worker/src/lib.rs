//! The worker: claims tasks, runs steps, and sees to it that nothing is left behind.
//!
//! A step says how it ended ([`step::Outcome`]); this file turns that into one transaction of the store. Nothing here
//! assumes that the process lives on: every wait is stored, every claim is a lease, every effect can be found again.

mod answer_file;
pub mod child;
pub mod confine;
pub mod detect;
mod evaluate;
mod external;
pub mod killpoint;
mod limit;
pub mod profile;
pub mod rank;
mod settle;
pub mod source;
mod step;
mod sweep;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cluster::Cluster;
use model::Result;
use store::{IncarnationId, LeaseObserver, Store};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

/// How long the worker sleeps when nothing is due. A task that ends wakes it at once.
const IDLE: Duration = Duration::from_millis(100);
/// How long another process watches a claim's heartbeat stand still before it takes the task over.
const CLAIM_TTL: Duration = Duration::from_secs(15);
/// How long to wait before the store is asked again that did not answer.
const STORE_PAUSE: Duration = Duration::from_secs(1);
/// How long steps may take to end after the worker was told to stop.
const LAST_STEPS: Duration = Duration::from_secs(60);
/// How often this process shows that it lives, and looks whether others do.
const HEARTBEAT: Duration = Duration::from_secs(3);

/// What a worker works with.
#[derive(Clone)]
pub struct Parts {
    pub store: Store,
    pub cluster: Arc<dyn Cluster>,
    pub signals: telemetry::SignalStore,
    pub catalog: Arc<system::Catalog>,
    /// Folder of published datapacks.
    pub packs: PathBuf,
    /// Folder for the working files of child processes.
    pub scratch: PathBuf,
    /// The program that is run as `PROGRAM exec …` for detectors and algorithms.
    pub program: PathBuf,
    /// Who this process is in leases: new at every start, and known to the store already.
    pub incarnation: IncarnationId,
    /// How many tasks run at once.
    pub capacity: usize,
    /// Where the API listens on this machine, `127.0.0.1:PORT`, for commands that hand over their answer by HTTP.
    pub server: Option<String>,
}

/// Works until `stop` becomes true; then lets the running steps end and returns.
///
/// # Errors
/// When the store does not answer any more.
pub async fn run(parts: Parts, mut stop: watch::Receiver<bool>) -> Result<()> {
    let parts = Arc::new(parts);
    let pulse = tokio::spawn(beat(Arc::clone(&parts)));
    let evaluations = tokio::spawn(evaluate::run(Arc::clone(&parts), stop.clone()));
    let worked = work(&parts, &mut stop).await;
    if let Err(error) = evaluations.await {
        tracing::error!("the evaluations ended abnormally: {error}");
    }
    pulse.abort();
    worked
}

async fn work(parts: &Arc<Parts>, stop: &mut watch::Receiver<bool>) -> Result<()> {
    let ended = Arc::new(Notify::new());
    let mut running = JoinSet::new();
    while !*stop.borrow() {
        while running.len() < parts.capacity {
            let Some(claimed) = claim(parts).await? else { break };
            let (parts, ended, stop) = (Arc::clone(parts), Arc::clone(&ended), stop.clone());
            running.spawn(async move {
                settle::attend(&parts, claimed, &stop).await;
                ended.notify_one();
            });
        }
        tokio::select! {
            () = ended.notified() => {}
            () = tokio::time::sleep(IDLE) => {}
            _ = stop.changed() => {}
        }
        while let Some(result) = running.try_join_next() {
            report(result);
        }
    }
    // Steps that are still at it after this long are cut off; whoever starts next takes their tasks up again.
    let ended = async {
        while let Some(result) = running.join_next().await {
            report(result);
        }
    };
    if tokio::time::timeout(LAST_STEPS, ended).await.is_err() {
        tracing::warn!("some steps did not end in time and are cut off");
    }
    Ok(())
}

/// The next due task. A store that does not answer for a moment is no reason to stop.
async fn claim(parts: &Parts) -> Result<Option<store::ClaimedTask>> {
    match parts.store.claim_task(parts.incarnation, CLAIM_TTL).await {
        Err(problem) if problem.kind.retryable() => {
            tracing::warn!("cannot look for work now: {}", problem.chain());
            tokio::time::sleep(STORE_PAUSE).await;
            Ok(None)
        }
        other => other,
    }
}

fn report(result: std::result::Result<(), tokio::task::JoinError>) {
    if let Err(error) = result {
        tracing::error!("a step ended abnormally: {error}");
    }
}

/// Keeps this process's leases alive and takes over those of processes that stand still. A store that does not answer
/// is tried again: while it is away, nobody else can take anything over either.
async fn beat(parts: Arc<Parts>) {
    let mut observer = LeaseObserver::new();
    let mut ticks = tokio::time::interval(HEARTBEAT);
    loop {
        ticks.tick().await;
        if let Err(problem) = parts.store.heartbeat(parts.incarnation).await {
            tracing::warn!("cannot show that this process lives: {}", problem.chain());
            continue;
        }
        match observer.take_over(&parts.store, parts.incarnation).await {
            Ok(taken) if taken.is_empty() => {}
            Ok(taken) => tracing::info!(count = taken.len(), "took over what a dead process held"),
            Err(problem) => tracing::warn!("cannot look after the leases of others: {}", problem.chain()),
        }
        if let Err(problem) = sweep::run(&parts).await {
            tracing::warn!("cannot look for faults that nobody holds: {}", problem.chain());
        }
    }
}
