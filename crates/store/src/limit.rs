//! Slots and limits: what a run or a task holds while it works.
//!
//! A limit of N is N numbered resources `limit:<name>:<i>`; a slot is `slot:<namespace>`. Both follow the run or task that
//! holds them to whoever works on it, and go back with its end.

use std::time::Duration;

use model::{Problem, Result, Slot};
use sea_orm::{ColumnTrait, Condition, DatabaseTransaction, EntityTrait, QueryFilter, QuerySelect};
use serde_json::json;

use crate::connect::Store;
use crate::entity::{self, lease::Column};
use crate::event::NewEvent;
use crate::failure::Work;
use crate::lease::{Grant, HeldLease, Holder, Lease, free, grant, held as read_held, prefixed};
use crate::outcome::held;
use crate::task::Claim;

/// What came of asking for a slot.
#[derive(Debug, Clone, PartialEq)]
pub enum SlotGrant {
    Got {
        slot: Slot,
        lease: Lease,
    },
    /// Every candidate is held; by whom.
    Busy(Vec<HeldLease>),
}

/// What came of asking for one of a limit's tokens.
#[derive(Debug, Clone, PartialEq)]
pub enum LimitGrant {
    Got(Lease),
    /// As many are held as the limit allows, or more if it was lowered; by whom.
    Full(Vec<HeldLease>),
}

/// Leases of runs and tasks are never taken over for standing still, so this only says how often they are shown as alive.
const TTL: Duration = Duration::from_secs(60);

impl Store {
    /// Leases one of `candidates`, the first free one, to the claim's run; the one that the run has already if it has one.
    /// The run's namespace and slot are set with it.
    ///
    /// # Errors
    /// `fence.stale`.
    pub async fn acquire_slot(&self, claim: &Claim, candidates: &[Slot]) -> Result<SlotGrant> {
        let holder = Holder { owner: claim.owner, run: Some(claim.run), task: None, ttl: TTL };
        self.write(|tx, _| {
            Box::pin(async move {
                let (mut run, _) = held(tx, claim).await?;
                let mut busy = Vec::new();
                for slot in own_first(candidates, run.row.namespace.as_deref()) {
                    let namespace = slot.namespace();
                    let resource = format!("slot:{namespace}");
                    match grant(tx, &resource, holder, &format!("run {}", claim.run)).await? {
                        Grant::Busy(row) => busy.extend(HeldLease::read(row)?),
                        Grant::Got(fence) => {
                            if run.row.namespace.as_deref() != Some(namespace.as_str()) {
                                let words = format!("the run leases slot {namespace}");
                                let event =
                                    NewEvent::new("acquire.lock", words).payload(json!({"namespace": namespace}));
                                run.tell(Some((claim.task, claim.kind)), event);
                            }
                            run.row.namespace = Some(namespace);
                            run.row.slot = Some(i32::try_from(slot.number).map_err(|_| {
                                Problem::internal("slot.number_too_large", "a slot has a number that cannot be stored")
                                    .found(slot.number.to_string())
                            })?);
                            run.write().await?;
                            let lease = Lease { resource, owner: claim.owner, fence };
                            return Ok(SlotGrant::Got { slot: slot.clone(), lease });
                        }
                    }
                }
                Ok(SlotGrant::Busy(busy))
            })
        })
        .await
    }

    /// Leases one token of limit `name` to the claim's task; the one that the task has already if it has one.
    ///
    /// # Errors
    /// `fence.stale`.
    pub async fn acquire_limit(&self, claim: &Claim, name: &str, capacity: u32) -> Result<LimitGrant> {
        let holder = Holder { owner: claim.owner, run: Some(claim.run), task: Some(claim.task), ttl: TTL };
        self.write(|tx, _| {
            Box::pin(async move {
                held(tx, claim).await?;
                let mut holders = holders(tx, name).await?;
                if let Some(own) = holders.iter().find(|lease| lease.task == Some(claim.task)) {
                    let (resource, fence) = (own.resource.clone(), own.fence);
                    return Ok(LimitGrant::Got(Lease { resource, owner: claim.owner, fence }));
                }
                if holders.len() >= capacity as usize {
                    return Ok(LimitGrant::Full(holders));
                }
                let taken: Vec<String> = holders.iter().map(|lease| lease.resource.clone()).collect();
                let names = (0..capacity).map(|number| format!("limit:{name}:{number}"));
                for resource in names.filter(|resource| !taken.contains(resource)) {
                    let note = format!("{} of run {}", claim.kind, claim.run);
                    match grant(tx, &resource, holder, &note).await? {
                        Grant::Got(fence) => return Ok(LimitGrant::Got(Lease { resource, owner: claim.owner, fence })),
                        // Taken since the holders were read.
                        Grant::Busy(row) => holders.extend(HeldLease::read(row)?),
                    }
                }
                Ok(LimitGrant::Full(holders))
            })
        })
        .await
    }

    /// Gives back the claim's token of limit `name`, if it has one.
    ///
    /// # Errors
    /// `fence.stale`.
    pub async fn release_limit(&self, claim: &Claim, name: &str) -> Result<()> {
        self.write(|tx, _| {
            Box::pin(async move {
                held(tx, claim).await?;
                let own = Condition::all()
                    .add(Column::TaskId.eq(claim.task.to_string()))
                    .add(prefixed(&format!("limit:{name}:")));
                free(tx, own).await?;
                Ok(())
            })
        })
        .await
    }
}

/// The slot that the run has comes first, so that asking again changes nothing.
fn own_first<'a>(candidates: &'a [Slot], own: Option<&str>) -> Vec<&'a Slot> {
    let mut ordered: Vec<&Slot> = candidates.iter().collect();
    ordered.sort_by_key(|slot| Some(slot.namespace().as_str()) != own);
    ordered
}

/// Who holds a limit's tokens. The rows are locked, so that two who ask come one after the other.
async fn holders(tx: &DatabaseTransaction, name: &str) -> Work<Vec<HeldLease>> {
    let rows =
        entity::lease::Entity::find().filter(prefixed(&format!("limit:{name}:"))).lock_exclusive().all(tx).await?;
    read_held(rows)
}
