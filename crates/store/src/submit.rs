//! Submitting runs: the group, its runs, their injections and first tasks, and the idempotency key, in one transaction.

use model::{
    ErrorKind, GroupId, InjectionId, Problem, ProjectId, Result, RunId, RunState, SystemCode, TaskId, WallTime,
};
use sea_orm::{DatabaseTransaction, EntityTrait, IntoActiveModel, QuerySelect};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::connect::Store;
use crate::convert::{fit, json as parse, seed_to_sql, to_json};
use crate::entity;
use crate::event::NewEvent;
use crate::failure::{Work, is_duplicate};
use crate::injection::{self, NewInjection};
use crate::run::Locked;
use crate::task::{self, NewTask};

/// The runs of one submission.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    pub group: GroupId,
    pub project: ProjectId,
    pub runs: Vec<NewRun>,
    pub key: Option<IdempotencyKey>,
}

/// Makes a repeated call give the first one's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// `scope/key`, at most 190 characters; the caller knows the part after the scope only.
    pub key: String,
    /// SHA-256, in hexadecimal, of the request that the key stands for.
    pub fingerprint: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewRun {
    pub id: RunId,
    pub system: SystemCode,
    /// JSON with its own format version.
    pub spec: String,
    pub seed: u64,
    pub control_of: Option<RunId>,
    /// Kind of the cluster: `simulated` or `cluster`.
    pub origin_kind: String,
    pub injection: NewInjection,
    pub first: NewTask,
}

/// What a submission stored, or had stored when its key was used before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submitted {
    pub group: GroupId,
    pub runs: Vec<SubmittedRun>,
    /// The key was used before: these are the runs of then, and nothing was stored.
    #[serde(skip)]
    pub deduplicated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmittedRun {
    pub run: RunId,
    pub task: TaskId,
    pub injection: InjectionId,
    pub injection_name: String,
    pub seed: u64,
    pub control_of: Option<RunId>,
}

impl Store {
    /// Stores a submission, or nothing of it.
    ///
    /// # Errors
    /// `idempotency.key_reused` when the key stands for another request.
    pub async fn submit(&self, submission: &Submission) -> Result<Submitted> {
        let stored = self.write(|tx, _| Box::pin(async move { store(tx, submission).await })).await;
        match stored {
            // Another process used the same key at the same time and was first: its answer is there now.
            Err(problem) if problem.code == RACED => {
                self.write(|tx, _| Box::pin(async move { store(tx, submission).await })).await
            }
            other => other,
        }
    }
}

impl Store {
    /// What an earlier submission with this key stored, if there was one.
    ///
    /// # Errors
    /// `idempotency.key_reused` when the key stands for another request.
    pub async fn submitted(&self, key: &IdempotencyKey) -> Result<Option<Submitted>> {
        let earlier = self.write(|tx, _| Box::pin(async move { earlier::<Submitted>(tx, Some(key)).await })).await?;
        Ok(earlier.map(|earlier| Submitted { deduplicated: true, ..earlier }))
    }
}

const RACED: &str = "idempotency.raced";

async fn store(tx: &DatabaseTransaction, submission: &Submission) -> Work<Submitted> {
    if let Some(mut earlier) = earlier::<Submitted>(tx, submission.key.as_ref()).await? {
        earlier.deduplicated = true;
        return Ok(earlier);
    }
    insert_group(tx, submission.group, submission.project).await?;
    let mut runs = Vec::with_capacity(submission.runs.len());
    for index in drawn_order(&submission.runs) {
        runs.push((index, insert_run(tx, submission, &submission.runs[index]).await?));
    }
    runs.sort_by_key(|(index, _)| *index);
    let runs = runs.into_iter().map(|(_, run)| run).collect();
    let submitted = Submitted { group: submission.group, runs, deduplicated: false };
    remember(tx, submission.key.as_ref(), &submitted).await?;
    Ok(submitted)
}

/// The order in which runs get their numbers: as submitted, but of a run and its control the one with the lower id first. Ids are
/// random. A number is in the name of a datapack, where "the control is the second" would give the control away.
fn drawn_order(runs: &[NewRun]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..runs.len()).collect();
    for (first, pair) in runs.windows(2).enumerate() {
        if pair[1].control_of == Some(pair[0].id) && pair[1].id < pair[0].id {
            order.swap(first, first + 1);
        }
    }
    order
}

