//! The caller's side of a call: connection, sending, answer, time-out.

use super::{Caller, Cause, Failure, Frame, Phase, Ref, Session, salt};
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
        self.call(root, caller);
    }

    pub(super) fn call(&mut self, id: CallId, caller: Caller) {
        let now = self.events.now();
        let plan = &self.plan.calls[id as usize];
        let kind = plan.kind;
        let at = self.frames.insert(Frame {
            generation: 0,
            used: true,
            call: id,
            key: caller.key,
            trace: caller.trace,
            parent_span: caller.span,
            parent: caller.parent,
            session: caller.session,
            caller: caller.pod,
            caller_epoch: self.pods[caller.pod as usize].epoch,
            pod: u16::MAX,
            epoch: 0,
            start: now,
            served: now,
            phase: Phase::Going,
            client_open: true,
            holds_connection: false,
            next_child: 0,
            work: 0.0,
            failure: Failure::None,
            cause: None,
            outcome: Failure::None,
            status: 0,
        });
        match kind {
            CallKind::Sql => self.take_connection(at),
            CallKind::Publish => self.publish(at),
            CallKind::Http | CallKind::Process => self.go(at),
        }
    }

    /// Chooses the instance and opens or reuses a connection.
    pub(super) fn go(&mut self, at: Ref) {
        let Some(frame) = self.frames.get(at) else { return };
        let plan = &self.plan.calls[frame.call as usize];
        let (there, caller) = (plan.there as usize, frame.caller as usize);
        let patience = self.pods[caller].profile.patience;
        let Some(pod) = self.choose(plan.to, frame.key) else {
            self.refuse(at);
            return;
        };
        let epoch = self.pods[pod as usize].epoch;
        let frame = self.frames.get_mut(at).expect("it was there a moment ago");
        (frame.pod, frame.epoch) = (pod, epoch);
        if let Some(patience) = patience {
            let now = self.events.now();
            if let Some((queue, end)) = self.patience.start(now, patience, at) {
                self.events.plan(end, Event::Impatient { queue });
            }
        }
        if self.pods[caller].idle[there] > 0 {
            self.pods[caller].idle[there] -= 1;
            self.send(at, 0);
        } else {
            self.connect(at, 0);
        }
    }

    /// An endpoint of the service, by the call's own draw when there are several.
    pub(super) fn choose(&self, service: u16, key: u64) -> Option<u16> {
        let places = self.places[service as usize].clone();
        if places.len() == 1 {
            return places.into_iter().find(|&pod| self.pods[pod as usize].in_endpoints);
        }
        let open: Vec<u16> = places.filter(|&pod| self.pods[pod as usize].in_endpoints).collect();
        if open.is_empty() { None } else { Some(open[self.streams.travel.at(key).below(open.len())]) }
    }

    pub(crate) fn connect(&mut self, at: Ref, attempt: u32) {
        let Some(frame) = self.frames.get(at) else { return };
        if !frame.client_open {
            self.frames.remove(at);
            return;
        }
        let there = self.plan.calls[frame.call as usize].there as usize;
        let mut draw = self.streams.travel.at(join(frame.key, salt::CONNECT + u64::from(attempt)));
        let (pod, now) = (frame.pod as usize, self.events.now());
        match self.links[there].connect(attempt, &mut draw, &mut self.meters) {
            Flight::Arrives(_) if !self.pods[pod].serves() => self.refuse(at),
            Flight::Arrives(after) => self.events.plan(now + after, Event::Send { at, attempt: 0 }),
            Flight::Again(after) => self.events.plan(now + after, Event::Connect { at, attempt: attempt + 1 }),
            Flight::GivenUp => self.fail(at, Failure::Unreachable, 1),
        }
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
        let mut draw = self.streams.travel.at(join(frame.key, salt + u64::from(attempt)));
        let (from, to) = if back { (frame.pod, frame.caller) } else { (frame.caller, frame.pod) };
        let now = self.events.now();
        self.pods[from as usize].traffic.sent += u64::from(bytes);
        match self.links[link as usize].send(bytes, attempt, &mut draw, &mut self.meters) {
            Flight::Arrives(after) => {
                self.pods[to as usize].traffic.received += u64::from(bytes);
                let event = if back { Event::Returned(at) } else { Event::Arrive(at) };
                self.events.plan(now + after, event);
            }
            Flight::Again(after) => self.events.plan(now + after, Event::Send { at, attempt: attempt + 1 }),
            Flight::GivenUp => self.fail(at, Failure::Reset, 1),
        }
    }

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
        (frame.outcome, frame.status, frame.phase) = (failure, 0, Phase::Returning);
        self.events.plan(self.events.now() + after, Event::Returned(at));
    }

    /// The caller has the answer, or knows that there will be none.
    pub(crate) fn returned(&mut self, at: Ref) {
        let now = self.events.now();
        let Some(frame) = self.frames.get(at) else { return };
        if frame.client_open {
            self.recorder.called(now, frame);
            self.give_back(at);
            self.tell(at);
        }
        self.frames.remove(at);
    }

    /// Returns the connection that the call used.
    pub(super) fn give_back(&mut self, at: Ref) {
        let now = self.events.now();
        let Some(frame) = self.frames.get(at) else { return };
        let plan = &self.plan.calls[frame.call as usize];
        let caller = &mut self.pods[frame.caller as usize];
        if frame.holds_connection {
            if let Some(next) = caller.database.leave(now) {
                self.connected(next);
            }
        } else if plan.kind == CallKind::Http && frame.outcome == Failure::None {
            let idle = &mut caller.idle[plan.there as usize];
            *idle = (*idle + 1).min(caller.profile.idle_connections);
        }
    }

    /// Tells the caller how the call went.
    pub(super) fn tell(&mut self, at: Ref) {
        let Some(frame) = self.frames.get(at) else { return };
        let failed = frame.outcome != Failure::None || frame.status >= 400;
        let cause = Cause { call: frame.call, failure: frame.outcome, status: frame.status };
        let (parent, session, key) = (frame.parent, frame.session, frame.key);
        let now = self.events.now();
        if let Some(session) = session {
            self.entrance.record(now, now - frame.start, failed);
            self.next_request(session, failed, key);
        }
        let Some(parent) = parent else { return };
        let Some(waiting) = self.frames.get_mut(parent) else { return };
        if failed {
            (waiting.failure, waiting.cause) = (Failure::Upstream, Some(cause));
        }
        self.work(parent);
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

    /// The caller's patience ended. What happens at the callee goes on.
    pub(crate) fn impatient(&mut self, at: Ref) {
        let now = self.events.now();
        let Some(frame) = self.frames.get_mut(at) else { return };
        if !frame.client_open {
            return;
        }
        (frame.outcome, frame.status) = (Failure::Timeout, 0);
        let frame = self.frames.get(at).expect("it was there a moment ago");
        self.recorder.called(now, frame);
        self.tell(at);
        if let Some(frame) = self.frames.get_mut(at) {
            frame.client_open = false;
            frame.parent = None;
        }
    }

    pub(super) fn charge(&mut self, slot: u16, work: f64) {
        self.pods[slot as usize].cpu.charge(work);
    }
}
