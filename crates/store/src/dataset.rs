//! Data sets: named, versioned, immutable sets of datapacks.

use model::{DatasetId, ErrorKind, InjectionId, Problem, Result, WallTime};
use sea_orm::{ActiveValue, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder};
use serde_json::Value;

use crate::connect::Store;
use crate::convert::{optional_json, to_json};
use crate::entity;
use crate::failure::{Failure, Work, is_duplicate};

/// One version of a data set. A version never changes: its digest is that of its manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    pub id: DatasetId,
    pub name: String,
    pub version: String,
    pub description: String,
    /// License, split, and of each member the checksum; absent in what was stored before manifests.
    pub manifest: Option<Value>,
    /// SHA-256 of the manifest as it is downloaded.
    pub digest: Option<String>,
    pub members: Vec<InjectionId>,
    pub created_at: WallTime,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewDataset {
    pub name: String,
    pub version: String,
    pub description: String,
    pub manifest: Value,
    pub digest: String,
    pub members: Vec<InjectionId>,
}

impl Store {
    /// Stores a version of a data set.
    ///
    /// # Errors
    /// `dataset.exists` when the name and version are taken.
    pub async fn add_dataset(&self, new: &NewDataset) -> Result<DatasetId> {
        self.write(|tx, _| {
            Box::pin(async move {
                let row = entity::dataset::Model {
                    id: 0,
                    name: new.name.clone(),
                    version: new.version.clone(),
                    description: new.description.clone(),
                    created_at: WallTime::now().0,
                    manifest: Some(to_json(&new.manifest)),
                    digest: Some(new.digest.clone()),
                };
                let mut row = row.into_active_model();
                row.id = ActiveValue::NotSet;
                let id = match entity::dataset::Entity::insert(row).exec(tx).await {
                    Ok(inserted) => inserted.last_insert_id,
                    Err(error) if is_duplicate(&error) => return Err(exists(new).into()),
                    Err(error) => return Err(error.into()),
                };
                for part in new.members.chunks(400) {
                    let rows = part.iter().map(|member| {
                        entity::dataset_member::Model { dataset_id: id, injection_id: member.0 }.into_active_model()
                    });
                    entity::dataset_member::Entity::insert_many(rows).exec_without_returning(tx).await?;
                }
                Ok(DatasetId(id))
            })
        })
        .await
    }

    /// Every version of every data set with its members, oldest first.
    pub async fn datasets(&self) -> Result<Vec<Dataset>> {
        let rows = entity::dataset::Entity::find().order_by_asc(entity::dataset::Column::Id).all(self.reader()).await;
        let mut datasets = Vec::new();
        for row in rows.map_err(Failure::from)? {
            datasets.push(self.with_members(row).await?);
        }
        Ok(datasets)
    }

    async fn with_members(&self, row: entity::dataset::Model) -> Result<Dataset> {
        use entity::dataset_member::Column;
        let members = entity::dataset_member::Entity::find()
            .filter(Column::DatasetId.eq(row.id))
            .order_by_asc(Column::InjectionId)
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        let manifest: Work<Option<Value>> = optional_json("data set's manifest", row.manifest.as_deref());
        Ok(Dataset {
            id: DatasetId(row.id),
            name: row.name,
            version: row.version,
            description: row.description,
            manifest: manifest?,
            digest: row.digest,
            members: members.into_iter().map(|member| InjectionId(member.injection_id)).collect(),
            created_at: WallTime(row.created_at),
        })
    }
}

fn exists(new: &NewDataset) -> Problem {
    Problem::new(
        ErrorKind::Conflict,
        "dataset.exists",
        "this version of the data set exists already, and never changes",
    )
    .found(format!("`{}` {}", new.name, new.version))
    .fix("use a new version")
}
