//! Faults on the memory of a Java virtual machine: a forced collection, a heap that is filled, a stack that is.

use fault::Target;
use model::{ErrorKind, Problem};

use crate::effect::{Mechanism, Tag};
use crate::engine::{MILLI, Time};
use crate::profile::MIB;
use crate::rng::join;
use crate::witness::{Reading, Tally};
use crate::world::World;

/// A thread fills the heap at about this rate, bytes per second.
const FILL: f64 = 256.0 * MIB;
const FILL_STEP: Time = 100 * MILLI;
/// Share of the heap that the thread fills before it gets an `OutOfMemoryError`; it keeps what it has.
const FULL: f64 = 0.93;
/// Stack of one thread (`-Xss` on 64-bit Linux); recursion ends there with a `StackOverflowError` of that thread.
const STACK: f64 = MIB;

/// The pods of the target that run a virtual machine with a known heap.
fn machines(world: &World, target: &Target) -> Result<Vec<u16>, Problem> {
    let slots = world.pods_to_hit(target.service())?;
    if slots.iter().all(|&slot| world.pods[slot as usize].heap.is_some()) {
        return Ok(slots);
    }
    Err(Problem::new(ErrorKind::Invalid, "fault.target_unknown", "the target runs no Java virtual machine")
        .found(target.service().to_owned()))
}

/// `System.gc()`: one full collection at once.
pub struct Collect {
    slots: Vec<u16>,
    over: Option<Time>,
}

impl Collect {
    pub fn new(world: &World, target: &Target) -> Result<Self, Problem> {
        Ok(Self { slots: machines(world, target)?, over: None })
    }
}

impl Mechanism for Collect {
    fn slots(&self) -> &[u16] {
        &self.slots
    }

    fn start(&mut self, world: &mut World, tag: Tag) {
        for &slot in &self.slots {
            let lasts = world.collect_now(slot, join(world.now() as u64, u64::from(slot)));
            self.over = self.over.max(Some(world.now() + lasts));
            world.meters.count(tag.meter, slot, true);
            world.meters.note(tag.meter, "ms of stopped threads", (lasts / MILLI) as u64);
        }
    }

    fn stop(&mut self, _world: &mut World, _tag: Tag) {}

    fn back(&self, _world: &World) -> Option<Time> {
        self.over
    }
}

/// A thread of the process holds memory: live objects on the heap, or its own stack.
pub struct Fill {
    slots: Vec<u16>,
    epochs: Vec<u32>,
    wanted: Vec<f64>,
    held: Vec<f64>,
    peak: Vec<f64>,
    heap: bool,
}

impl Fill {
    pub fn new(world: &World, target: &Target, memory: &str) -> Result<Self, Problem> {
        let (slots, heap) = (machines(world, target)?, memory == "heap");
        let room = |&slot: &u16| match &world.pods[slot as usize].heap {
            Some(state) if heap => (state.plan.max * FULL - state.live()).max(0.0),
            _ => STACK,
        };
        Ok(Self {
            epochs: slots.iter().map(|&slot| world.pods[slot as usize].epoch).collect(),
            wanted: slots.iter().map(room).collect(),
            held: vec![0.0; slots.len()],
            peak: vec![0.0; slots.len()],
            slots,
            heap,
        })
    }

    fn hold(&mut self, world: &mut World, at: usize, more: f64) {
        self.held[at] += more;
        self.peak[at] = self.peak[at].max(self.held[at]);
        let pod = &mut world.pods[self.slots[at] as usize];
        match &mut pod.heap {
            Some(heap) if self.heap => heap.hold(more),
            _ => pod.ballast = (pod.ballast + more).max(0.0),
        }
    }
}

impl Mechanism for Fill {
    fn slots(&self) -> &[u16] {
        &self.slots
    }

    fn start(&mut self, world: &mut World, tag: Tag) {
        for (&slot, wanted) in self.slots.iter().zip(&self.wanted) {
            world.meters.count_many(tag.meter, slot, *wanted as u64, 0);
        }
    }

    fn step(&mut self, world: &mut World, _tag: Tag) -> Option<Time> {
        let mut filling = false;
        for at in 0..self.slots.len() {
            if world.pods[self.slots[at] as usize].epoch == self.epochs[at] && self.held[at] < self.wanted[at] {
                let more = (FILL * FILL_STEP as f64 / 1e9).min(self.wanted[at] - self.held[at]);
                self.hold(world, at, more);
                filling = true;
            }
        }
        filling.then_some(FILL_STEP)
    }

    fn stop(&mut self, world: &mut World, _tag: Tag) {
        for at in 0..self.slots.len() {
            if world.pods[self.slots[at] as usize].epoch == self.epochs[at] {
                self.hold(world, at, -self.held[at]);
            }
        }
    }

    fn tally(&self, world: &World, tag: Tag) -> Tally {
        let mut tally = world.meters.read(tag.meter).clone();
        for (&slot, peak) in self.slots.iter().zip(&self.peak) {
            tally.add(slot, Reading { passed: 0, touched: *peak as u64 });
        }
        tally
    }
}
