//! What a board is computed from: narrow rows, chosen by the database.

use std::collections::BTreeMap;

use model::{
    DatasetId, ErrorKind, EvaluationId, ExecutionId, ExecutionState, GroupId, InjectionId, Onset, PackState, Problem,
    Result, RunId, SystemCode, Truth, Verdict,
};
use sea_orm::sea_query::{Expr, Func, Query, SelectStatement};
use sea_orm::{
    ColumnTrait, Condition, EntityTrait, ExprTrait, FromQueryResult, PaginatorTrait, QueryFilter, QueryOrder,
    QuerySelect,
};
use serde_json::Value;

use crate::connect::Store;
use crate::convert::{json as parse, seed_from_sql, uuid, word};
use crate::entity;
use crate::execution::Role;
use crate::failure::{Failure, Work};

/// Most datapacks of one board. A larger one has to be asked for in parts: by system or by submission.
pub const MOST_CASES: u64 = 20_000;

/// Which datapacks a board counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BoardFilter {
    /// `simulated` or `cluster`: never both.
    pub origin_kind: String,
    pub system: Option<String>,
    pub group: Option<GroupId>,
    /// Only the datapacks of an evaluation, and only what ran for it.
    pub evaluation: Option<EvaluationId>,
    pub dataset: Option<DatasetId>,
}

/// One submitted injection, as far as a board needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct BoardCase {
    pub injection: InjectionId,
    pub run: RunId,
    pub name: String,
    pub system: SystemCode,
    /// `none` for a control.
    pub fault_name: String,
    pub state: PackState,
    /// The faults as resolved: a JSON list.
    pub faults: Value,
    pub truth: Truth,
    pub seed: u64,
    pub verdict: Option<Verdict>,
    pub exposed: Option<bool>,
    /// A datapack was published.
    pub built: bool,
}

/// The newest ended execution of one method on one datapack as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct BoardExecution {
    pub id: ExecutionId,
    pub injection: InjectionId,
    pub algorithm: String,
    pub version: String,
    pub state: ExecutionState,
    pub onset: Onset,
    pub reason: Option<String>,
    pub duration_s: f64,
    pub peak_memory: Option<u64>,
    pub isolation: Option<String>,
    /// Its answer was uploaded.
    pub remote: bool,
}

#[derive(Debug, FromQueryResult)]
struct CaseRow {
    id: i32,
    run_id: String,
    name: String,
    system_code: String,
    fault_name: String,
    state: i32,
    faults: String,
    truth: String,
    seed: i64,
    verdict: Option<String>,
    exposed: Option<bool>,
    pack_path: Option<String>,
}

#[derive(Debug, FromQueryResult)]
struct ExecutionRow {
    id: i32,
    injection_id: i32,
    algorithm: String,
    algorithm_version: String,
    state: i32,
    onset: String,
    reason: Option<String>,
    duration_s: f64,
    peak_memory: Option<i64>,
    isolation: Option<String>,
    remote: bool,
}

impl Store {
    /// Every injection that the filter names, in the order of their numbers.
    ///
    /// # Errors
    /// `board.too_large` above [`MOST_CASES`].
    pub async fn board_cases(&self, filter: &BoardFilter) -> Result<Vec<BoardCase>> {
        use entity::injection::Column;
        let matching = entity::injection::Entity::find().filter(Column::Id.in_subquery(matching(filter)));
        let number = matching.clone().count(self.reader()).await.map_err(Failure::from)?;
        if number > MOST_CASES {
            return Err(Problem::new(ErrorKind::Invalid, "board.too_large", "the board counts too many datapacks")
                .found(number.to_string())
                .expected(format!("at most {MOST_CASES}"))
                .fix("ask for one system, or for one submission"));
        }
        let columns = [
            Column::Id,
            Column::RunId,
            Column::Name,
            Column::SystemCode,
            Column::FaultName,
            Column::State,
            Column::Faults,
            Column::Truth,
            Column::Seed,
            Column::Verdict,
            Column::Exposed,
            Column::PackPath,
        ];
        let rows = matching
            .select_only()
            .columns(columns)
            .order_by_asc(Column::Id)
            .into_model::<CaseRow>()
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        Ok(rows.into_iter().map(case).collect::<Work<_>>()?)
    }

