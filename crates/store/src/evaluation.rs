//! Evaluations: which algorithms run on which datapacks, what is done of it, and who is at it.
//!
//! The work is stored as items, one algorithm on one datapack each. A process leases a datapack of an evaluation
//! (`evaluation:ID:DATAPACK`), runs the algorithms on it that have not ended, and stores their ends in one transaction
//! under that lease. What a dead process was at is open again as soon as its lease is.

use std::collections::BTreeMap;

use model::{
    ErrorKind, EvaluationId, ExecutionId, ExecutionState, InjectionId, Onset, Problem, ProjectId, Result, WallTime,
};
use sea_orm::sea_query::{Expr, Query};
use sea_orm::{
    ActiveValue, ColumnTrait, DatabaseTransaction, EntityTrait, ExprTrait, IntoActiveModel, PaginatorTrait,
    QueryFilter, QueryOrder, QuerySelect,
};
use serde_json::Value;

use crate::connect::Store;
use crate::convert::{fit, json, to_json, wall, word};
use crate::entity::{self, evaluation_item::Column};
use crate::execution::{self, ExecutionResult, NewExecution, Place, Role};
use crate::failure::{Failure, Work, lost};
use crate::lease::Lease;
use crate::missing::not_found;
use crate::query::{Listed, Page};

/// One algorithm on one datapack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub injection: InjectionId,
    pub algorithm: String,
    pub version: String,
    pub onset: Onset,
    /// One that ended before the evaluation was made, or one that was started for it.
    pub execution: Option<ExecutionId>,
}

/// What is to be evaluated.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvaluation {
    pub project: ProjectId,
    pub name: String,
    /// What was asked for: JSON.
    pub definition: Value,
    /// Every datapack that was asked about, and why no algorithm is to run on it where that is so.
    pub packs: Vec<(InjectionId, Option<String>)>,
    /// An item that has an execution already needs none.
    pub items: Vec<Item>,
}

/// An evaluation and how far it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    pub id: EvaluationId,
    pub project: ProjectId,
    pub name: String,
    pub definition: Value,
    pub progress: Progress,
    /// Seconds of its processes: reading datapacks, and ranking.
    pub reading_s: f64,
    pub ranking_s: f64,
    pub created_at: WallTime,
    pub updated_at: WallTime,
    pub ended_at: Option<WallTime>,
    pub cancelled_at: Option<WallTime>,
}

/// How much of an evaluation is done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    pub items: u64,
    pub done: u64,
    /// Of those done: ended without an answer.
    pub failed: u64,
    /// Datapacks that algorithms run on.
    pub packs: u64,
    /// The others, by reason.
    pub excluded: BTreeMap<String, u64>,
}

/// How one item ended.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemEnd {
    pub item: Item,
    pub seed: u64,
    pub result: ExecutionResult,
}

/// The resource that whoever works on a datapack of an evaluation leases.
pub fn evaluation_resource(evaluation: EvaluationId, injection: InjectionId) -> String {
    format!("evaluation:{evaluation}:{injection}")
}

/// Rows are written in parts: back ends bound the number of values in one statement.
const PART: usize = 200;

impl Store {
    /// Stores an evaluation with all of its work. One whose items all have executions has ended already.
    pub async fn add_evaluation(&self, new: &NewEvaluation) -> Result<EvaluationId> {
        self.write(|tx, _| {
            Box::pin(async move {
                let now = WallTime::now().0;
                let open = new.items.iter().any(|item| item.execution.is_none());
                let row = entity::evaluation::Model {
                    id: 0,
                    project_id: new.project.0,
                    name: fit(&new.name, 128),
                    definition: to_json(&new.definition),
                    result: "{}".to_owned(),
                    created_at: now,
                    reading_s: 0.0,
                    ranking_s: 0.0,
                    ended_at: (!open).then_some(now),
                    cancelled_at: None,
                    updated_at: now,
                };
                let mut row = row.into_active_model();
                row.id = ActiveValue::NotSet;
                let id = entity::evaluation::Entity::insert(row).exec(tx).await?.last_insert_id;
                insert_packs(tx, id, &new.packs).await?;
                insert_items(tx, id, &new.items).await?;
                Ok(EvaluationId(id))
            })
        })
        .await
    }

