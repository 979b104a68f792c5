//! A pod and the process in it: life, processor, workers, pools, heap, and what its exporters would report.

use crate::engine::{MILLI, SECOND, Time};
use crate::plan::CallKind;
use crate::plan::{ServiceId, ServicePlan, Workload};
use crate::profile::{Heap, MIB, Profile};
use crate::request::Ref;
use crate::rng::{Draw, Stream, join};
use crate::station::{Channel, Cpu, Pool};
use system::Kind;

/// Cores of a node, which bound what one container can run at once.
pub const NODE_CORES: f64 = 16.0;
/// Share of the heap's maximum that the old generation fills before it is collected along with a young one.
const MIXED_AT: f64 = 0.45;
/// Share of the heap's maximum that live data may fill before every collection is a full one.
const FULL_AT: f64 = 0.9;
/// A full collection moves live data at about this rate, bytes per nanosecond.
const COPIED_PER_NS: f64 = 1.0;
/// The least that a collector leaves for new objects.
const LEAST_YOUNG: f64 = 8.0 * MIB;
/// Share of a young generation that survives into the old one.
const PROMOTED: f64 = 0.006;
/// The kubelet's back-off between restarts: 10 s, doubling to 5 min; the first restart is at once.
const BACK_OFF: Time = 10 * SECOND;
const BACK_OFF_MAX: Time = 300 * SECOND;
/// Characters that Kubernetes uses in generated names.
const NAME_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodState {
    /// Created, not yet on a node.
    Pending,
    /// The container runs, the process is not ready for requests.
    Starting,
    Ready,
    /// The container waits for its next start.
    BackOff,
    /// The container runs something that answers nothing.
    Inert,
}

/// What the steps of a pod's life change, planned as events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    LeaveEndpoints,
    Start,
    /// The process is up; the call of this number comes next, before it is ready.
    Prepare(u16),
}

/// A collected heap.
#[derive(Debug, Clone, Copy)]
pub struct HeapState {
    pub plan: Heap,
    pub young_used: f64,
    pub old_used: f64,
    /// Live data that is not the service's.
    held: f64,
    /// The most that was ever used: pages once touched stay resident.
    pub touched: f64,
    pub collections: u64,
    pub full_collections: u64,
    pub collection_time: Time,
}

/// A pause that a collection causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    pub lasts: Time,
    pub full: bool,
}

impl HeapState {
    fn new(plan: Heap) -> Self {
        Self {
            plan,
            young_used: 0.0,
            old_used: plan.live,
            held: 0.0,
            touched: plan.live + 0.5 * plan.young,
            collections: 0,
            full_collections: 0,
            collection_time: 0,
        }
    }

    pub fn used(&self) -> f64 {
        self.young_used + self.old_used
    }

    /// Data that a collection keeps.
    pub fn live(&self) -> f64 {
        self.plan.live + self.held
    }

    /// More live data, or less: then the next collection finds room.
    pub fn hold(&mut self, more: f64) {
        self.held = (self.held + more).max(0.0);
        self.old_used += more.max(0.0);
        self.touched = self.touched.max(self.used());
    }

    /// A full collection that was asked for, whose time goes with the data that it moves.
    pub fn collect(&mut self, draw: &mut Draw) -> Pause {
        let moves = self.live() / COPIED_PER_NS;
        let lasts = (draw.between(40.0, 80.0) * MILLI as f64 + moves * draw.between(0.8, 1.3)) as Time;
        (self.young_used, self.old_used) = (0.0, self.live());
        self.full_collections += 1;
        self.collection_time += lasts;
        Pause { lasts, full: true }
    }

    /// Allocates; when the young generation is full, the collection that follows.
    pub fn allocate(&mut self, bytes: f64, draw: &mut Draw) -> Option<Pause> {
        self.young_used += bytes;
        self.touched = self.touched.max(self.used());
        // A nearly full heap leaves little to allocate from.
        let room = self.plan.young.min((self.plan.max - self.old_used).max(LEAST_YOUNG));
        if self.young_used < room {
            return None;
        }
        self.old_used += self.young_used * PROMOTED;
        self.young_used = 0.0;
        let full = self.live() + self.plan.young > self.plan.max * FULL_AT;
        let lasts = if full { draw.between(300.0, 3000.0) } else { draw.between(5.0, 20.0) } * MILLI as f64;
        if full || self.old_used > self.plan.max * MIXED_AT {
            self.old_used = self.live();
        }
        if full {
            self.full_collections += 1;
        } else {
            self.collections += 1;
        }
        self.collection_time += lasts as Time;
        Some(Pause { lasts: lasts as Time, full })
    }
}

