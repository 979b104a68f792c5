//! Messages of one queue or topic for one consuming service: those that wait at the broker, and those that consumers hold.

use std::collections::VecDeque;

use crate::engine::Time;
use crate::request::Ref;

#[derive(Debug)]
pub struct Queue {
    waiting: VecDeque<Ref>,
    /// Messages that each consumer holds and has not acknowledged, or the rest of the batch that it polled.
    held: Vec<u32>,
    /// Messages that came, and that consumers have worked on.
    pub produced: u64,
    pub done: u64,
    /// Until then nothing is delivered: consumers find each other or the broker again.
    pub closed_until: Time,
}

impl Queue {
    pub fn new(consumers: usize) -> Self {
        Self { waiting: VecDeque::new(), held: vec![0; consumers], produced: 0, done: 0, closed_until: 0 }
    }

    pub fn come(&mut self, message: Ref) {
        self.produced += 1;
        self.waiting.push_back(message);
    }

    /// Messages that a consumer lost come first again, in their order.
    pub fn come_back(&mut self, messages: impl DoubleEndedIterator<Item = Ref>) {
        messages.rev().for_each(|message| self.waiting.push_front(message));
    }

    /// The next message for a consumer that has room for it.
    pub fn take(&mut self, consumer: usize) -> Option<Ref> {
        let message = self.waiting.pop_front()?;
        self.held[consumer] += 1;
        Some(message)
    }

    pub fn finished(&mut self, consumer: usize) {
        self.held[consumer] = self.held[consumer].saturating_sub(1);
        self.done += 1;
    }

    /// The consumer's process ended.
    pub fn lost(&mut self, consumer: usize) {
        self.held[consumer] = 0;
    }

    pub fn held(&self, consumer: usize) -> u32 {
        self.held[consumer]
    }

    pub fn waiting(&self) -> u64 {
        self.waiting.len() as u64
    }

    pub fn held_in_all(&self) -> u64 {
        self.held.iter().map(|&held| u64::from(held)).sum()
    }
}