    /// One evaluation.
    ///
    /// # Errors
    /// `evaluation.unknown`.
    pub async fn evaluation(&self, id: EvaluationId) -> Result<Evaluation> {
        let row = entity::evaluation::Entity::find_by_id(id.0).one(self.reader()).await.map_err(Failure::from)?;
        let row = row.ok_or_else(|| not_found("evaluation.unknown", "evaluation", id))?;
        self.with_progress(row).await
    }

    /// Evaluations, newest first.
    pub async fn evaluations(&self, page: Page) -> Result<Listed<Evaluation>> {
        let select = entity::evaluation::Entity::find();
        let total = select.clone().count(self.reader()).await.map_err(Failure::from)?;
        let rows = select
            .order_by_desc(entity::evaluation::Column::Id)
            .offset(page.offset())
            .limit(u64::from(page.size))
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        let mut items = Vec::with_capacity(rows.len());
        for row in rows {
            items.push(self.with_progress(row).await?);
        }
        Ok(Listed { items, total })
    }

    async fn with_progress(&self, row: entity::evaluation::Model) -> Result<Evaluation> {
        let progress = self.progress(row.id).await?;
        let definition: Work<Value> = json("definition", &row.definition);
        Ok(Evaluation {
            id: EvaluationId(row.id),
            project: ProjectId(row.project_id),
            name: row.name,
            definition: definition?,
            progress,
            reading_s: row.reading_s,
            ranking_s: row.ranking_s,
            created_at: WallTime(row.created_at),
            updated_at: WallTime(std::cmp::max(row.updated_at, row.created_at)),
            ended_at: wall(row.ended_at),
            cancelled_at: wall(row.cancelled_at),
        })
    }

    async fn progress(&self, id: i32) -> Result<Progress> {
        let items = entity::evaluation_item::Entity::find().filter(Column::EvaluationId.eq(id));
        let done = items.clone().filter(Column::Done.eq(true));
        let executions = Query::select()
            .column(Column::ExecutionId)
            .from(entity::evaluation_item::Entity)
            .and_where(Column::EvaluationId.eq(id))
            .and_where(Column::Done.eq(true))
            .to_owned();
        let failed = entity::execution::Entity::find()
            .filter(entity::execution::Column::State.eq(ExecutionState::Failed.code()))
            .filter(entity::execution::Column::Id.in_subquery(executions));
        let reasons: Vec<Option<String>> = entity::evaluation_pack::Entity::find()
            .select_only()
            .column(entity::evaluation_pack::Column::Excluded)
            .filter(entity::evaluation_pack::Column::EvaluationId.eq(id))
            .into_tuple()
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        let mut progress = Progress {
            items: items.count(self.reader()).await.map_err(Failure::from)?,
            done: done.count(self.reader()).await.map_err(Failure::from)?,
            failed: failed.count(self.reader()).await.map_err(Failure::from)?,
            ..Progress::default()
        };
        for reason in reasons {
            match reason {
                None => progress.packs += 1,
                Some(reason) => *progress.excluded.entry(reason).or_default() += 1,
            }
        }
        Ok(progress)
    }

    /// Datapacks on which something is left to do, of the oldest evaluation first.
    pub async fn open_evaluation_packs(&self, most: u64) -> Result<Vec<(EvaluationId, InjectionId)>> {
        let cancelled = Query::select()
            .column(entity::evaluation::Column::Id)
            .from(entity::evaluation::Entity)
            .and_where(entity::evaluation::Column::CancelledAt.is_not_null())
            .to_owned();
        let rows: Vec<(i32, i32)> = entity::evaluation_item::Entity::find()
            .select_only()
            .columns([Column::EvaluationId, Column::InjectionId])
            .distinct()
            .filter(Column::Done.eq(false))
            .filter(Column::EvaluationId.not_in_subquery(cancelled))
            .order_by_asc(Column::EvaluationId)
            .order_by_asc(Column::InjectionId)
            .limit(most)
            .into_tuple()
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        Ok(rows.into_iter().map(|(evaluation, pack)| (EvaluationId(evaluation), InjectionId(pack))).collect())
    }

