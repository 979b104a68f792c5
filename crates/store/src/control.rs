//! What people ask of runs: cancel, pause, resume, retry from a step, and the global kill switch.

use model::{ErrorKind, PackState, Problem, Result, RunId, RunState, TaskId, TaskKind, TaskState, WallTime};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder};
use serde_json::json;

use crate::connect::Store;
use crate::convert::{fit, uuid, word};
use crate::counter;
use crate::entity::{self, task::Column};
use crate::event::NewEvent;
use crate::failure::{Failure, Work};
use crate::injection;
use crate::outcome::{Finish, cancel_row, finish_run};
use crate::run::{Locked, Run};
use crate::task;

/// What a cancellation did at once, and what still has to be undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelReceipt {
    pub state: RunState,
    /// Tasks that had not begun: they are cancelled.
    pub cancelled: Vec<TaskId>,
    /// Tasks that have begun: their workers undo what they did outside.
    pub unwinding: Vec<TaskId>,
}

/// Where a retry starts.
#[derive(Debug, Clone, PartialEq)]
pub struct Retried {
    pub run: Run,
    pub task: TaskId,
    pub from: TaskKind,
}

/// The global kill switch: no new faults, and every live one is recovered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KillSwitch {
    pub engaged: bool,
    pub reason: String,
    pub changed_by: String,
    pub changed_at: WallTime,
}

const KILL_SWITCH: &str = "kill";

impl Store {
    /// Asks a run to stop. What has not begun is cancelled at once; what has begun is woken up, so that its worker sees the
    /// request and undoes what it did outside. A run with nothing begun ends here. Asking again gives the same receipt.
    ///
    /// # Errors
    /// `run.unknown`; `run.already_ended`.
    pub async fn request_cancel(&self, id: RunId) -> Result<CancelReceipt> {
        self.write(|tx, _| {
            Box::pin(async move {
                let mut run = Locked::take(tx, id).await?;
                let state = run.state()?;
                if state.is_terminal() && state != RunState::Cancelled {
                    return Err(already_ended(id, state).into());
                }
                let (mut cancelled, mut unwinding) = (Vec::new(), Vec::new());
                for row in open_rows(&run).await? {
                    let task = TaskId(uuid(&row.id)?);
                    if row.attempt == 0 {
                        cancel_row(&mut run, &row, task).await?;
                        cancelled.push(task);
                    } else {
                        wake(&run, &row).await?;
                        unwinding.push(task);
                    }
                }
                if !run.row.cancel_requested && state != RunState::Cancelled {
                    run.row.cancel_requested = true;
                    run.tell(None, NewEvent::new("trace.cancel.requested", "the run was asked to stop"));
                }
                if unwinding.is_empty() && state != RunState::Cancelled {
                    finish_run(&mut run, &Finish::cancelled()).await?;
                }
                let state = run.state()?;
                run.write().await?;
                Ok(CancelReceipt { state, cancelled, unwinding })
            })
        })
        .await
    }

    /// Lets a run begin no new step. A step that has begun goes on.
    ///
    /// # Errors
    /// `run.unknown`; `run.already_ended`.
    pub async fn pause_run(&self, id: RunId) -> Result<Run> {
        self.set_paused(id, true).await
    }

    /// Lets a paused run go on.
    ///
    /// # Errors
    /// As [`Store::pause_run`].
    pub async fn resume_run(&self, id: RunId) -> Result<Run> {
        self.set_paused(id, false).await
    }

    async fn set_paused(&self, id: RunId, paused: bool) -> Result<Run> {
        self.write(|tx, _| {
            Box::pin(async move {
                let mut run = Locked::take(tx, id).await?;
                let state = run.state()?;
                if state.is_terminal() {
                    return Err(already_ended(id, state).into());
                }
                if run.row.pause_requested != paused {
                    run.row.pause_requested = paused;
                    let (name, words) = if paused {
                        ("trace.paused", "the run is paused")
                    } else {
                        ("trace.resumed", "the run goes on")
                    };
                    run.tell(None, NewEvent::new(name, words));
                }
                Run::read(run.write().await?)
            })
        })
        .await
    }

