//! RunAlgorithm: the detector, or one algorithm, over the open part of the datapack in a child process.
//!
//! The child's death is a result: it is stored as a failed execution and counts as a miss. Only what is our own fault is
//! tried again.

use std::path::PathBuf;

use model::{Answer, ExecutionId, Problem, Result, TaskKind};

use super::{Context, Next, Outcome};
use crate::child::{self, Limits, Order};
use crate::killpoint;

/// What became of one execution, as it is stored.
#[derive(Debug, Clone)]
pub enum Executed {
    Detected { conclusion: rca::detector::Conclusion, seconds: f64 },
    Ranked { answers: Vec<Answer>, seconds: f64 },
    Failed { problem: String },
}

pub async fn run(context: &Context<'_>) -> Result<Outcome> {
    let name = &context.task.payload.algorithm;
    let is_detector = *name == context.run.spec.detector.name;
    let injection = context.injection().await?;
    let pack = injection
        .pack
        .clone()
        .ok_or_else(|| Problem::internal("run.without_pack", "an algorithm was started before the datapack was built"))?;
    killpoint::reach("run_algorithm.before-record");
    let execution = context.book.open_execution(context.task, injection.id, name).await?;
    killpoint::reach("run_algorithm.before-effect");
    let executed = execute(context, execution, &pack, is_detector).await?;
    killpoint::reach("run_algorithm.after-effect");
    context.book.close_execution(context.task, execution, &executed).await?;
    let next = if is_detector {
        vec![Next::algorithm("collect_result/detector", TaskKind::CollectResult, name)]
    } else {
        Vec::new()
    };
    Ok(Outcome::Next(next))
}

async fn execute(context: &Context<'_>, execution: ExecutionId, pack: &str, is_detector: bool) -> Result<Executed> {
    let name = &context.task.payload.algorithm;
    let open = datapack::Pack::open(&context.parts.packs.join(pack))?.open_folder().to_owned();
    let (order, limits) = if is_detector {
        let profile = serde_json::to_value(crate::profile::detector(&context.run.spec)?)
            .map_err(|error| Problem::internal("detector.profile", error.to_string()))?;
        (Order::Detect { pack: open, profile }, limits(context, name)?)
    } else {
        let seed = context.run.spec.environment.seed;
        (Order::Rank { pack: open, algorithm: name.clone(), seed }, limits(context, name)?)
    };
    let folder: PathBuf = context.parts.scratch.join(format!("execution-{execution}"));
    match child::run(&context.parts.program, &folder, &order, limits).await? {
        Err(death) => Ok(Executed::Failed { problem: death.problem(name, limits).to_string() }),
        Ok((answer, seconds)) => read(&answer, seconds, is_detector),
    }
}

fn limits(context: &Context<'_>, name: &str) -> Result<Limits> {
    let spec = &context.run.spec;
    let choice = std::iter::once(&spec.detector)
        .chain(&spec.algorithms)
        .find(|choice| choice.name == *name)
        .ok_or_else(|| Problem::internal("run.unknown_algorithm", "the run asked for no such algorithm"))?;
    Ok(Limits { seconds: choice.limit_seconds, memory_mib: choice.limit_memory_mib })
}

/// An answer that cannot be read is the algorithm's failure, not ours.
fn read(answer: &[u8], seconds: f64, is_detector: bool) -> Result<Executed> {
    let failed = |error: serde_json::Error| Executed::Failed { problem: format!("its answer cannot be read: {error}") };
    if is_detector {
        return Ok(match serde_json::from_slice(answer) {
            Ok(conclusion) => Executed::Detected { conclusion, seconds },
            Err(error) => failed(error),
        });
    }
    Ok(match serde_json::from_slice::<Vec<Answer>>(answer) {
        Ok(answers) => match check(&answers) {
            Ok(()) => Executed::Ranked { answers, seconds },
            Err(problem) => Executed::Failed { problem },
        },
        Err(error) => failed(error),
    })
}

/// Ranks are exactly 1..n and nothing is named twice.
fn check(answers: &[Answer]) -> std::result::Result<(), String> {
    if answers.is_empty() {
        return Err("it answered nothing".into());
    }
    let mut seen = std::collections::HashSet::new();
    for (index, answer) in answers.iter().enumerate() {
        if answer.rank as usize != index + 1 {
            return Err(format!("rank {} stands at place {}", answer.rank, index + 1));
        }
        if !seen.insert((answer.level, answer.name.as_str())) {
            return Err(format!("`{}` is named twice", answer.name));
        }
    }
    Ok(())
}
