//! Registering and unregistering a system: the rows of all five layers in one transaction, or none of them.

use std::collections::BTreeMap;

use model::{ErrorKind, Problem, Result, RunState, SystemCode, SystemId, WallTime};
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel, PaginatorTrait,
    QueryFilter, QuerySelect,
};
use serde_json::Value;
use settings::Expect;

use crate::connect::Store;
use crate::convert::to_json;
use crate::counter;
use crate::entity::{self, system::Column};
use crate::failure::{Failure, Work};
use crate::registry::{ContainerKind, SeedOrigin, System};
use crate::seed::SeedObject;
use crate::setting::{NewSetting, Written, declare, remove, settings_of};
use crate::version::{self, NewContainer};

/// A system as a seed declares it, complete in all five layers.
#[derive(Debug, Clone, PartialEq)]
pub struct Registration {
    pub system: NewSystem,
    /// Every key `injection.system.<code>.*`.
    pub settings: Vec<NewSetting>,
    /// The pedestal, whose name is the system's code, and the benchmark.
    pub containers: Vec<NewContainer>,
    /// What the telemetry must be like.
    pub telemetry: Value,
    /// What the seed says of all of this, for the comparison with the next one.
    pub objects: Vec<SeedObject>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSystem {
    pub code: SystemCode,
    pub display_name: String,
    pub description: String,
    pub ns_pattern: String,
    pub extract_pattern: String,
    pub app_label_key: String,
    /// At least 1.
    pub slot_count: u32,
    pub enabled: bool,
    pub is_builtin: bool,
    pub seed: SeedOrigin,
}

/// How to register.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RegisterOptions {
    /// Bring an existing registration to what is declared, instead of a conflict.
    pub force: bool,
    /// Do everything and take it back, to see what would be written.
    pub dry_run: bool,
}

/// The five layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    Registry,
    Config,
    Database,
    Chart,
    Telemetry,
}

impl Layer {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Registry => "registry",
            Self::Config => "config",
            Self::Database => "database",
            Self::Chart => "chart",
            Self::Telemetry => "telemetry",
        }
    }
}

/// One value that a registration wrote, or found as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerWrite {
    pub layer: Layer,
    pub key: String,
    pub value: String,
    pub written: Written,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// Absent on a dry run of a new system.
    pub id: Option<SystemId>,
    pub writes: Vec<LayerWrite>,
}

/// Number of records that an unregistration removed from each layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unregistered {
    pub removed: BTreeMap<Layer, u64>,
    /// Runs of the system; they and their datapacks stay.
    pub runs_kept: u64,
}

const DRY_RUN: &str = "register.dry_run";

impl Store {
    /// Registers a system in all five layers, or in none.
    ///
    /// # Errors
    /// `system.already_registered` without `force`; `container.name_taken` when a benchmark and a pedestal would share a
    /// name; `version.immutable` when a version's image, command or chart changed; the errors of the settings' checks.
    pub async fn register_system(
        &self,
        registration: &Registration,
        options: RegisterOptions,
        by: &str,
    ) -> Result<Registered> {
        let cell = std::sync::Mutex::new(None);
        let told = &cell;
        let code = registration.system.code.as_str();
        let found = &self.found(&registration.settings).await?;
        let result = self
            .write_settings(&format!("register {code}"), Some(&keys_of(code)), |tx, _| {
                Box::pin(async move {
                    let registered = register(tx, registration, found, options.force, by).await?;
                    if options.dry_run {
                        // The transaction is what would happen; the error takes it back.
                        *told.lock().expect("no holder of this lock panics") = Some(registered);
                        return Err(Problem::internal(DRY_RUN, "taken back").into());
                    }
                    Ok(registered)
                })
            })
            .await;
        match result {
            Err(problem) if problem.code == DRY_RUN => {
                let registered = cell.into_inner().expect("no holder of this lock panics");
                let writes = registered.expect("a dry run tells what it did").writes;
                let there = self.find_system(code).await?;
                Ok(Registered { id: there.map(|row| SystemId(row.id)), writes })
            }
            other => other,
        }
    }

    async fn find_system(&self, code: &str) -> Result<Option<entity::system::Model>> {
        let found = entity::system::Entity::find().filter(Column::Code.eq(code)).one(self.reader()).await;
        Ok(found.map_err(Failure::from)?)
    }

    /// Registers containers that belong to no system: algorithms.
    ///
    /// # Errors
    /// As [`Store::register_system`].
    pub async fn register_containers(&self, containers: &[NewContainer]) -> Result<Vec<LayerWrite>> {
        self.write(|tx, _| {
            Box::pin(async move {
                counter::next(tx, counter::REGISTRY).await?;
                let mut writes = Vec::new();
                for container in containers {
                    version::put_container(tx, container, &mut writes).await?;
                }
                Ok(writes)
            })
        })
        .await
    }

