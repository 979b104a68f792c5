//! Leases: one mechanism and one table for task claims, slots, limits and singleton duties.
//!
//! A lease has an owner (a process incarnation), a fence that grows with every change of hands, and a heartbeat counter.
//! What a *run* holds (slots, limit tokens) follows the run: whoever claims its task owns them, and they go back in the
//! transaction that ends the task or the run. So only task claims and singletons are ever taken over from the dead.

use std::fmt;
use std::time::Duration;

use model::{ErrorKind, Problem, Result, RunId, TaskId, TaskState, WallTime};
use sea_orm::sea_query::Expr;
use sea_orm::{
    ColumnTrait, Condition, DatabaseTransaction, EntityTrait, ExprTrait, IntoActiveModel, QueryFilter, QueryOrder,
    QuerySelect,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::connect::Store;
use crate::convert::{fit, optional_uuid, uuid};
use crate::entity::{self, lease::Column};
use crate::failure::{Failure, Work, corrupt, is_duplicate};
use crate::query::starting;

/// One life of one process. A restarted process is another incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IncarnationId(pub Uuid);

impl IncarnationId {
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }
}

impl fmt::Display for IncarnationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A process that may own leases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incarnation {
    pub id: IncarnationId,
    /// Identity of the data folder that it locked; its predecessors are those with the same one.
    pub folder: Uuid,
    pub host: String,
    pub pid: u32,
    /// `all`, `api`, `worker`, `ingest`.
    pub role: String,
}

/// A lease as its owner holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub resource: String,
    pub owner: IncarnationId,
    pub fence: i64,
}

/// A held lease as everybody sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldLease {
    pub resource: String,
    pub owner: IncarnationId,
    /// The run that holds it; `None` for a singleton.
    pub run: Option<RunId>,
    /// The task that holds it; `None` when the whole run does.
    pub task: Option<TaskId>,
    pub fence: i64,
    /// Grows while the owner lives.
    pub heartbeat: i64,
    pub ttl: Duration,
    pub note: String,
    pub acquired_at: WallTime,
    pub renewed_at: WallTime,
}

/// Whether a resource was free.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquired {
    Yes(Lease),
    /// Somebody else holds it.
    No(HeldLease),
}

/// For whom a resource is leased.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holder {
    pub owner: IncarnationId,
    pub run: Option<RunId>,
    pub task: Option<TaskId>,
    pub ttl: Duration,
}

impl Lease {
    pub(crate) fn stale(&self) -> Problem {
        stale(&self.resource, self.fence)
    }
}

/// A write by somebody who no longer has the right to it.
pub(crate) fn stale(resource: &str, fence: i64) -> Problem {
    Problem::new(ErrorKind::Conflict, "fence.stale", "somebody else holds this now, so the write is refused")
        .place(resource.to_owned())
        .found(format!("fence {fence}"))
        .expected("the newest fence")
}

impl HeldLease {
    /// `None` when the row is free.
    pub(crate) fn read(row: entity::lease::Model) -> Work<Option<Self>> {
        let Some(owner) = optional_uuid(row.owner.as_deref())? else { return Ok(None) };
        Ok(Some(Self {
            resource: row.resource,
            owner: IncarnationId(owner),
            run: optional_uuid(row.run_id.as_deref())?.map(RunId),
            task: optional_uuid(row.task_id.as_deref())?.map(TaskId),
            fence: row.fence,
            heartbeat: row.heartbeat,
            ttl: Duration::from_micros(u64::try_from(row.ttl_us).map_err(|_| corrupt("lease's lifetime", row.ttl_us))?),
            note: row.note,
            acquired_at: WallTime(row.acquired_at),
            renewed_at: WallTime(row.renewed_at),
        }))
    }
}

/// What [`grant`] found.
pub(crate) enum Grant {
    Got(i64),
    Busy(entity::lease::Model),
}

