//! One simulated system in one slot: all its state, and the loop that moves it through virtual time.

mod background;
mod event;
mod reports;

use std::ops::Range;
use std::sync::Arc;

use cluster::{Distractor, Environment};
use model::{DataTime, Problem};
use system::Kind;

use crate::effect::Effects;
use crate::emit::{Counts, Exporter, Recorder, Sink};
use crate::engine::{Events, SECOND, Time};
use crate::entrance::Entrance;
use crate::gate::Gate;
use crate::link::Link;
use crate::load::Load;
use crate::node::Node;
use crate::noise::Noise;
use crate::patience::Patience;
use crate::plan::{CachePlan, Plan, ServiceId, ServicePlan};
use crate::pod::{NODES, Pod};
use crate::request::{Frames, Ref, Session};
use crate::resolver::Resolver;
use crate::reuse::Reuse;
use crate::rng::{Stream, join, name_key};
use crate::station::{Cache, Channel, Pool, Queue};
use crate::witness::Meters;

pub use event::Event;
pub use reports::Backlog;

/// Exporters report every 15 s.
const REPORT_EVERY: Time = 15 * SECOND;
/// Processes export their spans every 5 s.
const EXPORT_EVERY: Time = 5 * SECOND;

/// Draws by purpose.
#[derive(Debug, Clone, Copy)]
pub struct Streams {
    pub requests: Stream,
    pub spans: Stream,
    pub work: Stream,
    pub travel: Stream,
    pub collections: Stream,
    pub thinking: Stream,
    pub names: Stream,
    pub lives: Stream,
    /// Keys of look-ups, rows of statements.
    pub keys: Stream,
}

impl Streams {
    fn new(seed: u64) -> Self {
        let of = |purpose| Stream::new(seed, purpose);
        Self {
            requests: of("request"),
            spans: of("span"),
            work: of("work"),
            travel: of("travel"),
            collections: of("collection"),
            thinking: of("thinking"),
            names: of("name"),
            lives: of("life"),
            keys: of("key"),
        }
    }
}

pub struct World {
    pub(crate) plan: Arc<Plan>,
    pub(crate) environment: Environment,
    pub(crate) namespace: String,
    pub(crate) events: Events<Event>,
    pub(crate) frames: Frames,
    pub(crate) pods: Vec<Pod>,
    /// Pods of each service.
    pub(crate) places: Vec<Range<u16>>,
    pub(crate) links: Vec<Link>,
    /// By operation.
    pub(crate) gates: Vec<Gate>,
    /// By slot.
    pub(crate) resolvers: Vec<Resolver>,
    /// In the order of the plan's.
    pub(crate) queues: Vec<Queue>,
    /// One for each place that holds keys of its own.
    pub(crate) caches: Vec<Vec<Cache>>,
    /// Locks of rows in the data stores.
    pub(crate) locks: Vec<Pool<Ref>>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) meters: Meters,
    pub(crate) patience: Patience,
    pub(crate) load: Load,
    pub(crate) noise: Noise,
    /// Rate of errors of its own, by service.
    pub(crate) error_rates: Vec<f64>,
    pub(crate) streams: Streams,
    pub(crate) recorder: Recorder,
    pub(crate) entrance: Entrance,
    pub(crate) effects: Effects,
    /// CPU time at the last kubelet round, by slot: time and seconds.
    cpu_seen: Vec<[(Time, f64); 3]>,
    finished: Vec<Ref>,
    distractors: Vec<Distractor>,
}

