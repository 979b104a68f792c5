//! Statements: the wait for a connection of the client's pool.

use super::{Failure, Phase, Ref};
use crate::engine::{MILLI, Time};
use crate::profile::DATABASE_POOL_WAIT;
use crate::station::Entry;
use crate::world::{Event, World};

/// A pool without valid connections tries again after this time.
const POOL_RETRY: Time = 500 * MILLI;

impl World {
    /// A statement needs a connection of the pool of its client.
    pub(super) fn take_connection(&mut self, at: Ref) {
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
}
