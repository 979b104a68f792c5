//! RunAlgorithm: the detector, or one algorithm, over the open part of the datapack in a child process.
//!
//! The child's death is a result: it is stored as a failed execution and counts as a miss. Only what is our own fault is
//! tried again.

use std::path::Path;
use std::time::Duration;

use api::spec::AlgorithmChoice;
use datapack::{ConclusionRow, Pack};
use model::{ExecutionId, ExecutionState, InjectionId, Onset, PackState, Problem, Result, TaskKind, Verdict, WallTime};
use rca::detector::Conclusion;
use serde_json::json;
use store::{
    Effects, ExecutionResult, Findings, Finish, InjectionChange, NewEvent, NewExecution, NewTask, Role, TaskError, Wait,
};

use super::{Context, Outcome};
use crate::child::{Child, Limits, Order, RankTask};
use crate::rank::{self, Ran};
use crate::{detect, external, killpoint};

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
    let pack = tokio::task::spawn_blocking(move || verified(&folder, injection.pack_digest))
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
    let folder = context.parts.scratch.join(format!("execution-{execution}"));
    let child = Child { program: &context.parts.program, folder: &folder, threads: None, limits };
    let outcome = tokio::select! {
        outcome = async {
            match role {
                Role::Detector => detect(context, &child, &pack, name).await,
                Role::Algorithm => rank(context, &child, &pack, choice, execution).await,
            }
        } => outcome?,
        () = context.told_to_stop() => return Ok(context.stopping()),
    };
    killpoint::reach("run_algorithm.after-effect");
    Ok(outcome)
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
        return Ok(Outcome::done(failed(context, Role::Algorithm, &problem, None)));
    }
    // An upload that comes while this task is not yet asleep cannot wake it, so it looks again by itself: ever more seldom.
    let waited = Duration::from_micros(u64::try_from(now.0 - execution.updated_at.0).unwrap_or(0));
    let words = format!("the answer of {} to execution {} is uploaded until {deadline}", choice.name, execution.id);
    let wait = Wait::new("execution.awaits_upload", words);
    Ok(Outcome::Wait(wait, now.plus(waited.max(SHORTEST_LOOK)).min(deadline)))
}

/// The pack as it was built: nobody ranks on, or judges, a file that has changed since.
fn verified(folder: &Path, digest: Option<String>) -> Result<Pack> {
    let pack = Pack::open(folder)?.recorded(digest);
    pack.verify()?;
    Ok(pack)
}

/// Runs the detector.
async fn detect(context: &Context<'_>, child: &Child<'_>, pack: &Pack, name: &str) -> Result<Outcome> {
    let order = Order::Detect {
        pack: pack.open_part(),
        load_generators: crate::profile::load_generators(context.spec)?,
        profile: super::to_value(&crate::profile::detector(context.spec)?)?,
    };
    match detect::judge(child, &order, name).await? {
        (Ok(conclusion), seconds) => detected(context, pack, &conclusion, seconds),
        (Err(problem), _) => Ok(Outcome::done(failed(context, Role::Detector, &problem, None))),
    }
}

/// Runs one algorithm.
async fn rank(
    context: &Context<'_>,
    child: &Child<'_>,
    pack: &Pack,
    choice: &AlgorithmChoice,
    execution: ExecutionId,
) -> Result<Outcome> {
    let load_generators = crate::profile::load_generators(context.spec)?;
    let seed = context.spec.environment.seed;
    let command = external::command(&context.parts.store, &choice.name, &choice.version).await?;
    let tasks = match &command {
        None => vec![RankTask { algorithm: choice.name.clone(), seed, onset: Onset::Known }],
        Some(_) => Vec::new(),
    };
    let ranked = rank::run(child, &pack.open_part(), &load_generators, &tasks).await?;
    let (ran, isolation) = match command {
        None => (ranked.ran.into_iter().next(), None),
        Some(command) => {
            let job = external::Job {
                command: &command,
                pack,
                execution,
                datapack: context.run.injection.unwrap_or(InjectionId(0)),
                system: context.spec.system.as_str(),
                algorithm: &choice.name,
                candidates: &ranked.candidates,
            };
            let (ran, isolation) = external::run(context.parts, &job).await?;
            (Some(ran), Some(isolation.to_owned()))
        }
    };
    let ran = ran.ok_or_else(|| Problem::internal("algorithm.not_run", "a task of a child has no end"))?;
    Ok(Outcome::done(ended(context, &choice.name, ranked.candidates, ran, isolation)))
}

fn ended(context: &Context<'_>, name: &str, candidates: Vec<String>, ran: Ran, isolation: Option<String>) -> Effects {
    let answers = match ran.answers {
        Ok(answers) => answers,
        Err(problem) => return failed(context, Role::Algorithm, &problem, isolation),
    };
    let words = format!("{name} names {} suspects, first {}", answers.len(), answers[0].name);
    Effects {
        execution: Some(ExecutionResult {
            duration_s: ran.seconds,
            peak_memory: ran.peak_memory,
            isolation,
            candidates,
            outcome: Ok(Findings { answers, detector: Vec::new() }),
        }),
        children: vec![collect(context)],
        ..Effects::event(NewEvent::new("algorithm.run.succeed", words))
    }
}

/// The child died or answered nonsense. For an algorithm that is a miss and the run goes on; without a detector's answer
/// there is no verdict, and the run ends.
fn failed(context: &Context<'_>, role: Role, problem: &Problem, isolation: Option<String>) -> Effects {
    let error = TaskError::from(problem);
    let execution = Some(ExecutionResult {
        duration_s: 0.0,
        peak_memory: None,
        isolation,
        candidates: Vec::new(),
        outcome: Err(error.clone()),
    });
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

fn detected(context: &Context<'_>, pack: &Pack, conclusion: &Conclusion, seconds: f64) -> Result<Outcome> {
    pack.attach_conclusion(&conclusion.rows.iter().map(ConclusionRow::from).collect::<Vec<_>>())?;
    let mut next = collect(context);
    next.payload = json!({ "verdict": conclusion.verdict, "reason": conclusion.reason });
    let findings = Findings { answers: Vec::new(), detector: conclusion.rows.iter().map(detect::row).collect() };
    let words = format!("{}: {}", conclusion.verdict, conclusion.reason);
    Ok(Outcome::done(Effects {
        execution: Some(ExecutionResult {
            duration_s: seconds,
            peak_memory: None,
            isolation: None,
            candidates: Vec::new(),
            outcome: Ok(findings),
        }),
        children: vec![next],
        ..Effects::event(NewEvent::new("algorithm.run.succeed", words))
    }))
}
