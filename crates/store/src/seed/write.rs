//! Writing what was agreed to, in the order of dependencies.

use std::collections::BTreeMap;

use model::{SystemCode, WallTime};
use sea_orm::sea_query::{Expr, OnConflict};
use sea_orm::{ActiveValue, ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel, QueryFilter};
use serde_json::Value;
use settings::{Expect, Owner};

use super::SeedObject;
use crate::entity::{container, prerequisite, project, seed_object, system, system_container, version};
use crate::failure::Work;
use crate::register::{NewSystem, put_contract, put_system, unregister};
use crate::registry::ContainerKind;
use crate::setting::{self, NewSetting, declare};
use crate::version::{NewContainer, NewVersion, put_container, restore_version};

/// What an application of a seed writes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SeedWrites {
    /// Name and description.
    pub projects: Vec<(String, String)>,
    pub settings: Vec<SettingWrite>,
    pub systems: Vec<SystemWrite>,
    pub containers: Vec<NewContainer>,
    /// Versions whose image, command or chart was changed beside the seed.
    pub restored: Vec<(ContainerKind, String, NewVersion)>,
    /// A system and the containers that it uses.
    pub links: Vec<(SystemCode, Vec<(ContainerKind, String)>)>,
    pub removed: Vec<Removal>,
    /// What the seed now says; replaces what the last one said of the same objects.
    pub objects: Vec<SeedObject>,
    /// Kind and name of the objects that no seed has any more.
    pub forgotten: Vec<(String, String)>,
    /// What is told of it, in the seed's own form.
    pub changes: Value,
    pub change_count: i32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SettingWrite {
    pub setting: NewSetting,
    /// Also where an operator's value is live.
    pub overwrite: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SystemWrite {
    pub system: NewSystem,
    pub telemetry: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removal {
    Setting(String),
    /// From all five layers.
    System(String),
    /// Retired: runs do not use it any more, and it stays printable.
    Version(ContainerKind, String, String),
    /// Pedestal and name.
    Prerequisite(String, String),
}

impl SeedWrites {
    pub fn is_empty(&self) -> bool {
        self.change_count == 0 && self.objects.is_empty() && self.forgotten.is_empty()
    }
}

/// `found`: what other tools published, by path.
pub(super) async fn all(
    tx: &DatabaseTransaction,
    writes: &SeedWrites,
    found: &BTreeMap<String, String>,
    by: &str,
) -> Work<()> {
    for (name, description) in &writes.projects {
        put_project(tx, name, description).await?;
    }
    for write in &writes.settings {
        put_setting(tx, write, found, by).await?;
    }
    let mut told = Vec::new();
    for (kind, name, version) in &writes.restored {
        restore_version(tx, *kind, name, version, &mut told).await?;
    }
    for container in &writes.containers {
        put_container(tx, container, &mut told).await?;
    }
    for write in &writes.systems {
        let code = write.system.code.as_str();
        let before = system::Entity::find().filter(system::Column::Code.eq(code)).one(tx).await?;
        let id = put_system(tx, &write.system, before, &mut told).await?;
        put_contract(tx, id, code, &write.telemetry, &mut told).await?;
    }
    for (code, containers) in &writes.links {
        link(tx, code.as_str(), containers).await?;
    }
    for removal in &writes.removed {
        remove(tx, removal, by).await?;
    }
    put_objects(tx, &writes.objects).await?;
    for (kind, name) in &writes.forgotten {
        seed_object::Entity::delete_by_id((kind.clone(), name.clone())).exec(tx).await?;
    }
    Ok(())
}

/// Keeps what a seed says of these objects.
pub(crate) async fn put_objects(tx: &DatabaseTransaction, objects: &[SeedObject]) -> Work<()> {
    use seed_object::{Column, Entity, Model};
    /// Rows a statement: far below the number of parameters that a database takes.
    const PART: usize = 100;
    let now = WallTime::now().0;
    for part in objects.chunks(PART) {
        let rows = part.iter().map(|object| {
            let row = Model {
                kind: object.kind.clone(),
                name: object.name.clone(),
                system_code: object.system.clone(),
                content: object.content.clone(),
                updated_at: now,
            };
            row.into_active_model()
        });
        let replace = OnConflict::columns([Column::Kind, Column::Name])
            .update_columns([Column::SystemCode, Column::Content, Column::UpdatedAt])
            .to_owned();
        Entity::insert_many(rows).on_conflict(replace).exec_without_returning(tx).await?;
    }
    Ok(())
}

/// A system that is no longer registered is new to the next seed.
pub(crate) async fn forget_system(tx: &DatabaseTransaction, code: &str) -> Work<()> {
    seed_object::Entity::delete_many().filter(seed_object::Column::SystemCode.eq(code)).exec(tx).await?;
    Ok(())
}

/// The same for a container that is gone.
pub(crate) async fn forget_container(tx: &DatabaseTransaction, row: &container::Model) -> Work<()> {
    let Some(kind) = ContainerKind::from_code(row.kind) else { return Ok(()) };
    let name = format!("{} {}", kind.as_str(), row.name);
    let versions = seed_object::Entity::delete_many()
        .filter(seed_object::Column::Kind.eq("version"))
        .filter(crate::query::starting(seed_object::Column::Name, &format!("{name} ")));
    versions.exec(tx).await?;
    seed_object::Entity::delete_by_id(("container".to_owned(), name)).exec(tx).await?;
    Ok(())
}

async fn put_project(tx: &DatabaseTransaction, name: &str, description: &str) -> Work<()> {
    use project::{Column, Entity, Model};
    let find = Entity::find().filter(Column::Name.eq(name)).one(tx).await?;
    if find.is_some() {
        let update = Entity::update_many().col_expr(Column::Description, Expr::value(description));
        update.filter(Column::Name.eq(name)).exec(tx).await?;
        return Ok(());
    }
    let row =
        Model { id: 0, name: name.to_owned(), description: description.to_owned(), created_at: WallTime::now().0 };
    let mut row = row.into_active_model();
    row.id = ActiveValue::NotSet;
    Entity::insert(row).exec_without_returning(tx).await?;
    Ok(())
}

async fn put_setting(
    tx: &DatabaseTransaction,
    write: &SettingWrite,
    found: &BTreeMap<String, String>,
    by: &str,
) -> Work<()> {
    let written = declare(tx, &write.setting, found, by).await?;
    if written == setting::Written::Kept && write.overwrite {
        let key = write.setting.declaration.key.as_str();
        setting::put(tx, key, &write.setting.value, Owner::Seed, Expect::Anything, by).await?;
    }
    Ok(())
}

async fn link(tx: &DatabaseTransaction, code: &str, containers: &[(ContainerKind, String)]) -> Work<()> {
    use system_container::{Column, Entity, Model};
    let system = system::Entity::find().filter(system::Column::Code.eq(code)).one(tx).await?;
    let Some(system) = system else { return Ok(()) };
    let there = Entity::find().filter(Column::SystemId.eq(system.id)).all(tx).await?;
    for (kind, name) in containers {
        let find = container::Entity::find()
            .filter(container::Column::Kind.eq(kind.code()))
            .filter(container::Column::Name.eq(name.as_str()));
        let Some(row) = find.one(tx).await? else { continue };
        if there.iter().all(|link| link.container_id != row.id) {
            let row = Model { system_id: system.id, container_id: row.id };
            Entity::insert(row.into_active_model()).exec_without_returning(tx).await?;
        }
    }
    Ok(())
}

async fn remove(tx: &DatabaseTransaction, removal: &Removal, by: &str) -> Work<()> {
    match removal {
        Removal::Setting(key) => setting::undeclare(tx, key, by).await,
        Removal::System(code) => {
            let there = system::Entity::find().filter(system::Column::Code.eq(code.as_str())).one(tx).await?;
            if there.is_some() {
                unregister(tx, code, by).await?;
            }
            Ok(())
        }
        Removal::Version(kind, name, version) => {
            let Some(row) = find_container(tx, *kind, name).await? else { return Ok(()) };
            version::Entity::update_many()
                .col_expr(version::Column::Enabled, Expr::value(false))
                .filter(version::Column::ContainerId.eq(row.id))
                .filter(version::Column::Name.eq(version.as_str()))
                .exec(tx)
                .await?;
            Ok(())
        }
        Removal::Prerequisite(pedestal, name) => {
            let Some(row) = find_container(tx, ContainerKind::Pedestal, pedestal).await? else { return Ok(()) };
            prerequisite::Entity::delete_many()
                .filter(prerequisite::Column::ContainerId.eq(row.id))
                .filter(prerequisite::Column::Name.eq(name.as_str()))
                .exec(tx)
                .await?;
            Ok(())
        }
    }
}

async fn find_container(tx: &DatabaseTransaction, kind: ContainerKind, name: &str) -> Work<Option<container::Model>> {
    let find = container::Entity::find()
        .filter(container::Column::Kind.eq(kind.code()))
        .filter(container::Column::Name.eq(name));
    Ok(find.one(tx).await?)
}
