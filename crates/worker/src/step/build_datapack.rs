//! BuildDatapack: reads both windows from the telemetry store, builds, validates and publishes the pack, and gives the
//! slot back.

use std::path::Path;

use arrow_source::TelemetrySource;
use datapack::PackInput;
use model::{PackState, Problem, Result, TaskKind, Truth, Verdict};
use serde_json::{Map, Value, json};

use super::{Context, End, Next, Outcome};
use crate::book::Injection;
use crate::killpoint;
use crate::step::fault_injection::Evidence;

mod arrow_source;

pub async fn run(context: &Context<'_>) -> Result<Outcome> {
    killpoint::reach("build_datapack.before-record");
    let injection = context.injection().await?;
    if injection.pack.is_none() {
        build(context, &injection).await?;
    }
    let injection = context.injection().await?;
    killpoint::reach("build_datapack.before-release");
    release(context).await?;
    killpoint::reach("build_datapack.after-release");
    let detector = &context.run.spec.detector.name;
    if let Some(reason) = not_exposed(context, &injection)? {
        return Ok(Outcome::End(End { verdict: Verdict::NotExposed, reason }));
    }
    Ok(Outcome::Next(vec![Next::algorithm("run_algorithm/detector", TaskKind::RunAlgorithm, detector)]))
}

async fn build(context: &Context<'_>, injection: &Injection) -> Result<()> {
    let input = input(context, injection).await?;
    let source = TelemetrySource::new(&context.parts.signals, &input.slot, context.run.id, input.windows);
    let packs = context.parts.packs.clone();
    killpoint::reach("build_datapack.before-effect");
    // Compression and sorting take seconds of a core; they must not hold up the runtime.
    let published = tokio::task::spawn_blocking(move || publish(&packs, &input, &source))
        .await
        .map_err(|error| Problem::internal("datapack.build_panicked", error.to_string()))??;
    killpoint::reach("build_datapack.after-effect");
    context.book.close_pack(context.task, context.run.id, &published, PackState::BuildSuccess).await
}

/// What is stored of a published pack.
#[derive(Debug, Clone)]
pub struct Published {
    /// Its folder's name inside the packs folder.
    pub name: String,
    /// Digest of the manifest's content part: equal for equal telemetry.
    pub content_digest: String,
}

fn publish(packs: &Path, input: &PackInput, source: &TelemetrySource) -> Result<Published> {
    let pack = datapack::build(packs, input, source)?;
    Ok(Published { name: pack.name().to_owned(), content_digest: pack.content_digest()?.to_owned() })
}

/// The telemetry is in the pack: the namespace is empty again and another run may have the slot.
async fn release(context: &Context<'_>) -> Result<()> {
    let slot = context.slot()?;
    context.parts.cluster.remove_namespace(&context.fence()?, &slot).await?;
    context.book.release_slot(context.run).await
}

/// Why the fault counts as not felt; `None` for an exposed pack and for a no-fault control.
fn not_exposed(context: &Context<'_>, injection: &Injection) -> Result<Option<String>> {
    let evidence = evidence(injection)?;
    if context.run.spec.faults.is_empty() {
        return Ok(None);
    }
    let unfelt = evidence.witnesses.iter().filter(|witness| !witness.exposed).map(|witness| witness.reason.as_str());
    let reasons: Vec<&str> = unfelt.collect();
    Ok(if reasons.is_empty() { None } else { Some(reasons.join("; ")) })
}

fn evidence(injection: &Injection) -> Result<Evidence> {
    let text = injection
        .evidence
        .as_deref()
        .ok_or_else(|| Problem::internal("injection.without_evidence", "the injection's evidence is missing"))?;
    serde_json::from_str(text)
        .map_err(|error| Problem::internal("injection.evidence_unreadable", "evidence cannot be read").cause(error))
}

async fn input(context: &Context<'_>, injection: &Injection) -> Result<PackInput> {
    let slot = context.slot()?;
    let evidence = evidence(injection)?;
    let spec = &context.run.spec;
    let snapshot = context.parts.cluster.snapshot(&slot).await?;
    let Value::Object(k8s) = snapshot else {
        return Err(Problem::internal("cluster.snapshot_shape", "the cluster's snapshot is no object"));
    };
    let to_value = |error: serde_json::Error| Problem::internal("datapack.input", error.to_string());
    Ok(PackInput {
        number: injection.id,
        windows: injection.windows()?,
        profile: crate::profile::required(spec)?,
        k8s,
        injection: injection.public.clone(),
        truth: Truth { entries: evidence.truth },
        faults: spec.faults.iter().map(|fault| fault.resolved.clone()).collect(),
        witness: serde_json::to_value(&evidence.witnesses).map_err(to_value)?,
        receipt: serde_json::to_value(&evidence.recovery).map_err(to_value)?,
        provenance: provenance(context),
        forbidden: spec.faults.iter().map(|fault| fault.capability.clone()).chain([context.run.id.to_string()]).collect(),
        slot,
    })
}

/// What may differ between two builds from the same telemetry.
fn provenance(context: &Context<'_>) -> Map<String, Value> {
    let spec = &context.run.spec;
    let info = context.parts.cluster.info();
    let facts = json!({
        "run": context.run.id,
        "injection": context.run.injection,
        "built_by": env!("CARGO_PKG_VERSION"),
        "cluster": info.kind,
        "cluster_version": info.version,
        "chart": spec.release.chart,
        "chart_version": spec.release.chart_version,
        "revision": spec.release.revision,
        "seed": spec.environment.seed,
        "origin": spec.environment.origin,
        "load": spec.environment.load,
        "noise": spec.environment.noise,
    });
    match facts {
        Value::Object(map) => map,
        _ => unreachable!("an object literal is an object"),
    }
}
