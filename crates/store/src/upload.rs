//! Answers that programs of others hand over.
//!
//! The execution of a method that runs elsewhere ends with its upload. Where a worker attends the program, the upload is kept
//! beside the execution until the worker, which measures the program, ends it.

use model::{ErrorKind, ExecutionId, ExecutionState, Problem, Result, TaskState, WallTime};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter, QuerySelect};
use serde_json::json;

use crate::connect::Store;
use crate::convert::{json as parse, to_json, uuid};
use crate::entity;
use crate::event::NewEvent;
use crate::execution::{self, ExecutionResult, Findings};
use crate::failure::{Failure, Work, is_duplicate};
use crate::missing::not_found;
use crate::run::Locked;
use crate::token::{TokenOrigin, revoke_origin};

/// What was handed over for an execution.
#[derive(Debug, Clone, PartialEq)]
pub struct Upload {
    pub findings: Findings,
    /// Seconds that the method took, by its own word.
    pub duration_s: f64,
    pub uploaded_at: WallTime,
}

impl Store {
    /// Takes an answer in, once; tokens that were given out for it end here.
    ///
    /// # Errors
    /// `execution.unknown`; `execution.already_ended`; `execution.already_uploaded`; `run.already_ended`.
    pub async fn upload(&self, id: ExecutionId, findings: &Findings, duration_s: f64) -> Result<WallTime> {
        self.write(|tx, _| {
            Box::pin(async move {
                let row = find(tx, id).await?;
                // The run first, as everywhere; then the row as it stands under that lock.
                let mut run = Locked::take(tx, model::RunId(uuid(&row.run_id)?)).await?;
                let row = find(tx, id).await?;
                if row.state != ExecutionState::Initial.code() {
                    return Err(execution::already_ended(&row).into());
                }
                keep(&run, &row, findings, duration_s).await?;
                revoke_origin(tx, &TokenOrigin::Execution(id)).await?;
                if row.remote {
                    if run.state()?.is_terminal() {
                        return Err(too_late(&row).into());
                    }
                    let result = ExecutionResult {
                        duration_s,
                        peak_memory: None,
                        isolation: None,
                        candidates: Vec::new(),
                        outcome: Ok(findings.clone()),
                    };
                    execution::end_row(run.tx, &row, &result).await?;
                    let words = format!("{} handed over its answer", row.algorithm);
                    let payload = json!({"execution_id": id, "algorithm": row.algorithm});
                    run.tell(None, NewEvent::new("execution.uploaded", words).payload(payload));
                    wake(&run, &row).await?;
                }
                let now = run.now;
                run.write().await?;
                Ok(now)
            })
        })
        .await
    }

    /// What was handed over for an execution, if anything was.
    pub async fn upload_of(&self, id: ExecutionId) -> Result<Option<Upload>> {
        let row = entity::upload::Entity::find_by_id(id.0).one(self.reader()).await.map_err(Failure::from)?;
        let read = |row: entity::upload::Model| -> Work<Upload> {
            Ok(Upload {
                findings: parse("uploaded answer", &row.findings)?,
                duration_s: row.duration_s,
                uploaded_at: WallTime(row.uploaded_at),
            })
        };
        Ok(row.map(read).transpose()?)
    }
}

async fn find(tx: &sea_orm::DatabaseTransaction, id: ExecutionId) -> Work<entity::execution::Model> {
    let row = entity::execution::Entity::find_by_id(id.0).lock_exclusive().one(tx).await?;
    Ok(row.ok_or_else(|| not_found("execution.unknown", "execution", id))?)
}

async fn keep(run: &Locked<'_>, row: &entity::execution::Model, findings: &Findings, duration_s: f64) -> Work<()> {
    let upload =
        entity::upload::Model { execution_id: row.id, findings: to_json(findings), duration_s, uploaded_at: run.now.0 };
    match entity::upload::Entity::insert(upload.into_active_model()).exec_without_returning(run.tx).await {
        Ok(_) => Ok(()),
        Err(error) if is_duplicate(&error) => {
            let message = "an answer was handed over already, and is the one that counts";
            Err(Problem::new(ErrorKind::Conflict, "execution.already_uploaded", message)
                .found(format!("execution {} of {}", row.id, row.algorithm))
                .into())
        }
        Err(error) => Err(error.into()),
    }
}

fn too_late(row: &entity::execution::Model) -> Problem {
    Problem::new(ErrorKind::Conflict, "run.already_ended", "the run that waited for the answer has ended")
        .found(format!("execution {} of {}", row.id, row.algorithm))
        .fix("submit the execution again")
}

/// The task that waits for the answer is due now.
async fn wake(run: &Locked<'_>, row: &entity::execution::Model) -> Work<()> {
    use entity::task::Column;
    entity::task::Entity::update_many()
        .col_expr(Column::DueAt, Expr::value(run.now.0))
        .filter(Column::Id.eq(row.task_id.clone()))
        .filter(Column::State.eq(TaskState::Rescheduled.code()))
        .exec(run.tx)
        .await?;
    Ok(())
}
