//! What a run owes before it may end: no fault of it active, nothing of it installed.
//!
//! Done before the run's end is stored, by whoever ends it, and safe to repeat.

use cluster::FaultPhase;
use model::Result;

use super::Context;
use super::fault_injection::fault_names;

/// Removes every fault of the run from its slot and empties the namespace. Returns how many faults were removed.
///
/// # Errors
/// When the cluster does not let it; the run must not end then.
pub async fn run(context: &Context<'_>) -> Result<usize> {
    if context.run.slot.is_none() {
        return Ok(0);
    }
    // A run that has given its slot back owes nothing any more.
    let hold = match context.hold().await {
        Ok(hold) => hold,
        Err(problem) if problem.code == "slot.lost" => return Ok(0),
        Err(problem) => return Err(problem),
    };
    let cluster = &context.parts.cluster;
    let mut removed = 0;
    for generation in 0..=context.run.retry_count {
        for name in fault_names(context.run.id, generation, context.spec.faults.len()) {
            let Some(seen) = cluster.observe_fault(&hold.slot, &name).await? else { continue };
            if seen.phase != FaultPhase::Recovered {
                cluster.remove_fault(&hold.fence, &hold.slot, &name).await?;
                removed += 1;
            }
        }
    }
    cluster.remove_namespace(&hold.fence, &hold.slot).await?;
    Ok(removed)
}
