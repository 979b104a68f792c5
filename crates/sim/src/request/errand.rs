//! Calls that a process makes for itself: at its start, before it is ready, and again and again in the background.

use super::{Caller, Ref};
use crate::engine::{SECOND, Time};
use crate::pod::Step;
use crate::rng::join;
use crate::world::{Event, World};
use system::Language;

/// Whose calls nobody else waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errand {
    /// The call of this number before the process is ready; void when the pod's life has gone on.
    Startup { slot: u16, mark: u32, number: u16 },
}

/// Registrations are renewed and look-ups repeated about as often (Consul's blocking queries, heartbeats).
const WATCH_EVERY: Time = 10 * SECOND;
/// A process that goes on trying at its start pauses so long.
const AGAIN: Time = 2 * SECOND;
/// Exit code of a Go program that panics.
const PANIC: i32 = 2;

impl World {
    /// Makes the next call that the process needs before it is ready; with the last one done, it is.
    pub(crate) fn prepare(&mut self, slot: u16, number: u16) {
        let pod = &self.pods[slot as usize];
        let (mark, place, epoch) = (pod.life_mark, pod.place(), pod.epoch);
        let Some(&call) = self.plan.services[pod.service as usize].startup.get(usize::from(number)) else {
            self.ready(slot);
            return;
        };
        let key = self.streams.requests.id(join(join(place, u64::from(epoch)), 1 << 40 | u64::from(number)));
        let at = self.own_call(call, slot, key);
        if let Some(frame) = self.frames.get_mut(at) {
            frame.errand = Some(Errand::Startup { slot, mark, number });
        }
        self.begin(at);
    }

    /// An errand is over. A Go program without what it needs ends; others try again.
    pub(super) fn errand_over(&mut self, errand: Errand, went_well: bool) {
        let Errand::Startup { slot, mark, number } = errand;
        let pod = &self.pods[slot as usize];
        if pod.life_mark != mark {
            return;
        }
        if went_well {
            self.prepare(slot, number + 1);
        } else if self.plan.services[pod.service as usize].language == Language::Go {
            self.restart_container(slot, PANIC);
        } else {
            self.plan_life(slot, AGAIN, Step::Prepare(number));
        }
    }

    /// Plans the first look in the background of every pod that has one.
    pub(crate) fn open_watches(&mut self) {
        for slot in 0..self.pods.len() as u16 {
            let pod = &self.pods[slot as usize];
            let (place, watch) = (pod.place(), &self.plan.services[pod.service as usize].watch);
            for number in 0..watch.len() as u16 {
                let mut draw = self.streams.lives.at(join(place, 200 + u64::from(number)));
                let first = (draw.unit() * WATCH_EVERY as f64) as Time;
                self.events.plan(first, Event::Watch { slot, number, round: 0 });
            }
        }
    }

    pub(crate) fn watch_others(&mut self, slot: u16, number: u16, round: u32) {
        self.events.plan(self.events.now() + WATCH_EVERY, Event::Watch { slot, number, round: round + 1 });
        let pod = &self.pods[slot as usize];
        if pod.serves() {
            let call = self.plan.services[pod.service as usize].watch[usize::from(number)];
            let round = 1 << 41 | u64::from(round) << 8 | u64::from(number);
            let key = self.streams.requests.id(join(pod.place(), round));
            let at = self.own_call(call, slot, key);
            self.begin(at);
        }
    }

    fn own_call(&mut self, call: u32, slot: u16, key: u64) -> Ref {
        self.plan_call(call, Caller { parent: None, session: None, pod: slot, key, trace: key, span: 0 })
    }
}
