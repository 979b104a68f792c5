//! What a worker says about the task that it holds: recorded, waiting, completed, failed, cancelled.
//!
//! Each is one transaction: the task's change by compare-and-set under the claim's fence, the run, the injection, the
//! execution, the children, the leases that go back, and the events that tell of it.

use std::time::Duration;

use model::{Problem, Result, RunState, TaskId, TaskState, Verdict, WallTime};
use sea_orm::sea_query::{Expr, SimpleExpr};
use sea_orm::{ColumnTrait, Condition, DatabaseTransaction, EntityTrait, QueryFilter};
use serde_json::{Value, json};

use crate::claim::is_held;
use crate::connect::Store;
use crate::convert::to_json;
use crate::entity::{self, task::Column};
use crate::event::NewEvent;
use crate::execution::{self, ExecutionResult};
use crate::failure::Work;
use crate::injection::{self, InjectionChange};
use crate::lease::{self, stale, task_resource};
use crate::run::{Locked, open_tasks};
use crate::task::{self, Claim, NewTask, TaskError, Wait, wrap};

/// When a task looks again whose wait may be over: not at once, for what is free need not be for the taking.
const SOON: Duration = Duration::from_millis(500);

/// What is stored together with a task's change. Empty by default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Effects {
    /// Replaces what the step recorded so far.
    pub progress: Option<Value>,
    /// Steps that follow.
    pub children: Vec<NewTask>,
    /// The run's verdict as it stands now.
    pub verdict: Option<Verdict>,
    pub injection: Option<InjectionChange>,
    /// How this task's execution ended.
    pub execution: Option<ExecutionResult>,
    /// Told in this order, before the event of the task's own change.
    pub events: Vec<NewEvent>,
    /// Resources of the run or the task that go back: `slot:ts0`, `limit:build:3`.
    pub release: Vec<String>,
    pub finish: Option<Finish>,
}

impl Effects {
    /// Nothing but one event.
    pub fn event(event: NewEvent) -> Self {
        Self { events: vec![event], ..Self::default() }
    }
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Finish {
    /// `Completed`, `Failed` or `Cancelled`.
    pub state: RunState,
    pub reason: Option<String>,
    pub message: Option<String>,
    pub when: When,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// At once; the run's other tasks that have not ended are cancelled.
    Now,
    /// Once no task of the run is left.
    Last,
}

impl Finish {
    /// The run failed, for this reason; its other tasks are cancelled.
    pub fn failed(error: &TaskError) -> Self {
        let (reason, message) = (Some(error.code.clone()), Some(error.to_string()));
        Self { state: RunState::Failed, reason, message, when: When::Now }
    }

    /// The run is complete as soon as no task is left.
    pub fn completed() -> Self {
        Self { state: RunState::Completed, reason: None, message: None, when: When::Last }
    }

    /// The run is cancelled as soon as no task is left.
    pub fn cancelled() -> Self {
        let (reason, message) = (Some("run.cancelled".to_owned()), Some("cancelled on request".to_owned()));
        Self { state: RunState::Cancelled, reason, message, when: When::Last }
    }
}

/// What became of a failed task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failed {
    /// It is tried again from then on.
    Retried(WallTime),
    /// It may not fail again: it ended.
    GivenUp,
}

impl Store {
    /// Stores effects while the task goes on: the record before an outside effect.
    ///
    /// # Errors
    /// `fence.stale` when the claim was lost; `state.illegal_change`. The same for all the verbs below.
    pub async fn record(&self, claim: &Claim, effects: Effects) -> Result<()> {
        let effects = &effects;
        self.write(|tx, _| {
            Box::pin(async move {
                let (mut run, row) = held(tx, claim).await?;
                // The fence stays, since the claim does; the time of change moves.
                let columns = vec![(Column::UpdatedAt, Expr::value(run.now.0))];
                change(&run, &row, TaskState::Running, with_progress(columns, effects)).await?;
                apply(&mut run, claim, effects).await?;
                settle(run, claim, effects).await
            })
        })
        .await
    }

