//! Where requests enter and leave a service's code: advice around its methods and the proxy in front of its port.
//!
//! A gate belongs to one operation. What is set on it comes from outside ([`crate::effect`]).

use crate::engine::Time;
use crate::witness::Meter;

/// What happens to a call of a method that serves the operation.
#[derive(Debug, Clone, Copy)]
pub enum Advice {
    /// The method takes this much longer, without using the processor.
    Delay(Time),
    /// The method ends with the throwable of this number.
    Throw(u16),
}

/// What happens to an answer on its way out.
#[derive(Debug, Clone, Copy)]
pub enum Rewrite {
    Status(u16),
}

#[derive(Debug, Clone, Copy)]
pub struct Set<T> {
    pub number: u32,
    pub meter: Meter,
    pub what: T,
}

#[derive(Debug, Default)]
pub struct Gate {
    pub advice: Vec<Set<Advice>>,
    pub rewrites: Vec<Set<Rewrite>>,
}

impl Gate {
    pub fn clear(&mut self, number: u32) {
        self.advice.retain(|set| set.number != number);
        self.rewrites.retain(|set| set.number != number);
    }
}
