//! How pods live: end, removal from the endpoints, a new start, readiness, warm-up.

use crate::engine::{SECOND, Time};
use crate::pod::{PodState, Step};
use crate::rng::join;
use crate::world::{Event, World};

/// After an end, requests are still sent to the address for so long, in seconds.
const ENDPOINT_LAG: (f64, f64) = (0.5, 2.0);
/// A new pod is created, scheduled and its container started within so long, in seconds.
const SCHEDULING: (f64, f64) = (1.0, 3.0);
/// Exit code of a process that the kernel killed for its memory.
pub const KILLED: i32 = 137;

impl World {
    /// The pod is deleted without grace; its workload makes another one.
    pub(crate) fn delete_pod(&mut self, slot: u16) {
        self.end_process(slot);
        let pod = &self.pods[slot as usize];
        self.recorder.bury(pod);
        let now = self.events.now();
        let pod = &mut self.pods[slot as usize];
        pod.generation += 1;
        (pod.state, pod.created, pod.restarts, pod.last_exit) = (PodState::Pending, now, 0, None);
        let plan = &self.plan.services[pod.service as usize];
        pod.christen(plan, self.streams.names);
        let after = self.life_draw(slot, SCHEDULING);
        self.plan_life(slot, after, Step::Start);
    }

    /// The container's process ends with a code and is started again after the back-off.
    pub(crate) fn restart_container(&mut self, slot: u16, exit: i32) {
        self.end_process(slot);
        let now = self.events.now();
        let pod = &mut self.pods[slot as usize];
        pod.restarts += 1;
        (pod.state, pod.last_exit) = (PodState::BackOff, Some((exit, now)));
        let after = pod.back_off();
        self.plan_life(slot, after, Step::Start);
    }

    /// The container is replaced by one that answers nothing.
    pub(crate) fn disable_pod(&mut self, slot: u16) {
        self.end_process(slot);
        let now = self.events.now();
        let pod = &mut self.pods[slot as usize];
        pod.restarts += 1;
        (pod.state, pod.last_exit) = (PodState::Inert, Some((KILLED, now)));
    }

    /// The real container is put back and starts.
    pub(crate) fn enable_pod(&mut self, slot: u16) {
        let pod = &mut self.pods[slot as usize];
        if pod.state == PodState::Inert {
            pod.restarts += 1;
            pod.life_mark += 1;
            pod.state = PodState::BackOff;
            self.plan_life(slot, SECOND, Step::Start);
        }
    }

    /// Connections break, unexported spans are lost, and the endpoint goes after a while.
    fn end_process(&mut self, slot: u16) {
        let now = self.events.now();
        self.break_connections(slot);
        self.recorder.lose(slot);
        let service = self.pods[slot as usize].service;
        for route in self.plan.routes.iter().filter(|route| route.to == service) {
            for caller in self.places[route.from as usize].clone() {
                self.pods[caller as usize].channels[usize::from(route.place)].forget(slot);
            }
        }
        let pod = &mut self.pods[slot as usize];
        pod.end_process(now);
        pod.life_mark += 1;
        self.resolvers[slot as usize].forget();
        self.recorder.restarted(slot, now);
        self.watch(slot);
        let lag = self.life_draw(slot, ENDPOINT_LAG);
        self.plan_life(slot, lag, Step::LeaveEndpoints);
    }

    pub(crate) fn live(&mut self, slot: u16, mark: u32, step: Step) {
        let now = self.events.now();
        let pod = &mut self.pods[slot as usize];
        if pod.life_mark != mark {
            return;
        }
        match step {
            Step::LeaveEndpoints => pod.in_endpoints = pod.serves(),
            Step::Start => {
                pod.state = PodState::Starting;
                let (start, cold) = (pod.profile.start, pod.profile.cold);
                let cold = self.life_factor(slot, cold);
                self.pods[slot as usize].begin_process(now, cold);
                self.demand(slot);
                let after = self.life_draw(slot, start);
                self.plan_life(slot, after, Step::Prepare(0));
            }
            Step::Prepare(number) => self.prepare(slot, number),
        }
    }

    /// The process has what it needs and takes requests.
    pub(crate) fn ready(&mut self, slot: u16) {
        let now = self.events.now();
        let pod = &mut self.pods[slot as usize];
        pod.state = PodState::Ready;
        pod.in_endpoints = true;
        let (service, took) = (pod.service, now - pod.process_start);
        // Warm-up counts from the first request, not from the start of the process.
        pod.process_start = now;
        self.recorder.started(now, service, slot, took);
        self.learn_addresses(slot);
        self.reopen_queues(service);
    }

    /// A new process has asked the registry where the others are.
    fn learn_addresses(&mut self, slot: u16) {
        let service = self.pods[slot as usize].service;
        let plan = self.plan.clone();
        for route in plan.services[service as usize].routes.iter().map(|&route| &plan.routes[route as usize]) {
            if plan.services[route.to as usize].registry.is_some() {
                for peer in self.places[route.to as usize].clone() {
                    let generation = self.pods[peer as usize].generation;
                    self.pods[slot as usize].channels[usize::from(route.place)].learn(peer, generation);
                }
            }
        }
    }

    /// When the pod on this place became ready after an instant, if it is.
    pub(crate) fn ready_again(&self, slot: u16, since: Time) -> Option<Time> {
        let pod = &self.pods[slot as usize];
        (pod.serves() && pod.process_start > since).then_some(pod.process_start)
    }

    /// Once a second: the kernel ends what holds more memory than its limit.
    pub(crate) fn look_at_memory(&mut self) {
        let now = self.events.now();
        for slot in 0..self.pods.len() as u16 {
            let pod = &self.pods[slot as usize];
            if pod.runs() && pod.working_set(now) > pod.profile.memory_limit {
                self.restart_container(slot, KILLED);
            }
        }
    }

    pub(crate) fn plan_life(&mut self, slot: u16, after: Time, step: Step) {
        let mark = self.pods[slot as usize].life_mark;
        self.events.plan(self.events.now() + after, Event::Life { slot, mark, step });
    }

    /// A duration of this pod's present life, drawn between bounds in seconds.
    fn life_draw(&self, slot: u16, bounds: (f64, f64)) -> Time {
        (self.life_factor(slot, bounds) * SECOND as f64) as Time
    }

    fn life_factor(&self, slot: u16, (low, high): (f64, f64)) -> f64 {
        let pod = &self.pods[slot as usize];
        let key = join(join(pod.place(), u64::from(pod.epoch)), (low * 1000.0) as u64);
        self.streams.lives.at(key).between(low, high)
    }
}
