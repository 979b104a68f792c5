//! Faults in a running system: each is one mechanism that is changed at an instant and changed back at another.
//!
//! Nothing outside this module and [`crate::faults`] knows that a fault is on; every other part only sees its own state.

use std::collections::BTreeMap;

use cluster::{EffectSpan, Witness};
use fault::{Length, Resolved, capability};
use model::{ErrorKind, Problem};
use serde_json::Value;

use crate::engine::Time;
use crate::faults;
use crate::plan::ServiceId;
use crate::pod::{Pod, PodState};
use crate::witness::{Meter, Tally, judge};
use crate::world::{Event, World};

/// What tells one fault's marks on mechanisms from another's.
#[derive(Debug, Clone, Copy)]
pub struct Tag {
    pub number: u32,
    pub meter: Meter,
}

/// One kind of change to a mechanism, with its typed parameters.
pub trait Mechanism: Send {
    /// Slots of the pods that it acts on.
    fn slots(&self) -> &[u16];

    fn start(&mut self, world: &mut World, tag: Tag);

    /// Takes the next step of a gradual change; the time to the one after it.
    fn step(&mut self, _world: &mut World, _tag: Tag) -> Option<Time> {
        None
    }

    /// Changes the mechanism back. What follows from the time before (queues, starts) is not undone.
    fn stop(&mut self, world: &mut World, tag: Tag);

    /// What passed the mechanism while it was changed, and what of it was touched.
    fn tally(&self, world: &World, tag: Tag) -> Tally {
        world.meters.read(tag.meter).clone()
    }

    /// When the target was back, for a change that happens once and is not undone.
    fn back(&self, _world: &World) -> Option<Time> {
        None
    }
}

struct Carried {
    name: String,
    capability: &'static str,
    tag: Tag,
    mechanism: Option<Box<dyn Mechanism>>,
    /// The pods that it hit, by slot, as they were called then.
    pods: Vec<(u16, String)>,
    started: Time,
    ended: Option<Time>,
    tally: Option<Tally>,
}

/// All faults of a run, ended ones too, and the look of the cluster before the first.
#[derive(Default)]
pub struct Effects {
    carried: Vec<Carried>,
    pub before: Option<Value>,
}

impl World {
    /// Starts a fault now; the names of the pods that it hits.
    ///
    /// # Errors
    /// `fault.no_targets`, `fault.target_unknown`. Nothing has changed then.
    pub fn start_fault(&mut self, name: &str, resolved: &Resolved) -> Result<Vec<String>, Problem> {
        let mut mechanism = faults::mechanism(self, resolved)?;
        if self.effects.before.is_none() {
            self.effects.before = Some(self.snapshot_now());
        }
        let tag = Tag { number: self.effects.carried.len() as u32, meter: self.meters.add() };
        let hit = mechanism.slots().iter().map(|&slot| (slot, self.pods[slot as usize].name.clone()));
        let pods: Vec<(u16, String)> = hit.collect();
        let names = pods.iter().map(|(_, name)| name.clone()).collect();
        mechanism.start(self, tag);
        let step = mechanism.step(self, tag);
        self.effects.carried.push(Carried {
            name: name.to_owned(),
            capability: resolved.effect.name(),
            tag,
            mechanism: Some(mechanism),
            pods,
            started: self.events.now(),
            ended: None,
            tally: None,
        });
        if let Some(after) = step {
            self.events.plan(self.events.now() + after, Event::Ramp { number: tag.number });
        }
        Ok(names)
    }

    /// Ends a fault now; one that has ended stays as it is.
    ///
    /// # Errors
    /// `fault.unknown`.
    pub fn end_fault(&mut self, name: &str) -> Result<(), Problem> {
        let at = self.carried(name)?;
        if self.effects.carried[at].ended.is_some() {
            return Ok(());
        }
        self.effects.carried[at].ended = Some(self.events.now());
        self.with_mechanism(at, |mechanism, world, tag| {
            mechanism.stop(world, tag);
            let tally = mechanism.tally(world, tag);
            world.effects.carried[at].tally = Some(tally);
        });
        Ok(())
    }

    /// The next step of a gradual change.
    pub(crate) fn ramp(&mut self, number: u32) {
        let at = number as usize;
        if self.effects.carried[at].ended.is_some() {
            return;
        }
        self.with_mechanism(at, |mechanism, world, tag| {
            if let Some(after) = mechanism.step(world, tag) {
                world.events.plan(world.events.now() + after, Event::Ramp { number });
            }
        });
    }