    /// The step is done.
    pub async fn complete_task(&self, claim: &Claim, effects: Effects) -> Result<()> {
        self.end(claim, TaskState::Completed, None, effects).await
    }

    /// The step was undone because its run is being cancelled.
    pub async fn cancel_task(&self, claim: &Claim, effects: Effects) -> Result<()> {
        self.end(claim, TaskState::Cancelled, None, effects).await
    }

    /// The step waits, and holds no worker meanwhile. The leases of the task stay with it.
    pub async fn reschedule_task(&self, claim: &Claim, wait: Wait, wake_at: WallTime, effects: Effects) -> Result<()> {
        let (wait, effects) = (&wait, &effects);
        self.write(|tx, _| Box::pin(async move {
            let (mut run, row) = held(tx, claim).await?;
            // What went back after it was looked for, and before this was stored, has woken nobody.
            let free = lease::any_free(tx, &wait.any_of).await?;
            let wake_at = if free { wake_at.min(run.now.plus(SOON)) } else { wake_at };
            let columns = vec![(Column::Wait, Expr::value(wrap(&wait)))];
            sleep_until(&mut run, &row, claim, wake_at, with_progress(columns, effects)).await?;
            apply(&mut run, claim, effects).await?;
            let payload =
                json!({"task_id": claim.task, "execute_time": wake_at.seconds(), "reason": wait.code, "wait": wait});
            run.tell(origin(claim), NewEvent::new("task.scheduled", wait.message.clone()).payload(payload));
            settle(run, claim, effects).await
        }))
        .await
    }

    /// The step failed. With `retry_at` and failures left it is tried again then, and `effects` are not applied; otherwise
    /// it ends with them, usually with [`Finish::failed`].
    pub async fn fail_task(
        &self,
        claim: &Claim,
        error: TaskError,
        retry_at: Option<WallTime>,
        effects: Effects,
    ) -> Result<Failed> {
        let (error, effects) = (&error, &effects);
        self.write(|tx, _| {
            Box::pin(async move {
                let (mut run, row) = held(tx, claim).await?;
                let failures = row.failures + 1;
                let mut columns =
                    vec![(Column::Error, Expr::value(wrap(error))), (Column::Failures, Expr::value(failures))];
                if let Some(at) = retry_at.filter(|_| failures < row.max_failures) {
                    let wait = Wait::new(error.code.clone(), format!("it failed and is tried again: {error}"));
                    columns.push((Column::Wait, Expr::value(wrap(&wait))));
                    sleep_until(&mut run, &row, claim, at, columns).await?;
                    let payload = json!({
                        "task_id": claim.task, "failures": failures, "max_failures": row.max_failures,
                        "execute_time": at.seconds(), "error": error,
                    });
                    run.tell(origin(claim), NewEvent::new("task.retry.status", wait.message).payload(payload));
                    run.write().await?;
                    return Ok(Failed::Retried(at));
                }
                let columns = with_progress(columns, effects);
                finish_task(&mut run, &row, claim, TaskState::Error, Some(error), columns, effects).await?;
                settle(run, claim, effects).await?;
                Ok(Failed::GivenUp)
            })
        })
        .await
    }

    async fn end(&self, claim: &Claim, to: TaskState, error: Option<&TaskError>, effects: Effects) -> Result<()> {
        let effects = &effects;
        self.write(|tx, _| {
            Box::pin(async move {
                let (mut run, row) = held(tx, claim).await?;
                finish_task(&mut run, &row, claim, to, error, with_progress(Vec::new(), effects), effects).await?;
                settle(run, claim, effects).await
            })
        })
        .await
    }
}

type Columns = Vec<(Column, SimpleExpr)>;

fn origin(claim: &Claim) -> Option<(TaskId, model::TaskKind)> {
    Some((claim.task, claim.kind))
}