    /// What is left to do on a datapack of an evaluation, in a fixed order.
    pub async fn open_items(&self, evaluation: EvaluationId, injection: InjectionId) -> Result<Vec<Item>> {
        let rows = entity::evaluation_item::Entity::find()
            .filter(Column::EvaluationId.eq(evaluation.0))
            .filter(Column::InjectionId.eq(injection.0))
            .filter(Column::Done.eq(false))
            .order_by_asc(Column::Algorithm)
            .order_by_asc(Column::AlgorithmVersion)
            .order_by_asc(Column::Onset)
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        Ok(rows.into_iter().map(read).collect::<Work<_>>()?)
    }

    /// The newest successful execution of each method on each of these datapacks as they are now.
    pub async fn answered(&self, injections: &[InjectionId]) -> Result<Vec<Item>> {
        use entity::execution::Column;
        let mut newest: BTreeMap<(i32, String, String, String), i32> = BTreeMap::new();
        for part in injections.chunks(500) {
            let rows: Vec<(i32, i32, String, String, String)> = entity::execution::Entity::find()
                .select_only()
                .columns([Column::Id, Column::InjectionId, Column::Algorithm, Column::AlgorithmVersion, Column::Onset])
                .filter(Column::InjectionId.is_in(part.iter().map(|id| id.0)))
                .filter(Column::Role.eq(Role::Algorithm.as_str()))
                .filter(Column::State.eq(ExecutionState::Success.code()))
                .filter(Column::SupersededAt.is_null())
                .order_by_asc(Column::Id)
                .into_tuple()
                .all(self.reader())
                .await
                .map_err(Failure::from)?;
            newest.extend(
                rows.into_iter().map(|(id, injection, name, version, onset)| ((injection, name, version, onset), id)),
            );
        }
        let item = |((injection, algorithm, version, onset), id): ((i32, String, String, String), i32)| {
            Ok(Item {
                injection: InjectionId(injection),
                algorithm,
                version,
                onset: word("onset", onset.as_str(), Onset::parse)?,
                execution: Some(ExecutionId(id)),
            })
        };
        Ok(newest.into_iter().map(item).collect::<Work<_>>()?)
    }

    /// Starts an item whose method has to know its execution's number. A repeated start finds it.
    ///
    /// # Errors
    /// `fence.stale` when the lease was lost.
    pub async fn start_item(
        &self,
        lease: &Lease,
        evaluation: EvaluationId,
        item: &Item,
        seed: u64,
    ) -> Result<ExecutionId> {
        self.write(|tx, _| {
            Box::pin(async move {
                still_held(tx, lease).await?;
                let row = find(tx, evaluation, item).await?;
                if let Some(execution) = row.execution_id {
                    return Ok(ExecutionId(execution));
                }
                let id = insert_execution(tx, evaluation, item, seed).await?;
                point(tx, evaluation, item, id, false).await?;
                Ok(id)
            })
        })
        .await
    }

    /// Stores how items of one datapack ended, all or none, and what reading the datapack took.
    ///
    /// # Errors
    /// `fence.stale` when the lease was lost.
    pub async fn end_items(
        &self,
        lease: &Lease,
        evaluation: EvaluationId,
        ends: &[ItemEnd],
        reading_s: f64,
    ) -> Result<()> {
        self.write(|tx, _| {
            Box::pin(async move {
                still_held(tx, lease).await?;
                for end in ends {
                    end_item(tx, evaluation, end).await?;
                }
                let ranking: f64 = ends.iter().map(|end| end.result.duration_s).sum();
                advance(tx, evaluation, reading_s, ranking).await
            })
        })
        .await
    }

    /// Takes a datapack out of an evaluation: it cannot be read any more. What has run on it is not scored either.
    ///
    /// # Errors
    /// `fence.stale` when the lease was lost.
    pub async fn exclude_pack(
        &self,
        lease: &Lease,
        evaluation: EvaluationId,
        injection: InjectionId,
        reason: &str,
    ) -> Result<()> {
        use entity::evaluation_pack::Column as Of;
        self.write(|tx, _| {
            Box::pin(async move {
                still_held(tx, lease).await?;
                entity::evaluation_item::Entity::delete_many()
                    .filter(Column::EvaluationId.eq(evaluation.0))
                    .filter(Column::InjectionId.eq(injection.0))
                    .exec(tx)
                    .await?;
                entity::evaluation_pack::Entity::update_many()
                    .col_expr(Of::Excluded, Expr::value(fit(reason, 64)))
                    .filter(Of::EvaluationId.eq(evaluation.0))
                    .filter(Of::InjectionId.eq(injection.0))
                    .exec(tx)
                    .await?;
                advance(tx, evaluation, 0.0, 0.0).await
            })
        })
        .await
    }