/// Gives the resource to `holder` if it is free, or if it is held already by the same task, run or process.
pub(crate) async fn grant(tx: &DatabaseTransaction, resource: &str, holder: Holder, note: &str) -> Work<Grant> {
    let row = entity::lease::Entity::find_by_id(resource).lock_exclusive().one(tx).await?;
    let Some(row) = row else { return insert(tx, resource, holder, note).await };
    if row.owner.is_some() && !is_same(&row, holder) {
        return Ok(Grant::Busy(row));
    }
    let owner = holder.owner.to_string();
    // Taking again what one has changes nothing; anything else is a change of hands.
    if row.owner.as_deref() == Some(owner.as_str()) {
        return Ok(Grant::Got(row.fence));
    }
    let fence = row.fence + 1;
    let now = WallTime::now().0;
    let changed = entity::lease::Entity::update_many()
        .col_expr(Column::Owner, Expr::value(owner))
        .col_expr(Column::RunId, Expr::value(holder.run.map(|id| id.to_string())))
        .col_expr(Column::TaskId, Expr::value(holder.task.map(|id| id.to_string())))
        .col_expr(Column::Fence, Expr::value(fence))
        .col_expr(Column::Heartbeat, Expr::value(row.heartbeat + 1))
        .col_expr(Column::TtlUs, Expr::value(micros(holder.ttl)))
        .col_expr(Column::Note, Expr::value(fit(note, 255)))
        .col_expr(Column::AcquiredAt, Expr::value(now))
        .col_expr(Column::RenewedAt, Expr::value(now))
        .filter(Column::Resource.eq(resource))
        .filter(Column::Fence.eq(row.fence))
        .exec(tx)
        .await?;
    if changed.rows_affected == 1 { Ok(Grant::Got(fence)) } else { Ok(Grant::Busy(row)) }
}

/// A task's lease follows the task, a run's the run, and a singleton's the process.
fn is_same(row: &entity::lease::Model, holder: Holder) -> bool {
    let run = holder.run.map(|id| id.to_string());
    let task = holder.task.map(|id| id.to_string());
    if run.is_some() {
        return row.run_id == run && row.task_id == task;
    }
    row.run_id.is_none() && row.owner == Some(holder.owner.to_string())
}

