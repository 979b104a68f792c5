//! What tasks log: appended lines, read page by page.

use model::{Result, RunId, TaskId, WallTime};
use sea_orm::{ActiveValue, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder, QuerySelect};

use crate::connect::Store;
use crate::convert::uuid;
use crate::entity::{self, task_log::Column};
use crate::failure::{Failure, Work};

/// One line of a task's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Grows with each line of the whole store: where to read on.
    pub id: i64,
    pub run: RunId,
    pub task: TaskId,
    pub at: WallTime,
    pub level: LogLevel,
    pub line: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    Info,
    Warn,
    Error,
}

impl LogLevel {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Info, Self::Warn, Self::Error].into_iter().find(|level| level.as_str() == text)
    }
}

impl Store {
    /// Appends lines to a task's log. Not fenced: what a worker saw is worth keeping even if it lost the task.
    pub async fn log(&self, run: RunId, task: TaskId, lines: &[(LogLevel, String)]) -> Result<()> {
        self.write(|tx, _| {
            Box::pin(async move {
                for part in lines.chunks(100) {
                    let rows = part.iter().map(|(level, line)| {
                        let row = entity::task_log::Model {
                            id: 0,
                            run_id: run.to_string(),
                            task_id: task.to_string(),
                            logged_at: WallTime::now().0,
                            level: level.as_str().to_owned(),
                            line: line.clone(),
                        };
                        let mut row = row.into_active_model();
                        row.id = ActiveValue::NotSet;
                        row
                    });
                    entity::task_log::Entity::insert_many(rows).exec_without_returning(tx).await?;
                }
                Ok(())
            })
        })
        .await
    }

    /// At most `limit` lines of a task after line `after` (0 for the beginning), in order.
    pub async fn logs_after(&self, task: TaskId, after: i64, limit: u64) -> Result<Vec<LogLine>> {
        let rows = entity::task_log::Entity::find()
            .filter(Column::TaskId.eq(task.to_string()))
            .filter(Column::Id.gt(after))
            .order_by_asc(Column::Id)
            .limit(limit)
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        let read = |row: entity::task_log::Model| {
            Ok(LogLine {
                id: row.id,
                run: RunId(uuid(&row.run_id)?),
                task: TaskId(uuid(&row.task_id)?),
                at: WallTime(row.logged_at),
                level: crate::convert::word("log level", row.level.as_str(), LogLevel::parse)?,
                line: row.line,
            })
        };
        Ok(rows.into_iter().map(read).collect::<Work<_>>()?)
    }
}
