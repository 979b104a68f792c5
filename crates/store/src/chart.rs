//! The charts that versions install, each with its archive once that is known. A chart never changes under its version.

use std::collections::HashMap;

use model::{ErrorKind, Problem, Result, WallTime};
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveValue, ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel, QueryFilter};

use crate::connect::Store;
use crate::counter;
use crate::entity::{chart, version};
use crate::failure::{Failure, Work};
use crate::register::{Layer, LayerWrite};
use crate::setting::Written;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewChart {
    pub repository: String,
    pub repository_name: String,
    pub name: String,
    pub version: String,
    /// What was fetched of it, where something was.
    pub archive: Option<KeptArchive>,
}

/// A chart's archive in the store of archives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptArchive {
    /// SHA-256 in hexadecimal.
    pub digest: String,
    /// The address that it was fetched from, or who handed it over.
    pub source: String,
}

impl Store {
    /// SHA-256 of every archive that is recorded, by repository, name and version of its chart.
    pub async fn recorded_archives(&self) -> Result<HashMap<[String; 3], String>> {
        let recorded = chart::Entity::find()
            .filter(chart::Column::ArchiveDigest.is_not_null())
            .all(self.reader())
            .await
            .map_err(Failure::from)?;
        let archives =
            recorded.into_iter().filter_map(|row| Some(([row.repository, row.name, row.version], row.archive_digest?)));
        Ok(archives.collect())
    }

    /// Records which archive a chart is that versions install.
    ///
    /// # Errors
    /// `chart.unknown`; `chart.digest_differs` when another archive is recorded.
    pub async fn record_archive(
        &self,
        repository: &str,
        name: &str,
        version: &str,
        archive: &KeptArchive,
    ) -> Result<()> {
        self.write(|tx, _| {
            Box::pin(async move {
                counter::next(tx, counter::REGISTRY).await?;
                let row = chart::Entity::find()
                    .filter(chart::Column::Repository.eq(repository))
                    .filter(chart::Column::Name.eq(name))
                    .filter(chart::Column::Version.eq(version))
                    .one(tx)
                    .await?;
                let row = row.ok_or_else(|| crate::missing::not_found("chart.unknown", "chart", name))?;
                keep_archive(tx, &row, Some(archive)).await?;
                Ok(())
            })
        })
        .await
    }
}

pub(crate) async fn put_chart(tx: &DatabaseTransaction, new: &NewChart, writes: &mut Vec<LayerWrite>) -> Work<i32> {
    let before = chart::Entity::find()
        .filter(chart::Column::Repository.eq(new.repository.as_str()))
        .filter(chart::Column::Name.eq(new.name.as_str()))
        .filter(chart::Column::Version.eq(new.version.as_str()))
        .one(tx)
        .await?;
    let (id, written) = match before {
        Some(row) => {
            let written = keep_archive(tx, &row, new.archive.as_ref()).await?;
            (row.id, written)
        }
        None => {
            let row = chart::Model {
                id: 0,
                repository: new.repository.clone(),
                repository_name: new.repository_name.clone(),
                name: new.name.clone(),
                version: new.version.clone(),
                archive_digest: new.archive.as_ref().map(|archive| archive.digest.clone()),
                archive_source: new.archive.as_ref().map(|archive| archive.source.clone()),
                fetched_at: new.archive.as_ref().map(|_| WallTime::now().0),
                created_at: WallTime::now().0,
            };
            let mut row = row.into_active_model();
            row.id = ActiveValue::NotSet;
            (chart::Entity::insert(row).exec(tx).await?.last_insert_id, Written::New)
        }
    };
    let (key, value) = (format!("{} {}", new.name, new.version), new.repository.clone());
    writes.push(LayerWrite { layer: Layer::Chart, key, value, written });
    Ok(id)
}

/// Records which archive a chart is. One that is recorded already never becomes another one.
async fn keep_archive(tx: &DatabaseTransaction, row: &chart::Model, new: Option<&KeptArchive>) -> Work<Written> {
    let Some(new) = new else { return Ok(Written::Same) };
    match &row.archive_digest {
        Some(kept) if *kept == new.digest => return Ok(Written::Same),
        Some(kept) => {
            return Err(Problem::new(
                ErrorKind::Conflict,
                "chart.digest_differs",
                "another archive is recorded under this chart and version",
            )
            .place(format!("{} {} of {}", row.name, row.version, row.repository))
            .found(format!("sha256:{} from {}", new.digest, new.source))
            .expected(format!("sha256:{kept}"))
            .fix("a chart never changes under its version: publish it under a new one, and name that in the seed")
            .into());
        }
        None => {}
    }
    chart::Entity::update_many()
        .col_expr(chart::Column::ArchiveDigest, Expr::value(new.digest.clone()))
        .col_expr(chart::Column::ArchiveSource, Expr::value(new.source.clone()))
        .col_expr(chart::Column::FetchedAt, Expr::value(WallTime::now().0))
        .filter(chart::Column::Id.eq(row.id))
        .exec(tx)
        .await?;
    Ok(Written::Changed)
}

pub(crate) async fn remove_unused_charts(tx: &DatabaseTransaction) -> Work<u64> {
    let used = sea_orm::sea_query::Query::select()
        .column(version::Column::ChartId)
        .from(version::Entity)
        .and_where(version::Column::ChartId.is_not_null())
        .to_owned();
    let unused = chart::Entity::delete_many().filter(chart::Column::Id.not_in_subquery(used));
    Ok(unused.exec(tx).await?.rows_affected)
}
