//! Faults on one direction of a link, as the sending pods' traffic control makes them.

use fault::{Effect, Target};
use model::Problem;

use crate::effect::{Mechanism, Tag};
use crate::engine::{MILLI, Time};
use crate::link::{Condition, Rate};
use crate::witness::Holds;
use crate::world::World;

use super::wrong_target;

/// Bytes in a kilobyte of `tc`.
const KILOBYTE: f64 = 1000.0;

pub struct OnLink {
    slots: Vec<u16>,
    /// None when nothing is ever sent that way.
    link: Option<u32>,
    condition: Condition,
}

impl OnLink {
    /// `None` for effects of other families.
    pub fn new(world: &World, target: &Target, effect: &Effect) -> Result<Option<Self>, Problem> {
        let Some(condition) = condition(effect) else { return Ok(None) };
        let Target::Link { source, target } = target else { return Err(wrong_target("a link")) };
        let slots = world.networks_to_hit(source)?;
        let link = world.plan.link(world.service_named(source)?, world.service_named(target)?);
        Ok(Some(Self { slots, link, condition }))
    }
}

fn condition(effect: &Effect) -> Option<Condition> {
    let share = |percent: &u32| f64::from(*percent) / 100.0;
    let none = Condition::default();
    Some(match effect {
        Effect::NetworkDelay { latency_ms, jitter_ms, correlation_pct } => Condition {
            delay: Time::from(*latency_ms) * MILLI,
            jitter: Time::from(*jitter_ms) * MILLI,
            correlation: share(correlation_pct),
            ..none
        },
        // A damaged segment fails its checksum and is thrown away by the receiver: to TCP, both are loss.
        Effect::NetworkLoss { loss_pct: percent, correlation_pct }
        | Effect::NetworkCorrupt { corrupt_pct: percent, correlation_pct } => {
            Condition { loss: share(percent), correlation: share(correlation_pct), ..none }
        }
        Effect::NetworkDuplicate { duplicate_pct, correlation_pct } => {
            Condition { duplicate: share(duplicate_pct), correlation: share(correlation_pct), ..none }
        }
        Effect::NetworkBandwidth { rate_kbytes_per_s, limit_bytes, buffer_bytes } => {
            let rate = Rate {
                bytes_per_s: f64::from(*rate_kbytes_per_s) * KILOBYTE,
                limit: f64::from(*limit_bytes),
                buffer: f64::from(*buffer_bytes),
            };
            Condition { rate: Some(rate), ..none }
        }
        Effect::NetworkPartition => Condition { loss: 1.0, ..none },
        _ => return None,
    })
}

impl Mechanism for OnLink {
    fn slots(&self) -> &[u16] {
        &self.slots
    }

    fn start(&mut self, world: &mut World, tag: Tag) {
        if let Some(link) = self.link {
            let holds = Holds::pods(world, &self.slots);
            world.links[link as usize].set(tag.number, tag.meter, holds, self.condition);
        }
    }

    fn stop(&mut self, world: &mut World, tag: Tag) {
        if let Some(link) = self.link {
            world.links[link as usize].clear(tag.number);
        }
    }
}
