//! How much a sender may ask of this store, and which distinct names of whom have been seen.
//!
//! Names are remembered as hashes and forgotten every hour, so that what a broken sender did does not shut out others for ever.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use model::{DataTime, WallTime};

use crate::Export;
use crate::attribute::Attribute;
use crate::convert::TimeBounds;
use crate::refusal::Refusal;

/// The limits of records. [`Limits::default`] is what the product uses. The last six are for records from the network only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Attributes of a record, and of a resource.
    pub attributes: usize,
    /// The key of an attribute, bytes.
    pub key_bytes: usize,
    /// The value of an attribute, bytes.
    pub value_bytes: usize,
    /// A name, a message, or the body of a log record, bytes.
    pub text_bytes: usize,
    /// How far behind the clock a timestamp may be.
    pub past: Duration,
    /// How far ahead of the clock a timestamp may be.
    pub future: Duration,
    /// Distinct namespaces besides those that are reserved ([`crate::SignalStore::reserve_namespaces`]).
    pub namespaces: usize,
    /// Distinct services of a namespace.
    pub services: usize,
    /// Distinct attribute keys of a namespace and kind of request.
    pub attribute_keys: usize,
    /// Distinct series (metric, resource and attributes) of a namespace.
    pub series: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            attributes: 512,
            key_bytes: 1 << 10,
            value_bytes: 64 << 10,
            text_bytes: 1 << 20,
            past: Duration::from_secs(7 * 86_400),
            future: Duration::from_secs(3600),
            namespaces: 256,
            services: 2_000,
            attribute_keys: 5_000,
            series: 200_000,
        }
    }
}

impl Limits {
    /// What the timestamps of records from the network must be within, now.
    pub(crate) fn window(&self, always: TimeBounds, now: WallTime) -> TimeBounds {
        let nanos = |span: Duration| i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
        let now = now.0.saturating_mul(1000);
        TimeBounds {
            earliest: always.earliest.max(DataTime(now.saturating_sub(nanos(self.past)))),
            latest: always.latest.min(DataTime(now.saturating_add(nanos(self.future)))),
        }
    }
}

/// How long names are remembered.
const MEMORY: Duration = Duration::from_secs(3600);

/// Lists of attribute keys that are remembered as a whole; more of them are looked at key by key.
const SHAPES: usize = 4096;

/// The distinct names of one namespace, as hashes.
#[derive(Default)]
struct Seen {
    services: HashSet<u64, RandomState>,
    series: HashSet<u64, RandomState>,
    /// By kind of request.
    keys: [HashSet<u64, RandomState>; 3],
    /// Lists of keys of which every key was seen.
    shapes: [HashSet<u64, RandomState>; 3],
}

/// Namespaces that have room whatever others send: those of registered systems.
pub(crate) type Reserved = Arc<HashSet<String>>;

/// The distinct names of all namespaces.
pub(crate) struct Cardinality {
    limits: Limits,
    hasher: RandomState,
    since: Instant,
    places: HashMap<String, usize>,
    /// How many of the places are not reserved.
    others: usize,
    reserved: Reserved,
    seen: Vec<Seen>,
}

/// A namespace that was let in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place(usize);

impl Cardinality {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            hasher: RandomState::default(),
            since: Instant::now(),
            places: HashMap::new(),
            others: 0,
            reserved: Reserved::default(),
            seen: Vec::new(),
        }
    }

    /// Forgets everything when it is time to; no [`Place`] may be held.
    pub fn refresh(&mut self, reserved: &Reserved) {
        if !Arc::ptr_eq(&self.reserved, reserved) {
            self.reserved = reserved.clone();
            self.others = self.places.keys().filter(|name| !reserved.contains(*name)).count();
        }
        if self.since.elapsed() >= MEMORY {
            self.places.clear();
            self.others = 0;
            self.seen.clear();
            self.since = Instant::now();
        }
    }

    pub fn namespace(&mut self, name: &str) -> Result<Place, Refusal> {
        if let Some(&place) = self.places.get(name) {
            return Ok(Place(place));
        }
        if !self.reserved.contains(name) {
            if self.others >= self.limits.namespaces {
                return Err(Refusal::Namespaces);
            }
            self.others += 1;
        }
        self.places.insert(name.to_owned(), self.seen.len());
        self.seen.push(Seen::default());
        Ok(Place(self.seen.len() - 1))
    }

    pub fn service(&mut self, place: Place, name: &str) -> Result<(), Refusal> {
        let hash = self.hasher.hash_one(name);
        let known = &mut self.seen[place.0].services;
        admit(known, hash, self.limits.services).then_some(()).ok_or(Refusal::Services)
    }

    pub fn series(&mut self, place: Place, series: &(&str, &str, &str)) -> Result<(), Refusal> {
        let hash = self.hasher.hash_one(series);
        let known = &mut self.seen[place.0].series;
        admit(known, hash, self.limits.series).then_some(()).ok_or(Refusal::Series)
    }

    /// All keys or none are remembered.
    #[inline]
    pub fn keys(&mut self, place: Place, export: Export, list: &[Attribute<'_>]) -> Result<(), Refusal> {
        let hash = |attribute: &Attribute<'_>| self.hasher.hash_one(attribute.key);
        let shape = list.iter().fold(list.len() as u64, |shape, key| shape.rotate_left(7) ^ hash(key));
        let seen = &mut self.seen[place.0];
        let (keys, shapes) = (&mut seen.keys[export as usize], &mut seen.shapes[export as usize]);
        if shapes.contains(&shape) {
            return Ok(());
        }
        let fresh = list.iter().filter(|attribute| !keys.contains(&hash(attribute))).count();
        if fresh > 0 && keys.len() + fresh > self.limits.attribute_keys {
            return Err(Refusal::AttributeKeys);
        }
        keys.extend(list.iter().map(hash));
        if shapes.len() >= SHAPES {
            shapes.clear();
        }
        shapes.insert(shape);
        Ok(())
    }
}

/// Remembers a hash unless there are too many already.
fn admit(known: &mut HashSet<u64, RandomState>, hash: u64, limit: usize) -> bool {
    known.contains(&hash) || (known.len() < limit && known.insert(hash))
}
