//! A pool of equal servers with one queue in order of arrival: worker threads, pooled connections, consumers.

use std::collections::VecDeque;

use crate::engine::Time;

/// What became of a job that came to a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// A server is free and has taken it.
    Served,
    /// It waits in the queue.
    Waits,
    /// The queue is full.
    Refused,
}

/// `servers` servers and room for `room` waiting jobs.
///
/// The pool integrates its own occupancy, so that Little's law can be checked and gauges can be read at any station.
#[derive(Debug)]
pub struct Pool<J> {
    servers: u32,
    room: u32,
    busy: u32,
    waiting: VecDeque<J>,
    since: Time,
    area_busy: f64,
    area_waiting: f64,
}

impl<J: Copy + PartialEq> Pool<J> {
    pub fn new(servers: u32, room: u32) -> Self {
        Self { servers, room, busy: 0, waiting: VecDeque::new(), since: 0, area_busy: 0.0, area_waiting: 0.0 }
    }

    /// As many servers as there are jobs.
    pub fn unbounded() -> Self {
        Self::new(u32::MAX, 0)
    }

    pub fn enter(&mut self, now: Time, job: J) -> Entry {
        self.integrate(now);
        if self.busy < self.servers {
            self.busy += 1;
            Entry::Served
        } else if (self.waiting.len() as u64) < u64::from(self.room) {
            self.waiting.push_back(job);
            Entry::Waits
        } else {
            Entry::Refused
        }
    }

    /// A served job leaves; the next waiting one, if any, is served from now on.
    pub fn leave(&mut self, now: Time) -> Option<J> {
        self.integrate(now);
        let next = self.waiting.pop_front();
        if next.is_none() {
            self.busy = self.busy.saturating_sub(1);
        }
        next
    }

    /// A waiting job gives up. Whether it was still waiting.
    pub fn give_up(&mut self, now: Time, job: J) -> bool {
        let Some(place) = self.waiting.iter().position(|&other| other == job) else { return false };
        self.integrate(now);
        self.waiting.remove(place);
        true
    }

    /// The process behind the pool is gone, and everything in it.
    pub fn clear(&mut self, now: Time) {
        self.integrate(now);
        self.busy = 0;
        self.waiting.clear();
    }

    pub const fn busy(&self) -> u32 {
        self.busy
    }

    pub fn waiting(&self) -> u32 {
        self.waiting.len() as u32
    }

    pub const fn servers(&self) -> u32 {
        self.servers
    }

    /// Integrals over time, in job-nanoseconds, of jobs in service and of jobs waiting.
    pub fn areas(&mut self, now: Time) -> (f64, f64) {
        self.integrate(now);
        (self.area_busy, self.area_waiting)
    }

    fn integrate(&mut self, now: Time) {
        let passed = (now - self.since) as f64;
        self.area_busy += passed * f64::from(self.busy);
        self.area_waiting += passed * self.waiting.len() as f64;
        self.since = now;
    }
}
