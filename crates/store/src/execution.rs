//! Executions of algorithms and of the detector, with what they answered.

use std::collections::BTreeMap;

use model::{
    Answer, ErrorKind, EvaluationId, ExecutionId, ExecutionState, InjectionId, Level, Onset, Problem, Result, RunId,
    TaskId, WallTime,
};
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveValue, ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder, QuerySelect,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::connect::Store;
use crate::convert::{fit, json as parse, optional_json, seed_from_sql, seed_to_sql, to_json, uuid, word};
use crate::entity::{self, execution::Column};
use crate::event::NewEvent;
use crate::failure::{Failure, Work, corrupt, lost};
use crate::missing::not_found;
use crate::outcome::held;
use crate::run::Locked;
use crate::task::{Claim, TaskError};

/// What kind of method ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Detector,
    Algorithm,
}

impl Role {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Detector => "detector",
            Self::Algorithm => "algorithm",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Detector, Self::Algorithm].into_iter().find(|role| role.as_str() == text)
    }
}

/// One run of one method on one datapack.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    pub id: ExecutionId,
    pub algorithm: String,
    pub version: String,
    pub role: Role,
    pub injection: InjectionId,
    pub run: RunId,
    /// The step of its run; absent when an evaluation ran it.
    pub task: Option<TaskId>,
    pub evaluation: Option<EvaluationId>,
    pub state: ExecutionState,
    /// Seconds that its process took.
    pub duration_s: f64,
    /// Largest resident memory, bytes, where it was measured.
    pub peak_memory: Option<u64>,
    /// Of a command: how it was kept apart from the rest of the machine.
    pub isolation: Option<String>,
    /// What it was told of the fault's start.
    pub onset: Onset,
    pub seed: u64,
    /// Its method runs elsewhere: the answer is uploaded.
    pub remote: bool,
    /// A JSON object of text.
    pub labels: Value,
    /// What it could choose from, the same for every method of the datapack; absent when nobody told.
    pub candidates: Option<Vec<String>>,
    /// Stable code of a failure.
    pub reason: Option<String>,
    pub message: Option<String>,
    pub created_at: WallTime,
    pub updated_at: WallTime,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewExecution {
    pub algorithm: String,
    pub version: String,
    pub role: Role,
    pub injection: InjectionId,
    pub seed: u64,
    /// Its method runs elsewhere: the answer is uploaded.
    pub remote: bool,
}

/// How an execution ended.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutionResult {
    pub duration_s: f64,
    /// Largest resident memory, bytes, where it was measured.
    pub peak_memory: Option<u64>,
    /// Of a command: how it was kept apart from the rest of the machine.
    pub isolation: Option<String>,
    /// Empty when nobody told.
    pub candidates: Vec<String>,
    pub outcome: std::result::Result<Findings, TaskError>,
}

/// What a method found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// Ranked suspects, of all levels.
    pub answers: Vec<Answer>,
    /// Of the detector: one row per entrance.
    pub detector: Vec<DetectorRow>,
}

/// What the detector saw at one entrance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DetectorRow {
    pub span_name: String,
    /// The issues found: a JSON object, empty when there is none.
    pub issues: Value,
    /// Durations in seconds and rates from 0 to 1 by name (`abnormal_p99`, `normal_succ_rate`, ...); absent where there was
    /// no sample.
    pub figures: BTreeMap<String, Option<f64>>,
}

