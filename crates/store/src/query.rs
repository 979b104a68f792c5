//! Lists: a page of what matches a filter, with the number of all that do.

use model::{
    EvaluationId, ExecutionState, GroupId, InjectionId, PackState, ProjectId, Result, RunId, RunState, TaskKind,
    TaskState,
};
use sea_orm::sea_query::{Expr, SimpleExpr};
use sea_orm::{ColumnTrait, Condition, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect, Select};

use crate::connect::Store;
use crate::convert::to_json;
use crate::entity;
use crate::execution::{Execution, Role};
use crate::failure::{Failure, Work};
use crate::injection::Injection;
use crate::run::Run;
use crate::task::Task;

/// Which part of a list is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// From 1.
    pub number: u32,
    /// Rows of a page.
    pub size: u32,
}

impl Page {
    /// Everything at once: for what is bounded by its filter.
    pub const ALL: Self = Self { number: 1, size: u32::MAX };

    pub const fn new(number: u32, size: u32) -> Self {
        Self { number, size }
    }

    pub(crate) fn offset(self) -> u64 {
        u64::from(self.number.saturating_sub(1)) * u64::from(self.size)
    }
}

/// One page.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed<T> {
    pub items: Vec<T>,
    /// Number of all rows that match.
    pub total: u64,
}

/// Which runs are wanted; all when empty. Newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    pub state: Option<RunState>,
    pub system: Option<String>,
    pub project: Option<ProjectId>,
    pub group: Option<GroupId>,
    pub control_of: Option<RunId>,
}

/// Which tasks are wanted; all when empty. Newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskFilter {
    pub state: Option<TaskState>,
    pub kind: Option<TaskKind>,
    pub run: Option<RunId>,
}

/// Which injections are wanted; all when empty. Newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InjectionFilter {
    pub state: Option<PackState>,
    pub system: Option<String>,
    pub fault_type: Option<i32>,
    pub project: Option<ProjectId>,
    pub group: Option<GroupId>,
    pub run: Option<RunId>,
    /// A part of the name; upper and lower case differ.
    pub name_part: Option<String>,
    /// One of these; any when empty.
    pub names: Vec<String>,
    /// One of these; any when empty.
    pub states: Vec<PackState>,
    /// All of these keys with these values.
    pub labels: Vec<(String, String)>,
}

/// Which executions are wanted; all when empty. Newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecutionFilter {
    pub state: Option<ExecutionState>,
    pub role: Option<Role>,
    pub algorithm: Option<String>,
    pub injection: Option<InjectionId>,
    pub run: Option<RunId>,
    pub project: Option<ProjectId>,
    pub group: Option<GroupId>,
    pub evaluation: Option<EvaluationId>,
}

impl Store {
    pub async fn runs(&self, filter: &RunFilter, page: Page) -> Result<Listed<Run>> {
        use entity::run::Column;
        let condition = Condition::all()
            .add_option(filter.state.map(|state| Column::State.eq(state.code())))
            .add_option(filter.system.as_deref().map(|code| Column::SystemCode.eq(code)))
            .add_option(filter.project.map(|id| Column::ProjectId.eq(id.0)))
            .add_option(filter.group.map(|id| Column::GroupId.eq(id.to_string())))
            .add_option(filter.control_of.map(|id| Column::ControlOf.eq(id.to_string())));
        let select = entity::run::Entity::find().filter(condition);
        let ordered = |select: Select<_>| select.order_by_desc(Column::CreatedAt).order_by_desc(Column::Id);
        self.list(select, ordered, page, Run::read).await
    }

    pub async fn tasks(&self, filter: &TaskFilter, page: Page) -> Result<Listed<Task>> {
        use entity::task::Column;
        let condition = Condition::all()
            .add_option(filter.state.map(|state| Column::State.eq(state.code())))
            .add_option(filter.kind.map(|kind| Column::Kind.eq(kind.code())))
            .add_option(filter.run.map(|id| Column::RunId.eq(id.to_string())));
        let select = entity::task::Entity::find().filter(condition);
        let ordered = |select: Select<_>| {
            select.order_by_desc(Column::CreatedAt).order_by_desc(Column::RunId).order_by_desc(Column::Step)
        };
        self.list(select, ordered, page, Task::read).await
    }

