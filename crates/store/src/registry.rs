//! What is registered: systems, containers, versions and their revisions, charts, overlays, telemetry contracts.

use model::{ContainerId, Result, SystemCode, SystemId, VersionId, WallTime};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, ExprTrait, QueryFilter, QueryOrder};
use serde_json::Value;

use crate::connect::Store;
use crate::convert::{count, json, wall, word};
use crate::entity;
use crate::failure::{Failure, Work};
use crate::setting::Setting;

/// One registered system: the registry layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct System {
    pub id: SystemId,
    pub code: SystemCode,
    pub display_name: String,
    pub description: String,
    pub ns_pattern: String,
    pub extract_pattern: String,
    pub app_label_key: String,
    /// Number of slots in the pool.
    pub slot_count: u32,
    pub enabled: bool,
    pub is_builtin: bool,
    pub seed: SeedOrigin,
    pub created_at: WallTime,
    pub updated_at: WallTime,
}

/// Where a declared state came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeedOrigin {
    /// Name of the environment's folder.
    pub env: String,
    /// Content hash of the seed.
    pub digest: String,
    /// File and line.
    pub place: String,
}

/// Kinds of containers, with the integers of the wire contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ContainerKind {
    Algorithm,
    Benchmark,
    Pedestal,
}

impl ContainerKind {
    pub const ALL: [Self; 3] = [Self::Algorithm, Self::Benchmark, Self::Pedestal];

    pub const fn code(self) -> i32 {
        match self {
            Self::Algorithm => 0,
            Self::Benchmark => 1,
            Self::Pedestal => 2,
        }
    }

    pub fn from_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Algorithm => "algorithm",
            Self::Benchmark => "benchmark",
            Self::Pedestal => "pedestal",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Container {
    pub id: ContainerId,
    pub kind: ContainerKind,
    pub name: String,
    pub is_public: bool,
    /// Oldest first.
    pub versions: Vec<Version>,
    pub prerequisites: Vec<Prerequisite>,
    pub created_at: WallTime,
    pub updated_at: WallTime,
}

/// One version: what never changes under its name, and the revision that is in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    pub id: VersionId,
    pub name: String,
    pub image_ref: String,
    pub command: String,
    pub github_link: String,
    pub enabled: bool,
    pub chart: Option<Chart>,
    pub revision: Revision,
    pub created_at: WallTime,
}

/// The chart layer of one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chart {
    pub repository: String,
    pub repository_name: String,
    pub name: String,
    pub version: String,
    /// SHA-256 of the archive; absent while none was fetched.
    pub archive_digest: Option<String>,
    /// The address that it was fetched from, or who handed it over.
    pub archive_source: Option<String>,
    pub fetched_at: Option<WallTime>,
}

