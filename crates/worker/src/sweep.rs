//! While the kill switch is on: recovers faults that no live run will recover.
//!
//! A run ends its own faults, as the switch wakes it. What is left belongs to nobody: a run that is not in this store, or
//! one that ended without its duty. Its slot is leased for the moment, so that no run gets it meanwhile.

use std::collections::BTreeSet;
use std::time::Duration;

use cluster::{FaultObservation, FaultPhase, Fence};
use model::{ErrorKind, Problem, Result, RunId};
use store::Acquired;

use crate::Parts;

/// How long another process waits before it takes a slot over from one that died in a sweep.
const TTL: Duration = Duration::from_secs(15);

/// Sweeps once. Does nothing while the switch is off.
///
/// # Errors
/// Those of the store and the cluster; the next sweep goes on.
pub async fn run(parts: &Parts) -> Result<()> {
    if !parts.store.kill_switch().await?.engaged {
        return Ok(());
    }
    let live: Vec<FaultObservation> =
        parts.cluster.faults().await?.into_iter().filter(|fault| fault.phase != FaultPhase::Recovered).collect();
    if live.is_empty() {
        return Ok(());
    }
    let held: BTreeSet<String> = parts.store.leases("slot:").await?.into_iter().map(|lease| lease.resource).collect();
    for fault in live {
        let resource = format!("slot:{}", fault.slot.namespace());
        if held.contains(&resource) {
            continue;
        }
        if let Err(problem) = recover(parts, &resource, &fault).await {
            tracing::error!(fault = %fault.name, slot = %fault.slot, "cannot recover a fault: {}", problem.chain());
        }
    }
    Ok(())
}

async fn recover(parts: &Parts, resource: &str, fault: &FaultObservation) -> Result<()> {
    let run: RunId = fault.labels.get("aegis/run").and_then(|text| text.parse().ok()).ok_or_else(|| {
        Problem::new(ErrorKind::Invalid, "fault.without_run", "the fault does not say which run it belongs to")
            .place(format!("fault {}", fault.name))
            .fix("remove it by hand")
    })?;
    let Acquired::Yes(lease) = parts.store.acquire(resource, parts.incarnation, TTL, "kill switch").await? else {
        return Ok(());
    };
    let fence = Fence { run, token: lease.fence };
    let removed = parts.cluster.remove_fault(&fence, &fault.slot, &fault.name).await;
    parts.store.release(&lease).await?;
    removed?;
    tracing::warn!(fault = %fault.name, slot = %fault.slot, %run, "the kill switch recovered a fault that no run held");
    Ok(())
}
