//! Injections and the datapacks that they lead to: one row for both.

use std::cmp::Ordering;

use model::{
    DataTime, ErrorKind, InjectionId, PackState, Problem, Result, RunId, SystemCode, Truth, Verdict, WallTime, Windows,
};
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveValue, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter, QuerySelect};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::connect::Store;
use crate::convert::{data, fit, json, optional_json, seed_from_sql, to_json, uuid, word};
use crate::entity::{self, injection::Column};
use crate::failure::{Failure, Work, corrupt, lost};
use crate::missing::not_found;
use crate::run::Locked;

/// One injection, its sealed part included.
#[derive(Debug, Clone, PartialEq)]
pub struct Injection {
    pub id: InjectionId,
    /// Neutral: the system's code and a number.
    pub name: String,
    pub run: RunId,
    pub system: SystemCode,
    pub namespace: Option<String>,
    /// Number of the capability; -1 for several, -2 for none.
    pub fault_type: i32,
    /// Name of the capability, several joined by `+`, `none` for a control.
    pub fault_name: String,
    pub services: String,
    pub state: PackState,
    /// The faults as resolved: a JSON list.
    pub faults: Value,
    pub truth: Truth,
    /// What was asked for: a JSON object.
    pub display_config: Value,
    /// A JSON object of text.
    pub labels: Value,
    /// Length of the normal window in minutes, rounded up.
    pub pre_duration: i32,
    pub seed: u64,
    /// Where data time starts.
    pub origin: DataTime,
    /// Absent until the fault's step has fixed them.
    pub windows: Option<Windows>,
    pub verdict: Option<Verdict>,
    /// Whether the target felt the fault.
    pub exposed: Option<bool>,
    /// Whether the telemetry moved: a column, never a filter.
    pub visible: Option<bool>,
    pub witness: Option<Value>,
    pub recovery: Option<Value>,
    /// Fixed before any algorithm runs.
    pub difficulty: Option<Value>,
    /// Folder of the published datapack, relative to the data folder.
    pub pack_path: Option<String>,
    /// SHA-256 of the content part of its manifest.
    pub pack_digest: Option<String>,
    pub created_at: WallTime,
    pub updated_at: WallTime,
}

/// An injection as submitted.
#[derive(Debug, Clone, PartialEq)]
pub struct NewInjection {
    pub fault_type: i32,
    pub fault_name: String,
    pub services: String,
    pub faults: Value,
    pub truth: Truth,
    pub display_config: Value,
    pub labels: Value,
    pub pre_duration: i32,
    pub origin: DataTime,
}

/// What changes; the rest stays. Empty by default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InjectionChange {
    /// Checked against the state machine; the same state again is no change.
    pub state: Option<PackState>,
    pub windows: Option<Windows>,
    pub truth: Option<Truth>,
    pub verdict: Option<Verdict>,
    pub exposed: Option<bool>,
    pub visible: Option<bool>,
    pub witness: Option<Value>,
    pub recovery: Option<Value>,
    pub difficulty: Option<Value>,
    pub pack: Option<Pack>,
}

/// Where a published datapack is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pack {
    pub path: String,
    pub digest: String,
}

impl Injection {
    pub(crate) fn read(row: entity::injection::Model) -> Work<Self> {
        let windows = windows(&row)?;
        Ok(Self {
            id: InjectionId(row.id),
            name: row.name,
            run: RunId(uuid(&row.run_id)?),
            system: SystemCode::parse(&row.system_code)?,
            namespace: row.namespace,
            fault_type: row.fault_type,
            fault_name: row.fault_name,
            services: row.services,
            state: word("datapack state", row.state, PackState::from_code)?,
            faults: json("list of faults", &row.faults)?,
            truth: json("ground truth", &row.truth)?,
            display_config: json("display configuration", &row.display_config)?,
            labels: json("labels", &row.labels)?,
            pre_duration: row.pre_duration,
            seed: seed_from_sql(row.seed),
            origin: DataTime(row.origin_ns),
            windows,
            verdict: row.verdict.as_deref().map(|text| word("verdict", text, Verdict::parse)).transpose()?,
            exposed: row.exposed,
            visible: row.visible,
            witness: optional_json("witness", row.witness.as_deref())?,
            recovery: optional_json("recovery receipt", row.recovery.as_deref())?,
            difficulty: optional_json("difficulty", row.difficulty.as_deref())?,
            pack_path: row.pack_path,
            pack_digest: row.pack_digest,
            created_at: WallTime(row.created_at),
            updated_at: WallTime(row.updated_at),
        })
    }
}