fn with_progress(mut columns: Columns, effects: &Effects) -> Columns {
    if let Some(progress) = &effects.progress {
        columns.push((Column::Progress, Expr::value(to_json(progress))));
    }
    columns
}

/// The run and the task of a claim, if the claim still holds.
pub(crate) async fn held<'a>(tx: &'a DatabaseTransaction, claim: &Claim) -> Work<(Locked<'a>, entity::task::Model)> {
    let run = Locked::take(tx, claim.run).await?;
    let row = entity::task::Entity::find_by_id(claim.task.to_string()).one(tx).await?;
    match row.filter(|row| is_held(row, claim)) {
        Some(row) => Ok((run, row)),
        None => Err(stale(&task_resource(claim.task), claim.fence).into()),
    }
}

/// Changes the task's row under the claim's fence.
async fn change(run: &Locked<'_>, row: &entity::task::Model, to: TaskState, columns: Columns) -> Work<()> {
    let from = crate::convert::word("task state", row.state, TaskState::from_code)?;
    from.change(to)?;
    let mut update = entity::task::Entity::update_many().col_expr(Column::State, Expr::value(to.code()));
    for (column, value) in columns {
        update = update.col_expr(column, value);
    }
    let changed = update
        .filter(Column::Id.eq(row.id.as_str()))
        .filter(Column::State.eq(row.state))
        .filter(Column::Fence.eq(row.fence))
        .exec(run.tx)
        .await?;
    if changed.rows_affected == 1 { Ok(()) } else { Err(crate::failure::lost("task")) }
}

/// The columns of a task that nobody holds any more.
fn let_go(run: &Locked<'_>, row: &entity::task::Model) -> Columns {
    vec![
        (Column::Owner, Expr::value(Option::<String>::None)),
        (Column::Fence, Expr::value(row.fence + 1)),
        (Column::UpdatedAt, Expr::value(run.now.0)),
    ]
}

async fn sleep_until(
    run: &mut Locked<'_>,
    row: &entity::task::Model,
    claim: &Claim,
    wake_at: WallTime,
    mut columns: Columns,
) -> Work<()> {
    columns.extend(let_go(run, row));
    columns.push((Column::DueAt, Expr::value(wake_at.0)));
    change(run, row, TaskState::Rescheduled, columns).await?;
    lease::drop_task(run.tx, claim.task).await
}

async fn finish_task(
    run: &mut Locked<'_>,
    row: &entity::task::Model,
    claim: &Claim,
    to: TaskState,
    error: Option<&TaskError>,
    mut columns: Columns,
    effects: &Effects,
) -> Work<()> {
    columns.extend(let_go(run, row));
    columns.push((Column::Wait, Expr::value(Option::<String>::None)));
    columns.push((Column::EndedAt, Expr::value(run.now.0)));
    change(run, row, to, columns).await?;
    lease::drop_task(run.tx, claim.task).await?;
    let tokens = entity::lease::Column::TaskId.eq(claim.task.to_string());
    lease::free(run.tx, Condition::all().add(tokens)).await?;
    apply(run, claim, effects).await?;
    let words = match error {
        Some(error) => format!("{} failed: {error}", claim.kind),
        None => format!("{} is {}", claim.kind, to.as_str().to_lowercase()),
    };
    let payload = json!({"task_id": claim.task, "from": "Running", "to": to.as_str(), "error": error});
    run.tell(origin(claim), NewEvent::new("task.state.update", words).payload(payload));
    Ok(())
}

