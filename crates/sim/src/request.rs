//! The life of a call: connection, link, worker, own work, calls of its own, answer. Time-outs belong to the caller.

mod calling;
mod connecting;
mod ending;
mod errand;
mod gated;
mod handling;
mod looking;
mod message;

use crate::engine::Time;
use crate::gate::Marks;
use crate::plan::CallId;
use errand::Errand;
use looking::Found;

/// A call in flight; void once the call is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ref {
    index: u32,
    generation: u32,
}

#[cfg(test)]
impl Ref {
    /// Some that differ.
    pub fn several<const N: usize>() -> [Self; N] {
        std::array::from_fn(|index| Self { index: index as u32, generation: 0 })
    }
}

/// Why a call or its handling did not go well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Failure {
    None,
    /// Nobody listens at the address.
    Refused,
    /// The connection broke.
    Reset,
    /// The other side closed the connection without an answer.
    Closed,
    /// The name of the service has no address.
    UnknownHost,
    /// No answer to connection attempts.
    Unreachable,
    /// The caller's patience ended.
    Timeout,
    /// No connection of the pool became free in time.
    PoolTimeout,
    /// An error of its own.
    Own,
    /// The throwable of this number.
    Thrown(u16),
    /// A call that it made failed.
    Upstream,
    /// The answer's body is not in the form that the caller reads.
    Unreadable,
    /// Something that the caller needs of the answer is not what it must be.
    Unusable,
    /// The caller did not want the answer any more.
    Cancelled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Planned: begins after a pause.
    Planned,
    /// On the way there, or before it.
    Going,
    /// Waits for a connection of the caller's pool.
    Pooled,
    /// At the callee: waits for a worker, or is worked on.
    Queued,
    Serving,
    /// On the way back; nothing at the callee can stop it any more.
    Returning,
}

/// The failed call behind a failed handling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cause {
    pub call: CallId,
    pub failure: Failure,
    pub status: u16,
}

/// The user's journey that a request from outside belongs to.
#[derive(Debug, Clone, Copy)]
pub struct Session {
    pub journey: u16,
    pub request: u16,
    pub number: u64,
}

impl Frame {
    /// A call that nobody has begun yet.
    fn new(call: CallId, caller: Caller, epoch: u32, now: Time) -> Self {
        Self {
            generation: 0,
            used: true,
            call,
            key: caller.key,
            trace: caller.trace,
            parent_span: caller.span,
            parent: caller.parent,
            session: caller.session,
            caller: caller.pod,
            caller_epoch: epoch,
            pod: u16::MAX,
            epoch: 0,
            start: now,
            served: now,
            phase: Phase::Planned,
            client_open: true,
            holds_connection: false,
            attempt: 0,
            next_child: 0,
            waits: 0,
            child: None,
            sibling: None,
            found: Found::default(),
            lock: None,
            errand: None,
            work: 0.0,
            failure: Failure::None,
            cause: None,
            outcome: Failure::None,
            status: 0,
            marks: Marks::default(),
        }
    }

    /// What the caller asked for, whatever the callee was asked for.
    pub fn asked(&self) -> CallId {
        self.marks.asked.unwrap_or(self.call)
    }
}

pub struct Frame {
    generation: u32,
    used: bool,
    pub call: CallId,
    /// Identity of this call in its run: the same whatever else happens in the simulation.
    pub key: u64,
    pub trace: u64,
    pub parent_span: u64,
    parent: Option<Ref>,
    session: Option<Session>,
    pub caller: u16,
    caller_epoch: u32,
    pub pod: u16,
    epoch: u32,
    pub start: Time,
    /// Start of the handling; of a statement, when its connection was there.
    pub served: Time,
    phase: Phase,
    /// Somebody waits for the outcome at the caller's side.
    client_open: bool,
    holds_connection: bool,
    /// Attempts of the caller before this one.
    attempt: u8,
    next_child: u16,
    /// Calls under way that the handling waits for, and the one that started last.
    waits: u16,
    child: Option<Ref>,
    /// The call of the same handling that started before this one.
    sibling: Option<Ref>,
    found: Found,
    /// The lock of the row that the statement changes.
    lock: Option<u32>,
    errand: Option<Errand>,
    /// Own work of each stretch between calls.
    pub work: f64,
    /// How the handling went.
    pub failure: Failure,
    pub cause: Option<Cause>,
    /// What the caller sees.
    pub outcome: Failure,
    pub status: u16,
    pub marks: Marks,
}

/// All calls in flight, in places that are used again.
#[derive(Default)]
pub struct Frames {
    frames: Vec<Frame>,
    free: Vec<u32>,
}

impl Frames {
    pub fn get(&self, at: Ref) -> Option<&Frame> {
        self.frames.get(at.index as usize).filter(|frame| frame.used && frame.generation == at.generation)
    }

    fn get_mut(&mut self, at: Ref) -> Option<&mut Frame> {
        self.frames.get_mut(at.index as usize).filter(|frame| frame.used && frame.generation == at.generation)
    }

    fn insert(&mut self, mut frame: Frame) -> Ref {
        if let Some(index) = self.free.pop() {
            let place = &mut self.frames[index as usize];
            frame.generation = place.generation;
            *place = frame;
            return Ref { index, generation: place.generation };
        }
        self.frames.push(frame);
        Ref { index: self.frames.len() as u32 - 1, generation: 0 }
    }

    fn remove(&mut self, at: Ref) {
        if let Some(frame) = self.get_mut(at) {
            frame.used = false;
            frame.generation = frame.generation.wrapping_add(1);
            self.free.push(at.index);
        }
    }

    /// The same call under a new reference: what was planned for the old one is void.
    fn renew(&mut self, at: Ref) -> Ref {
        let frame = &mut self.frames[at.index as usize];
        frame.generation = frame.generation.wrapping_add(1);
        Ref { index: at.index, generation: frame.generation }
    }

    fn all(&self) -> impl Iterator<Item = Ref> + use<> {
        let live: Vec<Ref> = self
            .frames
            .iter()
            .enumerate()
            .filter(|(_, frame)| frame.used)
            .map(|(index, frame)| Ref { index: index as u32, generation: frame.generation })
            .collect();
        live.into_iter()
    }
}

/// Salts that separate the draws and identifiers of one call.
pub mod salt {
    pub const CLIENT: u64 = 1;
    pub const SERVER: u64 = 2;
    pub const INNER: u64 = 3;
    pub const TRACE: u64 = 4;
    pub const DELIVERY: u64 = 5;
    pub(super) const CANCEL: u64 = 1 << 37;
    pub(super) const REDELIVERY: u64 = 1 << 38;
    pub const CHILD: u64 = 1 << 32;
    pub(super) const RETRY: u64 = 1 << 36;
    pub(super) const THERE: u64 = 1 << 33;
    pub(super) const BACK: u64 = 1 << 34;
    pub(super) const CONNECT: u64 = 1 << 35;
    pub const LOOK_UP: u64 = 1 << 39;
}

/// Who makes a call.
#[derive(Clone, Copy)]
struct Caller {
    parent: Option<Ref>,
    session: Option<Session>,
    pod: u16,
    key: u64,
    trace: u64,
    span: u64,
}
