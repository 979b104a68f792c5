//! FaultInjection: the normal window, the faults, the abnormal window, recovery and its proof.
//!
//! The windows and the names of the fault objects are recorded before the first effect. From then on the run owes their
//! removal, whatever happens: `discharge` sees to it when this step cannot.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::FaultObject;
use fault::Resolved;
use model::{DataTime, ErrorKind, PackState, Problem, Result, RunId, TaskKind, Truth, TruthEntry, Windows};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{Effects, InjectionChange, NewEvent, NewTask};

use super::objects::{self, Kept};
use super::receipt::{Felt, Receipt, Removed, label, unfelt};
use super::{Context, Hold, Outcome, Passed, to_value};
use crate::killpoint;

/// How long the system may take to come back inside its normal band before the receipt says that it did not.
const SETTLE: Duration = Duration::from_secs(60);
const SETTLE_STEP: Duration = Duration::from_secs(15);

/// What this step must not forget.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Progress {
    windows: Windows,
    /// Names of the fault objects, one per fault of the specification.
    faults: Vec<String>,
}

pub async fn run(context: &Context<'_>) -> Result<Outcome> {
    let hold = context.hold().await?;
    killpoint::reach("fault_injection.before-record");
    let progress = match context.progress::<Progress>()? {
        Some(progress) => progress,
        None => begin(context, &hold).await?,
    };
    killpoint::reach("fault_injection.after-record");
    if let Some(wait) = run_until(context, &hold, &progress, progress.windows.abnormal_start).await? {
        return Ok(wait);
    }
    let truth = inject(context, &hold, &progress).await?;
    if let Some(wait) = run_until(context, &hold, &progress, progress.windows.abnormal_end).await? {
        return Ok(wait);
    }
    let removed = remove(context, &hold, &progress.faults).await?;
    let receipt = match verify(context, &hold, progress.windows.abnormal_end, removed).await? {
        Ok(receipt) => receipt,
        Err(wait) => return Ok(wait),
    };
    let felt = witness(context, &hold, &progress.faults).await?;
    killpoint::reach("fault_injection.after-witness");
    keep(context, &hold, &progress.windows).await?;
    done(context, truth, &felt, &receipt)
}

/// Keeps what the datapack is built from besides telemetry, with the harmless events that reach into its windows.
async fn keep(context: &Context<'_>, hold: &Hold, windows: &Windows) -> Result<()> {
    let cluster = &context.parts.cluster;
    let objects = match cluster.snapshot(&hold.slot).await? {
        Value::Object(objects) => objects,
        other => {
            let problem = Problem::internal("objects.damaged", "the cluster's objects are no object of lists");
            return Err(problem.found(other.to_string()));
        }
    };
    let mut distractors = cluster.distractors(&hold.slot).await?;
    distractors.retain(|event| event.from < windows.abnormal_end && event.until > windows.normal_start);
    objects::keep(&context.parts.scratch, context.run.id, &Kept { objects, distractors })
}

/// Fixes the windows from the system's own time and records what will be owed.
async fn begin(context: &Context<'_>, hold: &Hold) -> Result<Progress> {
    let lengths = context.spec.windows;
    let now = context.parts.cluster.now(&hold.slot).await?;
    let start = if now.0 % 1_000_000_000 == 0 { now } else { DataTime::from_seconds(now.seconds() + 1) };
    let seconds = |count: u32| Duration::from_secs(count.into());
    let windows = Windows::new(start, seconds(lengths.normal_seconds), seconds(lengths.abnormal_seconds))?;
    let faults = fault_names(context.run.id, context.run.retry_count, context.spec.faults.len());
    let progress = Progress { windows, faults };
    let change = InjectionChange { windows: Some(windows), ..InjectionChange::default() };
    let event = NewEvent::new("fault.injection.started", format!("the normal window starts at {start}"));
    context.record(&progress, Effects { injection: Some(change), ..Effects::event(event) }).await?;
    Ok(progress)
}

/// The names of a run's fault objects. The same run and retry always make the same names, so that whoever comes after a
/// crash finds the objects; a name tells nothing about its fault.
pub fn fault_names(run: RunId, retry: u32, count: usize) -> Vec<String> {
    let name = |index: usize| {
        let id = run.derive(&format!("fault/{retry}/{index}"));
        format!("aegis-{}", &id.simple().to_string()[..16])
    };
    (0..count).map(name).collect()
}

/// Lets data time pass as every step does, and no longer than faults are allowed.
async fn run_until(
    context: &Context<'_>,
    hold: &Hold,
    progress: &Progress,
    until: DataTime,
) -> Result<Option<Outcome>> {
    loop {
        no_kill_switch(context, hold, progress).await?;
        match context.pass(hold, until).await? {
            Passed::Some => {}
            Passed::All => return Ok(None),
            Passed::Wait(outcome) => return Ok(Some(outcome)),
        }
    }
}