/// Bytes and packets that passed a pod's network interface.
#[derive(Debug, Clone, Copy, Default)]
pub struct Traffic {
    pub received: u64,
    pub sent: u64,
    pub errors: u64,
}

pub struct Pod {
    pub service: ServiceId,
    pub ordinal: u16,
    /// Position among all pods.
    pub slot: u16,
    pub name: String,
    pub replica_set: String,
    pub uid: String,
    pub ip: String,
    pub node: u16,
    pub state: PodState,
    /// Whether requests are sent to it.
    pub in_endpoints: bool,
    /// Changes with every end of the process; what belongs to an older one is void.
    pub epoch: u32,
    /// Changes when another pod takes the place.
    pub generation: u32,
    pub created: Time,
    pub process_start: Time,
    pub restarts: u32,
    /// Exit code and time of the last end inside this pod.
    pub last_exit: Option<(i32, Time)>,
    pub cpu: Cpu<Ref>,
    /// Marks the planned steps of its life that still count.
    pub life_mark: u32,
    /// Marks the one planned look at the processor that counts.
    pub cpu_mark: u32,
    pub workers: Pool<Ref>,
    /// Threads that work on messages.
    pub listeners: Pool<Ref>,
    /// Its connections, in the order of its service's routes.
    pub channels: Vec<Channel>,
    pub heap: Option<HeapState>,
    /// Demand on the processor of a periodic job, and of processes that are not the service's, in cores.
    pub job: f64,
    /// How busy the service's own housekeeping threads are now, relative to the usual.
    pub bustle: f64,
    pub stress: f64,
    /// Demand of threads of the service's own process that do nothing for it, in cores.
    pub spin: f64,
    /// Memory of processes in the container that are not the service's.
    pub ballast: f64,
    pub drift: f64,
    pub slowness: f64,
    cold: f64,
    /// Runs on a node of the cluster, not outside of it.
    pub inside: bool,
    /// Cores that its node counts for it, and which node that is.
    pub counted: (f64, u16),
    pub profile: Profile,
    pub traffic: Traffic,
    pub requests: u64,
}

impl Pod {
    pub fn new(
        service: ServiceId,
        ordinal: u16,
        slot: u16,
        plan: &ServicePlan,
        channels: Vec<Channel>,
        stream: Stream,
    ) -> Self {
        let profile = plan.profile;
        let mut pod = Self {
            service,
            ordinal,
            slot,
            name: String::new(),
            replica_set: String::new(),
            uid: String::new(),
            ip: String::new(),
            node: 0,
            state: PodState::Ready,
            in_endpoints: true,
            epoch: 0,
            generation: 0,
            created: 0,
            process_start: 0,
            restarts: 0,
            last_exit: None,
            cpu: Cpu::new(NODE_CORES.min(profile.parallel), Some(profile.cpu_limit)),
            life_mark: 0,
            cpu_mark: 0,
            workers: Pool::new(profile.workers, u32::MAX),
            listeners: Pool::new(profile.listeners, u32::MAX),
            channels,
            heap: profile.heap.map(HeapState::new),
            job: 0.0,
            bustle: 1.0,
            stress: 0.0,
            spin: 0.0,
            ballast: 0.0,
            drift: 0.0,
            slowness: 1.0,
            cold: 1.0,
            inside: plan.kind != Kind::Loadgen,
            counted: (0.0, 0),
            profile,
            traffic: Traffic::default(),
            requests: 0,
        };
        pod.christen(plan, stream);
        // At the origin the process has answered its first probes, no more: half-way between cold and warm.
        let (low, high) = profile.cold;
        pod.cold = stream.at(join(pod.place(), 9)).between(low, high).sqrt();
        pod.cpu.set_background(0, profile.cpu_idle);
        pod
    }

    /// Key of the place, which every pod that takes it shares.
    pub fn place(&self) -> u64 {
        u64::from(self.service) << 16 | u64::from(self.ordinal)
    }

