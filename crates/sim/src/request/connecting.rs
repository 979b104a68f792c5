//! Connections: the wait for one of a pool, the choice of an instance, and opening a new one.

use super::{Failure, Phase, Ref, salt};
use crate::engine::{MILLI, SECOND, Time};
use crate::gate::Address;
use crate::link::{Flight, no_answer};
use crate::plan::CallKind;
use crate::rng::join;
use crate::station::{Channel, Entry};
use crate::world::{Event, World};

/// A client that goes on trying waits so long between two attempts.
const AGAIN: Time = 500 * MILLI;
/// A segment that finds the accept queue full is dropped; the next SYN comes after 1 s, doubling, six times.
const SYN_RTO: Time = SECOND;
const SYN_RETRIES: u32 = 6;
/// A dial to an address where nobody is ends after about 20 s (gRPC's minimum connect time-out).
const STALE_RETRIES: u32 = 4;

impl World {
    /// The caller's channel that a call uses.
    pub(super) fn channel(&mut self, at: Ref) -> Option<&mut Channel> {
        let frame = self.frames.get(at)?;
        let route = &self.plan.routes[self.plan.calls[frame.asked() as usize].route as usize];
        Some(&mut self.pods[frame.caller as usize].channels[usize::from(route.place)])
    }

    /// Takes a place in the caller's pool of connections, or waits for one.
    pub(super) fn take_connection(&mut self, at: Ref) {
        let now = self.events.now();
        let Some(channel) = self.channel(at) else { return };
        if !channel.bounded() {
            self.go(at);
            return;
        }
        let (entry, wait) = (channel.pool.enter(now, at), channel.client.wait);
        match entry {
            Entry::Served => self.placed(at),
            _ => {
                if let Some(frame) = self.frames.get_mut(at) {
                    frame.phase = Phase::Pooled;
                }
                if let Some(wait) = wait {
                    self.events.plan(now + wait, Event::PoolWait(at));
                }
            }
        }
    }

    /// The call has its place in the pool.
    pub(super) fn placed(&mut self, at: Ref) {
        if let Some(frame) = self.frames.get_mut(at) {
            (frame.phase, frame.holds_connection) = (Phase::Going, true);
            self.go(at);
        }
    }

    /// Reuses a connection or chooses an instance and opens one.
    pub(crate) fn go(&mut self, at: Ref) {
        let now = self.events.now();
        let Some(frame) = self.frames.get(at) else { return };
        if !frame.client_open {
            self.frames.remove(at);
            return;
        }
        let (key, to) = (frame.key, self.plan.calls[frame.call as usize].to);
        let Some(channel) = self.channel(at) else { return };
        let (open, fails) = (channel.open(now), channel.fails_at_once(now));
        if let Some((pod, carried)) = open {
            self.aim(at, pod);
            self.reuses(at, carried);
            self.send_first(at);
        } else if fails {
            self.fail(at, Failure::Refused, 1);
        } else if let Some(pod) = self.choose(to, key) {
            self.aim(at, pod);
            self.look_up(at);
        } else {
            self.not_connected(at, Failure::Refused);
        }
    }

    fn aim(&mut self, at: Ref, pod: u16) {
        let epoch = self.pods[pod as usize].epoch;
        if let Some(frame) = self.frames.get_mut(at) {
            (frame.pod, frame.epoch) = (pod, epoch);
        }
    }

    /// The connection is there: the request leaves.
    fn send_first(&mut self, at: Ref) {
        let now = self.events.now();
        if let Some(frame) = self.frames.get_mut(at) {
            frame.served = now;
            self.drive(at);
        }
    }