    /// Starts a failed or cancelled run again, from the newest task of kind `from`, or from the one that did not succeed.
    /// That task is repeated; tasks after it stay as they ended, and new ones follow the repeated one.
    ///
    /// # Errors
    /// `run.not_retryable` when it has not failed and was not cancelled; `run.step_unknown` when it has no task of that
    /// kind; `run.step_not_reached`.
    pub async fn retry_run(&self, id: RunId, from: Option<TaskKind>) -> Result<Retried> {
        self.write(|tx, _| {
            Box::pin(async move {
                let mut run = Locked::take(tx, id).await?;
                let state = run.state()?;
                if !matches!(state, RunState::Failed | RunState::Cancelled) {
                    return Err(Problem::new(
                        ErrorKind::Conflict,
                        "run.not_retryable",
                        "only a run that failed or was cancelled can be retried",
                    )
                    .found(format!("run {id} is {state}"))
                    .into());
                }
                let row = retried_task(&run, from).await?;
                let kind = word("task kind", row.kind, TaskKind::from_code)?;
                let pack = pack_before(&run, &row, kind).await?;
                injection::rewind(&mut run, pack).await?;
                run.row.retry_count += 1;
                run.row.cancel_requested = false;
                run.row.pause_requested = false;
                if pack != PackState::DetectorSuccess && !run.row.ranks_only {
                    run.row.verdict = None;
                }
                run.explain(None, None);
                run.change_state(RunState::Running)?;
                let task = repeat(&mut run, &row).await?;
                let payload = json!({"task_id": task, "from": kind.as_str(), "retry": run.row.retry_count});
                let event =
                    NewEvent::new("trace.retried", format!("the run starts again from {kind}")).payload(payload);
                run.tell(Some((task, kind)), event);
                let run = Run::read(run.write().await?)?;
                Ok(Retried { run, task, from: kind })
            })
        })
        .await
    }

    /// How the kill switch stands; not engaged when nobody ever touched it.
    pub async fn kill_switch(&self) -> Result<KillSwitch> {
        let row = entity::switch::Entity::find_by_id(KILL_SWITCH).one(self.reader()).await.map_err(Failure::from)?;
        Ok(row.map_or_else(
            || KillSwitch { engaged: false, reason: String::new(), changed_by: String::new(), changed_at: WallTime(0) },
            |row| KillSwitch {
                engaged: row.engaged,
                reason: row.reason,
                changed_by: row.changed_by,
                changed_at: WallTime(row.changed_at),
            },
        ))
    }

    /// Engages or disengages the kill switch. Engaging wakes every waiting task, so that live faults are recovered now.
    pub async fn set_kill_switch(&self, engaged: bool, reason: &str, changed_by: &str) -> Result<KillSwitch> {
        self.write(|tx, _| {
            Box::pin(async move {
                counter::next(tx, counter::SWITCHES).await?;
                let now = WallTime::now().0;
                let row = entity::switch::Model {
                    name: KILL_SWITCH.to_owned(),
                    engaged,
                    reason: fit(reason, 512),
                    changed_by: fit(changed_by, 128),
                    changed_at: now,
                };
                entity::switch::Entity::delete_by_id(KILL_SWITCH).exec(tx).await?;
                entity::switch::Entity::insert(row.into_active_model()).exec_without_returning(tx).await?;
                if engaged {
                    entity::task::Entity::update_many()
                        .col_expr(Column::DueAt, Expr::value(now))
                        .filter(Column::State.eq(TaskState::Rescheduled.code()))
                        .filter(Column::DueAt.gt(now))
                        .exec(tx)
                        .await?;
                }
                Ok(())
            })
        })
        .await?;
        self.kill_switch().await
    }
}

fn already_ended(id: RunId, state: RunState) -> Problem {
    Problem::new(ErrorKind::Conflict, "run.already_ended", "the run has ended").found(format!("run {id} is {state}"))
}

async fn open_rows(run: &Locked<'_>) -> Work<Vec<entity::task::Model>> {
    let open = entity::task::Entity::find()
        .filter(Column::RunId.eq(run.row.id.as_str()))
        .filter(Column::State.is_in([0, 1, 2]))
        .order_by_asc(Column::Step);
    Ok(open.all(run.tx).await?)
}

/// A waiting task is due now; a running one is left alone.
async fn wake(run: &Locked<'_>, row: &entity::task::Model) -> Work<()> {
    entity::task::Entity::update_many()
        .col_expr(Column::DueAt, Expr::value(run.now.0))
        .filter(Column::Id.eq(row.id.as_str()))
        .filter(Column::State.eq(TaskState::Rescheduled.code()))
        .exec(run.tx)
        .await?;
    Ok(())
}

async fn retried_task(run: &Locked<'_>, from: Option<TaskKind>) -> Work<entity::task::Model> {
    let mut tasks = entity::task::Entity::find()
        .filter(Column::RunId.eq(run.row.id.as_str()))
        .order_by_asc(Column::Step)
        .all(run.tx)
        .await?;
    let found = match from {
        // The first of the run's algorithms is the detector; a retry from there starts with it.
        Some(kind) => newest_pass(&tasks, kind),
        None => {
            let ended_badly = [TaskState::Error.code(), TaskState::Cancelled.code()];
            tasks.iter().rposition(|task| ended_badly.contains(&task.state)).map(|last| first_of(&tasks, last))
        }
    };
    match found {
        Some(place) => Ok(tasks.swap_remove(place)),
        None => {
            let wanted = from.map_or("a step that did not succeed", |kind| kind.as_str());
            let problem = Problem::new(ErrorKind::Conflict, "run.step_unknown", "the run has no such step");
            Err(problem.found(wanted).fix("see `aegisctl run get` for its steps").into())
        }
    }
}

