//! Tasks: reading them, and what a worker says about one.

use model::{ErrorKind, Problem, Result, RunId, TaskId, TaskKind, TaskState, WallTime};
use sea_orm::{ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::connect::Store;
use crate::convert::{count, json, optional_json, optional_uuid, to_json, uuid, wall, word};
use crate::entity;
use crate::failure::{Failure, Work};
use crate::lease::IncarnationId;
use crate::missing::not_found;
use crate::run::{Locked, Run};

/// Version of the stored form of waits, errors and payload envelopes.
const FORMAT: u32 = 1;

/// One leased step of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    pub id: TaskId,
    pub run: RunId,
    pub parent: Option<TaskId>,
    pub kind: TaskKind,
    /// Of RunAlgorithm and CollectResult: the algorithm.
    pub algorithm: Option<String>,
    /// Place in the order in which the run's tasks were made, from 0.
    pub step: u32,
    pub state: TaskState,
    pub payload: Value,
    /// What the step recorded so far, in a form of its own.
    pub progress: Option<Value>,
    /// How often it was taken up.
    pub attempt: u32,
    /// How often it failed; at `max_failures` it is given up.
    pub failures: u32,
    pub max_failures: u32,
    /// When it may be taken up; absent while it runs and after its end.
    pub due_at: Option<WallTime>,
    /// What it waits for; kept while a worker looks whether it still has to.
    pub wait: Option<Wait>,
    pub error: Option<TaskError>,
    pub owner: Option<IncarnationId>,
    pub fence: i64,
    pub created_at: WallTime,
    pub updated_at: WallTime,
    pub started_at: Option<WallTime>,
    pub ended_at: Option<WallTime>,
}

/// A task to be made, as a child of another one or as a run's first. Its id derives from the run and its step.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTask {
    pub kind: TaskKind,
    pub algorithm: Option<String>,
    pub payload: Value,
    /// How often it may fail, at least 1.
    pub max_failures: u32,
    /// When it may first be taken up; at once when absent.
    pub due_at: Option<WallTime>,
}

impl NewTask {
    /// How often a step may fail for a reason that may go away by itself. With pauses that double from one second it is
    /// tried for two minutes: as long as a disk may be full or a server away.
    pub const MAX_FAILURES: u32 = 8;

    /// A task that is due at once, may fail [`Self::MAX_FAILURES`] times and needs no payload.
    pub fn new(kind: TaskKind) -> Self {
        Self { kind, algorithm: None, payload: Value::Null, max_failures: Self::MAX_FAILURES, due_at: None }
    }
}

/// What a task waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Stable code, such as `slot.none_free`.
    pub code: String,
    /// In words.
    pub message: String,
    /// The resource that is awaited: a lease, a limit, a pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Who holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Leases of which any one ends the wait. When one goes back, the task that waits longest for it looks at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub any_of: Vec<String>,
    /// How often it was looked in vain, one after the other.
    #[serde(default)]
    pub looks: u32,
}

impl Wait {
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), resource: None, holder: None, any_of: Vec::new(), looks: 1 }
    }

    pub fn any_of(mut self, leases: impl IntoIterator<Item = String>) -> Self {
        self.any_of = leases.into_iter().collect();
        self
    }

    /// Counts on from what the task waited for before, where that was the same.
    pub fn after(mut self, before: Option<&Self>) -> Self {
        self.looks =
            before.filter(|before| before.code == self.code).map_or(1, |before| before.looks.saturating_add(1));
        self
    }

    pub fn resource(mut self, resource: impl Into<String>) -> Self {
        self.resource = Some(resource.into());
        self
    }

    pub fn holder(mut self, holder: impl Into<String>) -> Self {
        self.holder = Some(holder.into());
        self
    }
}

/// How a task failed: a [`Problem`] without its cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskError {
    pub kind: ErrorKind,
    pub code: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl From<&Problem> for TaskError {
    fn from(problem: &Problem) -> Self {
        Self {
            kind: problem.kind,
            code: problem.code.clone().into_owned(),
            message: problem.message.clone(),
            place: problem.place.clone(),
            found: problem.found.clone(),
            expected: problem.expected.clone(),
            fix: problem.fix.clone(),
        }
    }
}

impl std::fmt::Display for TaskError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut problem = Problem::new(self.kind, "", self.message.clone());
        problem.code = self.code.clone().into();
        (problem.place, problem.found) = (self.place.clone(), self.found.clone());
        (problem.expected, problem.fix) = (self.expected.clone(), self.fix.clone());
        problem.fmt(f)
    }
}

/// The right to work on one task, until somebody else has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    pub task: TaskId,
    pub run: RunId,
    pub kind: TaskKind,
    pub owner: IncarnationId,
    /// Grows with each claim. A write with an old fence is refused.
    pub fence: i64,
}