async fn insert(tx: &DatabaseTransaction, resource: &str, holder: Holder, note: &str) -> Work<Grant> {
    let row = new_row(resource, holder, 1, note);
    match entity::lease::Entity::insert(row.into_active_model()).exec_without_returning(tx).await {
        Ok(_) => Ok(Grant::Got(1)),
        Err(error) if is_duplicate(&error) => {
            // Another transaction made the row between the look and the insertion.
            let row = entity::lease::Entity::find_by_id(resource).lock_exclusive().one(tx).await?;
            row.map(Grant::Busy).ok_or_else(|| Failure::Database(error))
        }
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn new_row(resource: &str, holder: Holder, fence: i64, note: &str) -> entity::lease::Model {
    let now = WallTime::now().0;
    entity::lease::Model {
        resource: resource.to_owned(),
        owner: Some(holder.owner.to_string()),
        run_id: holder.run.map(|id| id.to_string()),
        task_id: holder.task.map(|id| id.to_string()),
        fence,
        heartbeat: 1,
        ttl_us: micros(holder.ttl),
        note: fit(note, 255),
        acquired_at: now,
        renewed_at: now,
    }
}

/// Frees leases that match `filter`. Their rows stay, so that their fences only grow.
///
/// Of the tasks that wait for one of them, the one that waits longest is due at once.
pub(crate) async fn free(tx: &DatabaseTransaction, filter: Condition) -> Work<u64> {
    let going: Vec<String> = entity::lease::Entity::find()
        .select_only()
        .column(Column::Resource)
        .filter(filter.clone())
        .filter(Column::Owner.is_not_null())
        .into_tuple()
        .all(tx)
        .await?;
    let none = || Expr::value(Option::<String>::None);
    let freed = entity::lease::Entity::update_many()
        .col_expr(Column::Owner, none())
        .col_expr(Column::RunId, none())
        .col_expr(Column::TaskId, none())
        .col_expr(Column::Fence, Expr::col(Column::Fence).add(1))
        .col_expr(Column::RenewedAt, Expr::value(WallTime::now().0))
        .filter(filter)
        .exec(tx)
        .await?;
    for resource in &going {
        wake(tx, resource).await?;
    }
    Ok(freed.rows_affected)
}

/// Whether one of the awaited leases is free. Whoever is just freeing one is waited for, and comes to see who waits.
pub(crate) async fn any_free(tx: &DatabaseTransaction, awaited: &[String]) -> Work<bool> {
    for resource in awaited {
        let named = match resource.strip_prefix("limit:") {
            Some(_) => prefixed(&format!("{resource}:")),
            None => Condition::all().add(Column::Resource.eq(resource.as_str())),
        };
        let rows = entity::lease::Entity::find().filter(named).lock_exclusive().all(tx).await?;
        if rows.iter().any(|row| row.owner.is_none()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Makes the task due that waits longest for a lease. A place of a limit (`limit:build:3`) is as good as any other of it.
async fn wake(tx: &DatabaseTransaction, resource: &str) -> Work<()> {
    use entity::task::Column;
    let awaited = match resource.strip_prefix("limit:").and_then(|limit| limit.rsplit_once(':')) {
        Some((limit, _place)) => format!("limit:{limit}"),
        None => resource.to_owned(),
    };
    let now = WallTime::now().0;
    let waiting = entity::task::Entity::find()
        .filter(Column::State.eq(TaskState::Rescheduled.code()))
        .filter(Column::DueAt.gt(now))
        // The text is JSON, in which a name stands in quotes.
        .filter(Column::Wait.contains(format!("\"{awaited}\"")))
        .order_by_asc(Column::CreatedAt)
        .order_by_asc(Column::Id)
        .one(tx)
        .await?;
    if let Some(task) = waiting {
        entity::task::Entity::update_many()
            .col_expr(Column::DueAt, Expr::value(now))
            .filter(Column::Id.eq(task.id.as_str()))
            .filter(Column::State.eq(TaskState::Rescheduled.code()))
            .exec(tx)
            .await?;
    }
    Ok(())
}

pub(crate) fn task_resource(task: TaskId) -> String {
    format!("task:{task}")
}

/// Resources whose names start with `prefix`.
pub(crate) fn prefixed(prefix: &str) -> Condition {
    starting(Column::Resource, prefix)
}

fn micros(ttl: Duration) -> i64 {
    i64::try_from(ttl.as_micros().max(1)).unwrap_or(i64::MAX)
}

impl Store {
    /// Makes a process known before it owns anything.
    pub async fn enter(&self, incarnation: &Incarnation) -> Result<()> {
        self.publishing().owner.get_or_init(|| incarnation.id);
        self.write(|tx, _| {
            Box::pin(async move {
                let row = entity::incarnation::Model {
                    id: incarnation.id.to_string(),
                    folder: incarnation.folder.to_string(),
                    host: fit(&incarnation.host, 255),
                    pid: i64::from(incarnation.pid),
                    role: fit(&incarnation.role, 32),
                    started_at: WallTime::now().0,
                };
                entity::incarnation::Entity::insert(row.into_active_model()).exec_without_returning(tx).await?;
                Ok(())
            })
        })
        .await
    }

    /// Every process that ever entered, newest first.
    pub async fn incarnations(&self) -> Result<Vec<Incarnation>> {
        let rows = entity::incarnation::Entity::find()
            .order_by_desc(entity::incarnation::Column::StartedAt)
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        let read = |row: entity::incarnation::Model| {
            Ok(Incarnation {
                id: IncarnationId(uuid(&row.id)?),
                folder: uuid(&row.folder)?,
                host: row.host,
                pid: u32::try_from(row.pid).map_err(|_| corrupt("process number", row.pid))?,
                role: row.role,
            })
        };
        Ok(rows.into_iter().map(read).collect::<Work<_>>()?)
    }

    /// Takes a singleton duty (`duty:reconciler`, `seed:apply`) when it is free or held by `owner` already.
    pub async fn acquire(&self, resource: &str, owner: IncarnationId, ttl: Duration, note: &str) -> Result<Acquired> {
        let holder = Holder { owner, run: None, task: None, ttl };
        self.write(|tx, _| {
            Box::pin(async move {
                match grant(tx, resource, holder, note).await? {
                    Grant::Got(fence) => Ok(Acquired::Yes(Lease { resource: resource.to_owned(), owner, fence })),
                    Grant::Busy(row) => match HeldLease::read(row)? {
                        Some(held) => Ok(Acquired::No(held)),
                        None => Err(crate::failure::lost("lease")),
                    },
                }
            })
        })
        .await
    }

    /// Shows that the owner lives.
    ///
    /// # Errors
    /// `fence.stale` when somebody else holds it.
    pub async fn renew(&self, lease: &Lease) -> Result<()> {
        self.write(|tx, _| {
            Box::pin(async move {
                let renewed = entity::lease::Entity::update_many()
                    .col_expr(Column::Heartbeat, Expr::col(Column::Heartbeat).add(1))
                    .col_expr(Column::RenewedAt, Expr::value(WallTime::now().0))
                    .filter(Column::Resource.eq(lease.resource.as_str()))
                    .filter(Column::Owner.eq(lease.owner.to_string()))
                    .filter(Column::Fence.eq(lease.fence))
                    .exec(tx)
                    .await?;
                if renewed.rows_affected == 1 { Ok(()) } else { Err(lease.stale().into()) }
            })
        })
        .await
    }

    /// Shows that a process lives, for everything that it owns at once, and returns what that is. A claim that is not
    /// among it was taken over: its work must stop.
    pub async fn heartbeat(&self, owner: IncarnationId) -> Result<Vec<HeldLease>> {
        self.write(|tx, _| {
            Box::pin(async move {
                entity::lease::Entity::update_many()
                    .col_expr(Column::Heartbeat, Expr::col(Column::Heartbeat).add(1))
                    .col_expr(Column::RenewedAt, Expr::value(WallTime::now().0))
                    .filter(Column::Owner.eq(owner.to_string()))
                    .exec(tx)
                    .await?;
                let rows = entity::lease::Entity::find().filter(Column::Owner.eq(owner.to_string())).all(tx).await?;
                held(rows)
            })
        })
        .await
    }

    /// Gives a singleton duty back.
    ///
    /// # Errors
    /// `fence.stale` when somebody else holds it.
    pub async fn release(&self, lease: &Lease) -> Result<()> {
        self.write(|tx, _| {
            Box::pin(async move {
                let exactly = Condition::all()
                    .add(Column::Resource.eq(lease.resource.as_str()))
                    .add(Column::Owner.eq(lease.owner.to_string()))
                    .add(Column::Fence.eq(lease.fence));
                if free(tx, exactly).await? == 1 { Ok(()) } else { Err(lease.stale().into()) }
            })
        })
        .await
    }

    /// Refuses when the lease is no longer held under this fence. Ask before each outside effect.
    ///
    /// # Errors
    /// `fence.stale`.
    pub async fn check_lease(&self, lease: &Lease) -> Result<()> {
        let row = entity::lease::Entity::find_by_id(lease.resource.as_str()).one(self.reader()).await;
        let row = row.map_err(Failure::from)?;
        let owner = lease.owner.to_string();
        let holds = row.is_some_and(|row| row.owner.as_deref() == Some(owner.as_str()) && row.fence == lease.fence);
        if holds { Ok(()) } else { Err(lease.stale()) }
    }

    /// Every held lease whose resource starts with `prefix` (`slot:`, `limit:`, `task:`, or nothing for all).
    pub async fn leases(&self, prefix: &str) -> Result<Vec<HeldLease>> {
        let rows = entity::lease::Entity::find()
            .filter(Column::Owner.is_not_null())
            .filter(prefixed(prefix))
            .order_by_asc(Column::Resource)
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        Ok(held(rows)?)
    }

    /// Frees a resource whoever holds it: an operator's decision. Returns who held it.
    pub async fn force_release(&self, resource: &str) -> Result<Option<HeldLease>> {
        self.write(|tx, _| {
            Box::pin(async move {
                let row = entity::lease::Entity::find_by_id(resource).lock_exclusive().one(tx).await?;
                let Some(held) = row.map(HeldLease::read).transpose()?.flatten() else { return Ok(None) };
                free(tx, Condition::all().add(Column::Resource.eq(resource))).await?;
                Ok(Some(held))
            })
        })
        .await
    }
}

/// The same inside a transaction, against which nobody can take the lease over.
pub(crate) async fn require(tx: &DatabaseTransaction, lease: &Lease) -> Work<()> {
    let row = entity::lease::Entity::find_by_id(lease.resource.as_str()).lock_exclusive().one(tx).await?;
    let owner = lease.owner.to_string();
    let holds = row.is_some_and(|row| row.owner.as_deref() == Some(owner.as_str()) && row.fence == lease.fence);
    if holds { Ok(()) } else { Err(lease.stale().into()) }
}

pub(crate) fn held(rows: Vec<entity::lease::Model>) -> Work<Vec<HeldLease>> {
    rows.into_iter().filter_map(|row| HeldLease::read(row).transpose()).collect()
}

/// Everything of a run that follows its task to a new owner.
pub(crate) async fn adopt(tx: &DatabaseTransaction, run: RunId, task: TaskId, owner: IncarnationId) -> Work<()> {
    let follows = Condition::any().add(Column::TaskId.is_null()).add(Column::TaskId.eq(task.to_string()));
    entity::lease::Entity::update_many()
        .col_expr(Column::Owner, Expr::value(owner.to_string()))
        .col_expr(Column::Fence, Expr::col(Column::Fence).add(1))
        .col_expr(Column::Heartbeat, Expr::col(Column::Heartbeat).add(1))
        .filter(Column::RunId.eq(run.to_string()))
        .filter(Column::Owner.ne(owner.to_string()))
        .filter(follows)
        .exec(tx)
        .await?;
    Ok(())
}

/// The lease of a claimed task; it goes with the claim.
pub(crate) async fn put_task(tx: &DatabaseTransaction, holder: Holder, task: TaskId, fence: i64) -> Work<()> {
    let row = new_row(&task_resource(task), holder, fence, "").into_active_model();
    entity::lease::Entity::insert(row).exec_without_returning(tx).await?;
    Ok(())
}

/// Ends a task's claim. The task's own fence goes on growing, so the row is not needed.
pub(crate) async fn drop_task(tx: &DatabaseTransaction, task: TaskId) -> Work<()> {
    entity::lease::Entity::delete_by_id(task_resource(task)).exec(tx).await?;
    Ok(())
}