/// Of the tasks that ended badly together with `last`, the first: those after it were cancelled because of it.
fn first_of(tasks: &[entity::task::Model], last: usize) -> usize {
    let parent = &tasks[last].parent_id;
    let bad = |task: &entity::task::Model| task.state == TaskState::Error.code() && task.parent_id == *parent;
    tasks.iter().position(bad).unwrap_or(last)
}

/// The first task of this kind in the newest pass over it.
fn newest_pass(tasks: &[entity::task::Model], kind: TaskKind) -> Option<usize> {
    if kind != TaskKind::RunAlgorithm {
        return tasks.iter().rposition(|task| task.kind == kind.code());
    }
    let build = tasks.iter().rposition(|task| task.kind == TaskKind::BuildDatapack.code())?;
    let after = tasks[build..].iter().position(|task| task.kind == kind.code())?;
    Some(build + after)
}

/// What the datapack was before a step of this kind began.
async fn pack_before(run: &Locked<'_>, row: &entity::task::Model, kind: TaskKind) -> Work<PackState> {
    Ok(match kind {
        TaskKind::BuildContainer | TaskKind::CronJob | TaskKind::RestartPedestal | TaskKind::FaultInjection => {
            PackState::Initial
        }
        TaskKind::BuildDatapack => PackState::InjectSuccess,
        TaskKind::RunAlgorithm | TaskKind::CollectResult => {
            // The detector follows the build; whatever comes later leaves the detector's word alone.
            let parent = match &row.parent_id {
                Some(parent) => entity::task::Entity::find_by_id(parent.as_str()).one(run.tx).await?,
                None => None,
            };
            let follows_build = parent.is_some_and(|parent| parent.kind == TaskKind::BuildDatapack.code());
            if follows_build { PackState::BuildSuccess } else { current_pack(run).await? }
        }
    })
}

async fn current_pack(run: &Locked<'_>) -> Work<PackState> {
    let found = match run.row.injection_id {
        Some(id) => entity::injection::Entity::find_by_id(id).one(run.tx).await?,
        None => None,
    };
    let row = found.ok_or_else(|| crate::missing::not_found("datapack.unknown", "datapack of this run", run.id))?;
    word("datapack state", row.state, PackState::from_code)
}

/// Makes a task claimable again. One that succeeded keeps its history: a copy of it is made.
async fn repeat(run: &mut Locked<'_>, row: &entity::task::Model) -> Work<TaskId> {
    let state = word("task state", row.state, TaskState::from_code)?;
    if state.may_become(TaskState::Pending) {
        let none = || Expr::value(Option::<String>::None);
        let changed = entity::task::Entity::update_many()
            .col_expr(Column::State, Expr::value(TaskState::Pending.code()))
            .col_expr(Column::Attempt, Expr::value(0))
            .col_expr(Column::Failures, Expr::value(0))
            .col_expr(Column::DueAt, Expr::value(run.now.0))
            .col_expr(Column::Wait, none())
            .col_expr(Column::Error, none())
            .col_expr(Column::Progress, none())
            .col_expr(Column::EndedAt, Expr::value(Option::<i64>::None))
            .col_expr(Column::Fence, Expr::value(row.fence + 1))
            .col_expr(Column::UpdatedAt, Expr::value(run.now.0))
            .filter(Column::Id.eq(row.id.as_str()))
            .filter(Column::State.eq(row.state))
            .exec(run.tx)
            .await?;
        return if changed.rows_affected == 1 { Ok(TaskId(uuid(&row.id)?)) } else { Err(crate::failure::lost("task")) };
    }
    let step = task::next_step(run).await?;
    let id = task::id_at(run.id, step);
    let copy = entity::task::Model {
        id: id.to_string(),
        step,
        state: TaskState::Pending.code(),
        progress: None,
        attempt: 0,
        failures: 0,
        due_at: Some(run.now.0),
        wait: None,
        error: None,
        owner: None,
        fence: 0,
        created_at: run.now.0,
        updated_at: run.now.0,
        started_at: None,
        ended_at: None,
        ..row.clone()
    };
    entity::task::Entity::insert(copy.into_active_model()).exec_without_returning(run.tx).await?;
    run.row.leaf_num += 1;
    Ok(id)
}
