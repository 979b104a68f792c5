//! What a run owes before it may end: no fault of it active, nothing of it installed.
//!
//! Done before the run's end is stored, by whoever ends it, and safe to repeat.

use cluster::FaultPhase;
use model::Result;

use super::Context;
use super::fault_injection::fault_names;
use super::receipt::Removed;

/// Removes every fault of the run from its slot and empties the namespace. Returns the faults that this removed.
///
/// # Errors
/// When the cluster does not let it; the run must not end then.
pub async fn run(context: &Context<'_>) -> Result<Vec<Removed>> {
    if context.run.slot.is_none() {
        return Ok(Vec::new());
    }
    // A run that has given its slot back owes nothing any more.
    let hold = match context.hold().await {
        Ok(hold) => hold,
        Err(problem) if problem.code == "slot.lost" => return Ok(Vec::new()),
        Err(problem) => return Err(problem),
    };
    let (cluster, faults) = (&context.parts.cluster, &context.spec.faults);
    let mut removed = Vec::new();
    for generation in 0..=context.run.retry_count {
        for (fault, name) in faults.iter().zip(fault_names(context.run.id, generation, faults.len())) {
            let Some(seen) = cluster.observe_fault(&hold.slot, &name).await? else { continue };
            if seen.phase != FaultPhase::Recovered {
                removed.push(Removed::new(fault, cluster.remove_fault(&hold.fence, &hold.slot, &name).await?));
            }
        }
    }
    cluster.remove_namespace(&hold.fence, &hold.slot).await?;
    Ok(removed)
}