/// The group of a submission's runs.
pub(crate) async fn insert_group(tx: &DatabaseTransaction, group: GroupId, project: ProjectId) -> Work<()> {
    let row = entity::run_group::Model { id: group.to_string(), project_id: project.0, created_at: WallTime::now().0 };
    entity::run_group::Entity::insert(row.into_active_model()).exec_without_returning(tx).await?;
    Ok(())
}

async fn insert_run(tx: &DatabaseTransaction, submission: &Submission, new: &NewRun) -> Work<SubmittedRun> {
    let now = WallTime::now().0;
    let row = entity::run::Model {
        id: new.id.to_string(),
        group_id: submission.group.to_string(),
        project_id: submission.project.0,
        system_code: new.system.as_str().to_owned(),
        state: RunState::Pending.code(),
        verdict: None,
        reason: None,
        message: None,
        namespace: None,
        slot: None,
        spec: new.spec.clone(),
        fault_type: fit(&new.injection.fault_name, 512),
        services: fit(&new.injection.services, 512),
        seed: seed_to_sql(new.seed),
        control_of: new.control_of.map(|id| id.to_string()),
        origin_kind: new.origin_kind.clone(),
        injection_id: None,
        injection_name: None,
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
        ranks_only: false,
    };
    entity::run::Entity::insert(row.into_active_model()).exec_without_returning(tx).await?;
    let mut run = Locked::take(tx, new.id).await?;
    let (injection, name) = injection::insert(&run, &new.injection).await?;
    set_injection(&run, injection, &name).await?;
    task::insert(&run, None, std::slice::from_ref(&new.first)).await?;
    let first = task::id_at(new.id, 0);
    let payload = json!({"task_id": first, "execute_time": new.first.due_at.unwrap_or(run.now).seconds()});
    let event = NewEvent::new("task.scheduled", format!("{} is scheduled", new.first.kind)).payload(payload);
    run.tell(Some((first, new.first.kind)), event);
    run.write().await?;
    Ok(SubmittedRun {
        run: new.id,
        task: first,
        injection,
        injection_name: name,
        seed: new.seed,
        control_of: new.control_of,
    })
}

async fn set_injection(run: &Locked<'_>, id: InjectionId, name: &str) -> Work<()> {
    use sea_orm::sea_query::Expr;
    use sea_orm::{ColumnTrait, QueryFilter};
    entity::run::Entity::update_many()
        .col_expr(entity::run::Column::InjectionId, Expr::value(id.0))
        .col_expr(entity::run::Column::InjectionName, Expr::value(name))
        .filter(entity::run::Column::Id.eq(run.row.id.as_str()))
        .exec(run.tx)
        .await?;
    Ok(())
}

/// The answer that was given to the key before.
pub(crate) async fn earlier<T: DeserializeOwned>(
    tx: &DatabaseTransaction,
    key: Option<&IdempotencyKey>,
) -> Work<Option<T>> {
    let Some(key) = key else { return Ok(None) };
    let row = entity::idempotency_key::Entity::find_by_id(key.key.as_str()).lock_exclusive().one(tx).await?;
    let Some(row) = row else { return Ok(None) };
    if row.fingerprint != key.fingerprint {
        return Err(Problem::new(
            ErrorKind::Conflict,
            "idempotency.key_reused",
            "the idempotency key was used for another request",
        )
        .found(format!("`{}`", key.key.split_once('/').map_or(key.key.as_str(), |(_, own)| own)))
        .fix("use a new key for a new request")
        .into());
    }
    Ok(Some(parse("answer of an idempotency key", &row.response)?))
}

/// Stores the answer that the key gives from now on.
pub(crate) async fn remember(
    tx: &DatabaseTransaction,
    key: Option<&IdempotencyKey>,
    answer: &impl Serialize,
) -> Work<()> {
    let Some(key) = key else { return Ok(()) };
    let row = entity::idempotency_key::Model {
        name: key.key.clone(),
        fingerprint: key.fingerprint.clone(),
        response: to_json(answer),
        created_at: WallTime::now().0,
    };
    match entity::idempotency_key::Entity::insert(row.into_active_model()).exec_without_returning(tx).await {
        Ok(_) => Ok(()),
        Err(error) if is_duplicate(&error) => {
            Err(Problem::new(ErrorKind::Conflict, RACED, "the same call runs at the same time").into())
        }
        Err(error) => Err(error.into()),
    }
}
