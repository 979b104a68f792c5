//! Look-ups of names: when a process asks for an address, how long it keeps the answer, and what it does without one.
//!
//! Nothing here makes the name server silent, so the resolver's own time-out (5 s, two attempts, `resolv.conf(5)`) never
//! runs. A service asks when it opens a connection by name, unless its runtime still knows an answer.

use system::Language;

use crate::engine::{MICRO, SECOND, Time, nanos};
use crate::gate::Address;
use crate::plan::{Plan, ServiceId, ServicePlan};
use crate::request::{Failure, Ref, salt};
use crate::rng::{Draw, join};
use crate::witness::{Holds, Meter, Meters};
use crate::world::{Event, World};

/// A question to the cluster's name server and its answer.
const ASKING: (f64, f64) = (300.0 * MICRO as f64, 1200.0 * MICRO as f64);
/// Share of arbitrary addresses that belong to a host which refuses; at the others nothing answers.
const REFUSING: f64 = 0.1;

/// How long a runtime keeps answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeping {
    /// Asks for each connection.
    Nothing,
    /// Keeps addresses, and the news that there is none, for so long.
    For { address: Time, absence: Time },
    /// Asks in the background again and again; keeps what it has when there is no answer.
    Refreshed(Time),
    /// Asks once, when it reads its configuration.
    AtStart,
}

const fn keeping(service: &ServicePlan) -> Keeping {
    match service.language {
        // JDK networking properties: `networkaddress.cache.ttl` 30 s, `networkaddress.cache.negative.ttl` 10 s.
        _ if service.jvm => Keeping::For { address: 30 * SECOND, absence: 10 * SECOND },
        // nginx, `proxy_pass`: a name in the configuration is resolved when it is read.
        Language::Nginx => Keeping::AtStart,
        // Envoy, `STRICT_DNS` clusters, `dns_refresh_rate` 5 s.
        Language::Envoy => Keeping::Refreshed(5 * SECOND),
        // Go, C++, Python, Node.js, .NET, PHP, Ruby and Rust ask for each connection; their libraries keep nothing.
        _ => Keeping::Nothing,
    }
}

/// What is wrong with the answers for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// The server says that it failed.
    Error,
    /// The answer is an arbitrary address.
    Random,
}

/// What a process knows about a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Address(Address),
    None,
}

struct Rule {
    number: u32,
    meter: Meter,
    holds: Holds,
    callee: ServiceId,
    wrong: Wrong,
}

/// The resolver of one pod's process.
#[derive(Default)]
pub struct Resolver {
    rules: Vec<Rule>,
    /// Service, answer, and until when it counts.
    known: Vec<(ServiceId, Answer, Time)>,
}

impl Resolver {
    pub fn set(&mut self, number: u32, meter: Meter, holds: Holds, callee: ServiceId, wrong: Wrong) {
        self.rules.push(Rule { number, meter, holds, callee, wrong });
    }

    pub fn clear(&mut self, number: u32) {
        self.rules.retain(|rule| rule.number != number);
    }

    /// The process is gone, and what it knew.
    pub fn forget(&mut self) {
        self.known.clear();
    }

    fn rules(&self, callee: ServiceId) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(move |rule| rule.callee == callee)
    }

    /// Takes note of a connection that needed no look-up.
    fn spared(&self, callee: ServiceId, why: &'static str, meters: &mut Meters) {
        self.rules(callee).for_each(|rule| meters.note(rule.meter, why, 1));
    }

    fn recall(&self, callee: ServiceId, now: Time) -> Option<Answer> {
        self.known.iter().find(|(known, _, until)| *known == callee && now < *until).map(|&(_, answer, _)| answer)
    }

    fn keep(&mut self, callee: ServiceId, answer: Answer, until: Time) {
        self.known.retain(|(known, ..)| *known != callee);
        self.known.push((callee, answer, until));
    }
}

/// Whether a service finds another one by its name. Clients of a registry take addresses from there.
fn by_name(plan: &Plan, callee: ServiceId) -> bool {
    plan.services[callee as usize].registry.is_none()
}

impl World {
    /// A connection that is open carries the call; no name is looked up.
    pub(crate) fn reuses(&mut self, at: Ref, carried: u16) {
        self.mark_carried(at, carried);
        let Some(frame) = self.frames.get(at) else { return };
        let callee = self.plan.calls[frame.call as usize].to;
        self.resolvers[frame.caller as usize].spared(callee, "connections were used again", &mut self.meters);
    }

    /// A new connection is opened: the name is looked up, unless its address is known.
    pub(crate) fn look_up(&mut self, at: Ref) {
        let Some(frame) = self.frames.get(at) else { return };
        let (now, caller, key) = (self.events.now(), frame.caller, frame.key);
        let callee = self.plan.calls[frame.call as usize].to;
        let keeping = keeping(&self.plan.services[self.pods[caller as usize].service as usize]);
        if !by_name(&self.plan, callee) || keeping == Keeping::AtStart {
            self.reuses_address(caller, callee);
            self.connect(at, 0);
            return;
        }
        if let Some(answer) = self.resolvers[caller as usize].recall(callee, now) {
            self.reuses_address(caller, callee);
            self.use_answer(at, answer, 0);
            return;
        }
        let mut draw = self.streams.travel.at(join(key, salt::LOOK_UP));
        let takes = nanos(draw.between(ASKING.0, ASKING.1));
        let answer = self.ask(caller, callee, &mut draw);
        let until = match (keeping, answer) {
            (Keeping::Nothing | Keeping::AtStart, _) => None,
            (Keeping::For { address, .. }, Answer::Address(_)) => Some(now + address),
            (Keeping::For { absence, .. }, Answer::None) => Some(now + absence),
            (Keeping::Refreshed(every), _) => Some(now + every),
        };
        // Who refreshes in the background goes on with the addresses that it has.
        let stays = matches!(keeping, Keeping::Refreshed(_)) && answer == Answer::None;
        let answer = if stays { Answer::Address(Address::Right) } else { answer };
        if let Some(until) = until {
            self.resolvers[caller as usize].keep(callee, answer, until);
        }
        self.use_answer(at, answer, takes);
    }

    fn reuses_address(&mut self, caller: u16, callee: ServiceId) {
        self.resolvers[caller as usize].spared(callee, "connections were opened to a known address", &mut self.meters);
    }

    /// What the name server answers now.
    fn ask(&mut self, caller: u16, callee: ServiceId, draw: &mut Draw) -> Answer {
        let pod = &self.pods[caller as usize];
        let mut answer = Answer::Address(Address::Right);
        for rule in self.resolvers[caller as usize].rules(callee).filter(|rule| rule.holds.on(pod)) {
            self.meters.count(rule.meter, caller, true);
            answer = match rule.wrong {
                Wrong::Error => Answer::None,
                Wrong::Random if draw.chance(REFUSING) => Answer::Address(Address::Refusing),
                Wrong::Random => Answer::Address(Address::Silent),
            };
        }
        answer
    }

    fn use_answer(&mut self, at: Ref, answer: Answer, takes: Time) {
        match answer {
            Answer::None => self.not_connected(at, Failure::UnknownHost),
            Answer::Address(address) => {
                self.mark_address(at, address);
                if takes == 0 {
                    self.connect(at, 0);
                } else {
                    self.events.plan(self.events.now() + takes, Event::Connect { at, attempt: 0 });
                }
            }
        }
    }
}
