//! What happens to one slot: installation, the passing of time, faults, and the replay that makes a live simulation again.

use cluster::{
    FaultObject, FaultObservation, FaultPhase, Fence, Reach, Recovery, ReleaseObservation, ReleaseSpec, Result,
};
use fault::Resolved;
use model::{DataTime, ErrorKind, Problem, Role, RunId, Slot};
use sha2::{Digest, Sha256};
use telemetry::Stream;

use crate::cluster::{Held, Inner};
use crate::pod::PodState;
use crate::state::{FaultRecord, Moment, Release, SlotState};
use crate::telemetry_out::Nowhere;
use crate::world::World;

/// A running simulation and what of the slot's history it has been through.
pub struct Live {
    run: RunId,
    pub revision: u64,
    pub world: World,
}

pub fn observed(state: &SlotState) -> Option<ReleaseObservation> {
    let release = state.release.as_ref()?;
    let spec = &release.spec;
    Some(ReleaseObservation {
        release: state.slot.namespace(),
        chart: spec.chart.clone(),
        chart_version: spec.chart_version.clone(),
        chart_digest: spec.chart_digest.clone(),
        values_digest: spec.values_digest.clone(),
        // A simulated run's origin is the instant at which its installation was ready.
        ready: true,
        waiting_for: None,
        installed_at: release.installed_at,
    })
}

pub fn observed_fault(fault: &FaultRecord, run: RunId) -> FaultObservation {
    FaultObservation {
        name: fault.object.name.clone(),
        slot: fault.object.slot.clone(),
        labels: fault.object.labels.clone(),
        run,
        phase: if fault.ended_at.is_some() { FaultPhase::Recovered } else { FaultPhase::Active },
        pods: fault.pods.clone(),
        started_at: Some(fault.started_at),
        ended_at: fault.ended_at,
        truth: fault.truth.clone(),
    }
}

pub fn install(inner: &Inner, held: &mut Held<'_>, fence: &Fence, want: ReleaseSpec) -> Result<ReleaseObservation> {
    held.admit(&inner.folder, fence)?;
    check(&want)?;
    inner.plan(&want.slot.system)?;
    let same = held.state.release.as_ref().is_some_and(|release| release.spec == want);
    if !same {
        let origin = want.environment.origin;
        let name = held.state.slot.namespace();
        held.state.release = Some(Release {
            spec: want,
            installed_at: origin,
            committed: origin,
            faults: Vec::new(),
            history: Vec::new(),
        });
        *held.live = None;
        held.record(&inner.folder, "release_installed", &name, origin)?;
    }
    observed(&held.state).ok_or_else(|| Problem::internal("release.lost", "an installed release is not there").into())
}

fn check(want: &ReleaseSpec) -> Result<()> {
    let environment = &want.environment;
    let problem = |place: &str, found: String, expected: &str| {
        Problem::new(ErrorKind::Invalid, "environment.out_of_range", "a value of the run's environment is not allowed")
            .place(format!("environment.{place}"))
            .found(found)
            .expected(expected)
    };
    if !(0.0..=2000.0).contains(&environment.load) {
        return Err(problem("load", environment.load.to_string(), "0 to 2000 journeys per second").into());
    }
    if !(0.0..=2.0).contains(&environment.noise) {
        return Err(problem("noise", environment.noise.to_string(), "0 to 2").into());
    }
    if environment.origin.0.rem_euclid(1_000_000_000) != 0 {
        return Err(problem("origin", environment.origin.to_string(), "a whole second").into());
    }
    Ok(())
}

pub fn remove(inner: &Inner, held: &mut Held<'_>, fence: &Fence) -> Result<()> {
    held.admit(&inner.folder, fence)?;
    let Some(release) = held.state.release.take() else { return Ok(()) };
    *held.live = None;
    let name = held.state.slot.namespace();
    held.record(&inner.folder, "namespace_removed", &name, release.committed)
}

pub fn run_until(inner: &Inner, held: &mut Held<'_>, fence: &Fence, until: DataTime) -> Result<Reach> {
    held.admit(&inner.folder, fence)?;
    let release = held.state.release()?;
    let (from, run) = (release.committed, release.spec.environment.run);
    if until <= from {
        return Ok(Reach::Reached);
    }
    let stream = Stream { namespace: held.state.slot.namespace(), run: Some(run) };
    let mut step = inner.telemetry.step(&stream, from, until)?;
    let live = live(inner, held)?;
    let at = until.0 - live.world.data_time(0).0;
    // A world that was cut short cannot be used again; it is taken out until the step is whole.
    let passed = live.world.run(at, &mut *step).and_then(|()| step.commit());
    if let Err(problem) = passed {
        *held.live = None;
        return Err(problem.into());
    }
    let release = held.state.release_mut()?;
    release.committed = until;
    release.history.push(Moment::Until(until));
    held.write(&inner.folder)?;
    Ok(Reach::Reached)
}

