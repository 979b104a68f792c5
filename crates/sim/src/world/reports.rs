//! When exporters look at pods, and what they find there.

use super::{Event, REPORT_EVERY, World};
use crate::emit::{Exporter, Reading};
use crate::engine::SECOND;
use crate::plan::{CallKind, QueuePlan, ServiceId};
use crate::station::Queue;

impl World {
    pub(super) fn report(&mut self, slot: u16, exporter: Exporter, number: u32) {
        let now = self.events.now();
        self.events.plan(now + REPORT_EVERY, Event::Report { slot, exporter, number: number + 1 });
        let place = self.pods[slot as usize].place();
        if exporter == Exporter::Kubelet {
            self.pods[slot as usize].bustle = self.noise.bustle(place, u64::from(number));
            self.demand(slot);
        }
        let key = place << 2 | exporter as u64;
        match self.noise.scrape(key, u64::from(number)) {
            Some(late) => self.events.plan(now + late, Event::Scrape { slot, exporter, number }),
            None => self.distract("lost_scrape", slot, now + REPORT_EVERY, None),
        }
    }

    pub(super) fn scrape(&mut self, slot: u16, exporter: Exporter, number: u32) {
        let now = self.events.now();
        let place = self.pods[slot as usize].place() << 2 | exporter as u64;
        let cpu = &mut self.pods[slot as usize].cpu;
        // The agent in the process counts the process alone.
        let spent = cpu.spent(now);
        let beside = if exporter == Exporter::Process { cpu.spent_beside() } else { 0.0 };
        let cpu_time = (spent - beside) / SECOND as f64;
        let seen = &mut self.cpu_seen[slot as usize][exporter as usize];
        let passed = ((now - seen.0) as f64 / SECOND as f64).max(1e-3);
        let cpu_usage = ((cpu_time - seen.1) / passed).max(0.0);
        *seen = (now, cpu_time);
        let queues = if exporter == Exporter::Process { self.queues(slot) } else { Vec::new() };
        let sessions = if exporter == Exporter::Process { self.sessions(slot) } else { 0 };
        let draw = self.noise.reading(place, u64::from(number));
        let pod = &self.pods[slot as usize];
        self.recorder.report(exporter, Reading { pod, now, cpu_time, cpu_usage, queues, sessions, draw });
    }

    /// Name, waiting and unacknowledged messages of the queues of a broker.
    fn queues(&self, slot: u16) -> Vec<(String, u64, u64)> {
        let broker = self.pods[slot as usize].service;
        let queues = self.plan.queues.iter().zip(&self.queues).filter(|(plan, _)| plan.broker == broker);
        queues.map(|(plan, queue)| (plan.name.clone(), queue.waiting(), queue.held_in_all())).collect()
    }

    /// What is on its way in every queue and topic, for each service that consumes it.
    pub fn backlogs(&self) -> Vec<Backlog> {
        let name = |service: ServiceId| self.plan.services[service as usize].name.clone();
        let one = |(plan, queue): (&QueuePlan, &Queue)| Backlog {
            broker: name(plan.broker),
            queue: plan.name.clone(),
            consumer: name(plan.consumer),
            waiting: queue.waiting(),
            held: queue.held_in_all(),
            produced: queue.produced,
            done: queue.done,
        };
        self.plan.queues.iter().zip(&self.queues).map(one).collect()
    }

    /// Connections that clients hold open at a database.
    fn sessions(&self, slot: u16) -> u64 {
        let database = self.pods[slot as usize].service;
        let mut sessions = 0;
        for route in self.plan.routes.iter().filter(|route| route.to == database) {
            for client in self.places[route.from as usize].clone() {
                let pod = &self.pods[client as usize];
                let channel = &pod.channels[usize::from(route.place)];
                // A pool of this kind fills up at its start and stays so.
                let fixed = channel.kind == CallKind::Sql && channel.client.persistent;
                let held = if fixed { channel.pool.servers() } else { channel.connections() };
                sessions += if pod.runs() { u64::from(held) } else { 0 };
            }
        }
        sessions
    }
}

/// Messages between a broker and one consuming service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backlog {
    pub broker: String,
    pub queue: String,
    pub consumer: String,
    /// Messages that no consumer has taken, and that one holds and has not finished.
    pub waiting: u64,
    pub held: u64,
    /// Messages that came and that were worked on, since the start of the run.
    pub produced: u64,
    pub done: u64,
}

impl Backlog {
    /// Messages that the consumer is behind by.
    pub const fn lag(&self) -> u64 {
        self.produced - self.done
    }
}