fn windows(row: &entity::injection::Model) -> Work<Option<Windows>> {
    match (data(row.normal_start_ns), data(row.abnormal_start_ns), data(row.abnormal_end_ns)) {
        (None, None, None) => Ok(None),
        (Some(normal_start), Some(abnormal_start), Some(abnormal_end)) => {
            Ok(Some(Windows { normal_start, abnormal_start, abnormal_end }))
        }
        _ => Err(corrupt("pair of windows", row.id)),
    }
}

impl Store {
    /// One injection.
    ///
    /// # Errors
    /// `datapack.unknown`.
    pub async fn injection(&self, id: InjectionId) -> Result<Injection> {
        let row = entity::injection::Entity::find_by_id(id.0).one(self.reader()).await.map_err(Failure::from)?;
        Ok(Injection::read(row.ok_or_else(|| not_found("datapack.unknown", "datapack", id))?)?)
    }

    /// One injection by its name.
    ///
    /// # Errors
    /// `datapack.unknown`.
    pub async fn injection_named(&self, name: &str) -> Result<Injection> {
        let found = entity::injection::Entity::find().filter(Column::Name.eq(name)).one(self.reader()).await;
        let row = found.map_err(Failure::from)?;
        Ok(Injection::read(row.ok_or_else(|| not_found("datapack.unknown", "datapack", name))?)?)
    }

    /// The injection of a run: its own, or the one whose datapack it ranks on.
    ///
    /// # Errors
    /// `datapack.unknown`.
    pub async fn injection_of(&self, run: RunId) -> Result<Injection> {
        let number = sea_orm::sea_query::Query::select()
            .column(entity::run::Column::InjectionId)
            .from(entity::run::Entity)
            .and_where(entity::run::Column::Id.eq(run.to_string()))
            .to_owned();
        let found = entity::injection::Entity::find().filter(Column::Id.in_subquery(number)).one(self.reader()).await;
        let row = found.map_err(Failure::from)?;
        Ok(Injection::read(row.ok_or_else(|| not_found("datapack.unknown", "datapack of this run", run))?)?)
    }
}

/// Stores the injection of a new run and gives it its neutral name.
pub(crate) async fn insert(run: &Locked<'_>, new: &NewInjection) -> Work<(InjectionId, String)> {
    let row = entity::injection::Model {
        id: 0,
        // Unique until the number is known.
        name: run.row.id.clone(),
        run_id: run.row.id.clone(),
        system_code: run.row.system_code.clone(),
        namespace: None,
        fault_type: new.fault_type,
        fault_name: fit(&new.fault_name, 512),
        services: fit(&new.services, 512),
        state: PackState::Initial.code(),
        faults: to_json(&new.faults),
        truth: to_json(&new.truth),
        display_config: to_json(&new.display_config),
        labels: to_json(&new.labels),
        pre_duration: new.pre_duration,
        seed: run.row.seed,
        origin_ns: new.origin.0,
        normal_start_ns: None,
        abnormal_start_ns: None,
        abnormal_end_ns: None,
        verdict: None,
        exposed: None,
        visible: None,
        witness: None,
        recovery: None,
        difficulty: None,
        pack_path: None,
        pack_digest: None,
        revision: 0,
        created_at: run.now.0,
        updated_at: run.now.0,
    };
    let mut row = row.into_active_model();
    row.id = ActiveValue::NotSet;
    let id = entity::injection::Entity::insert(row).exec(run.tx).await?.last_insert_id;
    let name = format!("{}-{id:06}", run.row.system_code);
    entity::injection::Entity::update_many()
        .col_expr(Column::Name, Expr::value(name.clone()))
        .filter(Column::Id.eq(id))
        .exec(run.tx)
        .await?;
    Ok((InjectionId(id), name))
}

/// Changes the injection of a locked run, by compare-and-set on its revision.
pub(crate) async fn change(run: &mut Locked<'_>, change: &InjectionChange) -> Work<()> {
    // A run that only ranks leaves the datapack, which is another run's, as it is.
    if run.row.ranks_only && *change == InjectionChange::default() {
        return Ok(());
    }
    let mut row = row_of(run).await?;
    let before = row.revision;
    if let Some(to) = change.state.map(PackState::code).filter(|to| *to != row.state) {
        let from = word("datapack state", row.state, PackState::from_code)?;
        row.state = from.change(word("datapack state", to, PackState::from_code)?)?.code();
    }
    if let Some(windows) = &change.windows {
        row.normal_start_ns = Some(windows.normal_start.0);
        row.abnormal_start_ns = Some(windows.abnormal_start.0);
        row.abnormal_end_ns = Some(windows.abnormal_end.0);
    }
    if let Some(truth) = &change.truth {
        row.truth = to_json(truth);
    }
    if let Some(verdict) = change.verdict {
        row.verdict = Some(verdict.as_str().to_owned());
    }
    if let Some(pack) = &change.pack {
        row.pack_path = Some(pack.path.clone());
        row.pack_digest = Some(pack.digest.clone());
    }
    row.exposed = change.exposed.or(row.exposed);
    row.visible = change.visible.or(row.visible);
    let or_old = |new: &Option<Value>, old: Option<String>| new.as_ref().map(to_json).or(old);
    row.witness = or_old(&change.witness, row.witness);
    row.recovery = or_old(&change.recovery, row.recovery);
    row.difficulty = or_old(&change.difficulty, row.difficulty);
    row.namespace.clone_from(&run.row.namespace);
    write(run, row, before).await
}

