//! Taking tasks up: the oldest due one, by compare-and-set, so that two workers never get the same.

use std::time::Duration;

use model::{Result, RunId, RunState, TaskId, TaskKind, TaskState, WallTime};
use sea_orm::sea_query::{Expr, Query};
use sea_orm::{ColumnTrait, Condition, EntityTrait, ExprTrait, QueryFilter, QueryOrder, QuerySelect};
use serde_json::json;

use crate::connect::Store;
use crate::convert::word;
use crate::entity::{self, task::Column};
use crate::event::NewEvent;
use crate::failure::{Failure, Work};
use crate::lease::{self, Holder, IncarnationId, stale, task_resource};
use crate::run::{Locked, Run};
use crate::task::{Claim, ClaimedTask, Task, Wait, wrap};

/// How many of the oldest due tasks a worker tries before it says that there is none.
const CANDIDATES: u64 = 16;

impl Store {
    /// Takes up the oldest due task of a live run that is not paused, or `None` when nothing is due.
    ///
    /// A paused run starts no new step, but a step that has begun goes on: what it did outside must be undone. `ttl` is
    /// how long others wait for the owner's heartbeat before they take the task over.
    pub async fn claim_task(&self, owner: IncarnationId, ttl: Duration) -> Result<Option<ClaimedTask>> {
        let _one_at_a_time = self.claims().lock().await;
        for (task, run) in self.candidates().await? {
            let claimed = self
                .write(|tx, _| {
                    Box::pin(async move {
                        let locked = Locked::take(tx, run).await?;
                        take_up(locked, task, owner, ttl).await
                    })
                })
                .await?;
            if claimed.is_some() {
                return Ok(claimed);
            }
        }
        Ok(None)
    }

    async fn candidates(&self) -> Result<Vec<(TaskId, RunId)>> {
        let paused = Query::select()
            .column(entity::run::Column::Id)
            .from(entity::run::Entity)
            .and_where(entity::run::Column::PauseRequested.eq(true))
            .to_owned();
        let may_start = Condition::any().add(Column::Attempt.gt(0)).add(Column::RunId.not_in_subquery(paused));
        let rows: Vec<(String, String)> = entity::task::Entity::find()
            .select_only()
            .columns([Column::Id, Column::RunId])
            .filter(Column::DueAt.lte(WallTime::now().0))
            .filter(may_start)
            .order_by_asc(Column::DueAt)
            // Tasks that became due together start in the order in which they were made.
            .order_by_asc(Column::Step)
            .limit(CANDIDATES)
            .into_tuple()
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        let read = |(task, run): (String, String)| {
            Ok((TaskId(crate::convert::uuid(&task)?), RunId(crate::convert::uuid(&run)?)))
        };
        Ok(rows.into_iter().map(read).collect::<Work<_>>()?)
    }

    /// When the next task becomes due; `None` when none waits.
    pub async fn next_due(&self) -> Result<Option<WallTime>> {
        let due: Option<Option<i64>> = entity::task::Entity::find()
            .select_only()
            .column(Column::DueAt)
            .filter(Column::DueAt.is_not_null())
            .order_by_asc(Column::DueAt)
            .limit(1)
            .into_tuple()
            .one(self.reader())
            .await
            .map_err(Failure::from)?;
        Ok(due.flatten().map(WallTime))
    }

    /// Refuses when the task is no longer held under this claim. Ask before each outside effect.
    ///
    /// # Errors
    /// `fence.stale`.
    pub async fn check_claim(&self, claim: &Claim) -> Result<()> {
        let row = entity::task::Entity::find_by_id(claim.task.to_string()).one(self.reader()).await;
        if row.map_err(Failure::from)?.is_some_and(|row| is_held(&row, claim)) {
            return Ok(());
        }
        Err(stale(&task_resource(claim.task), claim.fence))
    }
}

pub(crate) fn is_held(row: &entity::task::Model, claim: &Claim) -> bool {
    row.state == TaskState::Running.code()
        && row.fence == claim.fence
        && row.owner.as_deref() == Some(claim.owner.to_string().as_str())
}

