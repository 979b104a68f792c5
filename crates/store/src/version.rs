//! Writing containers and their versions. A version's image, command and chart never change under its name; its
//! environment, parameters and overlay may, as a new content-hashed revision.

use model::{ErrorKind, Problem, Result, WallTime};
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveValue, ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel, PaginatorTrait, QueryFilter,
    QuerySelect,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::chart::{NewChart, put_chart, remove_unused_charts};
use crate::connect::Store;
use crate::convert::to_json;
use crate::counter;
use crate::entity::{container, overlay, prerequisite, revision, system_container, version};
use crate::failure::Work;
use crate::register::{Layer, LayerWrite, contradicts};
use crate::registry::ContainerKind;
use crate::setting::Written;

#[derive(Debug, Clone, PartialEq)]
pub struct NewContainer {
    pub kind: ContainerKind,
    pub name: String,
    pub is_public: bool,
    pub versions: Vec<NewVersion>,
    pub prerequisites: Vec<NewPrerequisite>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewVersion {
    pub name: String,
    /// Empty for a pedestal.
    pub image_ref: String,
    /// Empty for a pedestal.
    pub command: String,
    pub github_link: String,
    pub enabled: bool,
    pub chart: Option<NewChart>,
    pub env: Value,
    pub parameters: Value,
    pub overlay: Option<NewOverlay>,
    /// The composed values with the origin of each leaf.
    pub composed: Value,
    /// File and line.
    pub place: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOverlay {
    pub name: String,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewPrerequisite {
    pub kind: String,
    pub name: String,
    pub definition: Value,
}

impl NewVersion {
    /// SHA-256 of what may change under the version's name, in hexadecimal: environment, parameters, overlay.
    pub fn revision_digest(&self) -> String {
        let overlay = self.overlay.as_ref().map(|overlay| sha256(&overlay.bytes));
        let content = json!({"env": self.env, "parameters": self.parameters, "overlay": overlay});
        sha256(to_json(&content).as_bytes())
    }
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

impl Store {
    /// Whether runs may use a version. One that is retired stays printable.
    pub async fn set_version_enabled(
        &self,
        kind: ContainerKind,
        container: &str,
        version: &str,
        enabled: bool,
    ) -> Result<()> {
        self.write(|tx, _| {
            Box::pin(async move {
                counter::next(tx, counter::REGISTRY).await?;
                version::Entity::update_many()
                    .col_expr(version::Column::Enabled, Expr::value(enabled))
                    .filter(version::Column::ContainerId.in_subquery(number_of(kind, container)))
                    .filter(version::Column::Name.eq(version))
                    .exec(tx)
                    .await?;
                Ok(())
            })
        })
        .await
    }
}

/// Selects the number of a container.
fn number_of(kind: ContainerKind, name: &str) -> sea_orm::sea_query::SelectStatement {
    sea_orm::sea_query::Query::select()
        .column(container::Column::Id)
        .from(container::Entity)
        .and_where(container::Column::Kind.eq(kind.code()))
        .and_where(container::Column::Name.eq(name))
        .to_owned()
}

/// Brings a container to what is declared and returns its number. Versions that are not declared stay.
pub(crate) async fn put_container(
    tx: &DatabaseTransaction,
    new: &NewContainer,
    writes: &mut Vec<LayerWrite>,
) -> Work<i32> {
    refuse_shared_name(tx, new).await?;
    let before = container::Entity::find()
        .filter(container::Column::Kind.eq(new.kind.code()))
        .filter(container::Column::Name.eq(new.name.as_str()))
        .lock_exclusive()
        .one(tx)
        .await?;
    let now = WallTime::now().0;
    let (id, written) = match before {
        Some(row) if row.is_public == new.is_public => (row.id, Written::Same),
        Some(row) => {
            container::Entity::update_many()
                .col_expr(container::Column::IsPublic, Expr::value(new.is_public))
                .col_expr(container::Column::UpdatedAt, Expr::value(now))
                .filter(container::Column::Id.eq(row.id))
                .exec(tx)
                .await?;
            (row.id, Written::Changed)
        }
        None => {
            let row = container::Model {
                id: 0,
                kind: new.kind.code(),
                name: new.name.clone(),
                is_public: new.is_public,
                created_at: now,
                updated_at: now,
            };
            let mut row = row.into_active_model();
            row.id = ActiveValue::NotSet;
            (container::Entity::insert(row).exec(tx).await?.last_insert_id, Written::New)
        }
    };
    let key = format!("{} {}", new.kind.as_str(), new.name);
    let value = format!("{} versions", new.versions.len());
    writes.push(LayerWrite { layer: Layer::Database, key, value, written });
    for version in &new.versions {
        put_version(tx, id, new, version, writes).await?;
    }
    put_prerequisites(tx, id, new, writes).await?;
    Ok(id)
}

async fn refuse_shared_name(tx: &DatabaseTransaction, new: &NewContainer) -> Work<()> {
    let same = container::Entity::find().filter(container::Column::Name.eq(new.name.as_str())).all(tx).await?;
    let other =
        same.iter().filter_map(|row| ContainerKind::from_code(row.kind)).find(|kind| contradicts(new.kind, *kind));
    let Some(other) = other else { return Ok(()) };
    Err(Problem::new(ErrorKind::Conflict, "container.name_taken", "a benchmark and a pedestal cannot share a name")
        .found(format!("{} `{}`, and a {} of that name", new.kind.as_str(), new.name, other.as_str()))
        .fix(format!(
            "rename the {}",
            if other == ContainerKind::Pedestal { new.kind.as_str() } else { other.as_str() }
        ))
        .into())
}

async fn put_version(
    tx: &DatabaseTransaction,
    container: i32,
    owner: &NewContainer,
    new: &NewVersion,
    writes: &mut Vec<LayerWrite>,
) -> Work<()> {
    let chart_id = match &new.chart {
        Some(chart) => Some(put_chart(tx, chart, writes).await?),
        None => None,
    };
    let digest = new.revision_digest();
    let find = version::Entity::find()
        .filter(version::Column::ContainerId.eq(container))
        .filter(version::Column::Name.eq(new.name.as_str()));
    let before = find.lock_exclusive().one(tx).await?;
    let (id, written) = match before {
        None => (insert_version(tx, container, new, chart_id, &digest).await?, Written::New),
        Some(row) => {
            refuse_change(tx, owner, new, &row, chart_id).await?;
            let whole = row.command == new.command && row.chart_id == chart_id;
            let same = whole
                && row.current_digest == digest
                && row.enabled == new.enabled
                && row.github_link == new.github_link;
            if !same {
                version::Entity::update_many()
                    .col_expr(version::Column::Command, Expr::value(new.command.clone()))
                    .col_expr(version::Column::ChartId, Expr::value(chart_id))
                    .col_expr(version::Column::CurrentDigest, Expr::value(digest.clone()))
                    .col_expr(version::Column::Enabled, Expr::value(new.enabled))
                    .col_expr(version::Column::GithubLink, Expr::value(new.github_link.clone()))
                    .filter(version::Column::Id.eq(row.id))
                    .exec(tx)
                    .await?;
            }
            (row.id, if same { Written::Same } else { Written::Changed })
        }
    };
    put_revision(tx, id, new, &digest).await?;
    let key = format!("{} {} {}", owner.kind.as_str(), owner.name, new.name);
    let value = format!("revision {}", &digest[..12]);
    writes.push(LayerWrite { layer: Layer::Database, key, value, written });
    Ok(())
}

async fn insert_version(
    tx: &DatabaseTransaction,
    container: i32,
    new: &NewVersion,
    chart_id: Option<i32>,
    digest: &str,
) -> Work<i32> {
    let row = version::Model {
        id: 0,
        container_id: container,
        name: new.name.clone(),
        image_ref: new.image_ref.clone(),
        command: new.command.clone(),
        github_link: new.github_link.clone(),
        chart_id,
        enabled: new.enabled,
        current_digest: digest.to_owned(),
        created_at: WallTime::now().0,
    };
    let mut row = row.into_active_model();
    row.id = ActiveValue::NotSet;
    Ok(version::Entity::insert(row).exec(tx).await?.last_insert_id)
}

/// Image, command and chart are what a version's name stands for. One that lost its command or its chart stands for nothing, and
/// gets back what is declared.
async fn refuse_change(
    tx: &DatabaseTransaction,
    owner: &NewContainer,
    new: &NewVersion,
    row: &version::Model,
    chart_id: Option<i32>,
) -> Work<()> {
    let changed = [
        ("image", row.image_ref != new.image_ref, row.image_ref.clone(), new.image_ref.clone()),
        ("command", !row.command.is_empty() && row.command != new.command, row.command.clone(), new.command.clone()),
        ("chart", row.chart_id.is_some() && row.chart_id != chart_id, "another chart".to_owned(), chart_words(new)),
    ];
    let Some((what, _, old, fresh)) = changed.into_iter().find(|(_, differs, _, _)| *differs) else { return Ok(()) };
    let free = free_name(tx, row).await?;
    Err(Problem::new(ErrorKind::Conflict, "version.immutable", format!("the {what} of a version cannot change"))
        .place(format!("{} {} {}: {}", owner.kind.as_str(), owner.name, new.name, new.place))
        .found(format!("`{fresh}`"))
        .expected(format!("`{old}`"))
        .fix(format!("give it a new version's name, for example `{free}`"))
        .into())
}

fn chart_words(new: &NewVersion) -> String {
    new.chart.as_ref().map_or("no chart".to_owned(), |chart| format!("{} {}", chart.name, chart.version))
}

/// Puts image, command and chart of a version back to what its name stands for, after they were changed by another way.
pub(crate) async fn restore_version(
    tx: &DatabaseTransaction,
    kind: ContainerKind,
    name: &str,
    meant: &NewVersion,
    writes: &mut Vec<LayerWrite>,
) -> Work<()> {
    let chart_id = match &meant.chart {
        Some(chart) => Some(put_chart(tx, chart, writes).await?),
        None => None,
    };
    version::Entity::update_many()
        .col_expr(version::Column::ImageRef, Expr::value(meant.image_ref.clone()))
        .col_expr(version::Column::Command, Expr::value(meant.command.clone()))
        .col_expr(version::Column::ChartId, Expr::value(chart_id))
        .filter(version::Column::ContainerId.in_subquery(number_of(kind, name)))
        .filter(version::Column::Name.eq(meant.name.as_str()))
        .exec(tx)
        .await?;
    Ok(())
}

/// The next name after this version's that no version of the container has.
async fn free_name(tx: &DatabaseTransaction, row: &version::Model) -> Work<String> {
    let names: Vec<String> = version::Entity::find()
        .filter(version::Column::ContainerId.eq(row.container_id))
        .select_only()
        .column(version::Column::Name)
        .into_tuple()
        .all(tx)
        .await?;
    let digits = row.name.len() - row.name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (head, tail) = row.name.split_at(row.name.len() - digits);
    let first = tail.parse::<u64>().ok();
    let name = |number: u64| match first {
        Some(first) => format!("{head}{}", first.saturating_add(number)),
        None => format!("{}-{number}", row.name),
    };
    Ok((1..).map(name).find(|name| !names.contains(name)).expect("one of endlessly many names is free"))
}

async fn put_revision(tx: &DatabaseTransaction, version: i32, new: &NewVersion, digest: &str) -> Work<()> {
    let there = revision::Entity::find()
        .filter(revision::Column::VersionId.eq(version))
        .filter(revision::Column::Digest.eq(digest))
        .one(tx)
        .await?;
    let overlay_hash = match &new.overlay {
        Some(overlay) => Some(put_overlay(tx, overlay).await?),
        None => None,
    };
    if let Some(row) = there {
        return restore_revision(tx, &row, new, overlay_hash).await;
    }
    let row = revision::Model {
        id: 0,
        version_id: version,
        digest: digest.to_owned(),
        env: to_json(&new.env),
        parameters: to_json(&new.parameters),
        overlay_hash,
        composed: to_json(&new.composed),
        place: new.place.clone(),
        created_at: WallTime::now().0,
    };
    let mut row = row.into_active_model();
    row.id = ActiveValue::NotSet;
    revision::Entity::insert(row).exec_without_returning(tx).await?;
    Ok(())
}

/// A revision's digest says what is in it: a row that no longer is what its digest says gets that back.
async fn restore_revision(
    tx: &DatabaseTransaction,
    row: &revision::Model,
    new: &NewVersion,
    overlay_hash: Option<String>,
) -> Work<()> {
    let (env, parameters, composed) = (to_json(&new.env), to_json(&new.parameters), to_json(&new.composed));
    let is_whole = row.env == env && row.parameters == parameters && row.overlay_hash == overlay_hash;
    if is_whole && row.composed == composed {
        return Ok(());
    }
    revision::Entity::update_many()
        .col_expr(revision::Column::Env, Expr::value(env))
        .col_expr(revision::Column::Parameters, Expr::value(parameters))
        .col_expr(revision::Column::OverlayHash, Expr::value(overlay_hash))
        .col_expr(revision::Column::Composed, Expr::value(composed))
        .filter(revision::Column::Id.eq(row.id))
        .exec(tx)
        .await?;
    Ok(())
}

async fn put_overlay(tx: &DatabaseTransaction, new: &NewOverlay) -> Work<String> {
    let hash = sha256(&new.bytes);
    match overlay::Entity::find_by_id(hash.as_str()).one(tx).await? {
        Some(row) if row.content == new.bytes => {}
        // Its name is the hash of what it must hold.
        Some(_) => {
            overlay::Entity::update_many()
                .col_expr(overlay::Column::Content, Expr::value(new.bytes.clone()))
                .filter(overlay::Column::Hash.eq(hash.as_str()))
                .exec(tx)
                .await?;
        }
        None => {
            let row = overlay::Model {
                hash: hash.clone(),
                name: new.name.clone(),
                content: new.bytes.clone(),
                created_at: WallTime::now().0,
            };
            overlay::Entity::insert(row.into_active_model()).exec_without_returning(tx).await?;
        }
    }
    Ok(hash)
}

async fn put_prerequisites(
    tx: &DatabaseTransaction,
    container: i32,
    owner: &NewContainer,
    writes: &mut Vec<LayerWrite>,
) -> Work<()> {
    for new in &owner.prerequisites {
        let before = prerequisite::Entity::find()
            .filter(prerequisite::Column::ContainerId.eq(container))
            .filter(prerequisite::Column::Kind.eq(new.kind.as_str()))
            .filter(prerequisite::Column::Name.eq(new.name.as_str()))
            .one(tx)
            .await?;
        let definition = to_json(&new.definition);
        let written = match before {
            Some(row) if row.definition == definition => Written::Same,
            Some(row) => {
                prerequisite::Entity::update_many()
                    .col_expr(prerequisite::Column::Definition, Expr::value(definition))
                    .col_expr(prerequisite::Column::Status, Expr::value("pending"))
                    .filter(prerequisite::Column::Id.eq(row.id))
                    .exec(tx)
                    .await?;
                Written::Changed
            }
            None => {
                let row = prerequisite::Model {
                    id: 0,
                    container_id: container,
                    kind: new.kind.clone(),
                    name: new.name.clone(),
                    definition,
                    status: "pending".to_owned(),
                    created_at: WallTime::now().0,
                };
                let mut row = row.into_active_model();
                row.id = ActiveValue::NotSet;
                prerequisite::Entity::insert(row).exec_without_returning(tx).await?;
                Written::New
            }
        };
        let (key, value) = (format!("prerequisite {}", new.name), new.kind.clone());
        writes.push(LayerWrite { layer: Layer::Database, key, value, written });
    }
    Ok(())
}

/// Removes a system's containers that no other system uses, with everything below them. Returns the number of records
/// removed, and of charts.
pub(crate) async fn remove_containers(tx: &DatabaseTransaction, system: i32) -> Work<(u64, u64)> {
    let links = system_container::Entity::find().filter(system_container::Column::SystemId.eq(system)).all(tx).await?;
    let removed = system_container::Entity::delete_many().filter(system_container::Column::SystemId.eq(system));
    let mut count = removed.exec(tx).await?.rows_affected;
    for link in links {
        let used = system_container::Entity::find().filter(system_container::Column::ContainerId.eq(link.container_id));
        if used.count(tx).await? == 0 {
            count += remove_container(tx, link.container_id).await?;
        }
    }
    Ok((count, remove_unused_charts(tx).await?))
}

async fn remove_container(tx: &DatabaseTransaction, id: i32) -> Work<u64> {
    let versions = version::Entity::find().filter(version::Column::ContainerId.eq(id)).all(tx).await?;
    let mut count = 0;
    for row in versions {
        let revisions = revision::Entity::delete_many().filter(revision::Column::VersionId.eq(row.id));
        count += revisions.exec(tx).await?.rows_affected;
        count += version::Entity::delete_by_id(row.id).exec(tx).await?.rows_affected;
    }
    let prerequisites = prerequisite::Entity::delete_many().filter(prerequisite::Column::ContainerId.eq(id));
    count += prerequisites.exec(tx).await?.rows_affected;
    if let Some(row) = container::Entity::find_by_id(id).one(tx).await? {
        crate::seed::forget_container(tx, &row).await?;
    }
    count += container::Entity::delete_by_id(id).exec(tx).await?.rows_affected;
    count += remove_unused_overlays(tx).await?;
    Ok(count)
}

async fn remove_unused_overlays(tx: &DatabaseTransaction) -> Work<u64> {
    let used = sea_orm::sea_query::Query::select()
        .column(revision::Column::OverlayHash)
        .from(revision::Entity)
        .and_where(revision::Column::OverlayHash.is_not_null())
        .to_owned();
    let unused = overlay::Entity::delete_many().filter(overlay::Column::Hash.not_in_subquery(used));
    Ok(unused.exec(tx).await?.rows_affected)
}