    /// Removes a system from all five layers. Containers that another system uses stay; finished runs stay.
    ///
    /// # Errors
    /// `system.unknown`; `system.has_live_runs`.
    pub async fn unregister_system(&self, code: &str, by: &str) -> Result<Unregistered> {
        self.system(code).await?;
        let what = format!("unregister {code}");
        self.write_settings(&what, None, |tx, _| Box::pin(async move { unregister(tx, code, by).await })).await
    }

    /// Enables or disables a system: its row, and its setting `status` as an operator's value.
    ///
    /// # Errors
    /// `system.unknown`.
    pub async fn set_system_enabled(&self, code: &str, enabled: bool, by: &str) -> Result<System> {
        self.system(code).await?;
        let what = format!("{} {code}", if enabled { "enable" } else { "disable" });
        self.write_settings(&what, None, |tx, _| {
            Box::pin(async move {
                entity::system::Entity::update_many()
                    .col_expr(Column::Enabled, Expr::value(enabled))
                    .col_expr(Column::UpdatedAt, Expr::value(WallTime::now().0))
                    .col_expr(Column::Revision, sea_orm::ExprTrait::add(Expr::col(Column::Revision), 1))
                    .filter(Column::Code.eq(code))
                    .exec(tx)
                    .await?;
                let status = format!("{}{code}.status", settings::SYSTEM_PREFIX);
                if !settings_of(tx, &status).await?.is_empty() {
                    let value = if enabled { "1" } else { "0" };
                    crate::setting::put(tx, &status, value, settings::Owner::Operator, Expect::Anything, by).await?;
                }
                let row = entity::system::Entity::find().filter(Column::Code.eq(code)).one(tx).await?;
                let config = settings_of(tx, &keys_of(code)).await?;
                Ok(System::read(row.ok_or_else(|| crate::failure::lost("system"))?)?.with_live(&config))
            })
        })
        .await
    }
}

/// The beginning of a system's keys.
fn keys_of(code: &str) -> String {
    format!("{}{code}.", settings::SYSTEM_PREFIX)
}

async fn register(
    tx: &DatabaseTransaction,
    new: &Registration,
    found: &BTreeMap<String, String>,
    force: bool,
    by: &str,
) -> Work<Registered> {
    // Systems share charts, overlays and benchmarks, so registrations come one after the other.
    counter::next(tx, counter::REGISTRY).await?;
    let code = new.system.code.as_str();
    let before = entity::system::Entity::find().filter(Column::Code.eq(code)).lock_exclusive().one(tx).await?;
    if before.is_some() && !force {
        return Err(Problem::new(ErrorKind::Conflict, "system.already_registered", "the system is registered already")
            .found(format!("`{code}`"))
            .fix("use `--force` to bring it to what the seed declares")
            .into());
    }
    let mut writes = Vec::new();
    let id = put_system(tx, &new.system, before, &mut writes).await?;
    for setting in &new.settings {
        let written = declare(tx, setting, found, by).await?;
        let key = setting.declaration.key.clone();
        let value = if setting.declaration.is_secret { "a secret".to_owned() } else { setting.value.clone() };
        writes.push(LayerWrite { layer: Layer::Config, key, value, written });
    }
    for container in &new.containers {
        let container_id = version::put_container(tx, container, &mut writes).await?;
        link(tx, id, container_id).await?;
    }
    put_contract(tx, id, code, &new.telemetry, &mut writes).await?;
    crate::seed::put_objects(tx, &new.objects).await?;
    Ok(Registered { id: Some(SystemId(id)), writes })
}

pub(crate) async fn put_system(
    tx: &DatabaseTransaction,
    new: &NewSystem,
    before: Option<entity::system::Model>,
    writes: &mut Vec<LayerWrite>,
) -> Work<i32> {
    let now = WallTime::now().0;
    let row = entity::system::Model {
        id: before.as_ref().map_or(0, |row| row.id),
        code: new.code.as_str().to_owned(),
        display_name: new.display_name.clone(),
        description: new.description.clone(),
        ns_pattern: new.ns_pattern.clone(),
        extract_pattern: new.extract_pattern.clone(),
        app_label_key: new.app_label_key.clone(),
        slot_count: i32::try_from(new.slot_count).unwrap_or(i32::MAX),
        // Whether it is enabled is the operator's decision once it is there.
        enabled: before.as_ref().map_or(new.enabled, |row| row.enabled),
        is_builtin: new.is_builtin,
        seed_env: new.seed.env.clone(),
        seed_digest: new.seed.digest.clone(),
        seed_place: new.seed.place.clone(),
        revision: before.as_ref().map_or(0, |row| row.revision),
        created_at: before.as_ref().map_or(now, |row| row.created_at),
        updated_at: before.as_ref().map_or(now, |row| row.updated_at),
    };
    let written = match &before {
        None => Written::New,
        Some(before) if *before == row => Written::Same,
        Some(_) => Written::Changed,
    };
    let id = match written {
        Written::New => {
            let mut row = row.clone().into_active_model();
            row.id = ActiveValue::NotSet;
            entity::system::Entity::insert(row).exec(tx).await?.last_insert_id
        }
        Written::Changed => {
            let changed = entity::system::Model { revision: row.revision + 1, updated_at: now, ..row.clone() };
            entity::system::Entity::update(changed.into_active_model().reset_all()).exec(tx).await?;
            row.id
        }
        Written::Same | Written::Kept => row.id,
    };
    let value = format!("{} slots, {}", new.slot_count, new.ns_pattern);
    writes.push(LayerWrite { layer: Layer::Registry, key: row.code, value, written });
    Ok(id)
}

