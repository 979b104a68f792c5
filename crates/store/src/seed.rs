//! Seeds: what the installation has of one, and applying it: everything that was agreed to in one transaction, or nothing.

mod live;
mod write;

use std::collections::BTreeMap;

use model::{ErrorKind, Problem, Result, WallTime};
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveValue, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder};
use serde_json::Value;

pub use live::{LiveContainer, LivePrerequisite, LiveVersion, SeedLive, SeedObject};
pub use write::{Removal, SeedWrites, SettingWrite, SystemWrite};
pub(crate) use write::{forget_container, forget_system, put_objects};

use crate::connect::Store;
use crate::convert::{fit, json, to_json, wall};
use crate::entity::seed_revision::{Column, Entity, Model};
use crate::failure::{Failure, Work};
use crate::lease::Lease;
use crate::missing::not_found;

/// The duty of applying a seed: one at a time.
pub const APPLY_DUTY: &str = "seed:apply";

/// A seed about to be applied.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSeedRevision {
    pub env: String,
    /// The system to which it is limited.
    pub system: Option<String>,
    /// SHA-256 of the files.
    pub digest: String,
    /// Text by name.
    pub files: BTreeMap<String, String>,
    pub commit: Option<String>,
    /// The files are not those of the commit.
    pub dirty: bool,
    pub by: String,
    pub consents: Value,
}

/// One application of a seed.
#[derive(Debug, Clone, PartialEq)]
pub struct SeedRevision {
    pub id: i32,
    pub seed: NewSeedRevision,
    /// `applying`, `applied`, `interrupted`
    pub state: String,
    /// What was written, in the seed's own form.
    pub changes: Value,
    pub change_count: i32,
    pub started_at: WallTime,
    pub ended_at: Option<WallTime>,
}

/// What the store calls inside of the transaction: from what is there to what is to be written, or why nothing is.
pub type Decide<'a> = &'a (dyn Fn(&SeedLive) -> Result<SeedWrites> + Send + Sync);

impl SeedRevision {
    fn read(row: Model) -> Work<Self> {
        Ok(Self {
            id: row.id,
            seed: NewSeedRevision {
                env: row.env,
                system: row.system_code,
                digest: row.digest,
                files: json("files of a seed", &row.files)?,
                commit: row.commit_id,
                dirty: row.dirty,
                by: row.applied_by,
                consents: json("consents of a seed", &row.consents)?,
            },
            state: row.state,
            changes: json("changes of a seed", &row.changes)?,
            change_count: row.change_count,
            started_at: WallTime(row.started_at),
            ended_at: wall(row.ended_at),
        })
    }
}

impl Store {
    /// Everything that a seed is compared with.
    pub async fn seed_live(&self) -> Result<SeedLive> {
        Ok(live::read(self.reader()).await?)
    }

    /// Applications of seeds, newest first.
    pub async fn seed_revisions(&self) -> Result<Vec<SeedRevision>> {
        let rows = Entity::find().order_by_desc(Column::Id).all(self.reader()).await.map_err(Failure::from)?;
        Ok(rows.into_iter().map(SeedRevision::read).collect::<Work<_>>()?)
    }

    /// # Errors
    /// `seed.revision_unknown`.
    pub async fn seed_revision(&self, id: i32) -> Result<SeedRevision> {
        let row = Entity::find_by_id(id).one(self.reader()).await.map_err(Failure::from)?;
        Ok(SeedRevision::read(row.ok_or_else(|| not_found("seed.revision_unknown", "revision of a seed", id))?)?)
    }

    /// Number of the newest revision that was applied.
    pub async fn newest_seed_revision(&self) -> Result<Option<i32>> {
        let newest = Entity::find().filter(Column::State.eq("applied")).order_by_desc(Column::Id);
        Ok(newest.one(self.reader()).await.map_err(Failure::from)?.map(|row| row.id))
    }

    /// Records that a seed is about to be applied. Whoever did so before and never ended was interrupted: there is one
    /// owner of the duty, and that is the caller.
    pub async fn begin_seed(&self, lease: &Lease, new: &NewSeedRevision) -> Result<i32> {
        self.check_lease(lease).await?;
        self.write(|tx, _| {
            Box::pin(async move {
                Entity::update_many()
                    .col_expr(Column::State, Expr::value("interrupted"))
                    .filter(Column::State.eq("applying"))
                    .exec(tx)
                    .await?;
                let row = Model {
                    id: 0,
                    env: fit(&new.env, 128),
                    system_code: new.system.clone(),
                    digest: new.digest.clone(),
                    files: to_json(&new.files),
                    commit_id: new.commit.as_deref().map(|id| fit(id, 64)),
                    dirty: new.dirty,
                    applied_by: fit(&new.by, 128),
                    state: "applying".to_owned(),
                    consents: to_json(&new.consents),
                    changes: "[]".to_owned(),
                    change_count: 0,
                    started_at: WallTime::now().0,
                    ended_at: None,
                };
                let mut row = row.into_active_model();
                row.id = ActiveValue::NotSet;
                Ok(Entity::insert(row).exec(tx).await?.last_insert_id)
            })
        })
        .await
    }

    /// Applies a seed: `decide` sees what is there, locked against other registrations, and says what is written. All of
    /// it is written with the end of the revision in one transaction.
    ///
    /// # Errors
    /// Those of `decide`; `fence.stale` when the duty went to somebody else; those of the writes.
    pub async fn apply_seed(&self, lease: &Lease, revision: i32, by: &str, decide: Decide<'_>) -> Result<SeedWrites> {
        let found = &self.found_anywhere().await?;
        self.write_settings("apply a seed", None, |tx, _| {
            Box::pin(async move {
                crate::counter::next(tx, crate::counter::REGISTRY).await?;
                crate::lease::require(tx, lease).await?;
                let live = live::read(tx).await?;
                let writes = decide(&live)?;
                write::all(tx, &writes, found, by).await?;
                let ended = Entity::update_many()
                    .col_expr(Column::State, Expr::value("applied"))
                    .col_expr(Column::Changes, Expr::value(to_json(&writes.changes)))
                    .col_expr(Column::ChangeCount, Expr::value(writes.change_count))
                    .col_expr(Column::EndedAt, Expr::value(WallTime::now().0))
                    .filter(Column::Id.eq(revision))
                    .filter(Column::State.eq("applying"))
                    .exec(tx)
                    .await?;
                if ended.rows_affected == 1 { Ok(writes) } else { Err(interrupted(revision).into()) }
            })
        })
        .await
    }

    /// Takes back the records of applications that were interrupted, for what they wanted is in force: the duty is the caller's.
    ///
    /// # Errors
    /// `fence.stale`.
    pub async fn forget_interrupted_seeds(&self, lease: &Lease) -> Result<()> {
        self.check_lease(lease).await?;
        self.write(|tx, _| {
            Box::pin(async move {
                Entity::delete_many().filter(Column::State.is_in(["applying", "interrupted"])).exec(tx).await?;
                Ok(())
            })
        })
        .await
    }

    /// Takes back the record of an application that wrote nothing.
    pub async fn abandon_seed(&self, revision: i32) -> Result<()> {
        self.write(|tx, _| {
            Box::pin(async move {
                let open = Entity::delete_many().filter(Column::Id.eq(revision)).filter(Column::State.eq("applying"));
                open.exec(tx).await?;
                Ok(())
            })
        })
        .await
    }
}

fn interrupted(revision: i32) -> Problem {
    Problem::new(ErrorKind::Conflict, "seed.interrupted", "another application of a seed took this one's place")
        .place(format!("revision {revision}"))
        .fix("apply the seed again")
}