impl Execution {
    pub(crate) fn read(row: entity::execution::Model) -> Work<Self> {
        Ok(Self {
            id: ExecutionId(row.id),
            algorithm: row.algorithm,
            version: row.algorithm_version,
            role: word("role", row.role.as_str(), Role::parse)?,
            injection: InjectionId(row.injection_id),
            run: RunId(uuid(&row.run_id)?),
            task: row.task_id.as_deref().map(uuid).transpose()?.map(TaskId),
            evaluation: row.evaluation_id.map(EvaluationId),
            state: word("execution state", row.state, ExecutionState::from_code)?,
            duration_s: row.duration_s,
            peak_memory: row.peak_memory.and_then(|bytes| u64::try_from(bytes).ok()),
            isolation: row.isolation,
            onset: word("onset", row.onset.as_str(), Onset::parse)?,
            seed: seed_from_sql(row.seed),
            remote: row.remote,
            labels: optional_json("labels", row.labels.as_deref())?.unwrap_or_else(|| json!({})),
            candidates: optional_json("list of candidates", row.candidates.as_deref())?,
            reason: row.reason,
            message: row.message,
            created_at: WallTime(row.created_at),
            updated_at: WallTime(row.updated_at),
        })
    }
}

impl Store {
    /// Notes that a task starts its method. A task has one execution: a repeated start finds it, and one that failed
    /// becomes `Initial` again.
    ///
    /// # Errors
    /// `fence.stale`; `execution.already_ended` when it succeeded.
    pub async fn start_execution(&self, claim: &Claim, new: &NewExecution) -> Result<ExecutionId> {
        self.write(|tx, _| {
            Box::pin(async move {
                let (mut run, _) = held(tx, claim).await?;
                let id = match by_task(tx, claim.task).await? {
                    Some(row) => reopen(&run, row).await?,
                    None => insert(&run, claim.task, new, None).await?,
                };
                let words = format!("{} {} starts", new.algorithm, new.version);
                let payload = json!({"execution_id": id, "algorithm": new.algorithm, "version": new.version});
                run.tell(
                    Some((claim.task, claim.kind)),
                    NewEvent::new("algorithm.run.started", words).payload(payload),
                );
                run.write().await?;
                Ok(id)
            })
        })
        .await
    }

    /// One execution.
    ///
    /// # Errors
    /// `execution.unknown`.
    pub async fn execution(&self, id: ExecutionId) -> Result<Execution> {
        let row = entity::execution::Entity::find_by_id(id.0).one(self.reader()).await.map_err(Failure::from)?;
        Ok(Execution::read(row.ok_or_else(|| not_found("execution.unknown", "execution", id))?)?)
    }

    /// The execution of a task, if it has one.
    pub async fn execution_of(&self, task: TaskId) -> Result<Option<Execution>> {
        let found = entity::execution::Entity::find().filter(Column::TaskId.eq(task.to_string())).one(self.reader());
        Ok(found.await.map_err(Failure::from)?.map(Execution::read).transpose()?)
    }

    /// The answers of several executions, each in the order given by its method.
    pub async fn answers(&self, executions: &[ExecutionId]) -> Result<BTreeMap<ExecutionId, Vec<Answer>>> {
        use entity::answer::Column;
        let mut answers: BTreeMap<ExecutionId, Vec<Answer>> = BTreeMap::new();
        for part in executions.chunks(500) {
            let rows = entity::answer::Entity::find()
                .filter(Column::ExecutionId.is_in(part.iter().map(|id| id.0)))
                .order_by_asc(Column::ExecutionId)
                .order_by_asc(Column::Line)
                .all(self.reader())
                .await
                .map_err(Failure::from)?;
            for row in rows {
                answers.entry(ExecutionId(row.execution_id)).or_default().push(read_answer(row)?);
            }
        }
        Ok(answers)
    }

    /// What the detector saw, one row per entrance.
    pub async fn detector_rows(&self, execution: ExecutionId) -> Result<Vec<DetectorRow>> {
        use entity::detector_row::Column;
        let rows = entity::detector_row::Entity::find()
            .filter(Column::ExecutionId.eq(execution.0))
            .order_by_asc(Column::Line)
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        let read = |row: entity::detector_row::Model| {
            let issues = parse("detector's issues", &row.issues)?;
            Ok(DetectorRow { span_name: row.span_name, issues, figures: parse("detector's figures", &row.figures)? })
        };
        Ok(rows.into_iter().map(read).collect::<Work<_>>()?)
    }
}

