//! Messages: publishing, and deliveries that have a life of their own.

use super::{Caller, Failure, Phase, Ref, salt};
use crate::engine::{MICRO, Time, nanos};
use crate::link::Flight;
use crate::plan::{CallId, CallPlan};
use crate::rng::join;
use crate::world::{Event, World};

/// A publish without confirmation returns when the frame is written.
const PUBLISH: (f64, f64) = (100.0 * MICRO as f64, 400.0 * MICRO as f64);
/// A broker routes and stores a message.
const ROUTE: (f64, f64) = (200.0 * MICRO as f64, 900.0 * MICRO as f64);
/// What a request costs a generator, or a message a broker, in CPU-nanoseconds.
const SIDE_WORK: f64 = 200.0 * MICRO as f64;

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
        let (there, bytes) = (plan.there, self.plan.operations[plan.operation as usize].request_bytes);
        let mut draw = self.streams.travel.at(join(key, salt::THERE));
        let now = self.events.now();
        let travel = self.settled(there, (caller, broker), bytes, key);
        let frame = self.frames.get_mut(at).expect("it was there a moment ago");
        (frame.pod, frame.status, frame.phase) = (broker, 200, Phase::Returning);
        self.events.plan(now + nanos(draw.between(PUBLISH.0, PUBLISH.1)), Event::Returned(at));
        let span = self.streams.spans.id(join(key, salt::CLIENT));
        let leaves = now + travel + nanos(draw.between(ROUTE.0, ROUTE.1));
        self.pods[broker as usize].requests += 1;
        self.charge(broker, SIDE_WORK);
        let plan = self.plan.clone();
        for (number, &delivery) in plan.calls[id as usize].delivers.iter().enumerate() {
            let key = join(key, salt::DELIVERY + number as u64);
            let caller = Caller { parent: None, session: None, pod: broker, key, trace, span };
            self.deliver_later(delivery, caller, leaves);
        }
    }

    pub(super) fn deliver_later(&mut self, id: CallId, caller: Caller, leaves: Time) {
        let CallPlan { there: link, to, .. } = self.plan.calls[id as usize];
        let bytes = self.plan.operations[self.plan.calls[id as usize].operation as usize].request_bytes;
        let pod = self.places[to as usize].start;
        let travel = self.settled(link, (caller.pod, pod), bytes, caller.key);
        let at = self.plan_call(id, caller);
        let frame = self.frames.get_mut(at).expect("it was made a moment ago");
        (frame.pod, frame.phase, frame.client_open) = (pod, Phase::Going, false);
        self.events.plan(leaves + travel, Event::Arrive(at));
    }

    /// Time until a message has surely arrived, retransmissions included.
    pub(super) fn settled(&mut self, link: u32, ends: (u16, u16), bytes: u32, key: u64) -> Time {
        let mut waited = 0;
        for attempt in 0.. {
            match self.transmit(link, ends, bytes, attempt, join(key, salt::BACK + u64::from(attempt))) {
                Flight::Arrives(after) => return waited + after,
                Flight::Again(after) => waited += after,
                Flight::GivenUp => break,
            }
        }
        waited
    }

    /// A message has come to its consumer, or waits at the broker until there is one.
    pub(super) fn deliver(&mut self, at: Ref) {
        let Some(frame) = self.frames.get_mut(at) else { return };
        let slot = frame.pod as usize;
        if self.pods[slot].serves() {
            frame.epoch = self.pods[slot].epoch;
            self.queue(at);
        } else {
            self.undelivered[self.plan.calls[frame.call as usize].to as usize].push_back(at);
        }
    }

    /// The consumer of a message ended: the message waits at the broker, for another attempt with spans of its own.
    pub(super) fn undeliver(&mut self, at: Ref, epoch: u32) {
        let Some(frame) = self.frames.get_mut(at) else { return };
        frame.key = join(frame.key, salt::REDELIVERY + (u64::from(epoch) << 8));
        (frame.phase, frame.next_child, frame.failure) = (Phase::Going, 0, Failure::None);
        (frame.waits, frame.child, frame.cause) = (0, None, None);
        let service = self.plan.calls[frame.call as usize].to;
        let at = self.frames.renew(at);
        self.undelivered[service as usize].push_back(at);
    }

    /// A consumer is there again: what waits at the broker is delivered.
    pub(crate) fn redeliver(&mut self, service: u16) {
        let waiting = std::mem::take(&mut self.undelivered[service as usize]);
        for at in waiting {
            self.deliver(at);
        }
    }
}