    pub async fn injections(&self, filter: &InjectionFilter, page: Page) -> Result<Listed<Injection>> {
        use entity::injection::Column;
        let condition = Condition::all()
            .add_option(filter.state.map(|state| Column::State.eq(state.code())))
            .add_option(filter.system.as_deref().map(|code| Column::SystemCode.eq(code)))
            .add_option(filter.fault_type.map(|number| Column::FaultType.eq(number)))
            .add_option(filter.run.map(|id| Column::RunId.eq(id.to_string())))
            .add_option(filter.project.map(|id| Column::RunId.in_subquery(runs_in(id))))
            .add_option(filter.group.map(|id| Column::RunId.in_subquery(runs_of(id))))
            .add_option(filter.name_part.as_deref().map(|part| holds("name", part)))
            .add_option((!filter.names.is_empty()).then(|| Column::Name.is_in(&filter.names)))
            .add_option(
                (!filter.states.is_empty()).then(|| Column::State.is_in(filter.states.iter().map(|s| s.code()))),
            );
        // Labels are stored as one JSON object of text without spaces.
        let pair = |(key, value): &(String, String)| format!("{}:{}", to_json(key), to_json(value));
        let condition = filter.labels.iter().map(pair).fold(condition, |all, pair| all.add(holds("labels", &pair)));
        let select = entity::injection::Entity::find().filter(condition);
        self.list(select, |select| select.order_by_desc(Column::Id), page, Injection::read).await
    }

    pub async fn executions(&self, filter: &ExecutionFilter, page: Page) -> Result<Listed<Execution>> {
        use entity::execution::Column;
        let condition = Condition::all()
            .add_option(filter.state.map(|state| Column::State.eq(state.code())))
            .add_option(filter.role.map(|role| Column::Role.eq(role.as_str())))
            .add_option(filter.algorithm.as_deref().map(|name| Column::Algorithm.eq(name)))
            .add_option(filter.injection.map(|id| Column::InjectionId.eq(id.0)))
            .add_option(filter.run.map(|id| Column::RunId.eq(id.to_string())))
            .add_option(filter.project.map(|id| Column::RunId.in_subquery(runs_in(id))))
            .add_option(filter.evaluation.map(|id| Column::EvaluationId.eq(id.0)))
            .add_option(filter.group.map(|id| Column::RunId.in_subquery(runs_of(id))));
        let select = entity::execution::Entity::find().filter(condition);
        self.list(select, |select| select.order_by_desc(Column::Id), page, Execution::read).await
    }

    /// Number of runs in each state.
    pub async fn run_counts(&self) -> Result<Vec<(RunState, u64)>> {
        use entity::run::Column;
        let mut counts = Vec::with_capacity(RunState::ALL.len());
        for &state in RunState::ALL {
            let of_state = entity::run::Entity::find().filter(Column::State.eq(state.code()));
            counts.push((state, of_state.count(self.reader()).await.map_err(Failure::from)?));
        }
        Ok(counts)
    }

    async fn list<E, T>(
        &self,
        select: Select<E>,
        ordered: impl FnOnce(Select<E>) -> Select<E>,
        page: Page,
        read: fn(E::Model) -> Work<T>,
    ) -> Result<Listed<T>>
    where
        E: EntityTrait,
        E::Model: sea_orm::FromQueryResult + Sized + Send + Sync,
    {
        let total = select.clone().count(self.reader()).await.map_err(Failure::from)?;
        let rows = ordered(select)
            .offset(page.offset())
            .limit(u64::from(page.size))
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        Ok(Listed { items: rows.into_iter().map(read).collect::<Work<_>>()?, total })
    }
}

fn runs_of(group: GroupId) -> sea_orm::sea_query::SelectStatement {
    use entity::run::Column;
    sea_orm::sea_query::Query::select()
        .column(Column::Id)
        .from(entity::run::Entity)
        .and_where(Column::GroupId.eq(group.to_string()))
        .to_owned()
}

fn runs_in(project: ProjectId) -> sea_orm::sea_query::SelectStatement {
    use entity::run::Column;
    sea_orm::sea_query::Query::select()
        .column(Column::Id)
        .from(entity::run::Entity)
        .and_where(Column::ProjectId.eq(project.0))
        .to_owned()
}

/// The column's text holds this part: `LIKE` would read some characters of it as wildcards.
fn holds(column: &'static str, part: &str) -> SimpleExpr {
    Expr::cust_with_values(format!("INSTR({column}, ?) > 0"), [part])
}

/// Names that start with `prefix`, by their order: `LIKE` would ignore case on one back end and read `_` as a wildcard.
pub(crate) fn starting(name: impl ColumnTrait, prefix: &str) -> Condition {
    let Some(last) = prefix.chars().last() else { return Condition::all() };
    let next = char::from_u32(u32::from(last) + 1).unwrap_or(char::MAX);
    let end = format!("{}{next}", &prefix[..prefix.len() - last.len_utf8()]);
    Condition::all().add(name.gte(prefix)).add(name.lt(end))
}