    /// The newest ended execution of each algorithm on each of those datapacks. One that ran on a datapack that was built
    /// anew since then is not among them.
    pub async fn board_executions(&self, filter: &BoardFilter) -> Result<Vec<BoardExecution>> {
        use entity::execution::Column;
        let columns = [
            Column::Id,
            Column::InjectionId,
            Column::Algorithm,
            Column::AlgorithmVersion,
            Column::State,
            Column::Onset,
            Column::Reason,
            Column::DurationS,
            Column::PeakMemory,
            Column::Isolation,
            Column::Remote,
        ];
        let ended = Condition::all().add(Column::State.ne(ExecutionState::Initial.code()));
        let per_method =
            newest(filter, ended, &[Column::InjectionId, Column::Algorithm, Column::AlgorithmVersion, Column::Onset]);
        let rows = entity::execution::Entity::find()
            .select_only()
            .columns(columns)
            .filter(Column::Id.in_subquery(per_method))
            .order_by_asc(Column::Id)
            .into_model::<ExecutionRow>()
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        let read = |row: ExecutionRow| {
            Ok(BoardExecution {
                id: ExecutionId(row.id),
                injection: InjectionId(row.injection_id),
                algorithm: row.algorithm,
                version: row.algorithm_version,
                state: word("execution state", row.state, ExecutionState::from_code)?,
                onset: word("onset", row.onset.as_str(), Onset::parse)?,
                reason: row.reason,
                duration_s: row.duration_s,
                peak_memory: row.peak_memory.and_then(|bytes| u64::try_from(bytes).ok()),
                isolation: row.isolation,
                remote: row.remote,
            })
        };
        Ok(rows.into_iter().map(read).collect::<Work<_>>()?)
    }

    /// How many services could have been named on each of those datapacks that an algorithm answered on.
    pub async fn board_candidates(&self, filter: &BoardFilter) -> Result<BTreeMap<InjectionId, usize>> {
        use entity::execution::Column;
        let answered = Condition::all()
            .add(Column::State.eq(ExecutionState::Success.code()))
            .add(Column::Candidates.is_not_null());
        let rows: Vec<(i32, String)> = entity::execution::Entity::find()
            .select_only()
            .columns([Column::InjectionId, Column::Candidates])
            .filter(Column::Id.in_subquery(newest(filter, answered, &[Column::InjectionId])))
            .into_tuple()
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        let read = |(injection, text): (i32, String)| {
            let names: Vec<String> = parse("list of candidates", &text)?;
            Ok((InjectionId(injection), names.len()))
        };
        Ok(rows.into_iter().map(read).collect::<Work<_>>()?)
    }
}

/// Numbers of the newest executions that count, one for each combination of `groups`.
fn newest(filter: &BoardFilter, more: Condition, groups: &[entity::execution::Column]) -> SelectStatement {
    use entity::execution::Column;
    let condition =
        more.add(Column::Role.eq(Role::Algorithm.as_str())).add(Column::InjectionId.in_subquery(matching(filter)));
    let condition = match filter.evaluation {
        // What an evaluation has scored stays scored, whatever became of the datapack since.
        Some(evaluation) => condition.add(Column::Id.in_subquery(executions_of(evaluation))),
        None => condition.add(Column::SupersededAt.is_null()).add(Column::Onset.eq(Onset::Known.as_str())),
    };
    Query::select()
        .expr(Func::max(Expr::col(Column::Id)))
        .from(entity::execution::Entity)
        .cond_where(condition)
        .group_by_columns(groups.iter().copied())
        .to_owned()
}

/// Numbers of the injections that the filter names.
fn matching(filter: &BoardFilter) -> SelectStatement {
    use entity::run::Column;
    let condition = Condition::all()
        .add(Column::OriginKind.eq(filter.origin_kind.as_str()))
        .add(Column::InjectionId.is_not_null())
        .add_option(filter.system.as_deref().map(|code| Column::SystemCode.eq(code)))
        .add_option(filter.group.map(|id| Column::GroupId.eq(id.to_string())))
        .add_option(filter.evaluation.map(|id| Column::InjectionId.in_subquery(packs_of(id))))
        .add_option(filter.dataset.map(|id| Column::InjectionId.in_subquery(members_of(id))));
    Query::select().column(Column::InjectionId).from(entity::run::Entity).cond_where(condition).to_owned()
}

fn executions_of(evaluation: EvaluationId) -> SelectStatement {
    use entity::evaluation_item::{Column, Entity};
    let of = Column::EvaluationId.eq(evaluation.0).and(Column::Done.eq(true));
    Query::select().column(Column::ExecutionId).from(Entity).and_where(of).to_owned()
}

fn packs_of(evaluation: EvaluationId) -> SelectStatement {
    use entity::evaluation_pack::{Column, Entity};
    Query::select().column(Column::InjectionId).from(Entity).and_where(Column::EvaluationId.eq(evaluation.0)).to_owned()
}

fn members_of(dataset: DatasetId) -> SelectStatement {
    use entity::dataset_member::{Column, Entity};
    Query::select().column(Column::InjectionId).from(Entity).and_where(Column::DatasetId.eq(dataset.0)).to_owned()
}

fn case(row: CaseRow) -> Work<BoardCase> {
    Ok(BoardCase {
        injection: InjectionId(row.id),
        run: RunId(uuid(&row.run_id)?),
        name: row.name,
        system: SystemCode::parse(&row.system_code)?,
        fault_name: row.fault_name,
        state: word("datapack state", row.state, PackState::from_code)?,
        faults: parse("list of faults", &row.faults)?,
        truth: parse("ground truth", &row.truth)?,
        seed: seed_from_sql(row.seed),
        verdict: row.verdict.as_deref().map(|text| word("verdict", text, Verdict::parse)).transpose()?,
        exposed: row.exposed,
        built: row.pack_path.is_some(),
    })
}
