//! Timers of one constant length, which end in the order in which they began: a queue each, outside the event heap.

use std::collections::VecDeque;

use crate::engine::Time;
use crate::request::Ref;

#[derive(Debug)]
struct Queue {
    length: Time,
    waiting: VecDeque<(Time, Ref)>,
    /// Whether a look at this queue is planned.
    planned: bool,
}

#[derive(Debug, Default)]
pub struct Patience {
    queues: Vec<Queue>,
}

impl Patience {
    /// Starts a timer. The queue to look at and when, unless a look is planned already.
    pub fn start(&mut self, now: Time, length: Time, at: Ref) -> Option<(u8, Time)> {
        let number = self.queues.iter().position(|queue| queue.length == length).unwrap_or_else(|| {
            self.queues.push(Queue { length, waiting: VecDeque::new(), planned: false });
            self.queues.len() - 1
        });
        let queue = &mut self.queues[number];
        queue.waiting.push_back((now + length, at));
        let first = !std::mem::replace(&mut queue.planned, true);
        first.then_some((number as u8, now + length))
    }

    /// The next timer of the queue that has ended by `now`.
    pub fn ended(&mut self, now: Time, queue: u8) -> Option<Ref> {
        let waiting = &mut self.queues[usize::from(queue)].waiting;
        waiting.pop_front_if(|(end, _)| *end <= now).map(|(_, at)| at)
    }

    /// When to look at the queue again; timers that nobody waits for any more are left out.
    pub fn next(&mut self, queue: u8, waits: impl Fn(Ref) -> bool) -> Option<Time> {
        let queue = &mut self.queues[usize::from(queue)];
        while queue.waiting.pop_front_if(|&mut (_, at)| !waits(at)).is_some() {}
        let next = queue.waiting.front().map(|&(end, _)| end);
        queue.planned = next.is_some();
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_look_is_planned_at_a_time() {
        let (mut patience, [a, b, c]) = (Patience::default(), Ref::several());
        assert_eq!(patience.start(0, 30, a), Some((0, 30)));
        assert_eq!(patience.start(5, 30, b), None);
        assert_eq!(patience.ended(30, 0), Some(a));
        assert_eq!(patience.ended(30, 0), None);
        // A timer that starts while the queue is looked at is found by the look itself.
        assert_eq!(patience.start(30, 30, c), None);
        assert_eq!(patience.next(0, |at| at != b), Some(60));
        assert_eq!(patience.ended(60, 0), Some(c));
        assert_eq!(patience.next(0, |_| true), None);
        assert_eq!(patience.start(70, 30, a), Some((0, 100)));
    }
}
