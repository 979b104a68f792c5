//! BuildDatapack: reads both windows from the telemetry store, builds, validates and publishes the pack, and gives the
//! slot back.

use std::path::Path;

use cluster::Distractor;
use datapack::{Builder, Pack, PackInput, Refusal};
use model::{ErrorKind, PackState, Problem, Result, Slot, TaskKind, Truth, Verdict, Windows};
use serde_json::{Map, Value, json};
use store::{Effects, Finish, Injection, InjectionChange, NewEvent, NewTask, When};

use super::objects;
use super::receipt::{Felt, unfelt};
use super::{Context, Hold, Outcome};
use crate::killpoint;
use crate::source::TelemetrySource;

pub async fn run(context: &Context<'_>) -> Result<Outcome> {
    killpoint::reach("build_datapack.before-record");
    let injection = context.parts.store.injection_of(context.run.id).await?;
    // A step that is repeated after its run has ended needs neither slot nor system: all it reads is kept.
    let hold = match context.hold().await {
        Ok(hold) => Some(hold),
        Err(problem) if problem.code == "slot.lost" => None,
        Err(problem) => return Err(problem),
    };
    // Recorded once it is published: whoever comes after a crash finds the namespace empty and cannot build again.
    let published = match context.progress::<store::Pack>()? {
        Some(pack) => pack,
        None => build(context, &injection).await?,
    };
    killpoint::reach("build_datapack.before-release");
    // The telemetry is in the pack: the namespace is emptied, and the slot goes back with the end of this step.
    if let Some(hold) = &hold {
        context.parts.cluster.remove_namespace(&hold.fence, &hold.slot).await?;
    }
    objects::forget(&context.parts.scratch, context.run.id)?;
    killpoint::reach("build_datapack.after-release");
    Ok(Outcome::done(done(context, &injection, published, hold.as_ref())?))
}

async fn build(context: &Context<'_>, injection: &Injection) -> Result<store::Pack> {
    let slot = context.slot()?;
    let input = input(context, injection, &slot)?;
    let source = TelemetrySource::new(&context.parts.signals, &slot, context.run.id, input.windows);
    let packs = context.parts.packs.clone();
    context.still_wanted().await?;
    killpoint::reach("build_datapack.before-effect");
    // Compression and sorting take seconds of a core; they must not hold up the runtime.
    let built = tokio::task::spawn_blocking(move || publish(&packs, input, &source))
        .await
        .map_err(|error| Problem::internal("datapack.build_panicked", error.to_string()))?;
    killpoint::reach("build_datapack.after-effect");
    let published = built.map_err(refused)?;
    context.record(&published, Effects::default()).await?;
    Ok(published)
}

/// Keeps the verdict of a refusal visible in the error's code: `datapack.empty_signal` and the like.
fn refused(refusal: Refusal) -> Problem {
    refusal.problem
}

/// The verdict that an error of this step means; `None` for one that is no verdict on the telemetry.
pub fn verdict_of(problem: &Problem) -> Option<Verdict> {
    match (problem.kind, problem.code.as_ref()) {
        (ErrorKind::Failed, "datapack.empty_signal") => Some(Verdict::NoData),
        (ErrorKind::Failed, code) if code.starts_with("datapack.") => Some(Verdict::Invalid),
        (_, "telemetry.segment_corrupt") => Some(Verdict::Invalid),
        _ => None,
    }
}

fn done(context: &Context<'_>, injection: &Injection, pack: store::Pack, hold: Option<&Hold>) -> Result<Effects> {
    let visible = Pack::open(&context.parts.packs.join(&pack.path))?.manifest().provenance.visible();
    let words = format!("the datapack {} is built and published", injection.name);
    let mut effects = Effects {
        injection: Some(InjectionChange {
            state: Some(PackState::BuildSuccess),
            visible,
            pack: Some(pack),
            ..InjectionChange::default()
        }),
        release: hold.map(|hold| format!("slot:{}", hold.slot.namespace())).into_iter().collect(),
        ..Effects::event(NewEvent::new("datapack.build.succeed", words))
    };
    match not_exposed(context, injection)? {
        Some(reason) => {
            effects.verdict = Some(Verdict::NotExposed);
            effects.finish = Some(Finish {
                state: Verdict::NotExposed.run_state(),
                reason: Some("not_exposed".into()),
                message: Some(reason),
                when: When::Now,
            });
            if let Some(change) = &mut effects.injection {
                change.verdict = Some(Verdict::NotExposed);
            }
        }
        None => {
            let mut detector = NewTask::new(TaskKind::RunAlgorithm);
            detector.algorithm = Some(context.spec.detector.name.clone());
            effects.children = vec![detector];
        }
    }
    Ok(effects)
}

