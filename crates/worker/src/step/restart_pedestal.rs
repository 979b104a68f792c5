//! RestartPedestal: holds a slot, installs exactly what the specification says, and lets the system warm up.

use std::time::Duration;

use cluster::{Environment, Fence, ReleaseSpec};
use model::{Result, Slot, TaskKind};
use store::{Effects, NewEvent, NewTask, SlotGrant, Wait};

use super::{Context, Hold, Outcome};
use crate::killpoint;

const READY_RETRY: Duration = Duration::from_secs(2);

pub async fn run(context: &Context<'_>) -> Result<Outcome> {
    killpoint::reach("restart_pedestal.before-record");
    let hold = match hold_slot(context).await? {
        Ok(hold) => hold,
        Err(wait) => return Ok(Outcome::in_line(wait, context.task.wait.as_ref())),
    };
    killpoint::reach("restart_pedestal.after-record");
    context.still_wanted().await?;
    let want = release(context, &hold)?;
    killpoint::reach("restart_pedestal.before-effect");
    let seen = context.parts.cluster.ensure_release(&hold.fence, &want).await?;
    killpoint::reach("restart_pedestal.after-effect");
    if !seen.ready {
        let reason = seen.waiting_for.unwrap_or_else(|| "the release is not ready yet".into());
        return Ok(Outcome::wait(Wait::new("release.not_ready", reason).resource(seen.release), READY_RETRY));
    }
    let warm = seen.installed_at + Duration::from_secs(context.spec.windows.warmup_seconds.into());
    if let Some(wait) = context.run_until(&hold, warm).await? {
        return Ok(wait);
    }
    killpoint::reach("restart_pedestal.after-witness");
    let words = format!("{} {} is installed in {} and warm", seen.chart, seen.chart_version, hold.slot);
    Ok(Outcome::done(Effects {
        children: vec![NewTask::new(TaskKind::FaultInjection)],
        ..Effects::event(NewEvent::new("restart.pedestal.completed", words))
    }))
}

/// Leases the first free slot that the specification allows; says who holds them when there is none.
async fn hold_slot(context: &Context<'_>) -> Result<std::result::Result<Hold, Wait>> {
    let slots: Vec<Slot> =
        context.spec.slots.iter().map(|number| Slot::new(context.spec.system.clone(), *number)).collect();
    match context.parts.store.acquire_slot(context.claim, &slots).await? {
        SlotGrant::Got { slot, lease } => {
            Ok(Ok(Hold { slot, fence: Fence { run: context.run.id, token: lease.fence } }))
        }
        SlotGrant::Busy(held) => {
            let holders: Vec<String> =
                held.iter().map(|lease| format!("{} is held by {}", lease.resource, lease.note)).collect();
            let message =
                format!("all {} slots of {} that this run may use are held", slots.len(), context.spec.system);
            let leases = slots.iter().map(|slot| format!("slot:{}", slot.namespace()));
            Ok(Err(Wait::new("slot.none_free", message).any_of(leases).holder(holders.join("; "))))
        }
    }
}

/// What is to be installed, from the run's stored specification alone.
fn release(context: &Context<'_>, hold: &Hold) -> Result<ReleaseSpec> {
    let (release, environment) = (&context.spec.release, &context.spec.environment);
    let (values, digest) = release.values_for(hold.slot.number)?;
    Ok(ReleaseSpec {
        slot: hold.slot.clone(),
        chart: release.chart.clone(),
        chart_version: release.chart_version.clone(),
        repository: release.repository.clone(),
        chart_digest: release.chart_digest.clone(),
        values,
        values_digest: digest.to_owned(),
        environment: Environment {
            run: context.run.id,
            origin: environment.origin,
            seed: environment.seed,
            load: environment.load,
            noise: environment.noise,
        },
    })
}
