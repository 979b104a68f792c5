//! CollectResult: after the detector, the verdict and whether the algorithms run; after an algorithm, the end of the run
//! once no other task of it is left.

use model::{ErrorKind, PackState, Problem, Result, RunState, TaskKind, Verdict};
use serde::Deserialize;
use store::{Effects, Finish, InjectionChange, NewEvent, NewTask, When};

use super::{Context, Outcome};
use crate::killpoint;

/// What the detector's step hands over.
#[derive(Debug, Deserialize)]
struct Detected {
    verdict: Verdict,
    reason: String,
}

pub async fn run(context: &Context<'_>) -> Result<Outcome> {
    killpoint::reach("collect_result.before-record");
    let effects = if context.task.algorithm.as_deref() == Some(context.spec.detector.name.as_str()) {
        after_detector(context)?
    } else {
        after_algorithm(context)?
    };
    Ok(Outcome::done(effects))
}

/// The one decision, for the label and for the pipeline alike.
fn after_detector(context: &Context<'_>) -> Result<Effects> {
    let Detected { verdict, reason } = handed_over(context)?;
    let mut effects = Effects {
        verdict: Some(verdict),
        injection: Some(InjectionChange {
            state: Some(pack_state(verdict)),
            verdict: Some(verdict),
            ..InjectionChange::default()
        }),
        ..Effects::event(NewEvent::new(event_name(verdict), reason.clone()))
    };
    if verdict.run_state() != RunState::Completed {
        let problem = Problem::new(ErrorKind::Failed, code(verdict), reason);
        effects.finish = Some(Finish::failed(&store::TaskError::from(&problem)));
        return Ok(effects);
    }
    let rank = verdict == Verdict::Anomaly || context.spec.always_rank;
    if rank && !context.spec.algorithms.is_empty() {
        effects.children = context
            .spec
            .algorithms
            .iter()
            .map(|choice| {
                let mut task = NewTask::new(TaskKind::RunAlgorithm);
                task.algorithm = Some(choice.name.clone());
                task.payload = context.task.payload.clone();
                task
            })
            .collect();
    } else {
        effects.finish = Some(completed(verdict, &reason));
    }
    Ok(effects)
}

fn after_algorithm(context: &Context<'_>) -> Result<Effects> {
    let Detected { verdict, reason } = handed_over(context)?;
    let name = context.algorithm()?;
    let event = NewEvent::new("algorithm.result.collection", format!("the result of {name} is collected"));
    Ok(Effects { finish: Some(completed(verdict, &reason)), ..Effects::event(event) })
}

/// The detector's verdict, as it travels with the tasks.
fn handed_over(context: &Context<'_>) -> Result<Detected> {
    serde_json::from_value(context.task.payload.clone())
        .map_err(|error| Problem::internal("detector.verdict_unreadable", error.to_string()))
}

fn completed(verdict: Verdict, reason: &str) -> Finish {
    let message = (!reason.is_empty()).then(|| reason.to_owned());
    Finish { reason: Some(verdict.as_str().to_owned()), message, when: When::Last, ..Finish::completed() }
}

/// A detector that saw too little did not succeed, and did not break either: the pack stays as it was built.
fn pack_state(verdict: Verdict) -> PackState {
    match verdict {
        Verdict::Anomaly | Verdict::NoAnomaly => PackState::DetectorSuccess,
        _ => PackState::DetectorFailed,
    }
}

fn event_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Anomaly => "datapack.result.collection",
        Verdict::NoAnomaly => "datapack.no_anomaly",
        _ => "datapack.no_detector_data",
    }
}

fn code(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::NoData => "detector.no_data",
        _ => "detector.insufficient_data",
    }
}
