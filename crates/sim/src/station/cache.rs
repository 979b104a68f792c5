//! A cache by its keys: which are asked for (Zipf's law), and which it holds.

use rand_distr::{Distribution, Zipf};

use crate::rng::Draw;

/// The keys of one kind of look-up in one cache.
///
/// Keys are numbered by popularity. A full cache drops a key by lot, which for the hit ratio is close to the stores' own
/// approximations of least recent use.
pub struct Cache {
    popularity: Zipf<f64>,
    entries: u32,
    /// One bit for each key that is held.
    held: Vec<u64>,
    /// The keys that are held, to drop one of.
    list: Vec<u32>,
    /// Incarnation of the process that holds them.
    epoch: u32,
}

impl Cache {
    /// # Panics
    /// When there is no key.
    pub fn new(keys: u32, entries: u32, skew: f64) -> Self {
        Self {
            popularity: Zipf::new(f64::from(keys), skew).expect("there is a key, and the exponent is not negative"),
            entries: entries.clamp(1, keys),
            held: vec![0; keys as usize / 64 + 1],
            list: Vec::new(),
            epoch: 0,
        }
    }

    /// The key that is asked for.
    pub fn key(&self, draw: &mut Draw) -> u32 {
        self.popularity.sample(draw) as u32
    }

    /// Whether the process of this incarnation holds the key. A new process holds nothing.
    pub fn holds(&mut self, epoch: u32, key: u32) -> bool {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.held.fill(0);
            self.list.clear();
        }
        self.held[key as usize / 64] & bit(key) != 0
    }

    /// Puts a key in; a full cache drops another one.
    pub fn put(&mut self, epoch: u32, key: u32, draw: &mut Draw) {
        if self.holds(epoch, key) {
            return;
        }
        if self.list.len() >= self.entries as usize {
            let dropped = self.list.swap_remove(draw.below(self.list.len()));
            self.held[dropped as usize / 64] &= !bit(dropped);
        }
        self.held[key as usize / 64] |= bit(key);
        self.list.push(key);
    }
}

const fn bit(key: u32) -> u64 {
    1 << (key % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    fn hits(cache: &mut Cache, epoch: u32, range: std::ops::Range<u64>) -> f64 {
        let stream = Stream::new(1, "cache");
        let n = (range.end - range.start) as f64;
        let mut hits = 0.0;
        for number in range {
            let mut draw = stream.at(number);
            let key = cache.key(&mut draw);
            if cache.holds(epoch, key) {
                hits += 1.0;
            } else {
                cache.put(epoch, key, &mut draw);
            }
        }
        hits / n
    }

    #[test]
    fn a_cache_warms_up_and_is_cold_after_a_restart() {
        let mut cache = Cache::new(2000, 1500, 0.99);
        assert!(hits(&mut cache, 0, 0..200) < 0.55);
        hits(&mut cache, 0, 200..20_000);
        let warm = hits(&mut cache, 0, 20_000..30_000);
        assert!((0.85..0.995).contains(&warm), "{warm}");
        assert!(hits(&mut cache, 1, 30_000..30_200) < 0.55, "another process starts empty");
    }

    #[test]
    fn room_bounds_what_is_held() {
        let mut cache = Cache::new(1000, 10, 0.0);
        let uniform = hits(&mut cache, 0, 0..50_000);
        assert!((uniform - 0.01).abs() < 0.005, "{uniform}");
        assert_eq!(cache.list.len(), 10);
    }
}
