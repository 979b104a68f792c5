//! FaultInjection: the normal window, the faults, the abnormal window, recovery and its proof.
//!
//! The windows and the names of the fault objects are recorded before the first effect. From then on the run owes their
//! removal, whatever happens: the janitor discharges it when this step cannot.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::{FaultObject, Recovery, Witness};
use fault::Resolved;
use model::{DataTime, ErrorKind, PackState, Problem, Result, RunId, TaskKind, TruthEntry, Windows};
use serde::{Deserialize, Serialize};

use super::{Context, Next, Outcome, Wait};
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
    /// Ground truth with the pods that were really hit, once they were.
    #[serde(default)]
    truth: Vec<TruthEntry>,
}

/// What is known about the injection when it is over; stored with it and sealed in the datapack.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Evidence {
    pub truth: Vec<TruthEntry>,
    pub witnesses: Vec<Witness>,
    pub recovery: Recovery,
}

pub async fn run(context: &Context<'_>) -> Result<Outcome> {
    killpoint::reach("fault_injection.before-record");
    let mut progress = match context.progress::<Progress>()? {
        Some(progress) => progress,
        None => begin(context).await?,
    };
    killpoint::reach("fault_injection.after-record");
    if let Some(wait) = context.run_until(progress.windows.abnormal_start).await? {
        return Ok(Outcome::Wait(wait));
    }
    if context.book.faults_forbidden().await? && !context.run.spec.faults.is_empty() {
        return Err(Problem::new(ErrorKind::Failed, "fault.kill_switch", "the kill switch is on: no fault is injected")
            .fix("turn it off and retry the run from FaultInjection"));
    }
    inject(context, &mut progress).await?;
    if let Some(wait) = context.run_until(progress.windows.abnormal_end).await? {
        return Ok(Outcome::Wait(wait));
    }
    remove(context, &progress.faults).await?;
    let recovery = match verify(context, progress.windows.abnormal_end).await? {
        Ok(recovery) => recovery,
        Err(wait) => return Ok(Outcome::Wait(wait)),
    };
    let evidence = witness(context, &progress, recovery).await?;
    context.book.close_injection(context.task, context.run.id, &evidence, PackState::InjectSuccess).await?;
    killpoint::reach("fault_injection.after-witness");
    Ok(Outcome::Next(vec![Next::new(TaskKind::BuildDatapack, "build_datapack")]))
}

/// Fixes the windows from the system's own time and records what will be owed.
async fn begin(context: &Context<'_>) -> Result<Progress> {
    let lengths = context.run.spec.windows;
    let now = context.parts.cluster.now(&context.slot()?).await?;
    let start = if now.0 % 1_000_000_000 == 0 { now } else { DataTime::from_seconds(now.seconds() + 1) };
    let seconds = |count: u32| Duration::from_secs(count.into());
    let windows = Windows::new(start, seconds(lengths.normal_seconds), seconds(lengths.abnormal_seconds))?;
    let faults = fault_names(context.run.id, context.run.generation, context.run.spec.faults.len());
    let progress = Progress { windows, faults, truth: Vec::new() };
    context.book.open_injection(context.run.id, windows).await?;
    context.record(&progress).await?;
    Ok(progress)
}

/// The names of a run's fault objects. The same run and generation always make the same names, so that whoever comes
/// after a crash finds the objects; a name tells nothing about its fault.
pub fn fault_names(run: RunId, generation: u32, count: usize) -> Vec<String> {
    let name = |index: usize| {
        let id = run.derive(&format!("fault/{generation}/{index}"));
        format!("aegis-{}", &id.simple().to_string()[..16])
    };
    (0..count).map(name).collect()
}

async fn inject(context: &Context<'_>, progress: &mut Progress) -> Result<()> {
    let spec = &context.run.spec;
    let slot = context.slot()?;
    let data = context.parts.catalog.get(&spec.system)?;
    let abnormal = progress.windows.abnormal_length();
    let mut truth = Vec::new();
    for (fault, name) in spec.faults.iter().zip(&progress.faults) {
        let resolved: Resolved = serde_json::from_value(fault.resolved.clone())
            .map_err(|error| Problem::internal("fault.unreadable", "a stored fault cannot be read").cause(error))?;
        let labels = BTreeMap::from([
            ("aegis/run".to_owned(), context.run.id.to_string()),
            ("aegis/injection".to_owned(), context.run.injection.to_string()),
        ]);
        let manifest = fault::render(&resolved, &data, &slot.namespace(), name, &labels, abnormal);
        let want = FaultObject {
            name: name.clone(),
            slot: slot.clone(),
            capability: fault.capability.clone(),
            resolved: fault.resolved.clone(),
            manifest,
            labels,
        };
        killpoint::reach("fault_injection.before-effect");
        let seen = context.parts.cluster.ensure_fault(&context.fence()?, &want).await?;
        killpoint::reach("fault_injection.after-effect");
        if seen.pods.is_empty() {
            return Err(Problem::new(ErrorKind::Failed, "fault.no_targets", "the fault hit nothing")
                .place(format!("{} on {}", fault.capability, fault.service)));
        }
        truth.extend(seen.truth);
    }
    if progress.truth.is_empty() && !truth.is_empty() {
        progress.truth = truth;
        context.record(progress).await?;
    }
    Ok(())
}

/// Ends every fault of this run. Idempotent; also the janitor's way.
async fn remove(context: &Context<'_>, faults: &[String]) -> Result<()> {
    killpoint::reach("fault_injection.before-recover");
    for name in faults {
        context.parts.cluster.remove_fault(&context.fence()?, &context.slot()?, name).await?;
    }
    killpoint::reach("fault_injection.after-recover");
    Ok(())
}

/// Lets the system settle until it is back inside its normal band, or [`SETTLE`] has passed.
async fn verify(context: &Context<'_>, ended: DataTime) -> Result<std::result::Result<Recovery, Wait>> {
    let mut after = SETTLE_STEP;
    loop {
        if let Some(wait) = context.run_until(ended + after).await? {
            return Ok(Err(wait));
        }
        let recovery = context.parts.cluster.recovery(&context.slot()?).await?;
        let clean = recovery.residue.is_empty() && recovery.back_at.is_some();
        if clean || after >= SETTLE {
            return Ok(Ok(recovery));
        }
        after += SETTLE_STEP;
    }
}

async fn witness(context: &Context<'_>, progress: &Progress, recovery: Recovery) -> Result<Evidence> {
    killpoint::reach("fault_injection.before-witness");
    let mut witnesses = Vec::new();
    for name in &progress.faults {
        witnesses.push(context.parts.cluster.witness(&context.slot()?, name).await?);
    }
    Ok(Evidence { truth: progress.truth.clone(), witnesses, recovery })
}