/// The kill switch ends a run that has a fault on, or is about to. The run then owes the fault's removal as after every
/// other error; one whose window is over has removed it by itself.
async fn no_kill_switch(context: &Context<'_>, hold: &Hold, progress: &Progress) -> Result<()> {
    if progress.faults.is_empty() || !context.parts.store.kill_switch().await?.engaged {
        return Ok(());
    }
    if context.parts.cluster.now(&hold.slot).await? >= progress.windows.abnormal_end {
        return Ok(());
    }
    Err(Problem::new(ErrorKind::Failed, "fault.kill_switch", "the kill switch is on: no fault may act")
        .fix("turn it off with `aegisctl kill-switch off`, then retry the run"))
}

/// Starts every fault, or finds it started. Returns the ground truth with the pods that were really hit.
async fn inject(context: &Context<'_>, hold: &Hold, progress: &Progress) -> Result<Vec<TruthEntry>> {
    no_kill_switch(context, hold, progress).await?;
    let data = context.parts.catalog.get(&context.spec.system)?;
    let mut truth = Vec::new();
    for (index, (fault, name)) in (0..).zip(context.spec.faults.iter().zip(&progress.faults)) {
        let resolved = Resolved::from_value(&fault.resolved)?;
        let labels = BTreeMap::from([
            ("aegis/run".to_owned(), context.run.id.to_string()),
            ("aegis/injection".to_owned(), context.run.injection.map_or_else(String::new, |id| id.to_string())),
        ]);
        let window = progress.windows.abnormal_length();
        let manifest = fault::render(&resolved, &data, &hold.slot.namespace(), name, &labels, window)?;
        let want = FaultObject {
            name: name.clone(),
            slot: hold.slot.clone(),
            capability: fault.capability.clone(),
            resolved: fault.resolved.clone(),
            manifest,
            labels,
        };
        context.still_wanted().await?;
        killpoint::reach("fault_injection.before-effect");
        let started = context.parts.cluster.ensure_fault(&hold.fence, &want).await;
        let seen = started.map_err(|error| place(error.into(), &context.spec.faults, index as usize))?;
        killpoint::reach("fault_injection.after-effect");
        if seen.pods.is_empty() {
            return Err(Problem::new(ErrorKind::Failed, "fault.no_targets", "the fault hit nothing")
                .place(label(&context.spec.faults, index as usize)));
        }
        truth.extend(seen.truth.into_iter().map(|entry| TruthEntry { fault: index, ..entry }));
    }
    Ok(truth)
}

/// Says of which fault of the batch an error is.
fn place(problem: Problem, faults: &[api::spec::Fault], index: usize) -> Problem {
    let label = label(faults, index);
    let place = problem.place.as_ref().map_or_else(|| label.clone(), |inner| format!("{label}: {inner}"));
    problem.place(place)
}

async fn remove(context: &Context<'_>, hold: &Hold, faults: &[String]) -> Result<Vec<Removed>> {
    killpoint::reach("fault_injection.before-recover");
    let mut removed = Vec::new();
    for (fault, name) in context.spec.faults.iter().zip(faults) {
        removed.push(Removed::new(fault, context.parts.cluster.remove_fault(&hold.fence, &hold.slot, name).await?));
    }
    killpoint::reach("fault_injection.after-recover");
    Ok(removed)
}

/// Lets the system settle until it is back inside its normal band, or [`SETTLE`] has passed.
async fn verify(
    context: &Context<'_>,
    hold: &Hold,
    ended: DataTime,
    removed: Vec<Removed>,
) -> Result<std::result::Result<Receipt, Outcome>> {
    let mut after = SETTLE_STEP;
    loop {
        if let Some(wait) = context.run_until(hold, ended + after).await? {
            return Ok(Err(wait));
        }
        let recovery = context.parts.cluster.recovery(&hold.slot).await?;
        let clean = recovery.residue.is_empty() && recovery.back_at.is_some();
        if clean || after >= SETTLE {
            return Ok(Ok(Receipt::verified(removed, recovery, ended + after)));
        }
        after += SETTLE_STEP;
    }
}

async fn witness(context: &Context<'_>, hold: &Hold, faults: &[String]) -> Result<Vec<Felt>> {
    killpoint::reach("fault_injection.before-witness");
    let mut felt = Vec::new();
    for (index, name) in faults.iter().enumerate() {
        let witness = context.parts.cluster.witness(&hold.slot, name).await?;
        felt.push(Felt::new(&context.spec.faults, index, witness)?);
    }
    Ok(felt)
}

/// Exposed means that every fault of the batch was felt; without a fault there is nothing to feel.
fn done(context: &Context<'_>, truth: Vec<TruthEntry>, felt: &[Felt], receipt: &Receipt) -> Result<Outcome> {
    let faults = &context.spec.faults;
    let change = InjectionChange {
        state: Some(PackState::InjectSuccess),
        truth: Some(Truth { entries: truth }),
        exposed: Some(!faults.is_empty() && unfelt(faults, felt).is_none()),
        witness: Some(to_value(&felt)?),
        recovery: Some(to_value(receipt)?),
        ..InjectionChange::default()
    };
    Ok(Outcome::done(Effects {
        injection: Some(change),
        children: vec![NewTask::new(TaskKind::BuildDatapack)],
        ..Effects::event(NewEvent::new("fault.injection.completed", receipt.words()))
    }))
}