    /// Gives the pod of this generation its names.
    pub fn christen(&mut self, plan: &ServicePlan, stream: Stream) {
        let mut set = stream.at(join(u64::from(self.service), 1));
        self.replica_set = format!("{}-{}", plan.name, word(&mut set, 10));
        let mut own = stream.at(join(self.place(), u64::from(self.generation) + 2));
        self.name = match plan.workload {
            Workload::Deployment => format!("{}-{}", self.replica_set, word(&mut own, 5)),
            Workload::StatefulSet => format!("{}-{}", plan.name, self.ordinal),
        };
        self.uid = uuid(&mut own);
        self.node = own.below(usize::from(NODES)) as u16;
        let host = 2 + (u32::from(self.slot) * 7 + self.generation * 53) % 251;
        self.ip = format!("10.244.{}.{host}", self.node + 1);
    }

    /// The pool of connections to a relational database.
    pub fn database(&self) -> Option<&Pool<Ref>> {
        self.channels.iter().find(|channel| channel.kind == CallKind::Sql && channel.bounded()).map(|sql| &sql.pool)
    }

    /// New connections find no room: all workers are taken and the queue is full.
    pub fn accepts_no_more(&self) -> bool {
        self.workers.waiting() >= self.profile.backlog
    }

    pub const fn serves(&self) -> bool {
        matches!(self.state, PodState::Ready)
    }

    pub const fn runs(&self) -> bool {
        matches!(self.state, PodState::Ready | PodState::Starting)
    }

    /// How much more work a request is now: the instance's own slowness, and the start that is not long ago.
    pub fn work_factor(&self, now: Time) -> f64 {
        let age = (now - self.process_start) as f64 / SECOND as f64;
        self.slowness * (1.0 + (self.cold - 1.0) * (-age / self.profile.warm_time).exp())
    }

    /// The process begins anew.
    pub fn begin_process(&mut self, now: Time, cold: f64) {
        self.process_start = now;
        self.cold = cold;
        self.heap = self.profile.heap.map(HeapState::new);
    }

    /// The process is gone with all that it held.
    pub fn end_process(&mut self, now: Time) {
        self.epoch += 1;
        self.cpu.clear(now);
        self.workers.clear(now);
        self.listeners.clear(now);
        self.channels.iter_mut().for_each(|channel| channel.clear(now));
        self.job = 0.0;
        self.stress = 0.0;
        self.spin = 0.0;
        self.ballast = 0.0;
        self.heap = None;
    }

    /// Resident set of the container, in bytes.
    pub fn working_set(&self, now: Time) -> f64 {
        if !self.runs() {
            return self.ballast + 2.0 * MIB;
        }
        let age = (now - self.process_start) as f64 / SECOND as f64;
        let heap = self.heap.map_or(0.0, |heap| heap.touched);
        let requests = f64::from(self.workers.busy() + self.workers.waiting()) * self.profile.memory_per_request;
        self.profile.memory_base + requests + heap + self.ballast + (self.drift * age).max(0.0)
    }

    /// Wait before the next start of the container.
    pub fn back_off(&self) -> Time {
        match self.restarts {
            0 | 1 => SECOND,
            n => (BACK_OFF << (n - 2).min(8)).min(BACK_OFF_MAX),
        }
    }
}

/// Worker nodes of the simulated cluster.
pub const NODES: u16 = 4;

pub fn node_name(node: u16) -> String {
    format!("worker-{}", node + 1)
}

fn word(draw: &mut Draw, length: usize) -> String {
    (0..length).map(|_| char::from(NAME_ALPHABET[draw.below(NAME_ALPHABET.len())])).collect()
}

/// A random-looking identifier in the form of a UUID (version 4).
pub fn uuid(draw: &mut Draw) -> String {
    let mut text = String::with_capacity(36);
    write_uuid(draw, &mut text);
    text
}

/// The same, appended to a text.
pub fn write_uuid(draw: &mut Draw, out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let (high, low) = (draw.key(), draw.key());
    // Version 4, variant 10, as RFC 9562 has it.
    let (high, low) = (high & !0xf000 | 0x4000, low & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000);
    let number = u128::from(high) << 64 | u128::from(low);
    for place in 0..32 {
        if matches!(place, 8 | 12 | 16 | 20) {
            out.push('-');
        }
        out.push(char::from(DIGITS[(number >> (124 - 4 * place) & 15) as usize]));
    }
}