pub fn start_fault(inner: &Inner, held: &mut Held<'_>, fence: &Fence, want: FaultObject) -> Result<FaultObservation> {
    held.admit(&inner.folder, fence)?;
    let release = held.state.release()?;
    if let Some(fault) = release.faults.iter().find(|fault| fault.object.name == want.name) {
        return Ok(observed_fault(fault, release.spec.environment.run));
    }
    let resolved = Resolved::from_value(&want.resolved)?;
    let (at, position) = (release.committed, release.faults.len());
    let system = inner.catalog().get(&held.state.slot.system)?;
    let world = &mut live(inner, held)?.world;
    let pods = world.start_fault(&want.name, &resolved)?;
    let peers = resolved.target.peer().map(|peer| world.pod_names(peer)).unwrap_or_default();
    let truth = fault::truth(&resolved, &system, &pods);
    let mut truth = truth.inspect_err(|_| *held.live = None)?;
    for entry in truth.iter_mut().filter(|entry| entry.role == Role::Peer) {
        entry.pod.clone_from(&peers);
    }
    let manifest_digest = hex::encode(Sha256::digest(want.manifest.to_string()));
    let (name, release) = (want.name.clone(), held.state.release_mut()?);
    release.faults.push(FaultRecord { object: want, manifest_digest, started_at: at, ended_at: None, pods, truth });
    release.history.push(Moment::Start(position));
    held.record(&inner.folder, "fault_started", &name, at)?;
    let release = held.state.release()?;
    Ok(observed_fault(&release.faults[position], release.spec.environment.run))
}

pub fn end_fault(inner: &Inner, held: &mut Held<'_>, fence: &Fence, name: &str) -> Result<FaultObservation> {
    held.admit(&inner.folder, fence)?;
    let gone = FaultObservation {
        name: name.to_owned(),
        slot: held.state.slot.clone(),
        labels: Default::default(),
        run: fence.run,
        phase: FaultPhase::Recovered,
        pods: Vec::new(),
        started_at: None,
        ended_at: None,
        truth: Vec::new(),
    };
    let Some(release) = &held.state.release else { return Ok(gone) };
    let Some(position) = release.faults.iter().position(|fault| fault.object.name == name) else { return Ok(gone) };
    if release.faults[position].ended_at.is_none() {
        let at = release.committed;
        live(inner, held)?.world.end_fault(name)?;
        let release = held.state.release_mut()?;
        release.faults[position].ended_at = Some(at);
        release.history.push(Moment::End(position));
        held.record(&inner.folder, "fault_ended", name, at)?;
    }
    let release = held.state.release()?;
    Ok(observed_fault(&release.faults[position], release.spec.environment.run))
}

pub fn recovery(inner: &Inner, held: &mut Held<'_>) -> Result<Recovery> {
    let mut residue: Vec<String> = Vec::new();
    for fault in held.state.release()?.faults.iter().filter(|fault| fault.ended_at.is_none()) {
        residue.push(format!("fault `{}` is still active", fault.object.name));
    }
    let world = &live(inner, held)?.world;
    for pod in world.pods.iter().filter(|pod| !pod.serves()) {
        let what = match pod.state {
            PodState::Pending => "is not scheduled yet",
            PodState::Starting => "is starting",
            PodState::BackOff => "waits for its next start",
            PodState::Inert => "runs a replaced container",
            PodState::Ready => "is ready",
        };
        residue.push(format!("pod `{}` {what}", pod.name));
    }
    let Some((start, Some(end))) = world.disturbed() else {
        let measure = if residue.is_empty() { "nothing was disturbed" } else { "a fault is still active" };
        let back_at = residue.is_empty().then(|| world.data_time(world.now()));
        return Ok(Recovery { residue, back_at, measure: measure.to_owned() });
    };
    let back = world.entrance.back(start, end, world.now());
    Ok(Recovery { residue, back_at: back.at.map(|at| world.data_time(at)), measure: back.measure })
}

/// The slot's simulation, at the instant that the state names; made again from the origin when it is missing or behind.
pub fn live<'a>(inner: &Inner, held: &'a mut Held<'_>) -> Result<&'a mut Live> {
    let release = held.state.release()?;
    let (run, revision) = (release.spec.environment.run, held.state.revision);
    if !held.live.as_ref().is_some_and(|live| live.run == run && live.revision == revision) {
        let world = replay(inner, &held.state.slot, release)?;
        *held.live = Some(Live { run, revision, world });
    }
    held.live.as_mut().ok_or_else(|| Problem::internal("simulation.lost", "a live simulation is not there").into())
}

/// Goes through the recorded history again; its telemetry was handed over the first time.
fn replay(inner: &Inner, slot: &Slot, release: &Release) -> Result<World> {
    let plan = inner.plan(&slot.system)?;
    let mut world = World::new(plan, &slot.namespace(), release.spec.environment.clone());
    let origin = release.spec.environment.origin.0;
    for moment in &release.history {
        match *moment {
            Moment::Until(until) => world.run(until.0 - origin, &mut Nowhere)?,
            Moment::Start(at) => {
                let object = &release.faults[at].object;
                world.start_fault(&object.name, &Resolved::from_value(&object.resolved)?)?;
            }
            Moment::End(at) => world.end_fault(&release.faults[at].object.name)?,
        }
    }
    Ok(world)
}
