//! Faults on demand for the container's processor and on its resident memory.

use fault::Target;
use model::Problem;

use crate::effect::{Mechanism, Tag};
use crate::engine::{MILLI, Time};
use crate::life::KILLED;
use crate::profile::MIB;
use crate::witness::Reading;
use crate::world::World;

/// A worker touches fresh memory at about this rate, bytes per second.
const FILL: f64 = 1024.0 * MIB;
const FILL_STEP: Time = 100 * MILLI;

/// Processes beside the service's that burn the processor.
pub struct Cpu {
    slots: Vec<u16>,
    /// Epoch of each process when it began, and periods counted until then.
    base: Vec<(u32, (u64, u64))>,
    cores: f64,
}

impl Cpu {
    pub fn new(world: &World, target: &Target, load_pct: u32, workers: u32) -> Result<Self, Problem> {
        let slots = world.pods_to_hit(target.service())?;
        Ok(Self { slots, base: Vec::new(), cores: f64::from(load_pct) / 100.0 * f64::from(workers) })
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
            pod.stress += self.cores;
            world.demand(slot);
        }
    }

    fn stop(&mut self, world: &mut World, _tag: Tag) {
        for (&slot, &(epoch, _)) in self.slots.iter().zip(&self.base) {
            let pod = &mut world.pods[slot as usize];
            // A container that was started anew has none of the processes.
            if pod.epoch == epoch {
                pod.stress = (pod.stress - self.cores).max(0.0);
                world.demand(slot);
            }
        }
    }

    fn reading(&self, world: &World, _tag: Tag) -> Reading {
        let mut reading = Reading::default();
        for (&slot, &(_, (worked, held))) in self.slots.iter().zip(&self.base) {
            let now = world.pods[slot as usize].cpu.work_periods();
            reading.passed += now.0 - worked;
            reading.touched += now.1 - held;
        }
        reading
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
        world.meters.count_many(tag.meter, (self.wanted * self.slots.len() as f64) as u64, 0);
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

    fn reading(&self, world: &World, tag: Tag) -> Reading {
        let touched = self.peak.iter().sum::<f64>().max(0.0) as u64;
        Reading { touched, ..world.meters.read(tag.meter) }
    }
}
