//! Faults on messages at the proxy in front of the target's port.

use fault::Target;
use model::Problem;

use crate::effect::{Mechanism, Tag};
use crate::gate::{Rewrite, Set};
use crate::plan::{CallKind, OperationId};
use crate::world::World;

use super::wrong_target;

/// Answers to requests of one method and path leave with another status.
pub struct OnAnswer {
    slots: Vec<u16>,
    operations: Vec<OperationId>,
    status: u16,
}

impl OnAnswer {
    pub fn new(world: &World, target: &Target, status: u16) -> Result<Self, Problem> {
        Ok(Self { slots: world.pods_to_hit(target.service())?, operations: matching(world, target)?, status })
    }
}

impl Mechanism for OnAnswer {
    fn slots(&self) -> &[u16] {
        &self.slots
    }

    fn start(&mut self, world: &mut World, tag: Tag) {
        for &operation in &self.operations {
            let set = Set { number: tag.number, meter: tag.meter, what: Rewrite::Status(self.status) };
            world.gates[operation as usize].rewrites.push(set);
        }
    }

    fn stop(&mut self, world: &mut World, tag: Tag) {
        for &operation in &self.operations {
            world.gates[operation as usize].clear(tag.number);
        }
    }
}

/// The operations of the target whose requests match method, path and port.
fn matching(world: &World, target: &Target) -> Result<Vec<OperationId>, Problem> {
    let Target::Http { service, method, path, port, .. } = target else { return Err(wrong_target("an HTTP endpoint")) };
    let id = world.service_named(service)?;
    let listens = world.plan.services[id as usize].port == Some(*port);
    let matches = world.plan.operations.iter().enumerate().filter(|(_, operation)| {
        listens
            && operation.kind == CallKind::Http
            && operation.service == id
            && operation.method.eq_ignore_ascii_case(method)
            && operation.pattern.as_ref().is_some_and(|pattern| pattern == path || path.matches(pattern.as_str()))
    });
    Ok(matches.map(|(at, _)| at as OperationId).collect())
}
