//! Look-ups in caches: what is asked for, whether it is there, and what a miss puts in.

use super::Ref;
use crate::plan::CacheId;
use crate::rng::join;
use crate::station::Cache;
use crate::world::World;

/// What the last look-up of a handling found.
#[derive(Debug, Clone, Copy, Default)]
pub struct Found {
    /// The cache that was asked, and the key.
    asked: Option<(CacheId, u32)>,
    missed: bool,
}

/// Salts of the draws of one look-up.
const KEY: u64 = 0x6b65;
const DROP: u64 = 0x6472;

impl World {
    /// The cache as the handling on `slot` sees it, and the incarnation of the process that holds it; `None` when that
    /// does not run.
    fn cache_at(&mut self, id: CacheId, slot: u16) -> Option<(&mut Cache, u32)> {
        let plan = &self.plan.caches[id as usize];
        let holder = plan.store.map_or(slot, |store| self.places[store as usize].start);
        let first = self.places[self.pods[holder as usize].service as usize].start;
        let epoch = self.pods[holder as usize].epoch;
        if !self.pods[holder as usize].runs() {
            return None;
        }
        Some((&mut self.caches[id as usize][usize::from(holder - first)], epoch))
    }

    /// A handling looks something up; `answered` is false when the store did not answer.
    pub(super) fn ask_cache(&mut self, handling: Ref, id: CacheId, answered: bool) {
        let Some(frame) = self.frames.get(handling) else { return };
        let (key, slot) = (join(frame.key, KEY + (u64::from(frame.next_child) << 16)), frame.pod);
        let mut draw = self.streams.keys.at(key);
        let Some((cache, epoch)) = self.cache_at(id, slot) else { return };
        let asked = cache.key(&mut draw);
        let missed = !(answered && cache.holds(epoch, asked));
        if let Some(frame) = self.frames.get_mut(handling) {
            frame.found = Found { asked: Some((id, asked)), missed };
        }
    }

    /// Whether a call that is made only on a miss is made now. Without a look-up at a store, the process asks itself.
    pub(super) fn missed(&mut self, handling: Ref, id: CacheId) -> bool {
        let inside = self.plan.caches[id as usize].store.is_none();
        let asked = |world: &Self| world.frames.get(handling).and_then(|frame| frame.found.asked);
        if inside && asked(self).is_none_or(|(known, _)| known != id) {
            self.ask_cache(handling, id, true);
        }
        self.frames.get(handling).is_some_and(|frame| frame.found.missed)
    }

    /// What was missing is there now.
    pub(super) fn fill(&mut self, handling: Ref, id: CacheId) {
        let Some(frame) = self.frames.get(handling) else { return };
        let Some((_, key)) = frame.found.asked.filter(|(asked, _)| *asked == id) else { return };
        let (slot, mut draw) = (frame.pod, self.streams.keys.at(join(frame.key, DROP)));
        if let Some((cache, epoch)) = self.cache_at(id, slot) {
            cache.put(epoch, key, &mut draw);
        }
    }
}