impl World {
    pub fn new(plan: Arc<Plan>, namespace: &str, environment: Environment) -> Self {
        let seed = environment.seed;
        let streams = Streams::new(seed);
        let noise = Noise::new(seed, environment.noise);
        let (mut pods, mut places) = (Vec::new(), Vec::new());
        for (service, description) in plan.services.iter().enumerate() {
            let first = pods.len() as u16;
            for ordinal in 0..description.replicas {
                let slot = pods.len() as u16;
                let channels = description.routes.iter().map(|&route| {
                    let route = &plan.routes[route as usize];
                    let to = &plan.services[route.to as usize];
                    Channel::new(route.kind, route.client, Reuse::between(route.kind, description, to))
                });
                let channels = channels.collect();
                let mut pod = Pod::new(service as u16, ordinal, slot, description, channels, streams.names);
                pod.slowness = noise.slowness(pod.place());
                pod.drift = noise.memory_drift(pod.place());
                pods.push(pod);
            }
            places.push(first..pods.len() as u16);
        }
        let clock_errors = (0..NODES).map(|node| noise.clock_error(u64::from(node))).collect();
        let origin = environment.origin.0;
        let recorder =
            Recorder::new(plan.clone(), namespace.to_owned(), origin, streams.spans, pods.len(), clock_errors);
        let mut world = Self {
            namespace: namespace.to_owned(),
            events: Events::default(),
            frames: Frames::default(),
            cpu_seen: vec![[(0, 0.0); 3]; pods.len()],
            resolvers: pods.iter().map(|_| Resolver::default()).collect(),
            pods,
            places,
            links: plan.links.iter().map(|_| Link::default()).collect(),
            gates: plan.operations.iter().map(|_| Gate::default()).collect(),
            queues: plan.queues.iter().map(|queue| Queue::new(replicas(&plan, queue.consumer))).collect(),
            caches: plan.caches.iter().map(|cache| caches(&plan, cache)).collect(),
            locks: (0..plan.locks).map(|_| Pool::new(1, u32::MAX)).collect(),
            nodes: crate::node::all(),
            meters: Meters::default(),
            patience: Patience::default(),
            load: Load::new(seed, environment.load, environment.noise, &plan.journeys),
            error_rates: plan.services.iter().map(|service| own_error_rate(&noise, service)).collect(),
            noise,
            streams,
            recorder,
            entrance: Entrance::default(),
            effects: Effects::default(),
            finished: Vec::new(),
            distractors: Vec::new(),
            environment,
            plan,
        };
        world.open();
        world
    }

    /// Plans what happens by itself.
    fn open(&mut self) {
        if self.environment.load > 0.0 {
            let first = self.load.pause(0);
            self.events.plan(first, Event::Arrival);
        }
        self.events.plan(EXPORT_EVERY, Event::Export);
        self.events.plan(SECOND, Event::Second);
        self.open_watches();
        for slot in 0..self.pods.len() as u16 {
            let place = self.pods[slot as usize].place();
            for (kind, exporter) in Exporter::ALL.into_iter().enumerate() {
                let mut draw = self.streams.lives.at(join(place, 100 + kind as u64));
                let first = (draw.unit() * REPORT_EVERY as f64) as Time;
                self.events.plan(first, Event::Report { slot, exporter, number: 0 });
            }
            if let Some(periodic) = self.periodic(slot) {
                self.events.plan(periodic.first, Event::Periodic { slot, start: true });
            }
        }
    }

    pub fn now(&self) -> Time {
        self.events.now()
    }

    /// The data time of an instant of this run.
    pub fn data_time(&self, at: Time) -> DataTime {
        DataTime(self.environment.origin.0 + at)
    }

    pub fn counts(&self) -> Counts {
        self.recorder.counts
    }

    pub fn journeys(&self) -> u64 {
        self.load.started()
    }

    pub fn events_planned(&self) -> u64 {
        self.events.planned()
    }

