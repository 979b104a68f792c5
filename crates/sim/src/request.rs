//! The life of a call: connection, link, worker, own work, calls of its own, answer. Time-outs belong to the caller.

use crate::engine::{MICRO, MILLI, SECOND, Time, nanos};
use crate::gate::{Advice, Rewrite};
use crate::link::Flight;
use crate::plan::{CallId, CallKind};
use crate::pod::Pause;
use crate::profile::DATABASE_POOL_WAIT;
use crate::rng::join;
use crate::station::Entry;
use crate::world::{Event, World};

/// A refusal comes back after about one round trip.
const REFUSAL: (f64, f64) = (400.0 * MICRO as f64, 1000.0 * MICRO as f64);
/// A publish without confirmation returns when the frame is written.
const PUBLISH: (f64, f64) = (100.0 * MICRO as f64, 400.0 * MICRO as f64);
/// A broker routes and stores a message.
const ROUTE: (f64, f64) = (200.0 * MICRO as f64, 900.0 * MICRO as f64);
/// What a request costs a generator, or a message a broker, in CPU-nanoseconds.
const SIDE_WORK: f64 = 200.0 * MICRO as f64;
/// A pool without valid connections tries again after this time.
const POOL_RETRY: Time = 500 * MILLI;
/// Share of the own work that is done before an operation fails by itself.
const FAILS_AFTER: f64 = 0.3;
/// Share of users who leave after a failed request.
const LEAVES: f64 = 0.5;

/// A call in flight; void once the call is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ref {
    index: u32,
    generation: u32,
}

/// Why a call or its handling did not go well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Failure {
    None,
    /// Nobody listens at the address.
    Refused,
    /// The connection broke.
    Reset,
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
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
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
    client_open: bool,
    holds_connection: bool,
    next_child: u16,
    /// Own work of each stretch between calls.
    work: f64,
    /// How the handling went.
    pub failure: Failure,
    pub cause: Option<Cause>,
    /// What the caller sees.
    pub outcome: Failure,
    pub status: u16,
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
    pub const CHILD: u64 = 1 << 32;
    pub(super) const THERE: u64 = 1 << 33;
    pub(super) const BACK: u64 = 1 << 34;
    pub(super) const CONNECT: u64 = 1 << 35;
}

