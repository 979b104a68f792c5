//! What real systems have besides their work: unequal instances, periodic jobs, drift, rare errors, uneven scrapes, clocks
//! that disagree a little. All of it from streams of its own, with one strength.

use crate::engine::{MICRO, MILLI, SECOND, Time};
use crate::rng::{Draw, Stream, join};

/// Spread of the logarithm of instance speed.
const SPEED_SPREAD: f64 = 0.06;
/// Share of requests that fail for reasons of their own: most services near the first, a few near the second.
const ERROR_RATES: (f64, f64) = (0.0001, 0.005);
/// Spread of the logarithm of what housekeeping threads do from one quarter of a minute to the next.
const BUSTLE_SPREAD: f64 = 0.25;
/// Share of services that run something periodically.
const PERIODIC_SHARE: f64 = 0.4;
/// Share of scrapes that are lost.
const MISSING: f64 = 0.004;

/// A periodic job inside a container.
#[derive(Debug, Clone, Copy)]
pub struct Periodic {
    pub every: Time,
    pub lasts: Time,
    pub first: Time,
    pub cores: f64,
}

#[derive(Debug, Clone, Copy)]
pub struct Noise {
    strength: f64,
    instances: Stream,
    services: Stream,
    nodes: Stream,
    scrapes: Stream,
    errors: Stream,
}

impl Noise {
    pub fn new(seed: u64, strength: f64) -> Self {
        Self {
            strength,
            instances: Stream::new(seed, "noise/instance"),
            services: Stream::new(seed, "noise/service"),
            nodes: Stream::new(seed, "noise/node"),
            scrapes: Stream::new(seed, "noise/scrape"),
            errors: Stream::new(seed, "noise/error"),
        }
    }

    /// How much more work everything is on this instance.
    pub fn slowness(&self, instance: u64) -> f64 {
        self.instances.at(instance).log_normal(1.0, SPEED_SPREAD * self.strength)
    }

    /// How busy an instance's housekeeping is until the next round.
    pub fn bustle(&self, instance: u64, round: u64) -> f64 {
        self.instances.at(join(instance ^ 1 << 41, round)).log_normal(1.0, BUSTLE_SPREAD * self.strength)
    }

    /// Growth of the resident set, bytes per second.
    pub fn memory_drift(&self, instance: u64) -> f64 {
        let mut draw = self.instances.at(instance ^ 1 << 40);
        self.strength * draw.between(-0.2, 1.0) * 20_000.0
    }

    /// Rate of errors of its own of one service.
    pub fn error_rate(&self, service: u64) -> f64 {
        let (low, high) = ERROR_RATES;
        let place = self.services.at(service).unit().powi(3);
        self.strength * low * (high / low).powf(place)
    }

    /// The draws about errors of one request.
    pub fn error_draw(&self, request: u64) -> Draw {
        self.errors.at(request)
    }

    pub fn periodic(&self, service: u64) -> Option<Periodic> {
        let mut draw = self.services.at(service ^ 1 << 40);
        if self.strength == 0.0 || !draw.chance(PERIODIC_SHARE) {
            return None;
        }
        let every = draw.between(20.0, 120.0) * SECOND as f64;
        Some(Periodic {
            every: every as Time,
            lasts: (draw.between(0.2, 2.0) * SECOND as f64) as Time,
            first: (draw.unit() * every) as Time,
            cores: self.strength * draw.between(0.05, 0.5),
        })
    }

    /// How far a node's clock is ahead of the slowest one: nothing is stamped earlier than it happened.
    pub fn clock_error(&self, node: u64) -> Time {
        (self.strength * self.nodes.at(node).normal().abs() * 300.0 * MICRO as f64) as Time
    }

    /// When a scrape really happens after its planned time; `None` when it is lost.
    pub fn scrape(&self, exporter: u64, number: u64) -> Option<Time> {
        let mut draw = self.scrapes.at(exporter.rotate_left(32) ^ number);
        let late = (draw.exponential() * 40.0).min(900.0) * MILLI as f64 * self.strength.max(0.05);
        if draw.chance(MISSING * self.strength) { None } else { Some(late as Time) }
    }

    /// A factor close to 1 for one reading of a gauge.
    pub fn reading(&self, exporter: u64, number: u64) -> Draw {
        self.scrapes.at(exporter.rotate_left(32) ^ number ^ 1 << 63)
    }
}
