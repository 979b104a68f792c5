//! RunAlgorithm: the detector, or one algorithm, over the open part of the datapack in a child process.
//!
//! The child's death is a result: it is stored as a failed execution and counts as a miss. Only what is our own fault is
//! tried again.

use std::path::Path;
use std::time::Duration;

use api::spec::AlgorithmChoice;
use datapack::{ConclusionRow, Pack};
use model::{ExecutionState, Level, PackState, Problem, Result, TaskKind, Verdict, WallTime};
use rca::detector::{Conclusion, EndpointRow, Figures};
use serde_json::json;
use store::{
    DetectorRow, Effects, ExecutionResult, Findings, Finish, InjectionChange, NewEvent, NewExecution, NewTask, Role,
    TaskError, Wait,
};

use super::{Context, Outcome};
use crate::child::{self, Ended, Limits, Order, Ranking};
use crate::killpoint;

/// How soon a task that waits for an upload looks again by itself.
const SHORTEST_LOOK: Duration = Duration::from_secs(2);

pub async fn run(context: &Context<'_>) -> Result<Outcome> {
    let name = context.algorithm()?;
    let choice = std::iter::once(&context.spec.detector)
        .chain(&context.spec.algorithms)
        .find(|choice| choice.name == name)
        .ok_or_else(|| Problem::internal("run.unknown_algorithm", "the run asked for no such algorithm"))?;
    if choice.remote {
        return remote(context, choice).await;
    }
    let role = if name == context.spec.detector.name { Role::Detector } else { Role::Algorithm };
    killpoint::reach("run_algorithm.before-record");
    let injection = context.parts.store.injection_of(context.run.id).await?;
    let path = injection.pack_path.as_ref().ok_or_else(|| {
        Problem::internal("run.without_pack", "an algorithm was started before the datapack was built")
    })?;
    let folder = context.parts.packs.join(path);
    let pack = tokio::task::spawn_blocking(move || verified(&folder))
        .await
        .map_err(|error| Problem::internal("datapack.read_panicked", error.to_string()))??;
    let new = NewExecution {
        algorithm: choice.name.clone(),
        version: choice.version.clone(),
        role,
        injection: injection.id,
        seed: context.spec.environment.seed,
        remote: false,
    };
    let execution = context.parts.store.start_execution(context.claim, &new).await?;
    context.still_wanted().await?;
    killpoint::reach("run_algorithm.before-effect");
    let limits = Limits { seconds: choice.limit_seconds, memory_mib: choice.limit_memory_mib };
    let order = order(context, choice, role, &pack)?;
    let folder = context.parts.scratch.join(format!("execution-{execution}"));
    let Some(ended) = ended(context, &folder, &order, limits).await? else { return Ok(context.stopping()) };
    killpoint::reach("run_algorithm.after-effect");
    match (role, ended) {
        (_, Err(death)) => Ok(Outcome::done(failed(context, role, &death.problem(name, limits)))),
        (Role::Detector, Ok((answer, seconds))) => detected(context, &pack, &answer, seconds),
        (Role::Algorithm, Ok((answer, seconds))) => Ok(Outcome::done(ranked(context, name, &answer, seconds))),
    }
}

