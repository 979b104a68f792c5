//! Reading all that a seed may declare, with a number of queries that does not depend on how much there is.

use std::collections::HashMap;

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, JoinType, QueryFilter, QueryOrder, QuerySelect};
use serde_json::Value;

use crate::convert::{json, word};
use crate::entity::{
    chart, container, overlay, prerequisite, project, revision, seed_object, system, system_container, version,
};
use crate::failure::Work;
use crate::registry::{ContainerKind, System};
use crate::setting::{Setting, settings_of};

/// Everything that a seed is compared with.
#[derive(Debug, Clone, PartialEq)]
pub struct SeedLive {
    /// What the seed that was applied last says.
    pub objects: Vec<SeedObject>,
    pub settings: Vec<Setting>,
    pub systems: Vec<System>,
    pub containers: Vec<LiveContainer>,
    /// Name and description.
    pub projects: Vec<(String, String)>,
    /// Name and bytes of the overlays in use, by their SHA-256.
    pub overlays: HashMap<String, (String, Vec<u8>)>,
}

/// One object of a seed, in the seed's own form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeedObject {
    pub kind: String,
    pub name: String,
    /// The system that it belongs to.
    pub system: Option<String>,
    pub content: String,
}

/// A container as it is now; unlike [`crate::Container`] without composed values.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveContainer {
    pub kind: ContainerKind,
    pub name: String,
    pub is_public: bool,
    /// Codes of the systems that use it.
    pub systems: Vec<String>,
    /// Oldest first.
    pub versions: Vec<LiveVersion>,
    pub prerequisites: Vec<LivePrerequisite>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct LiveVersion {
    pub name: String,
    pub image_ref: String,
    pub command: String,
    pub github_link: String,
    pub enabled: bool,
    /// Repository, its name, chart and version.
    pub chart: Option<[String; 4]>,
    pub env: Value,
    pub parameters: Value,
    pub overlay_hash: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct LivePrerequisite {
    pub kind: String,
    pub name: String,
    pub definition: Value,
}

pub(super) async fn read(db: &impl ConnectionTrait) -> Work<SeedLive> {
    let objects = seed_object::Entity::find().all(db).await?.into_iter().map(|row| SeedObject {
        kind: row.kind,
        name: row.name,
        system: row.system_code,
        content: row.content,
    });
    let systems = system::Entity::find().order_by_asc(system::Column::Code).all(db).await?;
    let codes: HashMap<i32, String> = systems.iter().map(|row| (row.id, row.code.clone())).collect();
    let projects = project::Entity::find().all(db).await?;
    let containers = containers(db, &codes).await?;
    let hashes: Vec<&str> =
        containers.iter().flat_map(|one| &one.versions).filter_map(|version| version.overlay_hash.as_deref()).collect();
    let overlays = overlay::Entity::find().filter(overlay::Column::Hash.is_in(hashes)).all(db).await?;
    Ok(SeedLive {
        objects: objects.collect(),
        settings: settings_of(db, "").await?,
        systems: systems.into_iter().map(System::read).collect::<Work<_>>()?,
        containers,
        projects: projects.into_iter().map(|row| (row.name, row.description)).collect(),
        overlays: overlays.into_iter().map(|row| (row.hash, (row.name, row.content))).collect(),
    })
}

async fn containers(db: &impl ConnectionTrait, codes: &HashMap<i32, String>) -> Work<Vec<LiveContainer>> {
    let mut versions: HashMap<i32, Vec<LiveVersion>> = HashMap::new();
    for (container, version) in self::versions(db).await? {
        versions.entry(container).or_default().push(version);
    }
    let mut systems: HashMap<i32, Vec<String>> = HashMap::new();
    for link in system_container::Entity::find().all(db).await? {
        systems.entry(link.container_id).or_default().extend(codes.get(&link.system_id).cloned());
    }
    let mut prerequisites: HashMap<i32, Vec<LivePrerequisite>> = HashMap::new();
    for row in prerequisite::Entity::find().order_by_asc(prerequisite::Column::Id).all(db).await? {
        let definition = json("prerequisite", &row.definition)?;
        let one = LivePrerequisite { kind: row.kind, name: row.name, definition };
        prerequisites.entry(row.container_id).or_default().push(one);
    }
    let mut containers = Vec::new();
    for row in container::Entity::find().order_by_asc(container::Column::Id).all(db).await? {
        containers.push(LiveContainer {
            kind: word("container kind", row.kind, ContainerKind::from_code)?,
            is_public: row.is_public,
            systems: systems.remove(&row.id).unwrap_or_default(),
            versions: versions.remove(&row.id).unwrap_or_default(),
            prerequisites: prerequisites.remove(&row.id).unwrap_or_default(),
            name: row.name,
        });
    }
    Ok(containers)
}

/// The revision that is in force, without its composed values.
type Current = (i32, String, String, String, Option<String>);

/// Versions with the number of their container, oldest first.
async fn versions(db: &impl ConnectionTrait) -> Work<Vec<(i32, LiveVersion)>> {
    let charts: HashMap<i32, [String; 4]> = chart::Entity::find()
        .all(db)
        .await?
        .into_iter()
        .map(|row| (row.id, [row.repository, row.repository_name, row.name, row.version]))
        .collect();
    let current: Vec<Current> = revision::Entity::find()
        .select_only()
        .column(revision::Column::VersionId)
        .column(revision::Column::Digest)
        .column(revision::Column::Env)
        .column(revision::Column::Parameters)
        .column(revision::Column::OverlayHash)
        .join(JoinType::InnerJoin, current_version())
        .into_tuple()
        .all(db)
        .await?;
    let mut current: HashMap<i32, Current> = current.into_iter().map(|row| (row.0, row)).collect();
    let mut versions = Vec::new();
    for row in version::Entity::find().order_by_asc(version::Column::Id).all(db).await? {
        let revision = current.remove(&row.id);
        let (_, _, env, parameters, overlay_hash) =
            revision.ok_or_else(|| crate::failure::corrupt("revision of a version", &row.name))?;
        let version = LiveVersion {
            chart: row.chart_id.and_then(|id| charts.get(&id).cloned()),
            env: json("environment of a version", &env)?,
            parameters: json("parameters of a version", &parameters)?,
            overlay_hash,
            name: row.name,
            image_ref: row.image_ref,
            command: row.command,
            github_link: row.github_link,
            enabled: row.enabled,
        };
        versions.push((row.container_id, version));
    }
    Ok(versions)
}

/// From a revision to the version in which it is in force.
fn current_version() -> sea_orm::RelationDef {
    use sea_orm::sea_query::{Expr, ExprTrait, IntoCondition};
    let mut relation: sea_orm::RelationDef =
        revision::Entity::belongs_to(version::Entity).from(revision::Column::VersionId).to(version::Column::Id).into();
    relation.on_condition = Some(std::sync::Arc::new(|revision_table, version_table| {
        Expr::col((revision_table, revision::Column::Digest))
            .equals((version_table, version::Column::CurrentDigest))
            .into_condition()
    }));
    relation
}
