//! Random numbers, split by purpose and keyed by what they are for.
//!
//! A run's seed and a purpose give a [`Stream`]; a stream and a key (a request, a pod, a scrape) give a [`Draw`]. A draw
//! does not depend on how many draws were made elsewhere, so an added fault does not reshuffle anything that it does not
//! touch: the same run without it is its exact counterfactual.

use std::convert::Infallible;

use rand::SeedableRng;
use rand::rand_core::TryRng;
use rand_distr::{Distribution, Exp1, StandardNormal};
use rand_pcg::Pcg64Mcg;

/// Finalizer of `SplitMix64` (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Joins two keys into one; the order matters.
pub const fn join(a: u64, b: u64) -> u64 {
    mix(a.wrapping_mul(GOLDEN) ^ mix(b.wrapping_add(GOLDEN)))
}

/// A key from a name (FNV-1a, then mixed).
pub fn name_key(name: &str) -> u64 {
    let hash =
        name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, byte| (h ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    mix(hash)
}

/// All draws of one purpose in one run.
#[derive(Debug, Clone, Copy)]
pub struct Stream(u64);

impl Stream {
    pub fn new(seed: u64, purpose: &str) -> Self {
        Self(join(seed, name_key(purpose)))
    }

    /// The draws that belong to one thing of this purpose.
    pub const fn at(self, key: u64) -> Draw {
        Draw(join(self.0, key))
    }

    /// A sequential generator, for what depends on nothing but its own past (arrivals).
    pub fn sequence(self) -> Pcg64Mcg {
        Pcg64Mcg::seed_from_u64(self.0)
    }

    /// A stable identifier of the key in this stream, never zero.
    pub const fn id(self, key: u64) -> u64 {
        join(self.0, key) | 1
    }
}

/// The generator of one key: `SplitMix64` started at the key's hash.
#[derive(Debug, Clone)]
pub struct Draw(u64);

impl Draw {
    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// Sixty-four random bits.
    pub const fn key(&mut self) -> u64 {
        self.next()
    }

    /// Uniform in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Uniform in `[low, high)`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    pub fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.unit() < probability
    }

    /// Uniform in `0..n`; `n` is at least 1.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 32) as usize * n) >> 32
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        Exp1.sample(self)
    }

    pub fn normal(&mut self) -> f64 {
        StandardNormal.sample(self)
    }

    /// Log-normal by median and the standard deviation of the logarithm.
    pub fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        median * (sigma * self.normal()).exp()
    }
}

impl TryRng for Draw {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.next() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.next())
    }

    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Infallible> {
        for chunk in dst.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

/// The logarithm's standard deviation that gives a log-normal the coefficient of variation `cv`.
pub fn sigma_of_cv(cv: f64) -> f64 {
    (1.0 + cv * cv).ln().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_depends_on_its_key_alone() {
        let stream = Stream::new(7, "work");
        let first = stream.at(1).unit();
        let _ = stream.at(2).unit();
        assert_eq!(stream.at(1).unit(), first);
        assert_ne!(Stream::new(8, "work").at(1).unit(), first);
        assert_ne!(Stream::new(7, "link").at(1).unit(), first);
    }

    #[test]
    fn moments_are_those_of_the_distribution() {
        let stream = Stream::new(1, "moments");
        let n = 200_000_u64;
        let mean = |f: &dyn Fn(&mut Draw) -> f64| (0..n).map(|key| f(&mut stream.at(key))).sum::<f64>() / n as f64;
        assert!((mean(&|d| d.unit()) - 0.5).abs() < 0.005);
        assert!((mean(&|d| d.exponential()) - 1.0).abs() < 0.02);
        let cv = 1.2;
        let sigma = sigma_of_cv(cv);
        let expect = (sigma * sigma / 2.0).exp();
        assert!((mean(&|d| d.log_normal(1.0, sigma)) / expect - 1.0).abs() < 0.02);
    }
}
