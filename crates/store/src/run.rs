//! Runs: reading them, and the lock under which every change of a run and of what hangs on it happens.

use model::{GroupId, InjectionId, ProjectId, Result, RunId, RunState, SystemCode, Verdict, WallTime};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter, QuerySelect};

use crate::connect::Store;
use crate::convert::{count, fit, optional_uuid, seed_from_sql, uuid, wall, word};
use crate::entity;
use crate::event::{self, NewEvent, Origin};
use crate::failure::{Failure, Work, lost};
use crate::missing::not_found;
use crate::query::starting;

/// One pipeline pass over one slot.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub id: RunId,
    pub group: GroupId,
    pub project: ProjectId,
    pub system: SystemCode,
    pub state: RunState,
    /// What became of the datapack, as far as it is known.
    pub verdict: Option<Verdict>,
    /// Stable code of why it ended as it did.
    pub reason: Option<String>,
    /// The same in words.
    pub message: Option<String>,
    /// The namespace that it holds or held.
    pub namespace: Option<String>,
    pub slot: Option<u32>,
    /// The specification as submitted: JSON with its own format version.
    pub spec: String,
    pub fault_type: String,
    pub services: String,
    pub seed: u64,
    pub control_of: Option<RunId>,
    /// Kind of the cluster that it runs on: `simulated` or `cluster`. Their results are never mixed.
    pub origin_kind: String,
    pub injection: Option<InjectionId>,
    pub injection_name: Option<String>,
    /// Number of the newest event.
    pub last_event: i64,
    pub last_event_name: String,
    /// Number of tasks that nothing follows.
    pub leaf_num: i32,
    pub pause_requested: bool,
    pub cancel_requested: bool,
    /// How often it was retried.
    pub retry_count: u32,
    /// One method on a datapack that another run made, and nothing else.
    pub ranks_only: bool,
    pub created_at: WallTime,
    pub updated_at: WallTime,
    pub started_at: Option<WallTime>,
    pub ended_at: Option<WallTime>,
}

impl Run {
    pub(crate) fn read(row: entity::run::Model) -> Work<Self> {
        Ok(Self {
            id: RunId(uuid(&row.id)?),
            group: GroupId(uuid(&row.group_id)?),
            project: ProjectId(row.project_id),
            system: SystemCode::parse(&row.system_code)?,
            state: word("run state", row.state, RunState::from_code)?,
            verdict: row.verdict.as_deref().map(|text| word("verdict", text, Verdict::parse)).transpose()?,
            reason: row.reason,
            message: row.message,
            namespace: row.namespace,
            slot: row.slot.map(|slot| count("slot", slot)).transpose()?,
            spec: row.spec,
            fault_type: row.fault_type,
            services: row.services,
            seed: seed_from_sql(row.seed),
            control_of: optional_uuid(row.control_of.as_deref())?.map(RunId),
            origin_kind: row.origin_kind,
            injection: row.injection_id.map(InjectionId),
            injection_name: row.injection_name,
            last_event: row.last_event,
            last_event_name: row.last_event_name,
            leaf_num: row.leaf_num,
            pause_requested: row.pause_requested,
            cancel_requested: row.cancel_requested,
            retry_count: count("retry count", row.retry_count)?,
            ranks_only: row.ranks_only,
            created_at: WallTime(row.created_at),
            updated_at: WallTime(row.updated_at),
            started_at: wall(row.started_at),
            ended_at: wall(row.ended_at),
        })
    }
}

impl Store {
    /// The runs whose ids start with `prefix`, at most `most` of them.
    pub async fn runs_starting(&self, prefix: &str, most: u64) -> Result<Vec<RunId>> {
        use sea_orm::QuerySelect;
        let select = entity::run::Entity::find().filter(starting(entity::run::Column::Id, prefix)).limit(most);
        let rows = select.all(self.reader()).await.map_err(Failure::from)?;
        Ok(rows.iter().map(|row| uuid(&row.id).map(RunId)).collect::<Work<_>>()?)
    }

    /// One run.
    ///
    /// # Errors
    /// `run.unknown`.
    pub async fn run(&self, id: RunId) -> Result<Run> {
        let row = entity::run::Entity::find_by_id(id.to_string()).one(self.reader()).await.map_err(Failure::from)?;
        Ok(Run::read(row.ok_or_else(|| not_found("run.unknown", "run", id))?)?)
    }
}