    /// The datapacks of an evaluation that no algorithm runs on, with the reason.
    pub async fn excluded_packs(&self, evaluation: EvaluationId) -> Result<BTreeMap<InjectionId, String>> {
        use entity::evaluation_pack::Column as Of;
        let rows: Vec<(i32, String)> = entity::evaluation_pack::Entity::find()
            .select_only()
            .columns([Of::InjectionId, Of::Excluded])
            .filter(Of::EvaluationId.eq(evaluation.0))
            .filter(Of::Excluded.is_not_null())
            .into_tuple()
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        Ok(rows.into_iter().map(|(injection, reason)| (InjectionId(injection), reason)).collect())
    }

    /// Starts nothing more of an evaluation; what has ended stays. `false` when it had ended or was cancelled.
    ///
    /// # Errors
    /// `evaluation.unknown`.
    pub async fn cancel_evaluation(&self, id: EvaluationId) -> Result<bool> {
        use entity::evaluation::Column;
        self.evaluation(id).await?;
        self.write(|tx, _| {
            Box::pin(async move {
                let now = WallTime::now().0;
                let cancelled = entity::evaluation::Entity::update_many()
                    .col_expr(Column::CancelledAt, Expr::value(now))
                    .col_expr(Column::EndedAt, Expr::value(now))
                    .col_expr(Column::UpdatedAt, Expr::value(now))
                    .filter(Column::Id.eq(id.0))
                    .filter(Column::EndedAt.is_null())
                    .exec(tx)
                    .await?;
                Ok(cancelled.rows_affected == 1)
            })
        })
        .await
    }

    /// Refuses when the evaluation was cancelled.
    ///
    /// # Errors
    /// `evaluation.cancelled`, `evaluation.unknown`.
    pub async fn evaluation_wanted(&self, id: EvaluationId) -> Result<()> {
        let row = entity::evaluation::Entity::find_by_id(id.0).one(self.reader()).await.map_err(Failure::from)?;
        match row.ok_or_else(|| not_found("evaluation.unknown", "evaluation", id))?.cancelled_at {
            None => Ok(()),
            Some(_) => Err(Problem::new(ErrorKind::Failed, "evaluation.cancelled", "the evaluation was cancelled")),
        }
    }
}

fn read(row: entity::evaluation_item::Model) -> Work<Item> {
    Ok(Item {
        injection: InjectionId(row.injection_id),
        algorithm: row.algorithm,
        version: row.algorithm_version,
        onset: word("onset", row.onset.as_str(), Onset::parse)?,
        execution: row.execution_id.map(ExecutionId),
    })
}

async fn insert_packs(tx: &DatabaseTransaction, id: i32, packs: &[(InjectionId, Option<String>)]) -> Work<()> {
    for part in packs.chunks(PART) {
        let rows = part.iter().map(|(injection, excluded)| {
            entity::evaluation_pack::Model {
                evaluation_id: id,
                injection_id: injection.0,
                excluded: excluded.as_deref().map(|reason| fit(reason, 64)),
            }
            .into_active_model()
        });
        entity::evaluation_pack::Entity::insert_many(rows).exec_without_returning(tx).await?;
    }
    Ok(())
}

async fn insert_items(tx: &DatabaseTransaction, id: i32, items: &[Item]) -> Work<()> {
    for part in items.chunks(PART) {
        let rows = part.iter().map(|item| {
            entity::evaluation_item::Model {
                evaluation_id: id,
                injection_id: item.injection.0,
                algorithm: item.algorithm.clone(),
                algorithm_version: item.version.clone(),
                onset: item.onset.as_str().to_owned(),
                execution_id: item.execution.map(|id| id.0),
                done: item.execution.is_some(),
            }
            .into_active_model()
        });
        entity::evaluation_item::Entity::insert_many(rows).exec_without_returning(tx).await?;
    }
    Ok(())
}

