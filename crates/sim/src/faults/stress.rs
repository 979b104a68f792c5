//! Faults on demand for the container's processor and on its resident memory.

use fault::Target;
use model::Problem;

use crate::effect::{Mechanism, Tag};
use crate::engine::{MILLI, Time};
use crate::life::KILLED;
use crate::pod::Pod;
use crate::profile::MIB;
use crate::witness::{Reading, Tally};
use crate::world::World;

/// A worker touches fresh memory at about this rate, bytes per second.
const FILL: f64 = 1024.0 * MIB;
const FILL_STEP: Time = 100 * MILLI;

/// Threads that burn the processor, of processes beside the service's or of its own.
pub struct Cpu {
    slots: Vec<u16>,
    inside: bool,
    /// Epoch of each process when it began, and periods counted until then.
    base: Vec<(u32, (u64, u64))>,
    cores: f64,
}

impl Cpu {
    /// Processes of their own in the container.
    pub fn beside(world: &World, target: &Target, load_pct: u32, workers: u32) -> Result<Self, Problem> {
        Self::new(world, target, f64::from(load_pct) / 100.0 * f64::from(workers), false)
    }

    /// Threads of the service's process, which compete with its workers and count as its own.
    pub fn inside(world: &World, target: &Target, threads: u32) -> Result<Self, Problem> {
        Self::new(world, target, f64::from(threads), true)
    }

    fn new(world: &World, target: &Target, cores: f64, inside: bool) -> Result<Self, Problem> {
        Ok(Self { slots: world.pods_to_hit(target.service())?, inside, base: Vec::new(), cores })
    }

    fn load(&self, pod: &mut Pod, more: f64) {
        let load = if self.inside { &mut pod.spin } else { &mut pod.stress };
        *load = (*load + more).max(0.0);
    }
}

impl Mechanism for Cpu {
    fn slots(&self) -> &[u16] {
        &self.slots
    }

    fn start(&mut self, world: &mut World, _tag: Tag) {
        for &slot in &self.slots {
            let pod = &mut world.pods[slot as usize];
            self.base.push((pod.epoch, pod.cpu.work_periods()));
            self.load(pod, self.cores);
            world.demand(slot);
        }
    }

    fn stop(&mut self, world: &mut World, _tag: Tag) {
        for (&slot, &(epoch, _)) in self.slots.iter().zip(&self.base) {
            let pod = &mut world.pods[slot as usize];
            // A container that was started anew has none of the processes.
            if pod.epoch == epoch {
                self.load(pod, -self.cores);
                world.demand(slot);
            }
        }
    }

    fn tally(&self, world: &World, _tag: Tag) -> Tally {
        let mut tally = Tally::default();
        for (&slot, &(_, (worked, held))) in self.slots.iter().zip(&self.base) {
            let now = world.pods[slot as usize].cpu.work_periods();
            tally.add(slot, Reading { passed: now.0 - worked, touched: now.1 - held });
        }
        tally
    }
}

/// A process beside the service's that fills memory; past the limit the kernel kills the container.
pub struct Memory {
    slots: Vec<u16>,
    epochs: Vec<u32>,
    held: Vec<f64>,
    peak: Vec<f64>,
    wanted: f64,
    rate: f64,
}

impl Memory {
    pub fn new(world: &World, target: &Target, size_mib: u32, workers: u32) -> Result<Self, Problem> {
        let slots = world.pods_to_hit(target.service())?;
        Ok(Self {
            epochs: slots.iter().map(|&slot| world.pods[slot as usize].epoch).collect(),
            held: vec![0.0; slots.len()],
            peak: vec![0.0; slots.len()],
            slots,
            wanted: f64::from(size_mib) * MIB,
            rate: FILL * f64::from(workers),
        })
    }
}

impl Mechanism for Memory {
    fn slots(&self) -> &[u16] {
        &self.slots
    }

    fn start(&mut self, world: &mut World, tag: Tag) {
        for &slot in &self.slots {
            world.meters.count_many(tag.meter, slot, self.wanted as u64, 0);
        }
    }

    fn step(&mut self, world: &mut World, _tag: Tag) -> Option<Time> {
        let more = self.rate * FILL_STEP as f64 / 1e9;
        let mut filling = false;
        for at in 0..self.slots.len() {
            let (slot, now) = (self.slots[at], world.now());
            let pod = &mut world.pods[slot as usize];
            if pod.epoch != self.epochs[at] {
                self.held[at] = 0.0;
                continue;
            }
            let before = self.held[at];
            self.held[at] = (before + more).min(self.wanted);
            pod.ballast += self.held[at] - before;
            let room = pod.profile.memory_limit - (pod.working_set(now) - self.held[at]);
            self.peak[at] = self.peak[at].max(self.held[at].min(room));
            if self.held[at] > room {
                // What found no room was asked for all the same: the kernel answers it with the kill.
                self.peak[at] = self.wanted;
                world.restart_container(slot, KILLED);
            } else {
                // The service's own memory may still grow past the limit.
                filling = true;
            }
        }
        filling.then_some(FILL_STEP)
    }

    fn stop(&mut self, world: &mut World, _tag: Tag) {
        for at in 0..self.slots.len() {
            let pod = &mut world.pods[self.slots[at] as usize];
            if pod.epoch == self.epochs[at] {
                pod.ballast = (pod.ballast - self.held[at]).max(0.0);
            }
        }
    }

    fn tally(&self, world: &World, tag: Tag) -> Tally {
        let mut tally = world.meters.read(tag.meter).clone();
        for (&slot, peak) in self.slots.iter().zip(&self.peak) {
            tally.add(slot, Reading { passed: 0, touched: peak.max(0.0) as u64 });
        }
        tally
    }
}
