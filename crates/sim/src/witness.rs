//! Counters at the mechanisms: how much passed while a condition was set, and how much of it was touched; pod by pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster::{PodReading, Witness};
use fault::WitnessRule;

use crate::pod::{Pod, PodState};
use crate::world::World;

/// The number of one counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meter(u32);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    pub passed: u64,
    pub touched: u64,
}

impl std::ops::AddAssign for Reading {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.touched += other.touched;
    }
}

/// What one fault's counter has seen.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// By slot, in the order in which they were first seen.
    pub pods: Vec<(u16, Reading)>,
    /// What else was counted, by name.
    pub facts: BTreeMap<&'static str, u64>,
}

impl Tally {
    pub fn total(&self) -> Reading {
        let mut total = Reading::default();
        self.pods.iter().for_each(|(_, reading)| total += *reading);
        total
    }

    pub fn add(&mut self, slot: u16, more: Reading) {
        match self.pods.iter_mut().find(|(known, _)| *known == slot) {
            Some((_, reading)) => *reading += more,
            None => self.pods.push((slot, more)),
        }
    }
}

/// All counters of a simulation, one per fault.
#[derive(Debug, Default)]
pub struct Meters {
    tallies: Vec<Tally>,
}

impl Meters {
    #[expect(clippy::cast_possible_truncation, reason = "a run has a handful of faults")]
    pub fn add(&mut self) -> Meter {
        self.tallies.push(Tally::default());
        Meter(self.tallies.len() as u32 - 1)
    }

    /// One unit passed at the pod on `slot`.
    pub fn count(&mut self, meter: Meter, slot: u16, touched: bool) {
        self.count_many(meter, slot, 1, u64::from(touched));
    }

    pub fn count_many(&mut self, meter: Meter, slot: u16, passed: u64, touched: u64) {
        self.tallies[meter.0 as usize].add(slot, Reading { passed, touched });
    }

    /// Something else that explains the counts.
    pub fn note(&mut self, meter: Meter, fact: &'static str, number: u64) {
        *self.tallies[meter.0 as usize].facts.entry(fact).or_default() += number;
    }

    pub fn read(&self, meter: Meter) -> &Tally {
        &self.tallies[meter.0 as usize]
    }
}

/// One pod, or one process in it, that a mechanism was changed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hold {
    slot: u16,
    generation: u32,
    /// The process; `None` for what is done to the pod and outlives its processes.
    epoch: Option<u32>,
}

/// The pods or processes that a mechanism was changed on. What comes after them is not changed.
#[derive(Debug, Clone)]
pub struct Holds(Arc<[Hold]>);

impl Holds {
    /// Changes in the pods' network, which last as long as the pods.
    pub fn pods(world: &World, slots: &[u16]) -> Self {
        Self::new(world, slots, |_| None)
    }

    /// Changes inside the processes, which end with them.
    pub fn processes(world: &World, slots: &[u16]) -> Self {
        Self::new(world, slots, |pod| Some(pod.epoch))
    }

    #[cfg(test)]
    pub fn nothing() -> Self {
        Self(Arc::new([]))
    }

    fn new(world: &World, slots: &[u16], epoch: impl Fn(&Pod) -> Option<u32>) -> Self {
        let hold = |&slot: &u16| {
            let pod = &world.pods[slot as usize];
            Hold { slot, generation: pod.generation, epoch: epoch(pod) }
        };
        Self(slots.iter().map(hold).collect())
    }

    pub fn on(&self, pod: &Pod) -> bool {
        pod.state != PodState::Pending
            && self.0.iter().any(|hold| {
                hold.slot == pod.slot
                    && hold.generation == pod.generation
                    && hold.epoch.is_none_or(|epoch| epoch == pod.epoch)
            })
    }
}

/// The decision about one fault: touched at least `min_count` units and at least `min_share` of what passed.
pub fn judge(fault: &str, rule: &WitnessRule, tally: &Tally, name: impl Fn(u16) -> String) -> Witness {
    let Reading { passed, touched } = tally.total();
    let unit = rule.unit.as_str();
    let exposed = rule.exposed(passed, touched);
    let mut reason = if passed == 0 {
        rule.unfelt.to_owned()
    } else {
        let verdict = match (touched >= rule.min_count, exposed) {
            (_, true) => "enough",
            (false, _) => "too few",
            (true, false) => "too small a share",
        };
        format!(
            "{touched} of {passed} {unit} were touched ({:.1} %); needed {} and {:.1} %: {verdict}",
            100.0 * touched as f64 / passed as f64,
            rule.min_count,
            100.0 * rule.min_share
        )
    };
    if !tally.facts.is_empty() {
        let facts: Vec<String> = tally.facts.iter().map(|(fact, number)| format!("{number} {fact}")).collect();
        reason = format!("{reason} ({})", facts.join(", "));
    }
    let pods = tally.pods.iter().map(|&(slot, reading)| PodReading {
        pod: name(slot),
        passed: reading.passed,
        touched: reading.touched,
    });
    Witness {
        fault: fault.to_owned(),
        exposed,
        unit: unit.to_owned(),
        passed,
        touched,
        threshold_share: rule.min_share,
        threshold_count: rule.min_count,
        reason,
        pods: pods.collect(),
        facts: tally.facts.iter().map(|(fact, number)| ((*fact).to_owned(), *number)).collect(),
        effect: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_thresholds_decide_and_the_reason_says_why_nothing_was_felt() {
        let rule =
            WitnessRule { min_share: 0.1, min_count: 5, ..fault::capability("http_request_abort").unwrap().witness };
        let witness = |passed, touched| {
            let mut tally = Tally::default();
            tally.add(3, Reading { passed, touched });
            judge("f", &rule, &tally, |slot| format!("pod-{slot}"))
        };
        assert!(witness(50, 5).exposed);
        assert_eq!(witness(50, 5).pods[0].pod, "pod-3");
        assert!(!witness(51, 5).exposed, "the share is too small");
        assert!(!witness(10, 4).exposed, "the count is too small");
        assert!(!witness(0, 0).exposed);
        assert_eq!(witness(0, 0).reason, "no request passed the endpoint");
    }
}