/// A task that was taken up, with its run.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimedTask {
    pub claim: Claim,
    pub task: Task,
    pub run: Run,
}

/// What is stored with its version.
#[derive(Serialize, Deserialize)]
struct Stored<T> {
    format: u32,
    value: T,
}

pub(crate) fn wrap<T: Serialize>(value: &T) -> String {
    to_json(&Stored { format: FORMAT, value })
}

fn unwrap<T: for<'de> Deserialize<'de>>(what: &str, text: &str) -> Work<T> {
    let stored: Stored<T> = json(what, text)?;
    if stored.format != FORMAT {
        return Err(crate::failure::corrupt(what, format!("format {}", stored.format)));
    }
    Ok(stored.value)
}

impl Task {
    pub(crate) fn read(row: entity::task::Model) -> Work<Self> {
        Ok(Self {
            id: TaskId(uuid(&row.id)?),
            run: RunId(uuid(&row.run_id)?),
            parent: optional_uuid(row.parent_id.as_deref())?.map(TaskId),
            kind: word("task kind", row.kind, TaskKind::from_code)?,
            algorithm: row.algorithm,
            step: count("step", row.step)?,
            state: word("task state", row.state, TaskState::from_code)?,
            payload: unwrap("task payload", &row.payload)?,
            progress: optional_json("task progress", row.progress.as_deref())?,
            attempt: count("attempt", row.attempt)?,
            failures: count("failures", row.failures)?,
            max_failures: count("failures", row.max_failures)?,
            due_at: wall(row.due_at),
            wait: row.wait.as_deref().map(|text| unwrap("wait", text)).transpose()?,
            error: row.error.as_deref().map(|text| unwrap("task error", text)).transpose()?,
            owner: optional_uuid(row.owner.as_deref())?.map(IncarnationId),
            fence: row.fence,
            created_at: WallTime(row.created_at),
            updated_at: WallTime(row.updated_at),
            started_at: wall(row.started_at),
            ended_at: wall(row.ended_at),
        })
    }

    /// How often it may still fail.
    pub fn failures_left(&self) -> u32 {
        self.max_failures.saturating_sub(self.failures)
    }
}

/// The id of a run's task at one step.
pub(crate) fn id_at(run: RunId, step: i32) -> TaskId {
    TaskId(run.derive(&format!("task/{step}")))
}

/// Stores new tasks of a locked run as its next steps.
pub(crate) async fn insert(run: &Locked<'_>, parent: Option<TaskId>, tasks: &[NewTask]) -> Work<()> {
    if tasks.is_empty() {
        return Ok(());
    }
    let next = next_step(run).await?;
    let rows = tasks.iter().zip(next..).map(|(task, step)| {
        entity::task::Model {
            id: id_at(run.id, step).to_string(),
            run_id: run.row.id.clone(),
            parent_id: parent.map(|id| id.to_string()),
            kind: task.kind.code(),
            algorithm: task.algorithm.clone(),
            step,
            state: TaskState::Pending.code(),
            payload: wrap(&task.payload),
            progress: None,
            attempt: 0,
            failures: 0,
            max_failures: i32::try_from(task.max_failures.max(1)).unwrap_or(i32::MAX),
            due_at: Some(task.due_at.unwrap_or(run.now).0),
            wait: None,
            error: None,
            owner: None,
            fence: 0,
            created_at: run.now.0,
            updated_at: run.now.0,
            started_at: None,
            ended_at: None,
        }
        .into_active_model()
    });
    entity::task::Entity::insert_many(rows).exec_without_returning(run.tx).await?;
    Ok(())
}

pub(crate) async fn next_step(run: &Locked<'_>) -> Work<i32> {
    use entity::task::Column;
    let last = entity::task::Entity::find()
        .filter(Column::RunId.eq(run.row.id.as_str()))
        .order_by_desc(Column::Step)
        .one(run.tx)
        .await?;
    Ok(last.map_or(0, |task| task.step + 1))
}

impl Store {
    /// One task.
    ///
    /// # Errors
    /// `task.unknown`.
    pub async fn task(&self, id: TaskId) -> Result<Task> {
        let row = entity::task::Entity::find_by_id(id.to_string()).one(self.reader()).await.map_err(Failure::from)?;
        Ok(Task::read(row.ok_or_else(|| not_found("task.unknown", "task", id))?)?)
    }

    /// A run's tasks in the order in which they were made.
    pub async fn tasks_of(&self, run: RunId) -> Result<Vec<Task>> {
        use entity::task::Column;
        let rows = entity::task::Entity::find()
            .filter(Column::RunId.eq(run.to_string()))
            .order_by_asc(Column::Step)
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        Ok(rows.into_iter().map(Task::read).collect::<Work<_>>()?)
    }
}
