//! Faults on methods of a Java virtual machine.

use fault::{Effect, Target};
use model::Problem;

use crate::effect::{Mechanism, Tag};
use crate::engine::{MILLI, Time};
use crate::gate::{Advice, Body, Set};
use crate::plan::OperationId;
use crate::rng::{Stream, name_key};
use crate::witness::Holds;
use crate::world::World;

use super::wrong_target;

/// Of the methods behind a controller, so many in a hundred have a caller in the service that breaks on a fixed value.
const BREAKS_ON_FIXED: f64 = 40.0;
/// The same for a value that is only slightly wrong; as many again pass it on, and at the rest nothing depends on it.
const BREAKS_ON_MUTANT: f64 = 30.0;
/// Of the callers that read an answer, so many in a hundred check what the wrong value changed.
const CHECKED: u8 = 50;

#[derive(Debug, Clone)]
enum What {
    Delay(Time),
    /// Class and message.
    Throw(String, String),
    Result {
        skips: bool,
        body: Body,
    },
}

/// Advice around one method, in all processes of the service.
pub struct OnMethod {
    slots: Vec<u16>,
    /// Operations whose handling runs the method.
    operations: Vec<OperationId>,
    what: What,
}

impl OnMethod {
    /// `None` for effects that do not act on a method.
    pub fn new(world: &World, target: &Target, effect: &Effect) -> Result<Option<Self>, Problem> {
        let named = || match target {
            Target::JvmMethod { service, class, method } => Ok((service, class, method)),
            _ => Err(wrong_target("a method")),
        };
        let what = match effect {
            Effect::JvmMethodLatency { delay_ms } => What::Delay(Time::from(*delay_ms) * MILLI),
            Effect::JvmMethodException { exception } => thrown(exception),
            Effect::JvmMethodReturn { return_type } => {
                named().map(|(_, class, method)| fixed(class, method, return_type))?
            }
            Effect::JvmRuntimeMutator { mutation, strategy, from, to } => {
                let (_, class, method) = named()?;
                let mutant = [Some(mutation.as_str()), strategy.as_deref(), from.as_deref(), to.as_deref()];
                mutated(class, method, &mutant.map(Option::unwrap_or_default).join("/"))
            }
            _ => return Ok(None),
        };
        let (service, class, method) = named()?;
        let id = world.service_named(service)?;
        let runs = world.plan.operations.iter().enumerate().filter(|(_, operation)| {
            operation.service == id && operation.code.iter().any(|(c, m)| c == class && m == method)
        });
        let operations = runs.map(|(at, _)| at as OperationId).collect();
        Ok(Some(Self { slots: world.pods_to_hit(service)?, operations, what }))
    }
}

/// `Class("message")`, with the class's full name.
fn thrown(exception: &str) -> What {
    let (class, rest) = exception.split_once('(').unwrap_or((exception, ""));
    let message = rest.trim_end_matches([')', ';']).trim_matches('"');
    What::Throw(class.trim().trim_start_matches("new ").to_owned(), message.to_owned())
}

/// What depends on a method's result is a property of the code that the system's data does not tell; a fixed draw by
/// method and change stands for it, the same in every run.
fn lot(class: &str, method: &str, change: &str) -> f64 {
    100.0 * Stream::new(name_key(class), method).at(name_key(change)).unit()
}

/// A fixed value instead of the result. A controller's result is the answer itself, which then is no object that a caller
/// can read; behind a controller the value is used inside the service first.
fn fixed(class: &str, method: &str, kind: &str) -> What {
    if class.ends_with("Controller") {
        What::Result { skips: true, body: Body::Unreadable }
    } else if lot(class, method, kind) < BREAKS_ON_FIXED {
        What::Throw("java.lang.NullPointerException".to_owned(), String::new())
    } else {
        What::Result { skips: true, body: Body::Wrong { key: name_key(kind), percent: CHECKED } }
    }
}

/// The method does its work and its result is slightly wrong: an error in the service, a wrong answer, or nothing.
fn mutated(class: &str, method: &str, mutant: &str) -> What {
    let lot = lot(class, method, mutant);
    if lot < BREAKS_ON_MUTANT {
        What::Throw("java.lang.IllegalArgumentException".to_owned(), "invalid value".to_owned())
    } else if lot < 2.0 * BREAKS_ON_MUTANT {
        What::Result { skips: false, body: Body::Wrong { key: name_key(mutant), percent: CHECKED } }
    } else {
        What::Result { skips: false, body: Body::Right }
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
            What::Result { skips, body } => Advice::Result { skips: *skips, body: *body },
        };
        let holds = Holds::processes(world, &self.slots);
        for &operation in &self.operations {
            let (number, meter, holds) = (tag.number, tag.meter, holds.clone());
            world.gates[operation as usize].advice.push(Set { number, meter, holds, what });
        }
    }

    fn stop(&mut self, world: &mut World, tag: Tag) {
        for &operation in &self.operations {
            world.gates[operation as usize].clear(tag.number);
        }
    }
}