async fn take_up(mut run: Locked<'_>, id: TaskId, owner: IncarnationId, ttl: Duration) -> Work<Option<ClaimedTask>> {
    let Some(row) = entity::task::Entity::find_by_id(id.to_string()).one(run.tx).await? else { return Ok(None) };
    let state = word("task state", row.state, TaskState::from_code)?;
    let due = row.due_at.is_some_and(|due| due <= run.now.0);
    let blocked = run.state()?.is_terminal() || (run.row.pause_requested && row.attempt == 0);
    if !due || blocked || !state.may_become(TaskState::Running) {
        return Ok(None);
    }
    let fence = row.fence + 1;
    let taken = entity::task::Entity::update_many()
        .col_expr(Column::State, Expr::value(TaskState::Running.code()))
        .col_expr(Column::Owner, Expr::value(owner.to_string()))
        .col_expr(Column::Fence, Expr::value(fence))
        .col_expr(Column::Attempt, Expr::value(row.attempt + 1))
        .col_expr(Column::DueAt, Expr::value(Option::<i64>::None))
        .col_expr(Column::StartedAt, Expr::value(row.started_at.unwrap_or(run.now.0)))
        .col_expr(Column::UpdatedAt, Expr::value(run.now.0))
        .filter(Column::Id.eq(row.id.as_str()))
        .filter(Column::State.eq(row.state))
        .filter(Column::Fence.eq(row.fence))
        .exec(run.tx)
        .await?;
    if taken.rows_affected != 1 {
        return Ok(None);
    }
    let kind = word("task kind", row.kind, TaskKind::from_code)?;
    let claim = Claim { task: id, run: run.id, kind, owner, fence };
    lease::adopt(run.tx, run.id, id, owner).await?;
    lease::put_task(run.tx, Holder { owner, run: Some(run.id), task: Some(id), ttl }, id, fence).await?;
    if run.state()? == RunState::Pending {
        run.change_state(RunState::Running)?;
    }
    let words = format!("{kind} was taken up (attempt {})", row.attempt + 1);
    let payload = json!({"task_id": id, "from": state.as_str(), "attempt": row.attempt + 1, "owner": owner});
    run.tell(Some((id, kind)), NewEvent::new("task.started", words).payload(payload));
    let task = entity::task::Entity::find_by_id(row.id.as_str()).one(run.tx).await?;
    let task = Task::read(task.ok_or_else(|| crate::failure::lost("task"))?)?;
    let run = Run::read(run.write().await?)?;
    Ok(Some(ClaimedTask { claim, task, run }))
}

/// Makes a running task claimable again, since its worker is gone. `false` when it does not run.
pub(crate) async fn hand_back(mut run: Locked<'_>, id: TaskId, wait: Wait) -> Work<bool> {
    let Some(row) = entity::task::Entity::find_by_id(id.to_string()).one(run.tx).await? else { return Ok(false) };
    if row.state != TaskState::Running.code() {
        return Ok(false);
    }
    let given = entity::task::Entity::update_many()
        .col_expr(Column::State, Expr::value(TaskState::Rescheduled.code()))
        .col_expr(Column::Owner, Expr::value(Option::<String>::None))
        .col_expr(Column::Fence, Expr::col(Column::Fence).add(1))
        .col_expr(Column::DueAt, Expr::value(run.now.0))
        .col_expr(Column::Wait, Expr::value(wrap(&wait)))
        .col_expr(Column::UpdatedAt, Expr::value(run.now.0))
        .filter(Column::Id.eq(row.id.as_str()))
        .filter(Column::State.eq(row.state))
        .filter(Column::Fence.eq(row.fence))
        .exec(run.tx)
        .await?;
    if given.rows_affected != 1 {
        return Ok(false);
    }
    lease::drop_task(run.tx, id).await?;
    let kind = word("task kind", row.kind, TaskKind::from_code)?;
    let payload = json!({"task_id": id, "execute_time": run.now.seconds(), "reason": wait.code});
    run.tell(Some((id, kind)), NewEvent::new("task.scheduled", wait.message).payload(payload));
    run.write().await?;
    Ok(true)
}