/// What may change under a version's name, by content hash. Old revisions stay printable.
#[derive(Debug, Clone, PartialEq)]
pub struct Revision {
    pub digest: String,
    pub env: Value,
    pub parameters: Value,
    pub overlay_hash: Option<String>,
    /// The composed values with the origin of each leaf, in the seed's own form.
    pub composed: Value,
    /// File and line.
    pub place: String,
    pub created_at: WallTime,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Prerequisite {
    pub kind: String,
    pub name: String,
    pub definition: Value,
    /// `pending`, `reconciled` or `failed`.
    pub status: String,
}

/// What was read in each of the five layers. What a layer lacks is absent or empty; judging it is the reader's task.
#[derive(Debug, Clone, PartialEq)]
pub struct Layers {
    pub registry: Option<System>,
    /// Settings `injection.system.<code>.*`, also when the system is not registered.
    pub config: Vec<Setting>,
    /// The pedestal and the benchmark; a pedestal of this name is found also when the system is not registered.
    pub database: Vec<Container>,
    /// Charts of the pedestal's versions, in their order.
    pub chart: Vec<Chart>,
    /// What the telemetry must be like.
    pub telemetry: Option<Value>,
}

impl System {
    pub(crate) fn read(row: entity::system::Model) -> Work<Self> {
        Ok(Self {
            id: SystemId(row.id),
            code: SystemCode::parse(&row.code)?,
            display_name: row.display_name,
            description: row.description,
            ns_pattern: row.ns_pattern,
            extract_pattern: row.extract_pattern,
            app_label_key: row.app_label_key,
            slot_count: count("slot count", row.slot_count)?,
            enabled: row.enabled,
            is_builtin: row.is_builtin,
            seed: SeedOrigin { env: row.seed_env, digest: row.seed_digest, place: row.seed_place },
            created_at: WallTime(row.created_at),
            updated_at: WallTime(row.updated_at),
        })
    }
}

impl System {
    /// With what its live settings say, which an operator may have changed since it was registered.
    pub(crate) fn with_live(mut self, config: &[Setting]) -> Self {
        let prefix = format!("{}{}.", settings::SYSTEM_PREFIX, self.code);
        for setting in config {
            let Some(live) = &setting.live else { continue };
            let text = match live.key.strip_prefix(&prefix) {
                Some("display_name") => &mut self.display_name,
                Some("ns_pattern") => &mut self.ns_pattern,
                Some("extract_pattern") => &mut self.extract_pattern,
                Some("app_label_key") => &mut self.app_label_key,
                Some("count") => {
                    self.slot_count = live.value.parse().unwrap_or(self.slot_count);
                    continue;
                }
                _ => continue,
            };
            text.clone_from(&live.value);
        }
        self
    }
}

/// A system is enabled or disabled by an operator's value of its key `status`, wherever that was set.
pub(crate) async fn follow_status(tx: &DatabaseTransaction, key: &str, value: &str) -> Work<()> {
    use entity::system::{Column, Entity};
    let code = key.strip_prefix(settings::SYSTEM_PREFIX).and_then(|rest| rest.strip_suffix(".status"));
    let Some(code) = code else { return Ok(()) };
    Entity::update_many()
        .col_expr(Column::Enabled, Expr::value(value == "1"))
        .col_expr(Column::Revision, Expr::col(Column::Revision).add(1))
        .filter(Column::Code.eq(code))
        .exec(tx)
        .await?;
    Ok(())
}

impl Chart {
    fn read(row: entity::chart::Model) -> Self {
        Self {
            repository: row.repository,
            repository_name: row.repository_name,
            name: row.name,
            version: row.version,
            archive_digest: row.archive_digest,
            archive_source: row.archive_source,
            fetched_at: wall(row.fetched_at),
        }
    }
}

impl Revision {
    fn read(row: entity::revision::Model) -> Work<Self> {
        Ok(Self {
            digest: row.digest,
            env: json("environment of a version", &row.env)?,
            parameters: json("parameters of a version", &row.parameters)?,
            overlay_hash: row.overlay_hash,
            composed: json("composed values", &row.composed)?,
            place: row.place,
            created_at: WallTime(row.created_at),
        })
    }
}

impl Store {
    /// Every registered system, by code.
    pub async fn systems(&self) -> Result<Vec<System>> {
        let rows = entity::system::Entity::find().order_by_asc(entity::system::Column::Code).all(self.reader()).await;
        let systems: Vec<System> = rows.map_err(Failure::from)?.into_iter().map(System::read).collect::<Work<_>>()?;
        if systems.is_empty() {
            return Ok(systems);
        }
        let config = crate::setting::settings_of(self.reader(), settings::SYSTEM_PREFIX).await?;
        Ok(systems.into_iter().map(|system| system.with_live(&config)).collect())
    }

    /// One registered system.
    ///
    /// # Errors
    /// `system.unknown`, with the nearest code.
    pub async fn system(&self, code: &str) -> Result<System> {
        let systems = self.systems().await?;
        match systems.iter().find(|system| system.code.as_str() == code) {
            Some(system) => Ok(system.clone()),
            None => {
                let codes: Vec<&str> = systems.iter().map(|system| system.code.as_str()).collect();
                Err(model::Problem::unknown("system.unknown", "system", code, codes.iter().copied()))
            }
        }
    }

    /// What is stored about a system, layer by layer.
    pub async fn layers(&self, code: &str) -> Result<Layers> {
        Ok(read_layers(self.reader(), code).await?)
    }

    /// Containers of one kind, or of all, by kind and name.
    pub async fn containers(&self, kind: Option<ContainerKind>) -> Result<Vec<Container>> {
        use entity::container::Column;
        let mut find = entity::container::Entity::find().order_by_asc(Column::Kind).order_by_asc(Column::Name);
        if let Some(kind) = kind {
            find = find.filter(Column::Kind.eq(kind.code()));
        }
        let rows = find.all(self.reader()).await.map_err(Failure::from)?;
        let mut containers = Vec::with_capacity(rows.len());
        for row in rows {
            containers.push(read_container(self.reader(), row).await?);
        }
        Ok(containers)
    }