/// Why the faults count as not felt; `None` for an exposed pack and for a no-fault control.
fn not_exposed(context: &Context<'_>, injection: &Injection) -> Result<Option<String>> {
    if context.spec.faults.is_empty() || injection.exposed == Some(true) {
        return Ok(None);
    }
    let felt: Vec<Felt> = match &injection.witness {
        Some(witness) => serde_json::from_value(witness.clone()).map_err(|error| {
            Problem::internal("injection.witness_unreadable", "the stored witnesses cannot be read").cause(error)
        })?,
        None => Vec::new(),
    };
    Ok(Some(unfelt(&context.spec.faults, &felt).unwrap_or_else(|| "the run was never marked as exposed".into())))
}

fn publish(packs: &Path, input: PackInput, source: &TelemetrySource) -> std::result::Result<store::Pack, Refusal> {
    let pack = Builder::new(packs, input)?.build(source)?.publish()?;
    Ok(store::Pack { path: pack.name().to_owned(), digest: pack.digest() })
}

fn input(context: &Context<'_>, injection: &Injection, slot: &Slot) -> Result<PackInput> {
    let windows = injection
        .windows
        .ok_or_else(|| Problem::internal("injection.without_windows", "the windows of the run are not recorded"))?;
    let published = context.parts.packs.join(datapack::name(slot, injection.id));
    let kept = objects::read(&context.parts.scratch, context.run.id, &published)?;
    let faults = &context.spec.faults;
    Ok(PackInput {
        slot: slot.clone(),
        number: injection.id,
        windows,
        profile: crate::profile::required(context.spec)?,
        k8s: kept.objects,
        injection: public(context, injection, windows),
        truth: Truth { entries: injection.truth.entries.clone() },
        faults: faults.iter().map(|fault| fault.resolved.clone()).collect(),
        witness: recorded("witness", injection.witness.as_ref())?,
        receipt: recorded("recovery receipt", injection.recovery.as_ref())?,
        provenance: provenance(context, &kept.distractors),
        forbidden: faults.iter().map(|fault| fault.capability.clone()).chain([context.run.id.to_string()]).collect(),
    })
}

/// What the step before recorded of every run, one without faults included.
fn recorded(what: &str, value: Option<&Value>) -> Result<Value> {
    value.cloned().ok_or_else(|| {
        Problem::internal("injection.incomplete", format!("the {what} of the run is not recorded"))
            .fix("retry the run from RestartPedestal")
    })
}

/// The public injection object. The builder adds the name and the ground truth.
fn public(context: &Context<'_>, injection: &Injection, windows: Windows) -> Map<String, Value> {
    let labels: Vec<Value> = injection
        .labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| json!({ "key": key, "value": value }))
        .collect();
    object(json!({
        "id": injection.id,
        "fault_type": injection.fault_name,
        "category": context.spec.system,
        "display_config": injection.display_config,
        "engine_config": injection.faults,
        "pre_duration": injection.pre_duration,
        "start_time": windows.abnormal_start.to_string(),
        "end_time": windows.abnormal_end.to_string(),
        "state": PackState::BuildSuccess.as_str(),
        "groundtruth_source": "auto",
        "pedestal_name": context.spec.system,
        "trace_id": context.run.id,
        "labels": labels,
        "created_at": injection.created_at.to_string(),
    }))
}

/// What may differ between two builds from the same telemetry.
fn provenance(context: &Context<'_>, distractors: &[Distractor]) -> Map<String, Value> {
    let (spec, info) = (context.spec, context.parts.cluster.info());
    object(json!({
        "run": context.run.id,
        "built_by": env!("CARGO_PKG_VERSION"),
        "cluster": info.kind,
        "cluster_version": info.version,
        "chart": spec.release.chart,
        "chart_version": spec.release.chart_version,
        "revision": spec.release.revision,
        "control_of": spec.control_of,
        "seed": spec.environment.seed,
        "origin": spec.environment.origin,
        "load": spec.environment.load,
        "noise": spec.environment.noise,
        // Whoever looks for a cause must not be told what is none.
        objects::DISTRACTORS: distractors,
    }))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
