//! Limits on how many steps of a kind run at once, over all processes: numbers from the settings, tokens from the store.
//!
//! A token belongs to the task and goes back with its end, in the same transaction; a task that waits keeps its place.

use model::{ErrorKind, Problem, Result, TaskKind};
use settings::Key;
use store::{LimitGrant, Wait};

use crate::step::{Context, Outcome};

/// The limit of a kind of step: its short name and its setting. Collecting a result is too short to need one.
fn of(kind: TaskKind) -> Option<(&'static str, &'static Key<i64>)> {
    match kind {
        TaskKind::RestartPedestal => Some(("restart", &settings::RESTART_LIMIT)),
        TaskKind::FaultInjection => Some(("injection", &settings::INJECTION_LIMIT)),
        TaskKind::BuildDatapack => Some(("build", &settings::BUILD_LIMIT)),
        TaskKind::RunAlgorithm => Some(("execution", &settings::EXECUTION_LIMIT)),
        TaskKind::CollectResult | TaskKind::BuildContainer | TaskKind::CronJob => None,
    }
}

/// Takes a token for the step, or says what it waits for and who holds the tokens.
pub async fn wait(context: &Context<'_>) -> Result<Option<Outcome>> {
    // What runs elsewhere takes no place here, however long it takes.
    let is_remote = |name: &str| context.spec.algorithms.iter().any(|choice| choice.remote && choice.name == name);
    if context.task.algorithm.as_deref().is_some_and(is_remote) {
        return Ok(None);
    }
    let Some((name, key)) = of(context.task.kind) else { return Ok(None) };
    let store = &context.parts.store;
    let limit = settings::read(store, key).await?;
    let capacity = u32::try_from(limit).map_err(|_| {
        Problem::new(ErrorKind::Invalid, "limit.out_of_range", "a limit is no number of places")
            .place(key.name)
            .found(limit.to_string())
            .expected("0 or more")
    })?;
    match store.acquire_limit(context.claim, name, capacity).await? {
        LimitGrant::Got(_) => Ok(None),
        LimitGrant::Full(holders) => {
            let message = format!("all {capacity} places of the limit `{}` are taken", key.name);
            let held: Vec<&str> = holders.iter().map(|lease| lease.note.as_str()).collect();
            let resource = format!("limit:{name}");
            let wait = Wait::new("limit.reached", message).any_of([resource.clone()]).resource(resource);
            Ok(Some(Outcome::in_line(wait.holder(held.join("; ")), context.task.wait.as_ref())))
        }
    }
}