fn read_answer(row: entity::answer::Model) -> Work<Answer> {
    let level: Level =
        serde_json::from_value(Value::String(row.level.clone())).map_err(|_| corrupt("level", row.level))?;
    let rank = u32::try_from(row.position).map_err(|_| corrupt("rank", row.position))?;
    Ok(Answer { level, name: row.name, rank, score: row.score })
}

async fn by_task(tx: &DatabaseTransaction, task: TaskId) -> Work<Option<entity::execution::Model>> {
    let found = entity::execution::Entity::find().filter(Column::TaskId.eq(task.to_string())).lock_exclusive();
    Ok(found.one(tx).await?)
}

pub(crate) async fn insert(
    run: &Locked<'_>,
    task: TaskId,
    new: &NewExecution,
    labels: Option<&Value>,
) -> Work<ExecutionId> {
    let place = Place { run: &run.row.id, task: Some(task), evaluation: None, onset: Onset::Known };
    insert_row(run.tx, &place, new, labels).await
}

/// What an execution belongs to.
pub(crate) struct Place<'a> {
    pub run: &'a str,
    pub task: Option<TaskId>,
    pub evaluation: Option<EvaluationId>,
    pub onset: Onset,
}

/// Stores an execution that has not ended.
pub(crate) async fn insert_row(
    tx: &DatabaseTransaction,
    place: &Place<'_>,
    new: &NewExecution,
    labels: Option<&Value>,
) -> Work<ExecutionId> {
    let now = WallTime::now().0;
    let row = entity::execution::Model {
        id: 0,
        algorithm: new.algorithm.clone(),
        algorithm_version: new.version.clone(),
        role: new.role.as_str().to_owned(),
        injection_id: new.injection.0,
        run_id: place.run.to_owned(),
        task_id: place.task.map(|task| task.to_string()),
        state: ExecutionState::Initial.code(),
        duration_s: 0.0,
        seed: seed_to_sql(new.seed),
        candidates: None,
        reason: None,
        message: None,
        created_at: now,
        updated_at: now,
        superseded_at: None,
        remote: new.remote,
        labels: labels.map(to_json),
        evaluation_id: place.evaluation.map(|id| id.0),
        peak_memory: None,
        isolation: None,
        onset: place.onset.as_str().to_owned(),
    };
    let mut row = row.into_active_model();
    row.id = ActiveValue::NotSet;
    Ok(ExecutionId(entity::execution::Entity::insert(row).exec(tx).await?.last_insert_id))
}

async fn reopen(run: &Locked<'_>, row: entity::execution::Model) -> Work<ExecutionId> {
    let from = word("execution state", row.state, ExecutionState::from_code)?;
    match from {
        ExecutionState::Initial => return Ok(ExecutionId(row.id)),
        ExecutionState::Success => return Err(already_ended(&row).into()),
        ExecutionState::Failed => {}
    }
    let to = from.change(ExecutionState::Initial)?;
    let none = || Expr::value(Option::<String>::None);
    let changed = entity::execution::Entity::update_many()
        .col_expr(Column::State, Expr::value(to.code()))
        .col_expr(Column::Reason, none())
        .col_expr(Column::Message, none())
        .col_expr(Column::SupersededAt, Expr::value(Option::<i64>::None))
        .col_expr(Column::UpdatedAt, Expr::value(run.now.0))
        .filter(Column::Id.eq(row.id))
        .filter(Column::State.eq(row.state))
        .exec(run.tx)
        .await?;
    if changed.rows_affected == 1 { Ok(ExecutionId(row.id)) } else { Err(lost("execution")) }
}

pub(crate) fn already_ended(row: &entity::execution::Model) -> Problem {
    Problem::new(ErrorKind::Conflict, "execution.already_ended", "the execution has its result already")
        .found(format!("execution {} of {}", row.id, row.algorithm))
}

