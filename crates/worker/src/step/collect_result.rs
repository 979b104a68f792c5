//! CollectResult: after the detector, the verdict and whether the algorithms run; at the end, the run's end.

use std::time::Duration;

use model::{Problem, Result, TaskKind, Verdict};

use super::{Context, End, Next, Outcome, Wait};
use crate::killpoint;

/// How soon the end of the run looks again whether every algorithm has answered.
const ANSWERS_RETRY: Duration = Duration::from_millis(200);

pub async fn run(context: &Context<'_>) -> Result<Outcome> {
    killpoint::reach("collect_result.before-record");
    if context.task.payload.algorithm.is_empty() { finish(context).await } else { after_detector(context).await }
}

/// One decision, taken from the detector's stored conclusion.
async fn after_detector(context: &Context<'_>) -> Result<Outcome> {
    let verdict = context.book.detector_verdict(context.run.id).await?;
    let Some((verdict, evidence)) = verdict else {
        return Ok(Outcome::End(End {
            verdict: Verdict::DetectorFailed,
            reason: context.book.detector_failure(context.run.id).await?,
        }));
    };
    context.book.set_verdict(context.task, context.run.id, verdict, &evidence).await?;
    let rank = verdict == Verdict::Anomaly || (verdict == Verdict::NoAnomaly && context.run.spec.always_rank);
    if !rank || context.run.spec.algorithms.is_empty() {
        return Ok(Outcome::End(End { verdict, reason: evidence }));
    }
    let algorithms = context.run.spec.algorithms.iter().map(|choice| {
        Next::algorithm(format!("run_algorithm/{}", choice.name), TaskKind::RunAlgorithm, &choice.name)
    });
    Ok(Outcome::Next(algorithms.chain([Next::new(TaskKind::CollectResult, "collect_result/end")]).collect()))
}

/// Waits until every algorithm has ended, one way or the other; then the run is over.
async fn finish(context: &Context<'_>) -> Result<Outcome> {
    let open = context.book.open_algorithms(context.run.id).await?;
    if !open.is_empty() {
        let wait = Wait::new("algorithm.running", format!("not ended yet: {}", open.join(", ")), ANSWERS_RETRY);
        return Ok(Outcome::Wait(wait));
    }
    let (verdict, evidence) = context
        .book
        .detector_verdict(context.run.id)
        .await?
        .ok_or_else(|| Problem::internal("run.without_verdict", "the run has algorithms but no verdict"))?;
    Ok(Outcome::End(End { verdict, reason: evidence }))
}
