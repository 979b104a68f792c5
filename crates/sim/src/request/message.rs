//! Messages: publishing, the broker's queues, and deliveries that have a life of their own.

use super::{Caller, Phase, Ref, salt};
use crate::engine::{MICRO, MILLI, SECOND, Time, nanos};
use crate::link::Flight;
use crate::plan::{CallId, CallKind, QueueId};
use crate::rng::join;
use crate::world::{Event, World};

/// A publish without confirmation returns when the frame is written.
const PUBLISH: (f64, f64) = (100.0 * MICRO as f64, 400.0 * MICRO as f64);
/// A broker routes and stores a message.
const ROUTE: (f64, f64) = (200.0 * MICRO as f64, 900.0 * MICRO as f64);
/// What a request costs a generator, or a message a broker, in CPU-nanoseconds.
const SIDE_WORK: f64 = 200.0 * MICRO as f64;
/// A consumer of a log that is gone without a word counts as a member until its session is over (`session.timeout.ms`);
/// nobody is given its partitions before.
const SESSION: Time = 45 * SECOND;
/// Clients of a broker that was away connect again after this time (`AMQP` recovery interval).
const RECOVERY: Time = 5 * SECOND;

impl World {
    /// Hands a message to the broker and goes on; the delivery is a life of its own.
    pub(super) fn publish(&mut self, at: Ref) {
        let Some(frame) = self.frames.get(at) else { return };
        let plan = &self.plan.calls[frame.call as usize];
        let Some(broker) = self.choose(plan.to, frame.key).filter(|&pod| self.pods[pod as usize].serves()) else {
            self.refuse(at);
            return;
        };
        let (id, key, trace, caller) = (frame.call, frame.key, frame.trace, frame.caller);
        let mut draw = self.streams.travel.at(join(key, salt::THERE));
        let now = self.events.now();
        let frame = self.frames.get_mut(at).expect("it was there a moment ago");
        (frame.pod, frame.status, frame.phase) = (broker, 200, Phase::Returning);
        self.events.plan(now + nanos(draw.between(PUBLISH.0, PUBLISH.1)), Event::Returned(at));
        let span = self.streams.spans.id(join(key, salt::CLIENT));
        self.pods[broker as usize].requests += 1;
        self.charge(broker, SIDE_WORK);
        let message = self.plan_call(id, Caller { parent: None, session: None, pod: caller, key, trace, span });
        self.set_off(message, broker, self.pods[broker as usize].epoch);
    }

    /// A message begins its way to a pod, and nobody waits for it.
    fn set_off(&mut self, at: Ref, pod: u16, epoch: u32) {
        let Some(frame) = self.frames.get_mut(at) else { return };
        (frame.pod, frame.epoch, frame.phase, frame.client_open) = (pod, epoch, Phase::Going, false);
        self.carry(at, 0);
    }

    /// Sends a message to the broker, or from there to its consumer, once more each time that it is lost: what is wrong
    /// with the link then decides.
    pub(crate) fn carry(&mut self, at: Ref, attempt: u32) {
        let Some(frame) = self.frames.get(at) else { return };
        let call = &self.plan.calls[frame.call as usize];
        let (link, ends, to_broker) = (call.there, (frame.caller, frame.pod), call.kind == CallKind::Publish);
        let bytes = self.plan.operations[call.operation as usize].request_bytes;
        let key = join(frame.key, salt::BACK + u64::from(attempt));
        let now = self.events.now();
        match self.transmit(link, ends, bytes, attempt, key) {
            Flight::Arrives(after) if to_broker => self.spread(at, now + after),
            Flight::Arrives(after) => self.events.plan(now + after, Event::Arrive(at)),
            Flight::Again(after) => self.events.plan(now + after, Event::Carry { at, attempt: attempt + 1 }),
            // The client opens another connection and sends what was not confirmed.
            Flight::GivenUp => self.events.plan(now + RECOVERY, Event::Carry { at, attempt: attempt + 1 }),
        }
    }

    /// A published message reaches the broker at `arrives`: each consuming service gets a copy.
    fn spread(&mut self, message: Ref, arrives: Time) {
        let Some(frame) = self.frames.get(message) else { return };
        let (id, key, trace, span, broker) = (frame.call, frame.key, frame.trace, frame.parent_span, frame.pod);
        self.frames.remove(message);
        let mut draw = self.streams.travel.at(join(key, salt::THERE));
        draw.between(PUBLISH.0, PUBLISH.1);
        let comes = arrives + nanos(draw.between(ROUTE.0, ROUTE.1));
        for number in 0..self.plan.calls[id as usize].delivers.len() {
            let delivery = self.plan.calls[id as usize].delivers[number];
            let key = join(key, salt::DELIVERY + number as u64);
            self.come(delivery, Caller { parent: None, session: None, pod: broker, key, trace, span }, comes);
        }
    }

