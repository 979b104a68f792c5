//! The worker: claims tasks, runs steps, and sees to it that nothing is left behind.
//!
//! A step says how it ended ([`step::Outcome`]); this file turns that into one transaction of the store. Nothing here
//! assumes that the process lives on: every wait is stored, every claim is a lease, every effect can be found again.

mod book;
pub mod child;
mod janitor;
pub mod killpoint;
mod profile;
mod step;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cluster::Cluster;
use model::{ErrorKind, Problem, Result, TaskKind, WallTime};
use store::Store;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use book::{Book, Run, Task};
use step::{Context, Outcome, Wait};

/// How long the worker sleeps when nothing is due. A task that ends wakes it at once.
const IDLE: Duration = Duration::from_millis(100);
/// How often what ended runs owe is looked at even when nobody asked.
const SWEEP: Duration = Duration::from_secs(2);
/// Longest pause between two tries of a step.
const MAX_BACKOFF: Duration = Duration::from_secs(300);

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
    /// Who this process is in leases: new at every start.
    pub incarnation: String,
    /// How many tasks run at once.
    pub capacity: usize,
}

/// Works until `stop` becomes true; then lets the running steps end and returns.
///
/// # Errors
/// When the store does not answer any more.
pub async fn run(parts: Parts, mut stop: watch::Receiver<bool>) -> Result<()> {
    let parts = Arc::new(parts);
    let book = Arc::new(Book::new(parts.store.clone(), parts.incarnation.clone()));
    let ended = Arc::new(Notify::new());
    let mut running = JoinSet::new();
    let mut swept = tokio::time::Instant::now();
    while !*stop.borrow() {
        while running.len() < parts.capacity {
            let Some(task) = book.claim().await? else { break };
            let (parts, book, ended) = (Arc::clone(&parts), Arc::clone(&book), Arc::clone(&ended));
            running.spawn(async move {
                attend(&parts, &book, task).await;
                ended.notify_one();
            });
        }
        if swept.elapsed() >= SWEEP {
            sweep(&parts, &book).await;
            swept = tokio::time::Instant::now();
        }
        tokio::select! {
            () = ended.notified() => {}
            () = tokio::time::sleep(IDLE) => {}
            _ = stop.changed() => {}
        }
        while let Some(result) = running.try_join_next() {
            report_panic(result);
        }
    }
    while let Some(result) = running.join_next().await {
        report_panic(result);
    }
    Ok(())
}

/// A step that panicked is a defect of ours; its lease runs out and the task is tried again, bounded.
fn report_panic(result: std::result::Result<(), tokio::task::JoinError>) {
    if let Err(error) = result {
        tracing::error!("a step ended abnormally: {error}");
    }
}

async fn sweep(parts: &Parts, book: &Book) {
    match janitor::sweep(parts, book).await {
        Ok(swept) if swept == janitor::Swept::default() => {}
        Ok(swept) => tracing::info!(faults = swept.faults, slots = swept.slots, "gave back what ended runs owed"),
        Err(problem) => tracing::warn!("could not give back everything that ended runs owe: {}", problem.chain()),
    }
}

/// Runs one claimed task while its claim is kept alive, and stores how it ended.
async fn attend(parts: &Parts, book: &Book, task: Task) {
    let settled = tokio::select! {
        settled = settle(parts, book, &task) => settled,
        problem = book.keep_alive(&task) => Err(problem),
    };
    match settled {
        Ok(()) => {}
        Err(problem) if problem.code == "fence.stale" => {
            tracing::warn!(task = %task.id, "another worker has taken this task over");
        }
        Err(problem) => tracing::error!(task = %task.id, "cannot store how a task ended: {}", problem.chain()),
    }
}

async fn settle(parts: &Parts, book: &Book, task: &Task) -> Result<()> {
    let mut run = book.run(task.run).await?;
    let result = perform(parts, book, task, &mut run).await;
    match result {
        Ok(Outcome::Next(next)) => book.complete(task, &next).await,
        Ok(Outcome::Wait(wait)) => book.reschedule(task, &wait).await,
        Ok(Outcome::End(end)) => {
            book.end(task, &run, &end).await?;
            sweep(parts, book).await;
            Ok(())
        }
        Err(problem) if problem.code == "run.cancelled" => {
            book.cancel(task, &run).await?;
            sweep(parts, book).await;
            Ok(())
        }
        Err(problem) if problem.code == "fence.stale" => Err(problem),
        Err(problem) if may_retry(task, &problem) => book.reschedule(task, &retry(task, &problem)).await,
        Err(problem) => {
            tracing::info!(run = %run.id, task = %task.id, "a step failed: {}", problem.chain());
            book.fail(task, &run, &problem).await?;
            sweep(parts, book).await;
            Ok(())
        }
    }
}

async fn perform(parts: &Parts, book: &Book, task: &Task, run: &mut Run) -> Result<Outcome> {
    if book.cancel_requested(run.id).await? {
        return Err(step::cancelled(run.id));
    }
    if task.kind == TaskKind::RestartPedestal {
        return step::restart_pedestal::run(parts, book, task, run).await;
    }
    let context = Context { parts, book, task, run };
    match task.kind {
        TaskKind::FaultInjection => step::fault_injection::run(&context).await,
        TaskKind::BuildDatapack => step::build_datapack::run(&context).await,
        TaskKind::RunAlgorithm => step::run_algorithm::run(&context).await,
        TaskKind::CollectResult => step::collect_result::run(&context).await,
        TaskKind::RestartPedestal | TaskKind::BuildContainer | TaskKind::CronJob => Err(Problem::new(
            ErrorKind::Internal,
            "task.kind_unsupported",
            format!("no step runs tasks of kind {}", task.kind),
        )),
    }
}

/// Only what may go away by itself is tried again, and not for ever.
fn may_retry(task: &Task, problem: &Problem) -> bool {
    problem.kind.retryable() && task.attempt < task.max_attempts
}

fn retry(task: &Task, problem: &Problem) -> Wait {
    let doublings = task.attempt.min(10);
    let after = Duration::from_secs(1 << doublings).min(MAX_BACKOFF);
    let message = format!("try {} of {} failed: {problem}", task.attempt, task.max_attempts);
    Wait { until: WallTime::now().plus(after), ..Wait::new(&problem.code, message, after) }
}