    /// What the mechanism says of a fault's effect so far.
    ///
    /// # Errors
    /// `fault.unknown`.
    pub fn witness(&self, name: &str) -> Result<Witness, Problem> {
        let carried = &self.effects.carried[self.carried(name)?];
        let live = || carried.mechanism.as_ref().map(|mechanism| mechanism.tally(self, carried.tag));
        let tally = carried.tally.clone().or_else(live).expect("a fault has its mechanism until its tally is taken");
        let row = capability(carried.capability)?;
        let pod = |slot: u16| match carried.pods.iter().find(|(hit, _)| *hit == slot) {
            Some((_, name)) => name.clone(),
            None => self.pods[slot as usize].name.clone(),
        };
        Ok(Witness { effect: self.effect(carried, row.length), ..judge(name, &row.witness, &tally, pod) })
    }

    /// When the fault had an effect, by its capability's rule.
    fn effect(&self, carried: &Carried, length: Length) -> Option<EffectSpan> {
        let ended = carried.ended?;
        let back = carried.mechanism.as_ref().and_then(|mechanism| mechanism.back(self));
        let (from, until) = length.effect(carried.started, back, ended);
        Some(EffectSpan { from: self.data_time(from), until: self.data_time(until) })
    }

    /// When the first fault started and the last one ended.
    pub(crate) fn disturbed(&self) -> Option<(Time, Option<Time>)> {
        let first = self.effects.carried.iter().map(|carried| carried.started).min()?;
        let last = self.effects.carried.iter().map(|carried| carried.ended).collect::<Option<Vec<Time>>>();
        Some((first, last.and_then(|ends| ends.into_iter().max())))
    }

    fn carried(&self, name: &str) -> Result<usize, Problem> {
        self.effects.carried.iter().position(|carried| carried.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.effects.carried.iter().map(|carried| carried.name.as_str()).collect();
            Problem::unknown("fault.unknown", "fault", name, known)
        })
    }

    fn with_mechanism(&mut self, at: usize, act: impl FnOnce(&mut dyn Mechanism, &mut Self, Tag)) {
        let carried = &mut self.effects.carried[at];
        let tag = carried.tag;
        if let Some(mut mechanism) = carried.mechanism.take() {
            act(mechanism.as_mut(), self, tag);
            self.effects.carried[at].mechanism = Some(mechanism);
        }
    }

    /// The service of this name.
    pub(crate) fn service_named(&self, name: &str) -> Result<ServiceId, Problem> {
        self.plan.service(name).ok_or_else(|| self.no_targets(name))
    }

    /// The pods of a service whose processes are there to be hit.
    ///
    /// # Errors
    /// `fault.no_targets`.
    pub(crate) fn pods_to_hit(&self, service: &str) -> Result<Vec<u16>, Problem> {
        self.pods_that(service, Pod::runs)
    }

    /// The pods of a service whose network is there to be hit, whatever runs in them.
    ///
    /// # Errors
    /// `fault.no_targets`.
    pub(crate) fn networks_to_hit(&self, service: &str) -> Result<Vec<u16>, Problem> {
        self.pods_that(service, |pod| pod.state != PodState::Pending)
    }

    /// The names of a service's pods, as they are now.
    pub(crate) fn pod_names(&self, service: &str) -> Vec<String> {
        let places = self.plan.service(service).map(|id| self.places[id as usize].clone());
        places.into_iter().flatten().map(|slot| self.pods[slot as usize].name.clone()).collect()
    }

    fn pods_that(&self, service: &str, wanted: impl Fn(&Pod) -> bool) -> Result<Vec<u16>, Problem> {
        let places = self.places[self.service_named(service)? as usize].clone();
        let slots: Vec<u16> = places.filter(|&slot| wanted(&self.pods[slot as usize])).collect();
        if slots.is_empty() { Err(self.no_targets(service)) } else { Ok(slots) }
    }

    fn no_targets(&self, service: &str) -> Problem {
        let key = &self.plan.label_key;
        let mut labels: BTreeMap<&str, u32> = BTreeMap::new();
        for pod in self.pods.iter().filter(|pod| pod.runs()) {
            *labels.entry(&self.plan.services[pod.service as usize].label).or_default() += 1;
        }
        let found: Vec<String> = labels.into_iter().map(|(label, pods)| format!("{key}={label} ({pods})")).collect();
        Problem::new(ErrorKind::NotFound, "fault.no_targets", "the fault's selector matches no running pod")
            .place(format!("namespace {}", self.namespace))
            .found(if found.is_empty() { "no running pod".to_owned() } else { found.join(", ") })
            .expected(format!("a running pod of `{service}`"))
            .fix("choose a service whose pods run; the labels that were found are listed")
    }
}