    /// A copy of the message for one consuming service is at the broker at `comes`.
    fn come(&mut self, delivery: CallId, caller: Caller, comes: Time) {
        let at = self.plan_call(delivery, caller);
        if let Some(frame) = self.frames.get_mut(at) {
            (frame.phase, frame.client_open) = (Phase::Going, false);
        }
        self.events.plan(comes, Event::Arrive(at));
    }

    /// A message has come to the broker, or to its consumer.
    pub(super) fn deliver(&mut self, at: Ref) {
        let Some(frame) = self.frames.get(at) else { return };
        let Some(queue) = self.plan.calls[frame.call as usize].queue else { return };
        if frame.pod == u16::MAX {
            self.queues[queue as usize].come(at);
            self.dispatch(queue);
        } else if self.pods[frame.pod as usize].epoch == frame.epoch {
            self.queue(at);
        } else {
            self.come_back(queue, vec![at]);
            self.dispatch(queue);
        }
    }

    /// Gives waiting messages to consumers with room: a queue pushes up to its prefetch, a log hands over the next batch
    /// when the one before is done.
    pub(crate) fn dispatch(&mut self, id: QueueId) {
        let now = self.events.now();
        let plan = &self.plan.queues[id as usize];
        let (is_log, most) = (plan.is_log, plan.most);
        let (broker, consumers) =
            (self.places[plan.broker as usize].start, self.places[plan.consumer as usize].clone());
        if now < self.queues[id as usize].closed_until || !self.pods[broker as usize].serves() {
            return;
        }
        for (consumer, slot) in consumers.enumerate() {
            let held = self.queues[id as usize].held(consumer);
            let room = if is_log && held > 0 { 0 } else { most.saturating_sub(held) };
            if !self.pods[slot as usize].serves() {
                continue;
            }
            for _ in 0..room {
                let Some(at) = self.queues[id as usize].take(consumer) else { return };
                self.hand_over(at, slot);
            }
        }
    }

    fn hand_over(&mut self, at: Ref, slot: u16) {
        self.set_off(at, slot, self.pods[slot as usize].epoch);
    }

    /// A consumer is done with a message.
    pub(super) fn acknowledge(&mut self, at: Ref) {
        let Some(frame) = self.frames.get(at) else { return };
        let call = &self.plan.calls[frame.call as usize];
        let (slot, first) = (frame.pod, self.places[call.to as usize].start);
        if let Some(queue) = call.queue {
            self.queues[queue as usize].finished(usize::from(slot - first));
            self.dispatch(queue);
        }
    }

    /// Messages that a consumer did not finish wait at the broker again, for another attempt with spans of its own.
    pub(super) fn come_back(&mut self, queue: QueueId, messages: Vec<Ref>) {
        let mut back: Vec<(Time, u64, Ref)> = Vec::with_capacity(messages.len());
        for at in messages {
            let Some(frame) = self.frames.get_mut(at) else { continue };
            back.push((frame.start, frame.key, at));
            frame.key = join(frame.key, salt::REDELIVERY + (u64::from(frame.epoch) << 8));
            (frame.pod, frame.phase, frame.next_child, frame.failure) =
                (u16::MAX, Phase::Going, 0, super::Failure::None);
            (frame.waits, frame.child, frame.cause) = (0, None, None);
        }
        back.sort_unstable_by_key(|&(start, key, _)| (start, key));
        let renewed: Vec<Ref> = back.into_iter().map(|(.., at)| self.frames.renew(at)).collect();
        self.queues[queue as usize].come_back(renewed.into_iter());
    }

    /// The process of a consumer on `slot` ended: what it held comes back.
    pub(super) fn consumer_lost(&mut self, slot: u16, messages: Vec<Ref>) {
        let service = self.pods[slot as usize].service;
        let consumer = usize::from(slot - self.places[service as usize].start);
        for id in 0..self.plan.queues.len() {
            let plan = &self.plan.queues[id];
            if plan.consumer != service {
                continue;
            }
            if plan.is_log {
                self.close_queue(id as QueueId, SESSION);
            }
            self.queues[id].lost(consumer);
            let of_queue = |at: &Ref| {
                let frame = self.frames.get(*at);
                frame.is_some_and(|frame| self.plan.calls[frame.call as usize].queue == Some(id as QueueId))
            };
            let mine: Vec<Ref> = messages.iter().copied().filter(of_queue).collect();
            self.come_back(id as QueueId, mine);
            self.events.plan(self.events.now() + MILLI, Event::Dispatch { queue: id as QueueId });
        }
    }

    fn close_queue(&mut self, id: QueueId, lasts: Time) {
        let until = self.events.now() + lasts;
        let queue = &mut self.queues[id as usize];
        queue.closed_until = queue.closed_until.max(until);
        self.events.plan(until, Event::Dispatch { queue: id });
    }

    /// A process is there again: its consumers are served, or the clients of a broker connect again.
    pub(crate) fn reopen_queues(&mut self, service: u16) {
        for id in 0..self.plan.queues.len() as QueueId {
            let plan = &self.plan.queues[id as usize];
            if plan.broker == service {
                self.close_queue(id, RECOVERY);
            } else if plan.consumer == service {
                self.dispatch(id);
            }
        }
    }
}
