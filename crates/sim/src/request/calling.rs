//! The caller's side of a call until it is sent: who calls, when it begins, and the way there and back.

use super::{Caller, Failure, Frame, Phase, Ref, Session, salt};
use crate::engine::{MICRO, SECOND, Time, nanos};
use crate::link::Flight;
use crate::plan::{CallId, CallKind};
use crate::rng::join;
use crate::world::{Event, World};

/// A refusal comes back after about one round trip.
const REFUSAL: (f64, f64) = (400.0 * MICRO as f64, 1000.0 * MICRO as f64);
/// What a request costs a generator, or a message a broker, in CPU-nanoseconds.
const SIDE_WORK: f64 = 200.0 * MICRO as f64;
/// Share of users who leave after a failed request.
const LEAVES: f64 = 0.5;

impl World {
    /// A request from outside.
    pub(crate) fn request(&mut self, session: Session) {
        let Some(generator) = self.generator() else { return };
        if !self.pods[generator as usize].serves() {
            return;
        }
        self.charge(generator, SIDE_WORK);
        let root = self.plan.journeys[session.journey as usize].requests[session.request as usize].root;
        let key = self.streams.requests.id(join(session.number, u64::from(session.request)));
        let caller = Caller { parent: None, session: Some(session), pod: generator, key, trace: key, span: 0 };
        let at = self.plan_call(root, caller);
        self.begin(at);
    }

    /// A call that is about to begin.
    pub(super) fn plan_call(&mut self, id: CallId, caller: Caller) -> Ref {
        let epoch = self.pods[caller.pod as usize].epoch;
        self.frames.insert(Frame::new(id, caller, epoch, self.events.now()))
    }

    /// The caller begins: its clock runs from now on.
    pub(crate) fn begin(&mut self, at: Ref) {
        let now = self.events.now();
        let Some(frame) = self.frames.get_mut(at) else { return };
        if !frame.client_open {
            self.frames.remove(at);
            return;
        }
        (frame.start, frame.served, frame.phase) = (now, now, Phase::Going);
        let plan = &self.plan.calls[frame.call as usize];
        if let Some(timeout) = plan.timeout
            && let Some((queue, end)) = self.patience.start(now, timeout, at)
        {
            self.events.plan(end, Event::Impatient { queue });
        }
        match plan.kind {
            CallKind::Publish => self.publish(at),
            _ => self.take_connection(at),
        }
    }

    /// An endpoint of the service, by the call's own draw when there are several.
    pub(super) fn choose(&self, service: u16, key: u64) -> Option<u16> {
        let places = self.places[service as usize].clone();
        if places.len() == 1 {
            return places.into_iter().find(|&pod| self.pods[pod as usize].in_endpoints);
        }
        let open = || places.clone().filter(|&pod| self.pods[pod as usize].in_endpoints);
        let count = open().count();
        if count == 0 { None } else { open().nth(self.streams.travel.at(key).below(count)) }
    }

    /// Sends the request, or the answer once the call is returning.
    pub(crate) fn send(&mut self, at: Ref, attempt: u32) {
        let Some(frame) = self.frames.get(at) else { return };
        if !frame.client_open {
            self.frames.remove(at);
            return;
        }
        let call = &self.plan.calls[frame.call as usize];
        let operation = &self.plan.operations[call.operation as usize];
        let back = frame.phase == Phase::Returning;
        let (link, bytes, salt) = if back {
            (call.back, operation.response_bytes, salt::BACK)
        } else {
            (call.there, operation.request_bytes, salt::THERE)
        };
        let key = join(frame.key, salt + u64::from(attempt));
        let ends = if back { (frame.pod, frame.caller) } else { (frame.caller, frame.pod) };
        let now = self.events.now();
        match self.transmit(link, ends, bytes, attempt, key) {
            Flight::Arrives(after) => {
                let event = if back { Event::Returned(at) } else { Event::Arrive(at) };
                self.events.plan(now + after, event);
            }
            Flight::Again(after) => self.events.plan(now + after, Event::Send { at, attempt: attempt + 1 }),
            // The kernel reports a connection that it gave up as timed out (`ETIMEDOUT`).
            Flight::GivenUp => self.fail(at, Failure::Unreachable, 1),
        }
    }

    /// Nobody listens where the call goes to.
    pub(super) fn refuse(&mut self, at: Ref) {
        let Some(frame) = self.frames.get(at) else { return };
        let after = nanos(self.streams.travel.at(frame.key ^ salt::BACK).between(REFUSAL.0, REFUSAL.1));
        self.fail(at, Failure::Refused, after);
    }

    /// The call itself failed; its caller learns it after some time.
    pub(crate) fn fail(&mut self, at: Ref, failure: Failure, after: Time) {
        let Some(frame) = self.frames.get_mut(at) else { return };
        if !frame.client_open {
            self.frames.remove(at);
            return;
        }
        let kind = self.plan.calls[frame.asked() as usize].kind;
        (frame.outcome, frame.status, frame.phase) = (failure, without_answer(kind, failure), Phase::Returning);
        self.events.plan(self.events.now() + after, Event::Returned(at));
    }

    pub(super) fn next_request(&mut self, session: Session, failed: bool, key: u64) {
        let journey = &self.plan.journeys[session.journey as usize];
        let Some(next) = journey.requests.get(session.request as usize + 1) else { return };
        let mut draw = self.streams.thinking.at(key);
        if failed && draw.chance(LEAVES) {
            return;
        }
        let pause = nanos(draw.exponential() * next.think_s * SECOND as f64);
        let session = Session { request: session.request + 1, ..session };
        self.events.plan(self.events.now() + pause, Event::Request(session));
    }

    pub(super) fn charge(&mut self, slot: u16, work: f64) {
        self.pods[slot as usize].cpu.charge(work);
    }
}

/// The status that a client library gives a call without an answer. gRPC has numbers for it (1 cancelled, 4 deadline
/// exceeded, 14 unavailable); elsewhere there is none.
pub(super) const fn without_answer(kind: CallKind, failure: Failure) -> u16 {
    match (kind, failure) {
        (CallKind::Grpc, Failure::Cancelled) => 1,
        (CallKind::Grpc, Failure::Timeout) => 4,
        (CallKind::Grpc, _) => 14,
        _ => 0,
    }
}
