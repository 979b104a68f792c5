//! Where requests enter and leave a service's code: the proxy in front of its port, advice around its methods, and the
//! driver through which it sends its statements.
//!
//! A gate belongs to one operation. What is set on it comes from outside ([`crate::effect`]).

use crate::engine::Time;
use crate::plan::CallId;
use crate::witness::{Holds, Meter};

/// What becomes of a request on its way in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inbound {
    /// The connection is closed before the service sees the request.
    Abort,
    Hold(Time),
    /// The service is asked for something else.
    Elsewhere(Route),
}

/// What the service is asked for instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Another operation of it, whose handling is known from this call, with a body that is worth so much to the caller.
    Known(CallId, Body),
    /// Something that its framework, or a handler without calls of its own, answers.
    Detour(u16),
}

/// What becomes of an answer on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outbound {
    /// The connection is closed instead.
    Abort,
    Hold(Time),
    Status(u16),
    Body(Body),
}

/// What happens to a call of a method that serves the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// The method takes this much longer, without using the processor.
    Delay(Time),
    /// The method ends with the throwable of this number.
    Throw(u16),
    /// The method's result is another one; `skips` says that it does not do its work either.
    Result { skips: bool, body: Body },
}

/// What happens to a statement in the client's driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    Hold(Time),
    /// The driver throws the throwable of this number; the database sees nothing.
    Throw(u16),
}

/// What the body of an answer is worth to its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Body {
    #[default]
    Right,
    /// Not in the form that the reader expects.
    Unreadable,
    /// In the right form, but something in it is not what it should be. `key` names what; of all readers, about
    /// `percent` trip over it.
    Wrong { key: u64, percent: u8 },
}

/// Where a connection leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Address {
    #[default]
    Right,
    /// A host that answers nothing, or none at all.
    Silent,
    /// A host on which nobody listens at the port.
    Refusing,
}

/// A request that came with another method or path: what the server's span and metrics say of it, and who answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detour {
    pub method: String,
    /// The path as the service sees it; `None` is the one that was asked for.
    pub path: Option<String>,
    /// The route that the framework matched.
    pub route: Option<String>,
    /// What the framework, or a handler without calls of its own, answers; `None` is the call's own handler.
    pub status: Option<u16>,
    pub body: Body,
}

/// What a call has met on its way and its caller does not know.
#[derive(Debug, Clone, Copy, Default)]
pub struct Marks {
    pub address: Address,
    pub body: Body,
    /// Requests that the connection has carried before this one.
    pub carried: u16,
    /// What the caller asked for, where the callee was asked for something else.
    pub asked: Option<CallId>,
    /// Number of the detour that answers.
    pub detour: Option<u16>,
}

/// One change to a gate, on the pods that `holds` names.
#[derive(Debug, Clone)]
pub struct Set<T> {
    pub number: u32,
    pub meter: Meter,
    pub holds: Holds,
    pub what: T,
}

#[derive(Debug, Default)]
pub struct Gate {
    pub inbound: Vec<Set<Inbound>>,
    pub outbound: Vec<Set<Outbound>>,
    pub advice: Vec<Set<Advice>>,
    pub driver: Vec<Set<Driver>>,
}

impl Gate {
    pub fn clear(&mut self, number: u32) {
        self.inbound.retain(|set| set.number != number);
        self.outbound.retain(|set| set.number != number);
        self.advice.retain(|set| set.number != number);
        self.driver.retain(|set| set.number != number);
    }
}