/// Takes the datapack back to what it was before a step, by legal changes only: to `Initial`, `InjectSuccess`,
/// `BuildSuccess` or, for what comes after the detector, `DetectorSuccess`. A failure of that very step stays: it may become the step's success.
pub(crate) async fn rewind(run: &mut Locked<'_>, to: PackState) -> Work<()> {
    if run.row.ranks_only {
        return Ok(());
    }
    let mut row = row_of(run).await?;
    let before = row.revision;
    let mut state = word("datapack state", row.state, PackState::from_code)?;
    match reached(state).cmp(&reached(to)) {
        Ordering::Less => {
            return Err(Problem::new(
                ErrorKind::Conflict,
                "run.step_not_reached",
                "the run cannot start from a step that it has not reached",
            )
            .found(format!("datapack is {state}"))
            .expected(to.as_str())
            .fix("retry from an earlier step")
            .into());
        }
        // The detector's word stands: what is repeated comes after it.
        Ordering::Equal if state == PackState::DetectorSuccess => return Ok(()),
        Ordering::Equal => {}
        Ordering::Greater => {
            state = state.change(PackState::Initial)?;
            for next in [PackState::InjectSuccess, PackState::BuildSuccess] {
                if reached(next) <= reached(to) {
                    state = state.change(next)?;
                }
            }
        }
    }
    row.state = state.code();
    row.verdict = None;
    if reached(to) < reached(PackState::BuildSuccess) {
        (row.pack_path, row.pack_digest, row.difficulty, row.visible) = (None, None, None, None);
        crate::execution::supersede(run).await?;
    }
    if to == PackState::Initial {
        (row.exposed, row.witness, row.recovery) = (None, None, None);
        (row.normal_start_ns, row.abnormal_start_ns, row.abnormal_end_ns) = (None, None, None);
    }
    write(run, row, before).await
}

/// How many stages of the pipeline the datapack has behind it.
const fn reached(state: PackState) -> u8 {
    match state {
        PackState::Initial | PackState::InjectFailed => 0,
        PackState::InjectSuccess | PackState::BuildFailed => 1,
        PackState::BuildSuccess | PackState::DetectorFailed => 2,
        PackState::DetectorSuccess => 3,
    }
}

async fn row_of(run: &Locked<'_>) -> Work<entity::injection::Model> {
    let found = entity::injection::Entity::find()
        .filter(Column::RunId.eq(run.row.id.as_str()))
        .lock_exclusive()
        .one(run.tx)
        .await?;
    Ok(found.ok_or_else(|| not_found("datapack.unknown", "datapack of this run", run.id))?)
}

async fn write(run: &Locked<'_>, row: entity::injection::Model, before: i64) -> Work<()> {
    let written = entity::injection::Entity::update_many()
        .col_expr(Column::State, Expr::value(row.state))
        .col_expr(Column::Namespace, Expr::value(row.namespace))
        .col_expr(Column::Truth, Expr::value(row.truth))
        .col_expr(Column::NormalStartNs, Expr::value(row.normal_start_ns))
        .col_expr(Column::AbnormalStartNs, Expr::value(row.abnormal_start_ns))
        .col_expr(Column::AbnormalEndNs, Expr::value(row.abnormal_end_ns))
        .col_expr(Column::Verdict, Expr::value(row.verdict))
        .col_expr(Column::Exposed, Expr::value(row.exposed))
        .col_expr(Column::Visible, Expr::value(row.visible))
        .col_expr(Column::Witness, Expr::value(row.witness))
        .col_expr(Column::Recovery, Expr::value(row.recovery))
        .col_expr(Column::Difficulty, Expr::value(row.difficulty))
        .col_expr(Column::PackPath, Expr::value(row.pack_path))
        .col_expr(Column::PackDigest, Expr::value(row.pack_digest))
        .col_expr(Column::Revision, Expr::value(before + 1))
        .col_expr(Column::UpdatedAt, Expr::value(run.now.0))
        .filter(Column::Id.eq(row.id))
        .filter(Column::Revision.eq(before))
        .exec(run.tx)
        .await?;
    if written.rows_affected == 1 { Ok(()) } else { Err(lost("datapack")) }
}
