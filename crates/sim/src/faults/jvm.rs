//! Faults on methods of a Java virtual machine.

use fault::Target;
use model::Problem;

use crate::effect::{Mechanism, Tag};
use crate::engine::{MILLI, Time};
use crate::gate::{Advice, Set};
use crate::plan::OperationId;
use crate::world::World;

use super::wrong_target;

#[derive(Debug, Clone)]
enum What {
    Delay(Time),
    /// Class and message.
    Throw(String, String),
}

/// Advice around one method, in all pods of the service.
pub struct OnMethod {
    slots: Vec<u16>,
    /// Operations whose handling runs the method.
    operations: Vec<OperationId>,
    what: What,
}

impl OnMethod {
    pub fn delay(world: &World, target: &Target, delay_ms: u32) -> Result<Self, Problem> {
        Self::new(world, target, What::Delay(Time::from(delay_ms) * MILLI))
    }

    /// `exception` is `Class("message")`, with the class's full name.
    pub fn throw(world: &World, target: &Target, exception: &str) -> Result<Self, Problem> {
        let (class, rest) = exception.split_once('(').unwrap_or((exception, ""));
        let message = rest.trim_end_matches([')', ';']).trim_matches('"');
        let class = class.trim().trim_start_matches("new ");
        Self::new(world, target, What::Throw(class.to_owned(), message.to_owned()))
    }

    fn new(world: &World, target: &Target, what: What) -> Result<Self, Problem> {
        let Target::JvmMethod { service, class, method } = target else { return Err(wrong_target("a method")) };
        let slots = world.pods_to_hit(service)?;
        let id = world.service_named(service)?;
        let runs = world.plan.operations.iter().enumerate().filter(|(_, operation)| {
            operation.service == id && operation.code.iter().any(|(c, m)| c == class && m == method)
        });
        Ok(Self { slots, operations: runs.map(|(at, _)| at as OperationId).collect(), what })
    }
}

impl Mechanism for OnMethod {
    fn slots(&self) -> &[u16] {
        &self.slots
    }

    fn start(&mut self, world: &mut World, tag: Tag) {
        let what = match &self.what {
            What::Delay(by) => Advice::Delay(*by),
            What::Throw(class, message) => Advice::Throw(world.recorder.throwable(class, message)),
        };
        for &operation in &self.operations {
            world.gates[operation as usize].advice.push(Set { number: tag.number, meter: tag.meter, what });
        }
    }

    fn stop(&mut self, world: &mut World, tag: Tag) {
        for &operation in &self.operations {
            world.gates[operation as usize].clear(tag.number);
        }
    }
}
