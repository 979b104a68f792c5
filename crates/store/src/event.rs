//! Events: numbered per run without a gap, stored in the transaction of the change that they tell of.

use model::{Result, RunId, TaskId, TaskKind, WallTime};
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder, QuerySelect};
use serde_json::Value;

use crate::connect::Store;
use crate::convert::{fit, optional_json, optional_uuid, to_json, uuid, word};
use crate::entity;
use crate::failure::{Failure, Work};

/// One event of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub run: RunId,
    /// From 1, without a gap within a run.
    pub number: i64,
    pub at: WallTime,
    pub name: String,
    pub task: Option<TaskId>,
    pub kind: Option<TaskKind>,
    /// In words.
    pub message: String,
    pub payload: Option<Value>,
}

/// An event to be stored with a change.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// At most 64 characters.
    pub name: String,
    pub message: String,
    pub payload: Option<Value>,
}

impl NewEvent {
    pub fn new(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self { name: name.into(), message: message.into(), payload: None }
    }

    pub fn payload(mut self, payload: Value) -> Self {
        self.payload = Some(payload);
        self
    }
}

/// The task that an event tells of, if it is one.
pub(crate) type Origin = Option<(TaskId, TaskKind)>;

pub(crate) async fn insert(
    tx: &DatabaseTransaction,
    run: &str,
    first: i64,
    now: WallTime,
    events: Vec<(Origin, NewEvent)>,
) -> Work<()> {
    if events.is_empty() {
        return Ok(());
    }
    let rows = events.into_iter().zip(first..).map(|((origin, event), number)| {
        entity::event::Model {
            run_id: run.to_owned(),
            number,
            happened_at: now.0,
            name: fit(&event.name, 64),
            task_id: origin.map(|(task, _)| task.to_string()),
            task_kind: origin.map(|(_, kind)| kind.code()),
            message: fit(&event.message, 8000),
            payload: event.payload.as_ref().map(to_json),
        }
        .into_active_model()
    });
    entity::event::Entity::insert_many(rows).exec_without_returning(tx).await?;
    Ok(())
}

impl Store {
    /// At most `limit` events of a run with a number above `after`, in order.
    pub async fn events_after(&self, run: RunId, after: i64, limit: u64) -> Result<Vec<Event>> {
        use entity::event::Column;
        let rows = entity::event::Entity::find()
            .filter(Column::RunId.eq(run.to_string()))
            .filter(Column::Number.gt(after))
            .order_by_asc(Column::Number)
            .limit(limit)
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        Ok(rows.into_iter().map(read).collect::<Work<_>>()?)
    }
}

fn read(row: entity::event::Model) -> Work<Event> {
    Ok(Event {
        run: RunId(uuid(&row.run_id)?),
        number: row.number,
        at: WallTime(row.happened_at),
        name: row.name,
        task: optional_uuid(row.task_id.as_deref())?.map(TaskId),
        kind: row.task_kind.map(|code| word("task kind", code, TaskKind::from_code)).transpose()?,
        message: row.message,
        payload: optional_json("event payload", row.payload.as_deref())?,
    })
}
