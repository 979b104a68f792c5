//! Algorithms that people bring as a command.

use model::{ErrorKind, Problem, Result, WallTime};
use sea_orm::{ActiveValue, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder};
use serde_json::Value;

use crate::connect::Store;
use crate::convert::{json, to_json};
use crate::entity;
use crate::failure::{Failure, Work, is_duplicate};

/// One version of a command. What runs under a version's name never changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    pub id: i32,
    pub name: String,
    pub version: String,
    /// What is run, and with what: JSON, in a form of the caller's own.
    pub definition: Value,
    /// SHA-256 of the definition.
    pub digest: String,
    pub created_at: WallTime,
}

impl Command {
    fn read(row: entity::command::Model) -> Work<Self> {
        Ok(Self {
            id: row.id,
            name: row.name,
            version: row.version,
            definition: json("command", &row.definition)?,
            digest: row.digest,
            created_at: WallTime(row.created_at),
        })
    }
}

impl Store {
    /// Every version of every command, by name, oldest first.
    pub async fn commands(&self) -> Result<Vec<Command>> {
        use entity::command::Column;
        let rows = entity::command::Entity::find().order_by_asc(Column::Name).order_by_asc(Column::Id);
        let rows = rows.all(self.reader()).await.map_err(Failure::from)?;
        Ok(rows.into_iter().map(Command::read).collect::<Work<_>>()?)
    }

    /// One version of a command, if there is one.
    pub async fn command(&self, name: &str, version: &str) -> Result<Option<Command>> {
        use entity::command::Column;
        let find = entity::command::Entity::find().filter(Column::Name.eq(name)).filter(Column::Version.eq(version));
        Ok(find.one(self.reader()).await.map_err(Failure::from)?.map(Command::read).transpose()?)
    }

    /// Stores a version of a command. The same definition again is no change and `false`.
    ///
    /// # Errors
    /// `algorithm.version_exists` when the version has another definition.
    pub async fn add_command(&self, name: &str, version: &str, definition: &Value, digest: &str) -> Result<bool> {
        let row = entity::command::Model {
            id: 0,
            name: name.to_owned(),
            version: version.to_owned(),
            definition: to_json(definition),
            digest: digest.to_owned(),
            created_at: WallTime::now().0,
        };
        let row = &row;
        let added = self
            .write(|tx, _| {
                Box::pin(async move {
                    let mut row = row.clone().into_active_model();
                    row.id = ActiveValue::NotSet;
                    match entity::command::Entity::insert(row).exec(tx).await {
                        Ok(_) => Ok(true),
                        Err(error) if is_duplicate(&error) => Ok(false),
                        Err(error) => Err(error.into()),
                    }
                })
            })
            .await?;
        if added {
            return Ok(true);
        }
        let there = self.command(name, version).await?;
        if there.is_some_and(|there| there.digest == digest) {
            return Ok(false);
        }
        Err(Problem::new(
            ErrorKind::Conflict,
            "algorithm.version_exists",
            "this version of the algorithm exists with another command, and never changes",
        )
        .found(format!("`{name}:{version}`"))
        .fix("give the new command a version of its own, as in `NAME:VERSION`"))
    }
}