/// Everything of the effects but the end of the run.
async fn apply(run: &mut Locked<'_>, claim: &Claim, effects: &Effects) -> Work<()> {
    if let Some(verdict) = effects.verdict {
        run.row.verdict = Some(verdict.as_str().to_owned());
    }
    if let Some(change) = &effects.injection {
        injection::change(run, change).await?;
    }
    if let Some(result) = &effects.execution {
        execution::end(run, claim.task, result).await?;
    }
    task::insert(run, Some(claim.task), &effects.children).await?;
    let children = i32::try_from(effects.children.len()).unwrap_or(i32::MAX);
    run.row.leaf_num += (children - 1).max(0);
    for resource in &effects.release {
        let own = Condition::all()
            .add(entity::lease::Column::Resource.eq(resource.as_str()))
            .add(entity::lease::Column::RunId.eq(run.row.id.as_str()));
        lease::free(run.tx, own).await?;
    }
    for event in &effects.events {
        run.tell(origin(claim), event.clone());
    }
    Ok(())
}

/// Ends the run where the effects say so, and writes it.
async fn settle(mut run: Locked<'_>, claim: &Claim, effects: &Effects) -> Work<()> {
    match &effects.finish {
        Some(finish) if finish.when == When::Now => {
            cancel_open(&mut run, Some(claim.task)).await?;
            finish_run(&mut run, finish).await?;
        }
        Some(finish) if open_tasks(run.tx, &run.row.id).await? == 0 => finish_run(&mut run, finish).await?,
        _ => {}
    }
    run.write().await?;
    Ok(())
}

/// Ends a run: its state, its reason, its leases, and the event that says so.
pub(crate) async fn finish_run(run: &mut Locked<'_>, finish: &Finish) -> Work<()> {
    if !finish.state.is_terminal() {
        let problem = Problem::internal("run.end_not_terminal", "a run cannot end in this state");
        return Err(problem.found(finish.state.as_str()).into());
    }
    // A run that was asked to stop and has nothing left to do is cancelled, whatever its last step thought.
    let state = if run.row.cancel_requested && finish.when == When::Last && finish.state == RunState::Completed {
        RunState::Cancelled
    } else {
        finish.state
    };
    run.change_state(state)?;
    run.explain(finish.reason.as_deref(), finish.message.as_deref());
    lease::free(run.tx, Condition::all().add(entity::lease::Column::RunId.eq(run.row.id.as_str()))).await?;
    let name = format!("trace.{}", state.as_str().to_lowercase());
    let words = finish.message.clone().unwrap_or_else(|| format!("the run is {}", state.as_str().to_lowercase()));
    let payload = json!({"state": state.as_str(), "verdict": run.row.verdict, "reason": run.row.reason});
    run.tell(None, NewEvent::new(name, words).payload(payload));
    Ok(())
}

/// Cancels every task of the run that has not ended, but for `except`. Whoever holds one is refused from then on.
pub(crate) async fn cancel_open(run: &mut Locked<'_>, except: Option<TaskId>) -> Work<Vec<TaskId>> {
    let open = entity::task::Entity::find()
        .filter(Column::RunId.eq(run.row.id.as_str()))
        .filter(Column::State.is_in([0, 1, 2]))
        .all(run.tx)
        .await?;
    let mut cancelled = Vec::new();
    for row in open {
        let id = TaskId(crate::convert::uuid(&row.id)?);
        if Some(id) != except {
            cancel_row(run, &row, id).await?;
            cancelled.push(id);
        }
    }
    Ok(cancelled)
}

/// Cancels one task that has not ended.
pub(crate) async fn cancel_row(run: &mut Locked<'_>, row: &entity::task::Model, id: TaskId) -> Work<()> {
    let mut columns = let_go(run, row);
    columns.push((Column::DueAt, Expr::value(Option::<i64>::None)));
    columns.push((Column::EndedAt, Expr::value(run.now.0)));
    change(run, row, TaskState::Cancelled, columns).await?;
    lease::drop_task(run.tx, id).await?;
    let kind = crate::convert::word("task kind", row.kind, model::TaskKind::from_code)?;
    let payload = json!({"task_id": id, "from": row.state, "to": TaskState::Cancelled.as_str()});
    run.tell(Some((id, kind)), NewEvent::new("task.state.update", format!("{kind} is cancelled")).payload(payload));
    Ok(())
}