/// Waits for the answer of a method that runs elsewhere. The upload itself ends the execution and wakes this task.
async fn remote(context: &Context<'_>, choice: &AlgorithmChoice) -> Result<Outcome> {
    let store = &context.parts.store;
    let known = store.execution_of(context.task.id).await?;
    if known.as_ref().is_some_and(|execution| execution.state == ExecutionState::Success) {
        return Ok(Outcome::done(Effects { children: vec![collect(context)], ..Effects::default() }));
    }
    let execution = match known {
        Some(execution) if execution.state == ExecutionState::Initial => execution,
        // The first time in the pipeline, or a retry after nobody answered.
        _ => {
            let new = NewExecution {
                algorithm: choice.name.clone(),
                version: choice.version.clone(),
                role: Role::Algorithm,
                injection: store.injection_of(context.run.id).await?.id,
                seed: context.spec.environment.seed,
                remote: true,
            };
            let id = store.start_execution(context.claim, &new).await?;
            store.execution(id).await?
        }
    };
    let deadline = execution.updated_at.plus(Duration::from_secs(choice.limit_seconds));
    let now = WallTime::now();
    if now >= deadline {
        let message = "nobody handed over its answer in time";
        let problem = Problem::new(model::ErrorKind::Failed, "execution.not_uploaded", message)
            .place(choice.name.clone())
            .expected(format!("an upload until {deadline}"));
        return Ok(Outcome::done(failed(context, Role::Algorithm, &problem)));
    }
    // An upload that comes while this task is not yet asleep cannot wake it, so it looks again by itself: ever more seldom.
    let waited = Duration::from_micros(u64::try_from(now.0 - execution.updated_at.0).unwrap_or(0));
    let words = format!("the answer of {} to execution {} is uploaded until {deadline}", choice.name, execution.id);
    let wait = Wait::new("execution.awaits_upload", words);
    Ok(Outcome::Wait(wait, now.plus(waited.max(SHORTEST_LOOK)).min(deadline)))
}

/// The pack as it was built: nobody ranks on, or judges, a file that has changed since.
fn verified(folder: &Path) -> Result<Pack> {
    let pack = Pack::open(folder)?;
    pack.verify()?;
    Ok(pack)
}

/// The child's end; nothing when this process is to stop, which takes the child along. A child that is killed from outside
/// is started again, a bounded number of times.
async fn ended(context: &Context<'_>, folder: &Path, order: &Order, limits: Limits) -> Result<Option<Ended>> {
    let mut starts = 1;
    loop {
        let ended = tokio::select! {
            ended = child::run(&context.parts.program, folder, order, limits) => ended?,
            () = context.told_to_stop() => return Ok(None),
        };
        match ended {
            Err(death) if death.is_chance() && starts < child::STARTS => {
                tracing::warn!(task = %context.task.id, "a child was killed ({death:?}) and is started again");
                starts += 1;
            }
            ended => return Ok(Some(ended)),
        }
    }
}

fn order(context: &Context<'_>, choice: &AlgorithmChoice, role: Role, pack: &Pack) -> Result<Order> {
    let load_generators = crate::profile::load_generators(context.spec)?;
    Ok(match role {
        Role::Detector => Order::Detect {
            pack: pack.open_part(),
            load_generators,
            profile: super::to_value(&crate::profile::detector(context.spec)?)?,
        },
        Role::Algorithm => Order::Rank {
            pack: pack.open_part(),
            load_generators,
            algorithm: choice.name.clone(),
            seed: context.spec.environment.seed,
        },
    })
}

/// The child died or answered nonsense. For an algorithm that is a miss and the run goes on; without a detector's answer
/// there is no verdict, and the run ends.
fn failed(context: &Context<'_>, role: Role, problem: &Problem) -> Effects {
    let error = TaskError::from(problem);
    let execution = Some(ExecutionResult { duration_s: 0.0, candidates: Vec::new(), outcome: Err(error.clone()) });
    let event = NewEvent::new("algorithm.run.failed", error.to_string());
    match role {
        Role::Algorithm => Effects { execution, children: vec![collect(context)], ..Effects::event(event) },
        Role::Detector => Effects {
            execution,
            verdict: Some(Verdict::DetectorFailed),
            injection: Some(InjectionChange {
                state: Some(PackState::DetectorFailed),
                verdict: Some(Verdict::DetectorFailed),
                ..InjectionChange::default()
            }),
            finish: Some(Finish::failed(&error)),
            ..Effects::event(event)
        },
    }
}

/// The step that follows this one's algorithm.
fn collect(context: &Context<'_>) -> NewTask {
    let mut next = NewTask::new(TaskKind::CollectResult);
    next.algorithm.clone_from(&context.task.algorithm);
    // The detector's reason travels along, so that the run's end can tell it.
    next.payload = context.task.payload.clone();
    next
}

