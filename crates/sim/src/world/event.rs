//! What can happen in a simulated system.

use crate::emit::Exporter;
use crate::plan::QueueId;
use crate::pod::Step;
use crate::request::{Ref, Session};

/// What happens at one instant.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// The next user arrives.
    Arrival,
    /// A user who is here asks for the next thing.
    Request(Session),
    Connect {
        at: Ref,
        attempt: u32,
    },
    Connected(Ref),
    Send {
        at: Ref,
        attempt: u32,
    },
    /// A message on its way to or from a broker is sent, again if it was lost.
    Carry {
        at: Ref,
        attempt: u32,
    },
    Arrive(Ref),
    Returned(Ref),
    /// A proxy lets a request in that it held, or an answer out.
    Admit(Ref),
    Reply(Ref),
    /// Own work may go on the processor.
    Work(Ref),
    /// Something changes on a processor.
    Cpu {
        slot: u16,
        mark: u32,
    },
    /// Callers whose patience has a certain length look at the clock.
    Impatient {
        queue: u8,
    },
    PoolWait(Ref),
    /// A client tries to connect again.
    Acquire(Ref),
    /// A caller tries the call again, or begins a call that it planned.
    Begin(Ref),
    /// The callee learns that the caller does not want the answer any more.
    Cancel(Ref),
    Life {
        slot: u16,
        mark: u32,
        step: Step,
    },
    /// A periodic job inside a container starts or ends.
    Periodic {
        slot: u16,
        start: bool,
    },
    Report {
        slot: u16,
        exporter: Exporter,
        number: u32,
    },
    /// The late part of a report: when it really happens.
    Scrape {
        slot: u16,
        exporter: Exporter,
        number: u32,
    },
    Export,
    /// A process looks around in the background.
    Watch {
        slot: u16,
        number: u16,
        round: u32,
    },
    /// A queue may deliver again.
    Dispatch {
        queue: QueueId,
    },
    /// A second has passed.
    Second,
    /// A gradual effect takes its next step.
    Ramp {
        number: u32,
    },
}
