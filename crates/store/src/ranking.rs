//! Runs that only rank: one method on a datapack that another run made.

use model::{
    ErrorKind, ExecutionId, GroupId, InjectionId, Problem, ProjectId, Result, RunId, RunState, TaskId, WallTime,
};
use sea_orm::{DatabaseTransaction, EntityTrait, IntoActiveModel};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::connect::Store;
use crate::entity;
use crate::event::NewEvent;
use crate::execution::{self, NewExecution};
use crate::failure::{Work, lost};
use crate::missing::not_found;
use crate::run::Locked;
use crate::submit::{IdempotencyKey, earlier, insert_group, remember};
use crate::task::{self, NewTask};

/// The rankings of one submission.
#[derive(Debug, Clone, PartialEq)]
pub struct RankingSubmission {
    pub group: GroupId,
    pub project: ProjectId,
    pub rankings: Vec<NewRanking>,
    pub key: Option<IdempotencyKey>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewRanking {
    pub id: RunId,
    /// JSON with its own format version: that of the datapack's run, with this method alone.
    pub spec: String,
    pub execution: NewExecution,
    /// A JSON object of text.
    pub labels: Value,
    pub first: NewTask,
}

/// What a submission stored, or had stored when its key was used before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmittedRankings {
    pub group: GroupId,
    pub rankings: Vec<SubmittedRanking>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmittedRanking {
    pub run: RunId,
    pub task: TaskId,
    pub execution: ExecutionId,
    pub injection: InjectionId,
}

impl Store {
    /// Stores the runs, their executions and first tasks, or nothing of it.
    ///
    /// # Errors
    /// `datapack.unknown`; `datapack.not_built`; `idempotency.key_reused`.
    pub async fn submit_rankings(&self, submission: &RankingSubmission) -> Result<SubmittedRankings> {
        self.write(|tx, _| Box::pin(async move { store(tx, submission).await })).await
    }
}

async fn store(tx: &DatabaseTransaction, submission: &RankingSubmission) -> Work<SubmittedRankings> {
    if let Some(earlier) = earlier::<SubmittedRankings>(tx, submission.key.as_ref()).await? {
        return Ok(earlier);
    }
    insert_group(tx, submission.group, submission.project).await?;
    let mut rankings = Vec::with_capacity(submission.rankings.len());
    for new in &submission.rankings {
        rankings.push(insert(tx, submission, new).await?);
    }
    let submitted = SubmittedRankings { group: submission.group, rankings };
    remember(tx, submission.key.as_ref(), &submitted).await?;
    Ok(submitted)
}

async fn insert(tx: &DatabaseTransaction, submission: &RankingSubmission, new: &NewRanking) -> Work<SubmittedRanking> {
    let on = new.execution.injection;
    let pack = entity::injection::Entity::find_by_id(on.0).one(tx).await?;
    let pack = pack.ok_or_else(|| not_found("datapack.unknown", "datapack", on))?;
    if pack.pack_path.is_none() {
        let problem = Problem::new(ErrorKind::Conflict, "datapack.not_built", "the datapack has not been built");
        return Err(problem.place(pack.name).into());
    }
    let made = entity::run::Entity::find_by_id(pack.run_id.as_str()).one(tx).await?.ok_or_else(|| lost("run"))?;
    let now = WallTime::now().0;
    let row = entity::run::Model {
        id: new.id.to_string(),
        group_id: submission.group.to_string(),
        project_id: submission.project.0,
        state: RunState::Pending.code(),
        verdict: pack.verdict,
        reason: None,
        message: None,
        // The datapack is all that it works on: it needs no slot.
        namespace: None,
        slot: None,
        spec: new.spec.clone(),
        control_of: None,
        injection_id: Some(pack.id),
        injection_name: Some(pack.name),
        last_event: 0,
        last_event_name: String::new(),
        leaf_num: 1,
        pause_requested: false,
        cancel_requested: false,
        retry_count: 0,
        revision: 0,
        created_at: now,
        updated_at: now,
        started_at: None,
        ended_at: None,
        ranks_only: true,
        ..made
    };
    entity::run::Entity::insert(row.into_active_model()).exec_without_returning(tx).await?;
    let mut run = Locked::take(tx, new.id).await?;
    task::insert(&run, None, std::slice::from_ref(&new.first)).await?;
    let first = task::id_at(new.id, 0);
    let execution = execution::insert(&run, first, &new.execution, Some(&new.labels)).await?;
    let payload = json!({"task_id": first, "execution_id": execution, "execute_time": run.now.seconds()});
    let words = format!("{} {} is to rank", new.execution.algorithm, new.execution.version);
    run.tell(Some((first, new.first.kind)), NewEvent::new("task.scheduled", words).payload(payload));
    run.write().await?;
    Ok(SubmittedRanking { run: new.id, task: first, execution, injection: on })
}
