//! Stamps: what the clocks of nodes and processes show at an instant of the run.

use super::Recorder;
use crate::engine::Time;
use crate::pod::Pod;

/// A clock that is off for a while.
pub(super) struct Skew {
    number: u32,
    slot: u16,
    from: Time,
    until: Time,
    offset: Time,
}

impl Recorder {
    /// From now on the clock that the processes on these places read is off.
    pub fn skew(&mut self, number: u32, now: Time, slots: &[u16], offset: Time) {
        let skew = |&slot: &u16| Skew { number, slot, from: now, until: Time::MAX, offset };
        self.skews.extend(slots.iter().map(skew));
    }

    /// The clock is right again.
    pub fn right(&mut self, number: u32, now: Time) {
        self.end_skews(now, |skew| skew.number == number);
    }

    /// Another process reads the node's clock.
    pub fn restarted(&mut self, slot: u16, now: Time) {
        self.end_skews(now, |skew| skew.slot == slot);
    }

    fn end_skews(&mut self, now: Time, which: impl Fn(&Skew) -> bool) {
        let live = self.skews.iter_mut().filter(|skew| skew.until == Time::MAX && which(skew));
        live.for_each(|skew| skew.until = now);
    }

    /// How far the clock of a process was off at an instant.
    fn off(&self, slot: u16, at: Time) -> Time {
        let skews = self.skews.iter().filter(|skew| skew.slot == slot && (skew.from..skew.until).contains(&at));
        skews.map(|skew| skew.offset).sum()
    }

    /// The stamp that a process in the pod gives to `at` when it read its clock at `read`: SDKs read it at the start of a
    /// span and count on from there with a clock that no setting moves.
    pub(super) fn own_stamp(&self, pod: &Pod, at: Time, read: Time) -> u64 {
        self.stamp(pod, at + self.off(pod.slot, read))
    }

    /// The stamp that a clock on the pod's node gives.
    pub(super) fn stamp(&self, pod: &Pod, at: Time) -> u64 {
        (self.origin + at + self.clock_errors[pod.node as usize]).max(0) as u64
    }
}