/// Who makes a call.
struct Caller {
    parent: Option<Ref>,
    session: Option<Session>,
    pod: u16,
    key: u64,
    trace: u64,
    span: u64,
}

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

    fn call(&mut self, id: CallId, caller: Caller) {
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
    fn go(&mut self, at: Ref) {
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
            self.events.plan(self.events.now() + patience, Event::Impatient(at));
        }
        if self.pods[caller].idle[there] > 0 {
            self.pods[caller].idle[there] -= 1;
            self.send(at, 0);
        } else {
            self.connect(at, 0);
        }
    }

    /// An endpoint of the service, by the call's own draw when there are several.
    fn choose(&self, service: u16, key: u64) -> Option<u16> {
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

    pub(crate) fn arrive(&mut self, at: Ref) {
        let Some(frame) = self.frames.get(at) else { return };
        let kind = self.plan.calls[frame.call as usize].kind;
        let pod = &self.pods[frame.pod as usize];
        if kind == CallKind::Process {
            self.deliver(at);
            return;
        }
        if pod.epoch != frame.epoch || !pod.serves() {
            if frame.client_open {
                self.fail(at, Failure::Reset, 1)
            } else {
                self.frames.remove(at)
            }
            return;
        }
        self.queue(at);
    }

    /// Takes a worker of the callee, or waits for one.
    fn queue(&mut self, at: Ref) {
        let now = self.events.now();
        let Some(frame) = self.frames.get_mut(at) else { return };
        frame.phase = Phase::Queued;
        match self.pods[frame.pod as usize].workers.enter(now, at) {
            Entry::Served => self.serve(at),
            Entry::Waits => {}
            Entry::Refused if frame.client_open => self.fail(at, Failure::Reset, 1),
            Entry::Refused => self.frames.remove(at),
        }
    }

    /// A worker has taken the call: its own work is drawn and the first stretch begins.
    fn serve(&mut self, at: Ref) {
        let now = self.events.now();
        let Some(frame) = self.frames.get_mut(at) else { return };
        let call = &self.plan.calls[frame.call as usize];
        let operation = &self.plan.operations[call.operation as usize];
        let pod = &mut self.pods[frame.pod as usize];
        pod.requests += 1;
        frame.phase = Phase::Serving;
        let mut draw = self.streams.work.at(frame.key);
        let work = draw.log_normal(operation.work, operation.sigma) * pod.work_factor(now);
        frame.work = work / (call.children.len() + 1) as f64;
        let mut delay = 0;
        if call.kind != CallKind::Sql {
            frame.served = now;
            let mut own = self.noise.error_draw(frame.key);
            if own.chance(self.error_rates[call.to as usize]) {
                frame.failure = Failure::Own;
            }
            for set in &self.gates[call.operation as usize].advice {
                self.meters.count(set.meter, true);
                match set.what {
                    Advice::Delay(by) => delay += by,
                    Advice::Throw(number) => frame.failure = Failure::Thrown(number),
                }
            }
            if frame.failure != Failure::None {
                frame.work = work * FAILS_AFTER;
            }
        }
        let (slot, allocation, key) = (frame.pod, draw.exponential(), frame.key);
        if call.kind != CallKind::Sql {
            self.recorder.entered(now, frame);
        }
        self.allocate(slot, allocation, key);
        if delay > 0 {
            self.events.plan(now + delay, Event::Work(at));
        } else {
            self.work(at);
        }
    }

    /// Memory of one request; a collection that it causes stops the process.
    fn allocate(&mut self, slot: u16, share: f64, key: u64) {
        let now = self.events.now();
        let pod = &mut self.pods[slot as usize];
        let Some(heap) = &mut pod.heap else { return };
        let bytes = heap.plan.per_request * share;
        if let Some(Pause { lasts, full }) = heap.allocate(bytes, &mut self.streams.collections.at(key)) {
            pod.cpu.stop(now, now + lasts);
            self.recorder.collection(slot, lasts, full);
        }
    }

    /// Puts the next stretch of own work on the processor.
    pub(crate) fn work(&mut self, at: Ref) {
        let now = self.events.now();
        let Some(frame) = self.frames.get(at) else { return };
        if frame.phase != Phase::Serving {
            return;
        }
        let (slot, work) = (frame.pod, frame.work);
        self.pods[slot as usize].cpu.add(now, at, work);
        self.watch(slot);
    }

    /// A stretch of own work is done.
    pub(crate) fn worked(&mut self, at: Ref) {
        let Some(frame) = self.frames.get(at) else { return };
        if self.plan.calls[frame.call as usize].kind == CallKind::Sql {
            self.answer(at);
        } else {
            self.proceed(at);
        }
    }

    /// Makes the next call of the handling, or ends it.
    fn proceed(&mut self, at: Ref) {
        while let Some(frame) = self.frames.get_mut(at) {
            let plan = &self.plan.calls[frame.call as usize];
            let Some(&child) = plan.children.get(frame.next_child as usize).filter(|_| frame.failure == Failure::None)
            else {
                self.finish(at);
                return;
            };
            frame.next_child += 1;
            let call = &self.plan.calls[child as usize];
            let key = join(frame.key, salt::CHILD + u64::from(frame.next_child));
            let caller = Caller {
                parent: (!call.detached).then_some(at),
                session: None,
                pod: frame.pod,
                key,
                trace: frame.trace,
                span: self.recorder.inner_span(frame),
            };
            if call.chance < 1.0 && !self.streams.work.at(key ^ 1).chance(call.chance) {
                continue;
            }
            let detached = call.detached;
            self.call(child, caller);
            if !detached {
                return;
            }
        }
    }

    /// The handling is over: the worker is free, the answer leaves.
    fn finish(&mut self, at: Ref) {
        let now = self.events.now();
        let Some(frame) = self.frames.get_mut(at) else { return };
        let call = &self.plan.calls[frame.call as usize];
        frame.status = answer_status(frame, self.plan.services[call.to as usize].kind);
        self.recorder.handled(now, frame);
        let slot = frame.pod;
        if call.kind == CallKind::Process {
            self.frames.remove(at);
        } else {
            for set in &self.gates[call.operation as usize].rewrites {
                self.meters.count(set.meter, true);
                match set.what {
                    Rewrite::Status(status) => frame.status = status,
                }
            }
        }
        if let Some(next) = self.pods[slot as usize].workers.leave(now) {
            self.serve(next);
        }
        self.reply(at);
    }

    /// A statement is done.
    fn answer(&mut self, at: Ref) {
        let now = self.events.now();
        let Some(frame) = self.frames.get_mut(at) else { return };
        frame.status = 200;
        let slot = frame.pod as usize;
        if let Some(next) = self.pods[slot].workers.leave(now) {
            self.serve(next);
        }
        self.reply(at);
    }

    fn reply(&mut self, at: Ref) {
        if let Some(frame) = self.frames.get_mut(at) {
            frame.phase = Phase::Returning;
            self.send(at, 0);
        }
    }

    fn refuse(&mut self, at: Ref) {
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
    fn give_back(&mut self, at: Ref) {
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
    fn tell(&mut self, at: Ref) {
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

    fn next_request(&mut self, session: Session, failed: bool, key: u64) {
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

    fn charge(&mut self, slot: u16, work: f64) {
        self.pods[slot as usize].cpu.charge(work);
    }

    // Statements.

    /// A statement needs a connection of the pool of its client.
    fn take_connection(&mut self, at: Ref) {
        let now = self.events.now();
        let Some(frame) = self.frames.get_mut(at) else { return };
        match self.pods[frame.caller as usize].database.enter(now, at) {
            Entry::Served => self.connected(at),
            _ => {
                frame.phase = Phase::Pooled;
                self.events.plan(now + DATABASE_POOL_WAIT, Event::PoolWait(at));
            }
        }
    }

    /// The statement has its place in the pool. With a valid connection it is sent; while the database does not answer,
    /// the pool goes on trying, and its client waits.
    pub(crate) fn connected(&mut self, at: Ref) {
        let now = self.events.now();
        let Some(frame) = self.frames.get(at) else { return };
        let to = self.plan.calls[frame.call as usize].to;
        let pod = self.choose(to, frame.key).filter(|&pod| self.pods[pod as usize].serves());
        let frame = self.frames.get_mut(at).expect("it was there a moment ago");
        (frame.phase, frame.served, frame.holds_connection) = (Phase::Going, now, true);
        if !frame.client_open {
            self.frames.remove(at);
        } else if let Some(pod) = pod {
            (frame.pod, frame.epoch) = (pod, self.pods[pod as usize].epoch);
            self.send(at, 0);
        } else if now - frame.start >= DATABASE_POOL_WAIT {
            self.fail(at, Failure::PoolTimeout, 1);
        } else {
            let again = (now + POOL_RETRY).min(frame.start + DATABASE_POOL_WAIT);
            self.events.plan(again, Event::Acquire(at));
        }
    }

    pub(crate) fn pool_wait_over(&mut self, at: Ref) {
        let now = self.events.now();
        let Some(frame) = self.frames.get(at) else { return };
        if frame.phase == Phase::Pooled && self.pods[frame.caller as usize].database.give_up(now, at) {
            self.fail(at, Failure::PoolTimeout, 1);
        }
    }

    // Messages.

    /// Hands a message to the broker and goes on; the delivery is a life of its own.
    fn publish(&mut self, at: Ref) {
        let Some(frame) = self.frames.get(at) else { return };
        let plan = &self.plan.calls[frame.call as usize];
        let Some(broker) = self.choose(plan.to, frame.key).filter(|&pod| self.pods[pod as usize].serves()) else {
            self.refuse(at);
            return;
        };
        let (key, trace, caller, delivers) = (frame.key, frame.trace, frame.caller, plan.delivers);
        let (there, bytes) = (plan.there, self.plan.operations[plan.operation as usize].request_bytes);
        let mut draw = self.streams.travel.at(join(key, salt::THERE));
        let now = self.events.now();
        let travel = self.settled(there, bytes, key);
        let frame = self.frames.get_mut(at).expect("it was there a moment ago");
        (frame.pod, frame.status, frame.phase) = (broker, 200, Phase::Returning);
        self.pods[caller as usize].traffic.sent += u64::from(bytes);
        self.pods[broker as usize].traffic.received += u64::from(bytes);
        self.events.plan(now + nanos(draw.between(PUBLISH.0, PUBLISH.1)), Event::Returned(at));
        let Some(delivery) = delivers else { return };
        let span = self.streams.spans.id(join(key, salt::CLIENT));
        let caller = Caller { parent: None, session: None, pod: broker, key: join(key, salt::DELIVERY), trace, span };
        let route = nanos(draw.between(ROUTE.0, ROUTE.1));
        let leaves = now + travel + route;
        self.pods[broker as usize].requests += 1;
        self.charge(broker, SIDE_WORK);
        self.deliver_later(delivery, caller, leaves);
    }

    fn deliver_later(&mut self, id: CallId, caller: Caller, leaves: Time) {
        let back = self.plan.calls[id as usize].there;
        // The link of a delivery is the broker's to the consumer.
        let to = self.plan.calls[id as usize].to;
        let from = self.pods[caller.pod as usize].service;
        let link = self.plan.link(from, to).unwrap_or(back);
        let bytes = self.plan.operations[self.plan.calls[id as usize].operation as usize].request_bytes;
        let travel = self.settled(link, bytes, caller.key);
        let pod = self.places[to as usize].start;
        let at = self.frames.insert(Frame {
            generation: 0,
            used: true,
            call: id,
            key: caller.key,
            trace: caller.trace,
            parent_span: caller.span,
            parent: None,
            session: None,
            caller: caller.pod,
            caller_epoch: self.pods[caller.pod as usize].epoch,
            pod,
            epoch: 0,
            start: self.events.now(),
            served: self.events.now(),
            phase: Phase::Going,
            client_open: false,
            holds_connection: false,
            next_child: 0,
            work: 0.0,
            failure: Failure::None,
            cause: None,
            outcome: Failure::None,
            status: 0,
        });
        self.events.plan(leaves + travel, Event::Arrive(at));
    }

    /// Time until a message has surely arrived, retransmissions included.
    fn settled(&mut self, link: u32, bytes: u32, key: u64) -> Time {
        let mut waited = 0;
        for attempt in 0.. {
            let mut draw = self.streams.travel.at(join(key, salt::BACK + u64::from(attempt)));
            match self.links[link as usize].send(bytes, attempt, &mut draw, &mut self.meters) {
                Flight::Arrives(after) => return waited + after,
                Flight::Again(after) => waited += after,
                Flight::GivenUp => break,
            }
        }
        waited
    }

    /// A message has come to its consumer, or waits at the broker until there is one.
    fn deliver(&mut self, at: Ref) {
        let Some(frame) = self.frames.get_mut(at) else { return };
        let slot = frame.pod as usize;
        if self.pods[slot].serves() {
            frame.epoch = self.pods[slot].epoch;
            self.queue(at);
        } else {
            self.undelivered[self.plan.calls[frame.call as usize].to as usize].push_back(at);
        }
    }

    /// A consumer is there again: what waits at the broker is delivered.
    pub(crate) fn redeliver(&mut self, service: u16) {
        let waiting = std::mem::take(&mut self.undelivered[service as usize]);
        for at in waiting {
            self.deliver(at);
        }
    }

    /// The process on `slot` ends: its connections break, its own calls have no caller any more.
    pub(crate) fn break_connections(&mut self, slot: u16) {
        let epoch = self.pods[slot as usize].epoch;
        for at in self.frames.all() {
            let Some(frame) = self.frames.get_mut(at) else { continue };
            let kind = self.plan.calls[frame.call as usize].kind;
            let at_callee = matches!(frame.phase, Phase::Queued | Phase::Serving);
            if kind != CallKind::Process && frame.caller == slot && frame.caller_epoch == epoch {
                (frame.client_open, frame.parent) = (false, None);
                if frame.phase == Phase::Pooled {
                    self.frames.remove(at);
                    continue;
                }
            }
            let Some(frame) = self.frames.get_mut(at) else { continue };
            if frame.pod != slot || frame.epoch != epoch || !at_callee {
                continue;
            }
            if kind == CallKind::Process {
                (frame.phase, frame.next_child, frame.failure) = (Phase::Going, 0, Failure::None);
                let service = self.plan.calls[frame.call as usize].to;
                self.undelivered[service as usize].push_back(at);
            } else {
                self.fail(at, Failure::Reset, MILLI);
            }
        }
    }
}

/// The status that leaves the handling.
fn answer_status(frame: &Frame, kind: system::Kind) -> u16 {
    match (frame.failure, kind, frame.cause) {
        (Failure::None, ..) => 200,
        (Failure::Upstream, system::Kind::Gateway, Some(cause)) => match (cause.status, cause.failure) {
            (0, Failure::Timeout) => 504,
            (0, _) => 502,
            (status, _) => status,
        },
        _ => 500,
    }
}