async fn link(tx: &DatabaseTransaction, system: i32, container: i32) -> Work<()> {
    let there = entity::system_container::Entity::find_by_id((system, container)).one(tx).await?;
    if there.is_none() {
        let row = entity::system_container::Model { system_id: system, container_id: container };
        entity::system_container::Entity::insert(row.into_active_model()).exec_without_returning(tx).await?;
    }
    Ok(())
}

pub(crate) async fn put_contract(
    tx: &DatabaseTransaction,
    system: i32,
    code: &str,
    contract: &Value,
    writes: &mut Vec<LayerWrite>,
) -> Work<()> {
    use entity::telemetry_contract::{Column, Entity, Model};
    let before = Entity::find_by_id(system).one(tx).await?;
    let row = Model { system_id: system, contract: to_json(contract), updated_at: WallTime::now().0 };
    let written = match &before {
        None => Written::New,
        Some(before) if before.contract == row.contract => Written::Same,
        Some(_) => Written::Changed,
    };
    let value = format!("{} bytes", row.contract.len());
    match written {
        Written::New => {
            Entity::insert(row.into_active_model()).exec_without_returning(tx).await?;
        }
        Written::Changed => {
            Entity::update_many()
                .col_expr(Column::Contract, Expr::value(row.contract))
                .col_expr(Column::UpdatedAt, Expr::value(row.updated_at))
                .filter(Column::SystemId.eq(system))
                .exec(tx)
                .await?;
        }
        Written::Same | Written::Kept => {}
    }
    writes.push(LayerWrite { layer: Layer::Telemetry, key: format!("{code} contract"), value, written });
    Ok(())
}

pub(crate) async fn unregister(tx: &DatabaseTransaction, code: &str, by: &str) -> Work<Unregistered> {
    counter::next(tx, counter::REGISTRY).await?;
    let row = entity::system::Entity::find().filter(Column::Code.eq(code)).lock_exclusive().one(tx).await?;
    let row = row.ok_or_else(|| crate::failure::lost("system"))?;
    let runs = entity::run::Entity::find().filter(entity::run::Column::SystemCode.eq(code));
    let live = [RunState::Pending.code(), RunState::Running.code()];
    let live = runs.clone().filter(entity::run::Column::State.is_in(live)).count(tx).await?;
    if live > 0 {
        return Err(Problem::new(
            ErrorKind::Conflict,
            "system.has_live_runs",
            "the system has runs that have not ended",
        )
        .found(format!("{live} runs of `{code}`"))
        .fix("wait for them, or cancel them first")
        .into());
    }
    let mut removed = BTreeMap::new();
    let contract = entity::telemetry_contract::Entity::delete_by_id(row.id).exec(tx).await?;
    removed.insert(Layer::Telemetry, contract.rows_affected);
    let (database, charts) = version::remove_containers(tx, row.id).await?;
    removed.insert(Layer::Database, database);
    removed.insert(Layer::Chart, charts);
    removed.insert(Layer::Config, remove_settings(tx, code, by).await?);
    entity::system::Entity::delete_by_id(row.id).exec(tx).await?;
    crate::seed::forget_system(tx, code).await?;
    removed.insert(Layer::Registry, 1);
    Ok(Unregistered { removed, runs_kept: runs.count(tx).await? })
}

/// Live values go with a change that a watch sees; then their declarations.
async fn remove_settings(tx: &DatabaseTransaction, code: &str, by: &str) -> Work<u64> {
    let settings = settings_of(tx, &keys_of(code)).await?;
    for setting in &settings {
        let key = setting.declaration.key.as_str();
        remove(tx, key, Expect::Anything, by).await?;
        entity::setting_declaration::Entity::delete_by_id(key).exec(tx).await?;
    }
    Ok(settings.len() as u64)
}

/// Whether a benchmark and a pedestal would share this name.
pub(crate) fn contradicts(kind: ContainerKind, other: ContainerKind) -> bool {
    kind != other && kind != ContainerKind::Algorithm && other != ContainerKind::Algorithm
}
