//! Seeing that an owner is dead, by this process's own clock, and taking over what it held.
//!
//! Two hosts' clocks are never compared: a lease is stale when its heartbeat stood still for its whole time to live, as
//! measured by the observer's monotonic clock between its own observations.

use std::collections::HashMap;
use std::time::Instant;

use model::{Result, RunId, TaskId};
use sea_orm::{ColumnTrait, Condition, EntityTrait, QueryFilter, QuerySelect};

use crate::claim::hand_back;
use crate::connect::Store;
use crate::entity::{self, lease::Column};
use crate::failure::{Failure, Work};
use crate::lease::{HeldLease, IncarnationId, free, held, prefixed};
use crate::task::Wait;

/// What one process saw of the leases of others.
#[derive(Debug, Default)]
pub struct LeaseObserver {
    seen: HashMap<String, Seen>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    fence: i64,
    heartbeat: i64,
    since: Instant,
}

impl LeaseObserver {
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a look at `leases` at `now` and returns those that stood still for their time to live.
    pub fn look(&mut self, leases: &[HeldLease], now: Instant) -> Vec<HeldLease> {
        let mut stale = Vec::new();
        let mut seen = HashMap::with_capacity(leases.len());
        for lease in leases {
            let fresh = Seen { fence: lease.fence, heartbeat: lease.heartbeat, since: now };
            let before = self.seen.get(&lease.resource).copied();
            let state = before.filter(|before| (before.fence, before.heartbeat) == (fresh.fence, fresh.heartbeat));
            let state = state.unwrap_or(fresh);
            if now.saturating_duration_since(state.since) >= lease.ttl {
                stale.push(lease.clone());
            }
            seen.insert(lease.resource.clone(), state);
        }
        self.seen = seen;
        stale
    }

    /// Looks at every lease of other processes that can be taken over (task claims and singletons), takes over the stale
    /// ones for anybody to claim, and returns them.
    pub async fn take_over(&mut self, store: &Store, own: IncarnationId) -> Result<Vec<HeldLease>> {
        let leases = store.leases_of_others(own).await?;
        let mut taken = Vec::new();
        for lease in self.look(&leases, Instant::now()) {
            if store.take_over(&lease).await? {
                tracing::warn!(resource = lease.resource, owner = %lease.owner, "took over from a process that stood still");
                taken.push(lease);
            }
        }
        Ok(taken)
    }
}

impl Store {
    async fn leases_of_others(&self, own: IncarnationId) -> Result<Vec<HeldLease>> {
        let rows = entity::lease::Entity::find()
            .filter(Column::Owner.is_not_null())
            .filter(Column::Owner.ne(own.to_string()))
            .filter(Condition::any().add(Column::RunId.is_null()).add(prefixed("task:")))
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        Ok(held(rows)?)
    }

    /// Takes a lease from its owner if it still is exactly as it was seen: a task becomes claimable, a singleton free.
    /// `false` when its heartbeat or fence moved meanwhile.
    pub async fn take_over(&self, seen: &HeldLease) -> Result<bool> {
        match (seen.run, seen.task) {
            (Some(run), Some(task)) => self.take_task_over(seen, run, task).await,
            _ => {
                self.write(|tx, _| {
                    Box::pin(async move {
                        let exactly = Condition::all()
                            .add(Column::Resource.eq(seen.resource.as_str()))
                            .add(Column::Fence.eq(seen.fence))
                            .add(Column::Heartbeat.eq(seen.heartbeat));
                        Ok(free(tx, exactly).await? == 1)
                    })
                })
                .await
            }
        }
    }

    async fn take_task_over(&self, seen: &HeldLease, run: RunId, task: TaskId) -> Result<bool> {
        self.write(|tx, _| {
            Box::pin(async move {
                let locked = crate::run::Locked::take(tx, run).await?;
                let row = entity::lease::Entity::find_by_id(seen.resource.as_str()).lock_exclusive().one(tx).await?;
                let moved = row.is_none_or(|row| (row.fence, row.heartbeat) != (seen.fence, seen.heartbeat));
                if moved {
                    return Ok(false);
                }
                hand_back(locked, task, owner_gone(seen.owner)).await
            })
        })
        .await
    }

    /// Takes over, at once, everything of earlier processes that locked the same data folder. Only the holder of the
    /// folder's lock may call this: it knows that they are dead. Returns what was taken.
    pub async fn claim_predecessors(&self, incarnation: IncarnationId) -> Result<Vec<HeldLease>> {
        let rows = entity::incarnation::Entity::find().all(self.reader()).await.map_err(Failure::from)?;
        let own = incarnation.to_string();
        let folder = rows.iter().find(|row| row.id == own).map(|row| row.folder.clone());
        let dead: Vec<String> = rows
            .into_iter()
            .filter(|row| row.id != own && Some(&row.folder) == folder.as_ref())
            .map(|row| row.id)
            .collect();
        let mut taken = Vec::new();
        for lease in self.leases_of_others(incarnation).await? {
            if dead.contains(&lease.owner.to_string()) && self.take_over(&lease).await? {
                taken.push(lease);
            }
        }
        self.forget_incarnations(&dead).await?;
        Ok(taken)
    }

    /// Dead processes that own nothing any more need not be kept; runs may still hold leases in their name.
    async fn forget_incarnations(&self, dead: &[String]) -> Result<()> {
        self.write(|tx, _| {
            Box::pin(async move {
                let owners: Vec<Option<String>> = entity::lease::Entity::find()
                    .select_only()
                    .column(Column::Owner)
                    .filter(Column::Owner.is_not_null())
                    .distinct()
                    .into_tuple()
                    .all(tx)
                    .await?;
                let idle: Work<Vec<&String>> =
                    Ok(dead.iter().filter(|id| !owners.contains(&Some((*id).clone()))).collect());
                for id in idle? {
                    entity::incarnation::Entity::delete_by_id(id.as_str()).exec(tx).await?;
                }
                Ok(())
            })
        })
        .await
    }
}

fn owner_gone(owner: IncarnationId) -> Wait {
    Wait::new("task.owner_gone", "its worker is gone; another one takes it up").holder(owner.to_string())
}