    /// Any revision that was ever stored of a version, by its content hash.
    ///
    /// # Errors
    /// `revision.unknown`.
    pub async fn revision(&self, version: VersionId, digest: &str) -> Result<Revision> {
        use entity::revision::Column;
        let found = entity::revision::Entity::find()
            .filter(Column::VersionId.eq(version.0))
            .filter(Column::Digest.eq(digest))
            .one(self.reader())
            .await
            .map_err(Failure::from)?;
        Ok(Revision::read(found.ok_or_else(|| crate::missing::not_found("revision.unknown", "revision", digest))?)?)
    }

    /// The bytes of an overlay, by their SHA-256.
    ///
    /// # Errors
    /// `overlay.unknown`.
    pub async fn overlay(&self, hash: &str) -> Result<Vec<u8>> {
        let row = entity::overlay::Entity::find_by_id(hash).one(self.reader()).await.map_err(Failure::from)?;
        Ok(row.ok_or_else(|| crate::missing::not_found("overlay.unknown", "overlay", hash))?.content)
    }
}

async fn read_layers(db: &impl ConnectionTrait, code: &str) -> Work<Layers> {
    use entity::{container, system, system_container, telemetry_contract};
    let row = system::Entity::find().filter(system::Column::Code.eq(code)).one(db).await?;
    let config = crate::setting::settings_of(db, &format!("{}{code}.", settings::SYSTEM_PREFIX)).await?;
    let mut containers = Vec::new();
    let mut telemetry = None;
    if let Some(row) = &row {
        let links =
            system_container::Entity::find().filter(system_container::Column::SystemId.eq(row.id)).all(db).await?;
        containers = container::Entity::find()
            .filter(container::Column::Id.is_in(links.iter().map(|link| link.container_id)))
            .order_by_desc(container::Column::Kind)
            .all(db)
            .await?;
        let contract = telemetry_contract::Entity::find_by_id(row.id).one(db).await?;
        telemetry = contract.map(|row| json("telemetry contract", &row.contract)).transpose()?;
    }
    if containers.is_empty() {
        let pedestal = container::Entity::find()
            .filter(container::Column::Name.eq(code))
            .filter(container::Column::Kind.eq(ContainerKind::Pedestal.code()));
        containers = pedestal.all(db).await?;
    }
    let mut database = Vec::with_capacity(containers.len());
    for row in containers {
        database.push(read_container(db, row).await?);
    }
    let pedestals = database.iter().filter(|container| container.kind == ContainerKind::Pedestal);
    let chart =
        pedestals.flat_map(|container| &container.versions).filter_map(|version| version.chart.clone()).collect();
    let registry = row.map(System::read).transpose()?.map(|system| system.with_live(&config));
    Ok(Layers { registry, config, database, chart, telemetry })
}

pub(crate) async fn read_container(db: &impl ConnectionTrait, row: entity::container::Model) -> Work<Container> {
    use entity::{chart, prerequisite, revision, version};
    let rows = version::Entity::find()
        .filter(version::Column::ContainerId.eq(row.id))
        .order_by_asc(version::Column::Id)
        .all(db)
        .await?;
    let mut versions = Vec::with_capacity(rows.len());
    for row in rows {
        let current = revision::Entity::find()
            .filter(revision::Column::VersionId.eq(row.id))
            .filter(revision::Column::Digest.eq(row.current_digest.as_str()))
            .one(db)
            .await?;
        let current = current.ok_or_else(|| crate::failure::corrupt("revision of a version", &row.name))?;
        let chart = match row.chart_id {
            Some(id) => chart::Entity::find_by_id(id).one(db).await?.map(Chart::read),
            None => None,
        };
        versions.push(Version {
            id: VersionId(row.id),
            name: row.name,
            image_ref: row.image_ref,
            command: row.command,
            github_link: row.github_link,
            enabled: row.enabled,
            chart,
            revision: Revision::read(current)?,
            created_at: WallTime(row.created_at),
        });
    }
    let prerequisites = prerequisite::Entity::find()
        .filter(prerequisite::Column::ContainerId.eq(row.id))
        .order_by_asc(prerequisite::Column::Id)
        .all(db)
        .await?;
    let read = |row: prerequisite::Model| {
        let definition = json("prerequisite", &row.definition)?;
        Ok(Prerequisite { kind: row.kind, name: row.name, definition, status: row.status })
    };
    Ok(Container {
        id: ContainerId(row.id),
        kind: word("container kind", row.kind, ContainerKind::from_code)?,
        name: row.name,
        is_public: row.is_public,
        versions,
        prerequisites: prerequisites.into_iter().map(read).collect::<Work<_>>()?,
        created_at: WallTime(row.created_at),
        updated_at: WallTime(row.updated_at),
    })
}
