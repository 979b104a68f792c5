//! Faults on processes and the endpoint state of their pods.

use fault::Target;
use model::Problem;

use crate::effect::{Mechanism, Tag};
use crate::engine::Time;
use crate::rng::join;
use crate::world::World;

/// One of the service's running pods, by the run's own draw.
fn one(world: &World, target: &Target) -> Result<u16, Problem> {
    let slots = world.pods_to_hit(target.service())?;
    let key = join(world.now() as u64, u64::from(slots[0]));
    Ok(slots[world.streams.lives.at(key).below(slots.len())])
}

/// The pod is deleted; its workload makes another.
pub struct Kill {
    slot: [u16; 1],
}

impl Kill {
    pub fn new(world: &World, target: &Target) -> Result<Self, Problem> {
        Ok(Self { slot: [one(world, target)?] })
    }
}

impl Mechanism for Kill {
    fn slots(&self) -> &[u16] {
        &self.slot
    }

    fn start(&mut self, world: &mut World, tag: Tag) {
        let service = world.pods[self.slot[0] as usize].service;
        let passed = world.places[service as usize].len() as u64;
        world.meters.count_many(tag.meter, passed, 1);
        world.delete_pod(self.slot[0]);
    }

    fn stop(&mut self, _world: &mut World, _tag: Tag) {}
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
        let service = world.pods[self.slot[0] as usize].service;
        let passed = world.places[service as usize].len() as u64;
        world.meters.count_many(tag.meter, passed, 1);
        world.disable_pod(self.slot[0]);
    }

    fn stop(&mut self, world: &mut World, _tag: Tag) {
        // Another pod may have taken the place; it is not this fault's.
        if world.pods[self.slot[0] as usize].generation == self.generation {
            world.enable_pod(self.slot[0]);
        }
    }
}
