//! Virtual time and the queue of what happens next.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Nanoseconds since the run's origin.
pub type Time = i64;

pub const MICRO: Time = 1_000;
pub const MILLI: Time = 1_000_000;
pub const SECOND: Time = 1_000_000_000;

/// A span of time drawn as a real number, rounded up so that nothing takes no time at all.
pub fn nanos(value: f64) -> Time {
    value.max(1.0) as Time
}

struct Entry<T> {
    at: Time,
    number: u64,
    what: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}
impl<T> Eq for Entry<T> {}
impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Entry<T> {
    /// The earliest entry is the greatest; entries of one instant keep the order in which they were planned.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

/// The one event queue of a simulation: a binary heap ordered by time, then by order of planning.
///
/// A few hundred to a few thousand events are pending at any time, where a heap and a calendar queue cost the same.
pub struct Events<T> {
    heap: BinaryHeap<Entry<T>>,
    planned: u64,
    now: Time,
}

impl<T> Default for Events<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::with_capacity(4096), planned: 0, now: 0 }
    }
}

impl<T> Events<T> {
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Plans `what` at `at`, or now when that has passed.
    pub fn plan(&mut self, at: Time, what: T) {
        let at = at.max(self.now);
        self.heap.push(Entry { at, number: self.planned, what });
        self.planned += 1;
    }

    /// The next event before `until`, with the clock moved to it; `None` moves the clock to `until`.
    pub fn next_before(&mut self, until: Time) -> Option<T> {
        match self.heap.peek() {
            Some(entry) if entry.at < until => {
                let entry = self.heap.pop()?;
                self.now = entry.at;
                Some(entry.what)
            }
            _ => {
                self.now = self.now.max(until);
                None
            }
        }
    }

    /// How many events were planned so far.
    pub const fn planned(&self) -> u64 {
        self.planned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_then_by_order_of_planning() {
        let mut events = Events::default();
        for (at, what) in [(5, 'c'), (1, 'a'), (5, 'd'), (3, 'b'), (9, 'z')] {
            events.plan(at, what);
        }
        let seen: String = std::iter::from_fn(|| events.next_before(9)).collect();
        assert_eq!((seen.as_str(), events.now()), ("abcd", 9));
    }
}
