//! Faults on the answers that a service gets when it looks a name up.

use fault::{Effect, Target};
use model::Problem;

use crate::effect::{Mechanism, Tag};
use crate::plan::ServiceId;
use crate::resolver::Wrong;
use crate::witness::Holds;
use crate::world::World;

use super::wrong_target;

/// Look-ups of one name by one service's processes get a wrong answer.
pub struct OnName {
    slots: Vec<u16>,
    /// The service behind the name.
    callee: ServiceId,
    wrong: Wrong,
}

impl OnName {
    /// `None` for effects of other families.
    pub fn new(world: &World, target: &Target, effect: &Effect) -> Result<Option<Self>, Problem> {
        let wrong = match effect {
            Effect::DnsError => Wrong::Error,
            Effect::DnsRandom => Wrong::Random,
            _ => return Ok(None),
        };
        let Target::Dns { service, peer, .. } = target else { return Err(wrong_target("a name")) };
        Ok(Some(Self { slots: world.pods_to_hit(service)?, callee: world.service_named(peer)?, wrong }))
    }
}

impl Mechanism for OnName {
    fn slots(&self) -> &[u16] {
        &self.slots
    }

    fn start(&mut self, world: &mut World, tag: Tag) {
        // The resolver's configuration is a file in the container, which a restart makes anew.
        let holds = Holds::processes(world, &self.slots);
        for &slot in &self.slots {
            world.resolvers[slot as usize].set(tag.number, tag.meter, holds.clone(), self.callee, self.wrong);
        }
    }

    fn stop(&mut self, world: &mut World, tag: Tag) {
        for &slot in &self.slots {
            world.resolvers[slot as usize].clear(tag.number);
        }
    }
}
