//! Faults on processes and the endpoint state of their pods.

use fault::Target;
use model::Problem;

use crate::effect::{Mechanism, Tag};
use crate::engine::Time;
use crate::life::KILLED;
use crate::rng::join;
use crate::world::World;

/// One of the service's running pods, by the run's own draw.
fn one(world: &World, target: &Target) -> Result<u16, Problem> {
    let slots = world.pods_to_hit(target.service())?;
    let key = join(world.now() as u64, u64::from(slots[0]));
    Ok(slots[world.streams.lives.at(key).below(slots.len())])
}

/// All processes of the service passed, one was hit.
fn count(world: &mut World, tag: Tag, hit: u16) {
    let service = world.pods[hit as usize].service;
    for slot in world.places[service as usize].clone() {
        world.meters.count(tag.meter, slot, slot == hit);
    }
}

/// The pod is deleted; its workload makes another.
pub struct Kill {
    slot: [u16; 1],
    since: Time,
}

impl Kill {
    pub fn new(world: &World, target: &Target) -> Result<Self, Problem> {
        Ok(Self { slot: [one(world, target)?], since: world.now() })
    }
}

impl Mechanism for Kill {
    fn slots(&self) -> &[u16] {
        &self.slot
    }

    fn start(&mut self, world: &mut World, tag: Tag) {
        count(world, tag, self.slot[0]);
        world.delete_pod(self.slot[0]);
    }

    fn stop(&mut self, _world: &mut World, _tag: Tag) {}

    fn back(&self, world: &World) -> Option<Time> {
        world.ready_again(self.slot[0], self.since)
    }
}

/// One container's process is killed; it is started again in the same pod.
pub struct Restart {
    slot: [u16; 1],
    since: Time,
}

impl Restart {
    pub fn new(world: &World, target: &Target) -> Result<Self, Problem> {
        Ok(Self { slot: [one(world, target)?], since: world.now() })
    }
}

impl Mechanism for Restart {
    fn slots(&self) -> &[u16] {
        &self.slot
    }

    fn start(&mut self, world: &mut World, tag: Tag) {
        count(world, tag, self.slot[0]);
        world.restart_container(self.slot[0], KILLED);
    }

    fn stop(&mut self, _world: &mut World, _tag: Tag) {}

    fn back(&self, world: &World) -> Option<Time> {
        world.ready_again(self.slot[0], self.since)
    }
}

/// The pod's container is replaced by one that answers nothing, and put back at the end.
pub struct Failure {
    slot: [u16; 1],
    generation: u32,
    since: Time,
}

impl Failure {
    pub fn new(world: &World, target: &Target) -> Result<Self, Problem> {
        let slot = one(world, target)?;
        Ok(Self { slot: [slot], generation: world.pods[slot as usize].generation, since: world.now() })
    }
}

impl Mechanism for Failure {
    fn slots(&self) -> &[u16] {
        &self.slot
    }

    fn start(&mut self, world: &mut World, tag: Tag) {
        self.since = world.now();
        count(world, tag, self.slot[0]);
        world.disable_pod(self.slot[0]);
    }

    fn stop(&mut self, world: &mut World, _tag: Tag) {
        // Another pod may have taken the place; it is not this fault's.
        if world.pods[self.slot[0] as usize].generation == self.generation {
            world.enable_pod(self.slot[0]);
        }
    }
}
