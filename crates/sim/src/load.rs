//! The load from outside: an open loop of journeys whose arrivals wait for no answer.

use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64Mcg;

use crate::engine::{SECOND, Time, nanos};
use crate::plan::JourneyPlan;
use crate::rng::Stream;

/// The rate moves slowly by this share about its mean.
const MODULATION: f64 = 0.15;
/// Periods of the slow movement, in seconds.
const PERIODS: [f64; 2] = [170.0, 410.0];

/// Poisson arrivals with a slowly moving rate, and the choice of a journey by weight.
pub struct Load {
    /// Journeys per second on average.
    rate: f64,
    arrivals: Pcg64Mcg,
    choices: Stream,
    phases: [f64; 2],
    modulation: f64,
    cumulative: Vec<f64>,
    started: u64,
}

impl Load {
    pub fn new(seed: u64, rate: f64, noise: f64, journeys: &[JourneyPlan]) -> Self {
        let mut sum = 0.0;
        let cumulative = journeys
            .iter()
            .map(|journey| {
                sum += journey.weight;
                sum
            })
            .collect();
        let mut draw = Stream::new(seed, "load/phase").at(0);
        Self {
            rate,
            arrivals: Stream::new(seed, "load/arrivals").sequence(),
            choices: Stream::new(seed, "load/journey"),
            phases: [draw.unit(), draw.unit()],
            modulation: MODULATION * noise.min(1.0),
            cumulative,
            started: 0,
        }
    }

    /// Time to the next arrival after `now`.
    pub fn pause(&mut self, now: Time) -> Time {
        let seconds = now as f64 / SECOND as f64;
        let wave: f64 = PERIODS
            .iter()
            .zip(self.phases)
            .map(|(period, phase)| (std::f64::consts::TAU * (seconds / period + phase)).sin() / PERIODS.len() as f64)
            .sum();
        let exponential: f64 = Exp1.sample(&mut self.arrivals);
        nanos(exponential * SECOND as f64 / (self.rate * (1.0 + self.modulation * wave)))
    }

    /// The number of the arriving journey, and which one it is.
    pub fn choose(&mut self) -> (u64, usize) {
        let number = self.started;
        self.started += 1;
        let place = self.choices.at(number).unit() * self.cumulative.last().copied().unwrap_or(0.0);
        (number, self.cumulative.partition_point(|&sum| sum <= place))
    }

    pub const fn started(&self) -> u64 {
        self.started
    }
}
