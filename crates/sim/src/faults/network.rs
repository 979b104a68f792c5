//! Faults on one direction of a link.

use fault::Target;
use model::Problem;

use crate::effect::{Mechanism, Tag};
use crate::engine::{MILLI, Time};
use crate::link::Condition;
use crate::world::World;

use super::wrong_target;

pub fn delay(latency_ms: u32, jitter_ms: u32, correlation_pct: u32) -> Condition {
    Condition {
        delay: Time::from(latency_ms) * MILLI,
        jitter: Time::from(jitter_ms) * MILLI,
        correlation: f64::from(correlation_pct) / 100.0,
        ..Condition::default()
    }
}

pub fn loss(loss_pct: u32, correlation_pct: u32) -> Condition {
    Condition {
        loss: f64::from(loss_pct) / 100.0,
        correlation: f64::from(correlation_pct) / 100.0,
        ..Condition::default()
    }
}

pub struct OnLink {
    slots: Vec<u16>,
    /// None when nothing is ever sent that way.
    link: Option<u32>,
    condition: Condition,
}

impl OnLink {
    pub fn new(world: &World, target: &Target, condition: Condition) -> Result<Self, Problem> {
        let Target::Link { source, target } = target else { return Err(wrong_target("a link")) };
        let slots = world.pods_to_hit(source)?;
        let link = world.plan.link(world.service_named(source)?, world.service_named(target)?);
        Ok(Self { slots, link, condition })
    }
}

impl Mechanism for OnLink {
    fn slots(&self) -> &[u16] {
        &self.slots
    }

    fn start(&mut self, world: &mut World, tag: Tag) {
        if let Some(link) = self.link {
            world.links[link as usize].set(tag.number, tag.meter, self.condition);
        }
    }

    fn stop(&mut self, world: &mut World, tag: Tag) {
        if let Some(link) = self.link {
            world.links[link as usize].clear(tag.number);
        }
    }
}