/// Marks the executions on the datapack of a run, whoever started them, since it is to be built anew: they answered for the
/// old one.
pub(crate) async fn supersede(run: &Locked<'_>) -> Work<()> {
    entity::execution::Entity::update_many()
        .col_expr(Column::SupersededAt, Expr::value(run.now.0))
        .filter(Column::InjectionId.eq(run.row.injection_id))
        .filter(Column::SupersededAt.is_null())
        .exec(run.tx)
        .await?;
    Ok(())
}

/// Stores how the execution of `task` ended, once.
pub(crate) async fn end(run: &Locked<'_>, task: TaskId, result: &ExecutionResult) -> Work<()> {
    let row = by_task(run.tx, task).await?;
    let row = row.ok_or_else(|| not_found("execution.unknown", "execution of the task", task))?;
    end_row(run.tx, &row, result).await
}

/// Stores how an execution ended, once.
pub(crate) async fn end_row(
    tx: &DatabaseTransaction,
    row: &entity::execution::Model,
    result: &ExecutionResult,
) -> Work<()> {
    let from = word("execution state", row.state, ExecutionState::from_code)?;
    if from != ExecutionState::Initial {
        return Err(already_ended(row).into());
    }
    let to = from.change(if result.outcome.is_ok() { ExecutionState::Success } else { ExecutionState::Failed })?;
    let error = result.outcome.as_ref().err();
    let candidates = (!result.candidates.is_empty()).then(|| to_json(&result.candidates));
    let peak = result.peak_memory.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    let changed = entity::execution::Entity::update_many()
        .col_expr(Column::State, Expr::value(to.code()))
        .col_expr(Column::DurationS, Expr::value(result.duration_s))
        .col_expr(Column::PeakMemory, Expr::value(peak))
        .col_expr(Column::Isolation, Expr::value(result.isolation.clone()))
        .col_expr(Column::Candidates, Expr::value(candidates))
        .col_expr(Column::Reason, Expr::value(error.map(|error| fit(&error.code, 128))))
        .col_expr(Column::Message, Expr::value(error.map(|error| fit(&error.to_string(), 8000))))
        .col_expr(Column::UpdatedAt, Expr::value(WallTime::now().0))
        .filter(Column::Id.eq(row.id))
        .filter(Column::State.eq(row.state))
        .exec(tx)
        .await?;
    if changed.rows_affected != 1 {
        return Err(lost("execution"));
    }
    match &result.outcome {
        Ok(findings) => insert_findings(tx, row.id, findings).await,
        Err(_) => Ok(()),
    }
}

/// Rows are written in parts: back ends bound the number of values in one statement.
const PART: usize = 200;

async fn insert_findings(tx: &DatabaseTransaction, execution: i32, findings: &Findings) -> Work<()> {
    for (part, first) in findings.answers.chunks(PART).zip((0..).step_by(PART)) {
        let rows = part.iter().zip(first..).map(|(answer, line)| {
            let level = serde_json::to_value(answer.level).expect("a level is a word");
            entity::answer::Model {
                execution_id: execution,
                line,
                level: level.as_str().expect("a level is a word").to_owned(),
                name: fit(&answer.name, 1024),
                position: i32::try_from(answer.rank).unwrap_or(i32::MAX),
                score: answer.score.filter(|score| score.is_finite()),
            }
            .into_active_model()
        });
        entity::answer::Entity::insert_many(rows).exec_without_returning(tx).await?;
    }
    for (part, first) in findings.detector.chunks(PART).zip((0..).step_by(PART)) {
        let rows = part.iter().zip(first..).map(|(row, line)| {
            entity::detector_row::Model {
                execution_id: execution,
                line,
                span_name: fit(&row.span_name, 1024),
                issues: to_json(&row.issues),
                figures: to_json(&row.figures),
            }
            .into_active_model()
        });
        entity::detector_row::Entity::insert_many(rows).exec_without_returning(tx).await?;
    }
    Ok(())
}
