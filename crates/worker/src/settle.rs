//! From how a step ended to one transaction of the store: done, waiting, tried again, failed, cancelled.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use api::spec::RunSpec;
use futures::FutureExt;
use model::{ErrorKind, PackState, Problem, Result, TaskKind, Verdict, WallTime, counted};
use store::{ClaimedTask, Effects, Finish, InjectionChange, LogLevel, NewEvent, TaskError, Wait};
use tokio::sync::watch;

use crate::Parts;
use crate::step::receipt::{Receipt, Removed};
use crate::step::{self, Context, Outcome};

/// Longest pause between two tries of a step.
const MAX_BACKOFF: Duration = Duration::from_secs(300);
/// First and longest pause between two offers of a result to a store that does not answer.
const STORE_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_STORE_PAUSE: Duration = Duration::from_secs(5);

/// Runs one claimed task and stores how it ended. What cannot be stored now is found again by the task's next owner.
pub async fn attend(parts: &Parts, claimed: ClaimedTask, stop: &watch::Receiver<bool>) {
    let ClaimedTask { claim, task, run } = claimed;
    let spec = match RunSpec::from_json(&run.spec) {
        Ok(spec) => spec,
        Err(problem) => {
            let error = TaskError::from(&problem);
            let effects = Effects { finish: Some(Finish::failed(&error)), ..Effects::default() };
            if let Err(problem) = parts.store.fail_task(&claim, error, None, effects).await {
                tracing::error!(run = %run.id, "cannot store that a run is unreadable: {}", problem.chain());
            }
            return;
        }
    };
    let context = Context { parts, claim: &claim, task: &task, run: &run, spec: &spec, stop };
    // A step that panics is a defect of ours; it must not leave the task with a process that still shows signs of life.
    let ended = AssertUnwindSafe(perform(&context)).catch_unwind().await.unwrap_or_else(|panic| Err(panicked(&*panic)));
    keep_log(&context, &ended).await;
    match settle(&context, ended).await {
        Ok(()) => {}
        Err(problem) if problem.code == "fence.stale" => {
            tracing::warn!(task = %task.id, "another worker has taken this task over");
        }
        Err(problem) => tracing::error!(task = %task.id, "cannot store how a task ended: {}", problem.chain()),
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Problem {
    let said = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    Problem::internal("task.panicked", format!("the step panicked: {}", said.unwrap_or("without a message")))
}

/// Writes into the task's own log how this attempt ended. A log that cannot be written stops nothing.
async fn keep_log(context: &Context<'_>, ended: &Result<Outcome>) {
    let told: Vec<(LogLevel, String)> = match ended {
        Ok(Outcome::Done(effects)) => {
            let level = |name: &str| if name.ends_with(".failed") { LogLevel::Warn } else { LogLevel::Info };
            let told = effects.events.iter();
            told.map(|event| (level(&event.name), format!("{}: {}", event.name, event.message))).collect()
        }
        // The same wait comes back with every look; it is told once.
        Ok(Outcome::Wait(wait, _)) if context.task.wait.as_ref().is_some_and(|last| last.code == wait.code) => {
            vec![]
        }
        Ok(Outcome::Wait(wait, until)) => {
            vec![(LogLevel::Info, format!("waits until {until}: {} ({})", wait.message, wait.code))]
        }
        Err(problem) => vec![(LogLevel::Error, problem.chain())],
    };
    if told.is_empty() {
        return;
    }
    let attempt = context.task.attempt;
    let lines: Vec<_> = told.into_iter().map(|(level, line)| (level, format!("attempt {attempt}: {line}"))).collect();
    if let Err(problem) = context.parts.store.log(context.run.id, context.task.id, &lines).await {
        tracing::warn!(task = %context.task.id, "cannot write a task's log: {}", problem.chain());
    }
}

async fn perform(context: &Context<'_>) -> Result<Outcome> {
    context.still_wanted().await?;
    if let Some(wait) = crate::limit::wait(context).await? {
        return Ok(wait);
    }
    match context.task.kind {
        TaskKind::RestartPedestal => step::restart_pedestal::run(context).await,
        TaskKind::FaultInjection => step::fault_injection::run(context).await,
        TaskKind::BuildDatapack => step::build_datapack::run(context).await,
        TaskKind::RunAlgorithm => step::run_algorithm::run(context).await,
        TaskKind::CollectResult => step::collect_result::run(context).await,
        kind @ (TaskKind::BuildContainer | TaskKind::CronJob) => {
            Err(Problem::internal("task.kind_unsupported", format!("no step runs tasks of kind {kind}")))
        }
    }
}

/// What is to be stored of a task.
enum Verb {
    Complete(Box<Effects>),
    Wait(Wait, WallTime),
    Cancel(Box<Effects>),
    Fail(TaskError, Option<WallTime>, Box<Effects>),
}

async fn settle(context: &Context<'_>, ended: Result<Outcome>) -> Result<()> {
    match ended {
        Ok(Outcome::Done(effects)) => {
            if effects.finish.is_some() {
                step::discharge::run(context).await?;
                crate::killpoint::reach("collect_result.before-release");
            }
            offer(context, Verb::Complete(effects)).await?;
            crate::killpoint::reach("collect_result.after-release");
            Ok(())
        }
        Ok(Outcome::Wait(wait, until)) => offer(context, Verb::Wait(wait, until)).await,
        Err(problem) if problem.code == "fence.stale" => Err(problem),
        Err(problem) if problem.code == "run.cancelled" => cancel(context).await,
        Err(problem) => fail(context, &problem).await,
    }
}

/// Undoes what the run did outside, then ends it.
async fn cancel(context: &Context<'_>) -> Result<()> {
    let removed = match step::discharge::run(context).await {
        Ok(removed) => removed,
        Err(problem) => return owed(context, &problem).await,
    };
    let words = format!("the run is cancelled: {} removed, the namespace emptied", counted(removed.len(), "fault"));
    let effects = Effects {
        injection: Some(undone(removed)?),
        finish: Some(Finish::cancelled()),
        ..Effects::event(NewEvent::new("trace.cancelled", words))
    };
    offer(context, Verb::Cancel(Box::new(effects))).await
}

/// What a run that ends early leaves on record of its faults. One that had none to remove keeps the receipt that it has.
fn undone(removed: Vec<Removed>) -> Result<InjectionChange> {
    let receipt = (!removed.is_empty()).then(|| step::to_value(&Receipt::cut_short(removed))).transpose()?;
    Ok(InjectionChange { recovery: receipt, ..InjectionChange::default() })
}

/// Only what may go away by itself is tried again, and not for ever. A step that is given up ends its run.
async fn fail(context: &Context<'_>, problem: &Problem) -> Result<()> {
    tracing::info!(run = %context.run.id, task = %context.task.id, "a step failed: {}", problem.chain());
    if problem.kind.retryable() && context.task.failures + 1 < context.task.max_failures {
        return again(context, problem).await;
    }
    let removed = match step::discharge::run(context).await {
        Ok(removed) => removed,
        Err(problem) => return owed(context, &problem).await,
    };
    let error = TaskError::from(problem);
    let effects = given_up(context, problem, &error, removed)?;
    offer(context, Verb::Fail(error, None, Box::new(effects))).await
}

/// Tries the step again later; says why and when.
async fn again(context: &Context<'_>, problem: &Problem) -> Result<()> {
    let after = Duration::from_secs(1 << context.task.failures.min(10)).min(MAX_BACKOFF);
    let at = WallTime::now().plus(after);
    offer(context, Verb::Fail(TaskError::from(problem), Some(at), Box::default())).await
}

/// A run must not end while something of it may be left outside: its removal is tried again until it succeeds, however
/// long that takes, and the run says what it waits for.
async fn owed(context: &Context<'_>, problem: &Problem) -> Result<()> {
    let after = Duration::from_secs(1 << context.task.attempt.min(10)).min(MAX_BACKOFF);
    let words = format!("what the run did outside cannot be removed yet: {problem}");
    let wait = Wait::new(problem.code.clone().into_owned(), words).resource("the removal of what it did");
    offer(context, Verb::Wait(wait, WallTime::now().plus(after))).await
}

/// What is stored with a step that is given up: the state of the pack, the verdict if the error is one, the run's end,
/// and which of its faults were still on and are removed now.
fn given_up(context: &Context<'_>, problem: &Problem, error: &TaskError, removed: Vec<Removed>) -> Result<Effects> {
    let is_detector = context.task.algorithm.as_deref() == Some(context.spec.detector.name.as_str());
    let (state, verdict, event) = match context.task.kind {
        TaskKind::RestartPedestal => (None, None, "restart.pedestal.failed"),
        TaskKind::FaultInjection => (Some(PackState::InjectFailed), None, "fault.injection.failed"),
        TaskKind::BuildDatapack => {
            (Some(PackState::BuildFailed), step::build_datapack::verdict_of(problem), "datapack.build.failed")
        }
        TaskKind::RunAlgorithm if is_detector => {
            (Some(PackState::DetectorFailed), Some(Verdict::DetectorFailed), "algorithm.run.failed")
        }
        _ => (None, None, "algorithm.run.failed"),
    };
    let words = match removed.len() {
        0 => error.to_string(),
        number => format!("{error}; {} removed", counted(number, "live fault")),
    };
    let injection = InjectionChange { state, verdict, ..undone(removed)? };
    Ok(Effects {
        verdict,
        injection: Some(injection),
        finish: Some(Finish::failed(error)),
        ..Effects::event(NewEvent::new(event, words))
    })
}

/// Stores a result, patiently: a database that is away, or a disk that is full, must not cost a step that is done. Whoever
/// stops this process ends the wait; the task is then taken up again by the next one.
async fn offer(context: &Context<'_>, verb: Verb) -> Result<()> {
    let mut pause = STORE_PAUSE;
    loop {
        match put(context, &verb).await {
            Err(problem) if matches!(problem.kind, ErrorKind::Unavailable | ErrorKind::Timeout) => {
                tracing::warn!("the store does not take a result now, trying again: {}", problem.chain());
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_STORE_PAUSE);
            }
            other => return other,
        }
    }
}

async fn put(context: &Context<'_>, verb: &Verb) -> Result<()> {
    let (store, claim) = (&context.parts.store, context.claim);
    match verb {
        Verb::Complete(effects) => store.complete_task(claim, (**effects).clone()).await,
        Verb::Wait(wait, until) => store.reschedule_task(claim, wait.clone(), *until, Effects::default()).await,
        Verb::Cancel(effects) => store.cancel_task(claim, (**effects).clone()).await,
        Verb::Fail(error, at, effects) => {
            store.fail_task(claim, error.clone(), *at, (**effects).clone()).await.map(|_failed| ())
        }
    }
}
