//! What the checks of an installation ask: counts and a few names, never whole tables.

use std::collections::HashSet;

use model::{InjectionId, Result, RunId, RunState, TaskId, TaskState, WallTime};
use sea_orm::sea_query::{Query, SelectStatement};
use sea_orm::{ColumnTrait, Condition, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect};

use crate::connect::Store;
use crate::convert::uuid;
use crate::entity;
use crate::failure::{Failure, Work};

/// Some of what matches, and how many do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample<T> {
    pub items: Vec<T>,
    pub total: u64,
}

/// A datapack that was published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltPack {
    pub id: InjectionId,
    pub name: String,
    /// Relative to the folder of datapacks.
    pub path: String,
}

const OPEN_RUNS: [i32; 2] = [RunState::Pending.code(), RunState::Running.code()];

impl Store {
    /// Tasks that nobody took up although they were due before `before`, the oldest first.
    pub async fn unclaimed_tasks(&self, before: WallTime, limit: u64) -> Result<Sample<TaskId>> {
        use entity::task::Column;
        let late = Condition::all()
            .add(Column::State.is_in([TaskState::Pending.code(), TaskState::Rescheduled.code()]))
            .add(Column::DueAt.lt(before.0));
        let matching = entity::task::Entity::find().filter(late);
        let total = matching.clone().count(self.reader()).await.map_err(Failure::from)?;
        let ids: Vec<String> = matching
            .select_only()
            .column(Column::Id)
            .order_by_asc(Column::DueAt)
            .limit(limit)
            .into_tuple()
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        let items = ids.iter().map(|id| Ok(TaskId(uuid(id)?))).collect::<Work<_>>()?;
        Ok(Sample { items, total })
    }

    /// Leases that are still held for runs that have ended: resource and run.
    pub async fn leases_of_ended_runs(&self, limit: u64) -> Result<Sample<(String, RunId)>> {
        use entity::lease::Column;
        let orphans = Condition::all().add(Column::Owner.is_not_null()).add(Column::RunId.in_subquery(ended_runs()));
        let matching = entity::lease::Entity::find().filter(orphans);
        let total = matching.clone().count(self.reader()).await.map_err(Failure::from)?;
        let rows: Vec<(String, String)> = matching
            .select_only()
            .columns([Column::Resource, Column::RunId])
            .order_by_asc(Column::Resource)
            .limit(limit)
            .into_tuple()
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        let items = rows.into_iter().map(|(resource, run)| Ok((resource, RunId(uuid(&run)?)))).collect::<Work<_>>()?;
        Ok(Sample { items, total })
    }

    /// Number of leases that are held.
    pub async fn held_leases(&self) -> Result<u64> {
        let held = entity::lease::Entity::find().filter(entity::lease::Column::Owner.is_not_null());
        Ok(held.count(self.reader()).await.map_err(Failure::from)?)
    }

    /// The namespaces that runs hold which have not ended: at most one for each slot.
    pub async fn held_namespaces(&self) -> Result<HashSet<String>> {
        use entity::run::Column;
        let held: Vec<String> = entity::run::Entity::find()
            .select_only()
            .column(Column::Namespace)
            .distinct()
            .filter(Column::State.is_in(OPEN_RUNS))
            .filter(Column::Namespace.is_not_null())
            .into_tuple()
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        Ok(held.into_iter().collect())
    }

    /// Which of these runs have not ended.
    pub async fn open_runs(&self, runs: &[RunId]) -> Result<HashSet<RunId>> {
        use entity::run::Column;
        let mut open = HashSet::new();
        for part in runs.chunks(500) {
            let ids: Vec<String> = entity::run::Entity::find()
                .select_only()
                .column(Column::Id)
                .filter(Column::Id.is_in(part.iter().map(ToString::to_string)))
                .filter(Column::State.is_in(OPEN_RUNS))
                .into_tuple()
                .all(self.reader())
                .await
                .map_err(Failure::from)?;
            let read = ids.iter().map(|id| Ok(RunId(uuid(id)?)));
            open.extend(read.collect::<Work<Vec<RunId>>>()?);
        }
        Ok(open)
    }

    /// Published datapacks after a number, in the order of their numbers: one part of the list.
    pub async fn built_packs(&self, after: InjectionId, limit: u64) -> Result<Vec<BuiltPack>> {
        use entity::injection::Column;
        let rows: Vec<(i32, String, String)> = entity::injection::Entity::find()
            .select_only()
            .columns([Column::Id, Column::Name, Column::PackPath])
            .filter(Column::Id.gt(after.0))
            .filter(Column::PackPath.is_not_null())
            .order_by_asc(Column::Id)
            .limit(limit)
            .into_tuple()
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        Ok(rows.into_iter().map(|(id, name, path)| BuiltPack { id: InjectionId(id), name, path }).collect())
    }
}

fn ended_runs() -> SelectStatement {
    use entity::run::Column;
    Query::select()
        .column(Column::Id)
        .from(entity::run::Entity)
        .and_where(Column::State.is_not_in(OPEN_RUNS))
        .to_owned()
}
