//! The fault on the clock that a container's processes read.
//!
//! No part of the model compares clocks of different services (tokens, certificates), so nothing fails by it: what is
//! stamped is stamped wrong, and the order of events stays.

use fault::Target;
use model::Problem;

use crate::effect::{Mechanism, Tag};
use crate::engine::{SECOND, Time};
use crate::world::World;

pub struct Skew {
    slots: Vec<u16>,
    offset: Time,
}

impl Skew {
    pub fn new(world: &World, target: &Target, offset_s: i32) -> Result<Self, Problem> {
        Ok(Self { slots: world.pods_to_hit(target.service())?, offset: Time::from(offset_s) * SECOND })
    }
}

impl Mechanism for Skew {
    fn slots(&self) -> &[u16] {
        &self.slots
    }

    fn start(&mut self, world: &mut World, tag: Tag) {
        let now = world.now();
        world.recorder.skew(tag.number, now, &self.slots, self.offset);
        for &slot in &self.slots {
            world.meters.count(tag.meter, slot, true);
        }
    }

    fn stop(&mut self, world: &mut World, tag: Tag) {
        let now = world.now();
        world.recorder.right(tag.number, now);
    }
}