fn detected(context: &Context<'_>, pack: &Pack, answer: &[u8], seconds: f64) -> Result<Outcome> {
    let conclusion: Conclusion = match serde_json::from_slice(answer) {
        Ok(conclusion) => conclusion,
        Err(error) => {
            let problem = Problem::internal("detector.answer_unreadable", error.to_string());
            return Ok(Outcome::done(failed(context, Role::Detector, &problem)));
        }
    };
    pack.attach_conclusion(&conclusion.rows.iter().map(ConclusionRow::from).collect::<Vec<_>>())?;
    let mut next = collect(context);
    next.payload = json!({ "verdict": conclusion.verdict, "reason": conclusion.reason });
    let findings = Findings { answers: Vec::new(), detector: conclusion.rows.iter().map(stored_row).collect() };
    let words = format!("{}: {}", conclusion.verdict, conclusion.reason);
    Ok(Outcome::done(Effects {
        execution: Some(ExecutionResult { duration_s: seconds, candidates: Vec::new(), outcome: Ok(findings) }),
        children: vec![next],
        ..Effects::event(NewEvent::new("algorithm.run.succeed", words))
    }))
}

/// Names and units of the public contract: seconds, rates from 0 to 1.
fn stored_row(row: &EndpointRow) -> DetectorRow {
    let window = |prefix: &str, figures: &Figures| {
        let figures = figures.measured();
        [
            (format!("{prefix}_avg_duration"), figures.map(|figures| figures.avg)),
            (format!("{prefix}_succ_rate"), figures.and_then(|figures| figures.succ_rate)),
            (format!("{prefix}_p90"), figures.map(|figures| figures.p90)),
            (format!("{prefix}_p95"), figures.map(|figures| figures.p95)),
            (format!("{prefix}_p99"), figures.map(|figures| figures.p99)),
        ]
    };
    DetectorRow {
        span_name: row.span_name.clone(),
        issues: serde_json::Value::Object(row.issues.clone()),
        figures: window("abnormal", &row.abnormal).into_iter().chain(window("normal", &row.normal)).collect(),
    }
}

fn ranked(context: &Context<'_>, name: &str, answer: &[u8], seconds: f64) -> Effects {
    let Ranking { candidates, answers } = match read(answer) {
        Ok(ranking) => ranking,
        Err(found) => {
            let message = "its answer is not valid";
            let problem = Problem::new(model::ErrorKind::Failed, "algorithm.answer_invalid", message);
            return failed(context, Role::Algorithm, &problem.place(name.to_owned()).found(found));
        }
    };
    let words = format!("{name} names {} suspects, first {}", answers.len(), answers[0].name);
    let findings = Findings { answers, detector: Vec::new() };
    Effects {
        execution: Some(ExecutionResult { duration_s: seconds, candidates, outcome: Ok(findings) }),
        children: vec![collect(context)],
        ..Effects::event(NewEvent::new("algorithm.run.succeed", words))
    }
}

/// Ranks are exactly 1..n, nothing is named twice, and nobody is named who is no candidate.
fn read(answer: &[u8]) -> std::result::Result<Ranking, String> {
    let ranking: Ranking = serde_json::from_slice(answer).map_err(|error| error.to_string())?;
    if ranking.answers.is_empty() {
        return Err("no suspect".into());
    }
    let mut seen = std::collections::HashSet::new();
    for (index, answer) in ranking.answers.iter().enumerate() {
        if answer.rank as usize != index + 1 {
            return Err(format!("rank {} at place {}", answer.rank, index + 1));
        }
        if !seen.insert((answer.level, answer.name.as_str())) {
            return Err(format!("`{}` named twice", answer.name));
        }
        if answer.level == Level::Service && !ranking.candidates.contains(&answer.name) {
            return Err(format!("`{}`, which is no candidate", answer.name));
        }
    }
    Ok(ranking)
}
