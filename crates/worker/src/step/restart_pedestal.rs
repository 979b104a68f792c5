//! RestartPedestal: holds a slot, installs exactly what the specification says, and lets the system warm up.

use std::time::Duration;

use cluster::{Environment, ReleaseSpec};
use model::{Result, TaskKind};

use super::{Context, Next, Outcome, Wait};
use crate::book::{Book, Run, Task};
use crate::{Parts, killpoint};

/// How soon a run that found no free slot looks again.
const SLOT_RETRY: Duration = Duration::from_millis(500);
const READY_RETRY: Duration = Duration::from_secs(2);

pub async fn run(parts: &Parts, book: &Book, task: &Task, run: &mut Run) -> Result<Outcome> {
    killpoint::reach("restart_pedestal.before-record");
    if run.slot.is_none() {
        if let Some(wait) = hold_slot(book, run).await? {
            return Ok(Outcome::Wait(wait));
        }
    }
    killpoint::reach("restart_pedestal.after-record");
    install(&Context { parts, book, task, run }).await
}

/// Leases the first free slot that the specification allows; says who holds them when there is none.
async fn hold_slot(book: &Book, hold: &mut Run) -> Result<Option<Wait>> {
    let mut holders = Vec::new();
    for &number in &hold.spec.slots {
        match book.hold_slot(hold, number).await? {
            Ok(fence) => {
                hold.slot = Some(number);
                hold.fence = Some(fence);
                return Ok(None);
            }
            Err(holder) => holders.push(format!("{}{number} is held by {holder}", hold.spec.system)),
        }
    }
    Ok(Some(
        Wait::new("slot.none_free", format!("every slot of {} is in use", hold.spec.system), SLOT_RETRY)
            .holder(holders.join("; "))
            .fix(format!("wait, or raise the pool size `injection.system.{}.count`", hold.spec.system)),
    ))
}

async fn install(context: &Context<'_>) -> Result<Outcome> {
    let want = release(context)?;
    killpoint::reach("restart_pedestal.before-effect");
    let seen = context.parts.cluster.ensure_release(&context.fence()?, &want).await?;
    killpoint::reach("restart_pedestal.after-effect");
    if !seen.ready {
        let reason = seen.waiting_for.unwrap_or_else(|| "the release is not ready yet".into());
        return Ok(Outcome::Wait(Wait::new("release.not_ready", reason, READY_RETRY)));
    }
    let warm = seen.installed_at + Duration::from_secs(context.run.spec.windows.warmup_seconds.into());
    if let Some(wait) = context.run_until(warm).await? {
        return Ok(Outcome::Wait(wait));
    }
    killpoint::reach("restart_pedestal.after-witness");
    Ok(Outcome::Next(vec![Next::new(TaskKind::FaultInjection, "fault_injection")]))
}

/// What is to be installed, from the run's stored specification alone.
fn release(context: &Context<'_>) -> Result<ReleaseSpec> {
    let spec = &context.run.spec;
    let slot = context.slot()?;
    let (values, digest) = spec.release.values_for(slot.number)?;
    Ok(ReleaseSpec {
        chart: spec.release.chart.clone(),
        chart_version: spec.release.chart_version.clone(),
        repository: spec.release.repository.clone(),
        chart_digest: spec.release.chart_digest.clone(),
        values,
        values_digest: digest.to_owned(),
        environment: Environment {
            run: context.run.id,
            origin: spec.environment.origin,
            seed: spec.environment.seed,
            load: spec.environment.load,
            noise: spec.environment.noise,
        },
        slot,
    })
}