/// A run whose row this transaction holds. Changes and events are collected and written at once by [`Locked::write`].
///
/// Every operation takes this lock first: changes of one run come one after the other, also on MariaDB, and event
/// numbers have no gap.
pub(crate) struct Locked<'a> {
    pub tx: &'a DatabaseTransaction,
    pub row: entity::run::Model,
    pub id: RunId,
    pub now: WallTime,
    before: i64,
    events: Vec<(Origin, NewEvent)>,
}

impl<'a> Locked<'a> {
    pub(crate) async fn take(tx: &'a DatabaseTransaction, id: RunId) -> Work<Self> {
        let row = entity::run::Entity::find_by_id(id.to_string()).lock_exclusive().one(tx).await?;
        let row = row.ok_or_else(|| not_found("run.unknown", "run", id))?;
        Ok(Self { tx, before: row.revision, row, id, now: WallTime::now(), events: Vec::new() })
    }

    pub(crate) fn state(&self) -> Work<RunState> {
        word("run state", self.row.state, RunState::from_code)
    }

    /// Adds an event; it is numbered and stored by [`Locked::write`].
    pub(crate) fn tell(&mut self, origin: Origin, event: NewEvent) {
        self.events.push((origin, event));
    }

    /// Changes the run's state, where that is legal.
    pub(crate) fn change_state(&mut self, to: RunState) -> Work<()> {
        self.row.state = self.state()?.change(to)?.code();
        match to {
            RunState::Running => {
                self.row.started_at.get_or_insert(self.now.0);
                self.row.ended_at = None;
            }
            RunState::Completed | RunState::Failed | RunState::Cancelled => self.row.ended_at = Some(self.now.0),
            RunState::Pending => {}
        }
        Ok(())
    }

    /// Says why the run stands as it does.
    pub(crate) fn explain(&mut self, reason: Option<&str>, message: Option<&str>) {
        self.row.reason = reason.map(|text| fit(text, 128));
        self.row.message = message.map(|text| fit(text, 8000));
    }

    /// Writes the run's row and its new events.
    pub(crate) async fn write(mut self) -> Work<entity::run::Model> {
        use entity::run::Column;
        let first = self.row.last_event + 1;
        self.row.last_event += i64::try_from(self.events.len()).expect("an operation tells only a few events");
        if let Some((_, event)) = self.events.last() {
            self.row.last_event_name = fit(&event.name, 64);
        }
        self.row.revision = self.before + 1;
        self.row.updated_at = self.now.0;
        let row = &self.row;
        let written = entity::run::Entity::update_many()
            .col_expr(Column::State, Expr::value(row.state))
            .col_expr(Column::Verdict, Expr::value(row.verdict.clone()))
            .col_expr(Column::Reason, Expr::value(row.reason.clone()))
            .col_expr(Column::Message, Expr::value(row.message.clone()))
            .col_expr(Column::Namespace, Expr::value(row.namespace.clone()))
            .col_expr(Column::Slot, Expr::value(row.slot))
            .col_expr(Column::LastEvent, Expr::value(row.last_event))
            .col_expr(Column::LastEventName, Expr::value(row.last_event_name.clone()))
            .col_expr(Column::LeafNum, Expr::value(row.leaf_num))
            .col_expr(Column::PauseRequested, Expr::value(row.pause_requested))
            .col_expr(Column::CancelRequested, Expr::value(row.cancel_requested))
            .col_expr(Column::RetryCount, Expr::value(row.retry_count))
            .col_expr(Column::Revision, Expr::value(row.revision))
            .col_expr(Column::UpdatedAt, Expr::value(row.updated_at))
            .col_expr(Column::StartedAt, Expr::value(row.started_at))
            .col_expr(Column::EndedAt, Expr::value(row.ended_at))
            .filter(Column::Id.eq(row.id.as_str()))
            .filter(Column::Revision.eq(self.before))
            .exec(self.tx)
            .await?;
        if written.rows_affected != 1 {
            return Err(lost("run"));
        }
        event::insert(self.tx, &self.row.id, first, self.now, self.events).await?;
        Ok(self.row)
    }
}

/// Number of the run's tasks that have not ended.
pub(crate) async fn open_tasks(db: &impl ConnectionTrait, run: &str) -> Work<u64> {
    use entity::task::Column;
    use sea_orm::PaginatorTrait;
    let open = entity::task::Entity::find().filter(Column::RunId.eq(run)).filter(Column::State.is_in([0, 1, 2]));
    Ok(open.count(db).await?)
}