    /// Lets time pass to `until`, exclusive, and hands over what is complete by then.
    ///
    /// # Errors
    /// Those of the sink; the world is then not to be used any more.
    pub fn run(&mut self, until: Time, sink: &mut dyn Sink) -> Result<(), Problem> {
        while let Some(event) = self.events.next_before(until) {
            match event {
                Event::Export => {
                    self.recorder.flush(&self.pods, sink)?;
                    self.events.plan(self.events.now() + EXPORT_EVERY, Event::Export);
                }
                other => self.handle(other),
            }
        }
        self.recorder.flush(&self.pods, sink)
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrival => self.arrival(),
            Event::Request(session) => self.request(session),
            Event::Connect { at, attempt } => self.connect(at, attempt),
            Event::Connected(at) => self.connected(at),
            Event::Send { at, attempt } => self.send(at, attempt),
            Event::Carry { at, attempt } => self.carry(at, attempt),
            Event::Arrive(at) => self.arrive(at),
            Event::Returned(at) => self.returned(at),
            Event::Admit(at) => self.admit(at),
            Event::Reply(at) => self.let_out(at),
            Event::Work(at) => self.work(at),
            Event::Cpu { slot, mark } => self.processor(slot, mark),
            Event::Impatient { queue } => self.look_at_clock(queue),
            Event::PoolWait(at) => self.pool_wait_over(at),
            Event::Acquire(at) => self.go(at),
            Event::Begin(at) => self.begin(at),
            Event::Cancel(at) => self.cancelled(at),
            Event::Life { slot, mark, step } => self.live(slot, mark, step),
            Event::Periodic { slot, start } => self.periodic_job(slot, start),
            Event::Report { slot, exporter, number } => self.report(slot, exporter, number),
            Event::Scrape { slot, exporter, number } => self.scrape(slot, exporter, number),
            Event::Watch { slot, number, round } => self.watch_others(slot, number, round),
            Event::Dispatch { queue } => self.dispatch(queue),
            Event::Second => {
                self.events.plan(self.events.now() + SECOND, Event::Second);
                self.look_at_memory();
            }
            Event::Ramp { number } => self.ramp(number),
            Event::Export => unreachable!("the loop takes exports itself"),
        }
    }

    fn arrival(&mut self) {
        let now = self.events.now();
        let (number, journey) = self.load.choose();
        let next = self.load.pause(now);
        self.events.plan(now + next, Event::Arrival);
        self.request(Session { journey: journey as u16, request: 0, number });
    }

    fn look_at_clock(&mut self, queue: u8) {
        let now = self.events.now();
        while let Some(at) = self.patience.ended(now, queue) {
            self.impatient(at);
        }
        if let Some(end) = self.patience.next(queue, |at| self.frames.get(at).is_some()) {
            self.events.plan(end, Event::Impatient { queue });
        }
    }

    /// The pod that the load comes from.
    pub(crate) fn generator(&self) -> Option<u16> {
        let service = self.plan.services.iter().position(|service| service.kind == Kind::Loadgen)?;
        Some(self.places[service].start)
    }

    /// A processor has more or less to do than before.
    pub(crate) fn watch(&mut self, slot: u16) {
        self.weigh(slot);
        self.plan_processor(slot);
    }

    /// Plans the next look at a processor; an earlier plan is void.
    pub(crate) fn plan_processor(&mut self, slot: u16) {
        let pod = &mut self.pods[slot as usize];
        pod.cpu_mark = pod.cpu_mark.wrapping_add(1);
        if let Some(at) = pod.cpu.next_change() {
            self.events.plan(at, Event::Cpu { slot, mark: pod.cpu_mark });
        }
    }

    fn processor(&mut self, slot: u16, mark: u32) {
        let now = self.events.now();
        let pod = &mut self.pods[slot as usize];
        if pod.cpu_mark != mark {
            return;
        }
        let mut finished = std::mem::take(&mut self.finished);
        while let Some(at) = pod.cpu.finished(now) {
            finished.push(at);
        }
        self.watch(slot);
        for at in finished.drain(..) {
            self.worked(at);
        }
        self.finished = finished;
    }
}

fn replicas(plan: &Plan, service: ServiceId) -> usize {
    usize::from(plan.services[service as usize].replicas)
}

/// A store's keys are in one place; those inside processes are in each of them.
fn caches(plan: &Plan, cache: &CachePlan) -> Vec<Cache> {
    let places = if cache.store.is_some() { 1 } else { replicas(plan, cache.client) };
    (0..places).map(|_| Cache::new(cache.keys, cache.entries, cache.skew)).collect()
}

/// Services with code of their own fail by themselves now and then; gateways and products do not.
fn own_error_rate(noise: &Noise, service: &ServicePlan) -> f64 {
    match service.kind {
        Kind::Web | Kind::Rpc | Kind::Worker if service.language != system::Language::None => {
            noise.error_rate(name_key(&service.name))
        }
        _ => 0.0,
    }
}