    pub(crate) fn connect(&mut self, at: Ref, attempt: u32) {
        let Some(frame) = self.frames.get(at) else { return };
        if !frame.client_open {
            self.frames.remove(at);
            return;
        }
        let call = &self.plan.calls[frame.call as usize];
        let (links, ends, start) = ((call.there, call.back), (frame.caller, frame.pod), frame.start);
        let client = self.plan.routes[call.route as usize].client;
        let until = client.wait.filter(|_| client.persistent).map_or(Time::MAX, |wait| start + wait);
        let key = join(frame.key, salt::CONNECT + u64::from(attempt));
        let (address, pod, now) = (frame.marks.address, frame.pod as usize, self.events.now());
        if now >= until {
            self.fail(at, Failure::PoolTimeout, 1);
            return;
        }
        if !self.knows_address(at) {
            // Nobody is at the old address, and nobody says so.
            if attempt < STALE_RETRIES {
                self.events.plan((now + (SYN_RTO << attempt)).min(until), Event::Connect { at, attempt: attempt + 1 });
            } else {
                self.not_connected(at, Failure::Unreachable);
            }
            return;
        }
        let flight = match address {
            Address::Silent => no_answer(attempt),
            Address::Right | Address::Refusing => self.shake_hands(links, ends, attempt, key),
        };
        match flight {
            Flight::Arrives(_) if address == Address::Refusing || !self.pods[pod].serves() => {
                self.not_connected(at, Failure::Refused);
            }
            Flight::Arrives(_) if self.pods[pod].accepts_no_more() => {
                if attempt < SYN_RETRIES {
                    let next = (now + (SYN_RTO << attempt)).min(until);
                    self.events.plan(next, Event::Connect { at, attempt: attempt + 1 });
                } else {
                    self.not_connected(at, Failure::Unreachable);
                }
            }
            Flight::Arrives(after) => {
                self.aim(at, pod as u16);
                self.events.plan(now + after, Event::Connected(at));
            }
            Flight::Again(after) => {
                self.events.plan((now + after).min(until), Event::Connect { at, attempt: attempt + 1 });
            }
            Flight::GivenUp => self.not_connected(at, Failure::Unreachable),
        }
    }

    /// Whether the caller has the pod's present address. Who finds others by a registry is told of a new one as long as the
    /// registry is there, and keeps the last one when it is not.
    fn knows_address(&mut self, at: Ref) -> bool {
        let Some(frame) = self.frames.get(at) else { return true };
        let (pod, call) = (frame.pod, &self.plan.calls[frame.call as usize]);
        let Some(registry) = self.plan.services[call.to as usize].registry else { return true };
        let generation = self.pods[pod as usize].generation;
        let answers = self.places[registry as usize].clone().any(|slot| self.pods[slot as usize].serves());
        let Some(channel) = self.channel(at) else { return true };
        if answers {
            channel.learn(pod, generation);
        }
        channel.knows(pod, generation)
    }

    /// The handshake is over.
    pub(crate) fn connected(&mut self, at: Ref) {
        let Some(frame) = self.frames.get(at) else { return };
        let (pod, same) = (frame.pod, self.pods[frame.pod as usize].epoch == frame.epoch);
        if same && let Some(channel) = self.channel(at) {
            channel.opened(pod);
        }
        self.send_first(at);
    }

    /// No connection could be opened: a client that goes on trying does so until its wait is over.
    pub(crate) fn not_connected(&mut self, at: Ref, failure: Failure) {
        let now = self.events.now();
        let Some(channel) = self.channel(at) else { return };
        channel.closed(now);
        let (persistent, wait) = (channel.client.persistent, channel.client.wait);
        let Some(frame) = self.frames.get(at) else { return };
        match wait.filter(|_| persistent) {
            Some(wait) if now - frame.start >= wait => self.fail(at, Failure::PoolTimeout, 1),
            Some(wait) => self.events.plan((now + AGAIN).min(frame.start + wait), Event::Acquire(at)),
            None if failure == Failure::Refused => self.refuse(at),
            None => self.fail(at, failure, 1),
        }
    }

    /// The wait for a place in the pool is over.
    pub(crate) fn pool_wait_over(&mut self, at: Ref) {
        let now = self.events.now();
        if self.frames.get(at).is_none_or(|frame| frame.phase != Phase::Pooled) {
            return;
        }
        if self.channel(at).is_some_and(|channel| channel.pool.give_up(now, at)) {
            self.fail(at, Failure::PoolTimeout, 1);
        }
    }

    /// Returns the connection that the call used.
    pub(super) fn give_back(&mut self, at: Ref) {
        let now = self.events.now();
        let Some(frame) = self.frames.get_mut(at) else { return };
        let kind = self.plan.calls[frame.asked() as usize].kind;
        let carried = frame.marks.carried.saturating_add(1);
        if kind == CallKind::Publish {
            return;
        }
        let (answered, pod) = (frame.outcome == Failure::None, frame.pod);
        let same = self.pods.get(pod as usize).is_some_and(|pod| pod.epoch == frame.epoch);
        let held = std::mem::replace(&mut frame.holds_connection, false);
        let Some(channel) = self.channel(at) else { return };
        if answered && same {
            channel.keep(now, pod, carried);
        }
        if held && let Some(next) = channel.pool.leave(now) {
            self.placed(next);
        }
    }
}