/// Refuses when somebody else holds the lease by now.
async fn still_held(tx: &DatabaseTransaction, lease: &Lease) -> Work<()> {
    let row = entity::lease::Entity::find_by_id(lease.resource.as_str()).lock_exclusive().one(tx).await?;
    let owner = lease.owner.to_string();
    let holds = row.is_some_and(|row| row.owner.as_deref() == Some(owner.as_str()) && row.fence == lease.fence);
    if holds { Ok(()) } else { Err(lease.stale().into()) }
}

async fn find(tx: &DatabaseTransaction, evaluation: EvaluationId, item: &Item) -> Work<entity::evaluation_item::Model> {
    let key =
        (evaluation.0, item.injection.0, item.algorithm.clone(), item.version.clone(), item.onset.as_str().to_owned());
    entity::evaluation_item::Entity::find_by_id(key).one(tx).await?.ok_or_else(|| lost("evaluation"))
}

async fn insert_execution(
    tx: &DatabaseTransaction,
    evaluation: EvaluationId,
    item: &Item,
    seed: u64,
) -> Work<ExecutionId> {
    let injection = entity::injection::Entity::find_by_id(item.injection.0).one(tx).await?;
    let injection = injection.ok_or_else(|| not_found("datapack.unknown", "datapack", item.injection))?;
    let new = NewExecution {
        algorithm: item.algorithm.clone(),
        version: item.version.clone(),
        role: Role::Algorithm,
        injection: item.injection,
        seed,
        remote: false,
    };
    let place = Place { run: &injection.run_id, task: None, evaluation: Some(evaluation), onset: item.onset };
    execution::insert_row(tx, &place, &new, None).await
}

/// Gives an item its execution.
async fn point(
    tx: &DatabaseTransaction,
    evaluation: EvaluationId,
    item: &Item,
    execution: ExecutionId,
    done: bool,
) -> Work<()> {
    let changed = entity::evaluation_item::Entity::update_many()
        .col_expr(Column::ExecutionId, Expr::value(execution.0))
        .col_expr(Column::Done, Expr::value(done))
        .filter(Column::EvaluationId.eq(evaluation.0))
        .filter(Column::InjectionId.eq(item.injection.0))
        .filter(Column::Algorithm.eq(item.algorithm.as_str()))
        .filter(Column::AlgorithmVersion.eq(item.version.as_str()))
        .filter(Column::Onset.eq(item.onset.as_str()))
        .filter(Column::Done.eq(false))
        .exec(tx)
        .await?;
    // The item is there and open: both were read under the lease.
    if changed.rows_affected <= 1 { Ok(()) } else { Err(lost("evaluation")) }
}

async fn end_item(tx: &DatabaseTransaction, evaluation: EvaluationId, end: &ItemEnd) -> Work<()> {
    let row = find(tx, evaluation, &end.item).await?;
    if row.done {
        return Ok(());
    }
    let id = match row.execution_id {
        Some(id) => ExecutionId(id),
        None => insert_execution(tx, evaluation, &end.item, end.seed).await?,
    };
    let execution = entity::execution::Entity::find_by_id(id.0).one(tx).await?;
    let execution = execution.ok_or_else(|| not_found("execution.unknown", "execution", id))?;
    execution::end_row(tx, &execution, &end.result).await?;
    point(tx, evaluation, &end.item, id, true).await
}

/// Adds to an evaluation's times, and ends it when nothing is left to do.
async fn advance(tx: &DatabaseTransaction, id: EvaluationId, reading_s: f64, ranking_s: f64) -> Work<()> {
    use entity::evaluation::Column as Of;
    let now = WallTime::now().0;
    let open = entity::evaluation_item::Entity::find()
        .filter(Column::EvaluationId.eq(id.0))
        .filter(Column::Done.eq(false))
        .limit(1)
        .one(tx)
        .await?;
    let update = entity::evaluation::Entity::update_many()
        .col_expr(Of::ReadingS, Expr::col(Of::ReadingS).add(reading_s))
        .col_expr(Of::RankingS, Expr::col(Of::RankingS).add(ranking_s))
        .col_expr(Of::UpdatedAt, Expr::value(now))
        .filter(Of::Id.eq(id.0));
    let update = if open.is_none() { update.col_expr(Of::EndedAt, Expr::value(now)) } else { update };
    update.exec(tx).await?;
    Ok(())
}
