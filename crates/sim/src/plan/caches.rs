//! Which calls of a handler look something up, which are made only after a miss, and which of them fill the cache.

use super::{CacheId, CachePlan, CallId, CallKind, Plan, ServiceId};
use system::Topology;

/// Keys of a look-up that the system's data says nothing about: a catalogue of some size, most of which finds room.
const USUAL: (u32, u32, f64) = (2000, 1600, 0.99);

/// Ties the calls of one handler together. A look-up is the nearest reading command to a cache before a call that is made
/// on a miss; without one, the cache is inside the process.
pub fn tie(plan: &mut Plan, topology: &Topology, children: &[CallId]) {
    let mut look_up: Option<CallId> = None;
    let mut cache: Option<CacheId> = None;
    for (at, &child) in children.iter().enumerate() {
        if !plan.calls[child as usize].on_miss {
            let call = &plan.calls[child as usize];
            let reads = !plan.operations[call.operation as usize].writes;
            if matches!(call.kind, CallKind::Redis | CallKind::Memcached) && reads {
                (look_up, cache) = (Some(child), None);
            }
            continue;
        }
        let id = *cache.get_or_insert_with(|| {
            let id = cache_of(plan, topology, look_up, child);
            let filler = filler(plan, children, at, look_up);
            plan.calls[filler as usize].fills = Some(id);
            id
        });
        plan.calls[child as usize].cache = Some(id);
        if let Some(look_up) = look_up {
            plan.calls[look_up as usize].looks_up = Some(id);
        }
    }
}

/// The call after a miss that puts the key into the cache: the command to the store that was asked, else the first one.
fn filler(plan: &Plan, children: &[CallId], from: usize, look_up: Option<CallId>) -> CallId {
    let store = look_up.map(|look_up| plan.calls[look_up as usize].to);
    let after = children[from..].iter().copied().take_while(|&child| plan.calls[child as usize].on_miss);
    after.into_iter().find(|&child| Some(plan.calls[child as usize].to) == store).unwrap_or(children[from])
}

/// The cache of a look-up, or of the calls that are made when the process itself does not hold something.
fn cache_of(plan: &mut Plan, topology: &Topology, look_up: Option<CallId>, missed: CallId) -> CacheId {
    let (client, reads) = {
        let missed = &plan.calls[missed as usize];
        (missed.from, missed.operation)
    };
    let store: Option<ServiceId> = look_up.map(|look_up| plan.calls[look_up as usize].to);
    let key = (client, store, reads);
    if let Some(known) = plan.caches.iter().position(|cache| (cache.client, cache.store, cache.reads) == key) {
        return known as CacheId;
    }
    let name = |id: ServiceId| plan.services[id as usize].name.as_str();
    let row = topology
        .behaviour
        .caches
        .iter()
        .find(|row| row.client == name(client) && row.store.as_deref() == store.map(name));
    let (keys, entries, skew) = row.map_or(USUAL, |row| (row.keys, row.entries, row.skew));
    plan.caches.push(CachePlan { client, store, reads, keys, entries, skew });
    plan.caches.len() as CacheId - 1
}
