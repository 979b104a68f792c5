//! What containers do besides requests, and the record of what of it could be taken for a fault.

use cluster::Distractor;
use system::Kind;

use super::{Event, World};
use crate::engine::Time;
use crate::noise::Periodic;
use crate::rng::name_key;

impl World {
    pub(super) fn periodic(&self, slot: u16) -> Option<Periodic> {
        let service = &self.plan.services[self.pods[slot as usize].service as usize];
        if service.kind == Kind::Loadgen { None } else { self.noise.periodic(name_key(&service.name)) }
    }

    pub(super) fn periodic_job(&mut self, slot: u16, start: bool) {
        let Some(periodic) = self.periodic(slot) else { return };
        let now = self.events.now();
        let pod = &mut self.pods[slot as usize];
        let works = start && pod.runs();
        pod.job = if works { periodic.cores } else { 0.0 };
        if works {
            self.distract("periodic_job", slot, now + periodic.lasts, Some(periodic.cores));
        }
        self.demand(slot);
        let next = if start { now + periodic.lasts } else { now + periodic.every - periodic.lasts };
        self.events.plan(next, Event::Periodic { slot, start: !start });
    }

    /// Sets what other threads than workers demand of a processor.
    pub(crate) fn demand(&mut self, slot: u16) {
        let now = self.events.now();
        let pod = &mut self.pods[slot as usize];
        let demand = if pod.runs() { pod.profile.cpu_idle * pod.bustle + pod.job + pod.stress + pod.spin } else { 0.0 };
        let beside = if pod.runs() { pod.stress } else { 0.0 };
        pod.cpu.set_background(now, demand);
        pod.cpu.set_beside(beside);
        self.watch(slot);
    }

    /// The harmless events of the run so far, in the order of their beginning.
    pub fn distractors(&self) -> &[Distractor] {
        &self.distractors
    }

    /// Takes note of a harmless event that begins now.
    pub(super) fn distract(&mut self, kind: &str, slot: u16, until: Time, cores: Option<f64>) {
        let pod = &self.pods[slot as usize];
        let (service, pod) = (self.plan.services[pod.service as usize].name.clone(), pod.name.clone());
        let (from, until) = (self.data_time(self.events.now()), self.data_time(until));
        self.distractors.push(Distractor { kind: kind.to_owned(), service, pod, from, until, cores });
    }
}
