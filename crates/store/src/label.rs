//! Labels on injections and executions: text by key, for whoever looks for them later.

use model::{ErrorKind, ExecutionId, InjectionId, Problem, Result};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QuerySelect};
use serde_json::{Map, Value};

use crate::connect::Store;
use crate::convert::{json, to_json};
use crate::entity;
use crate::failure::Work;
use crate::missing::not_found;

/// More than anybody reads.
const MOST_LABELS: usize = 100;

impl Store {
    /// Takes labels away by their keys, then sets others.
    ///
    /// # Errors
    /// `datapack.unknown`; `label.too_many`.
    pub async fn label_injection(&self, id: InjectionId, add: &[(String, String)], remove: &[String]) -> Result<()> {
        use entity::injection::{Column, Entity};
        self.write(|tx, _| {
            Box::pin(async move {
                let row = Entity::find_by_id(id.0).lock_exclusive().one(tx).await?;
                let row = row.ok_or_else(|| not_found("datapack.unknown", "datapack", id))?;
                let labels = changed(Some(&row.labels), add, remove)?;
                Entity::update_many()
                    .col_expr(Column::Labels, Expr::value(labels))
                    .filter(Column::Id.eq(id.0))
                    .exec(tx)
                    .await?;
                Ok(())
            })
        })
        .await
    }

    /// The same for an execution.
    ///
    /// # Errors
    /// `execution.unknown`; `label.too_many`.
    pub async fn label_execution(&self, id: ExecutionId, add: &[(String, String)], remove: &[String]) -> Result<()> {
        use entity::execution::{Column, Entity};
        self.write(|tx, _| {
            Box::pin(async move {
                let row = Entity::find_by_id(id.0).lock_exclusive().one(tx).await?;
                let row = row.ok_or_else(|| not_found("execution.unknown", "execution", id))?;
                let labels = changed(row.labels.as_deref(), add, remove)?;
                Entity::update_many()
                    .col_expr(Column::Labels, Expr::value(labels))
                    .filter(Column::Id.eq(id.0))
                    .exec(tx)
                    .await?;
                Ok(())
            })
        })
        .await
    }
}

fn changed(stored: Option<&str>, add: &[(String, String)], remove: &[String]) -> Work<String> {
    let mut labels: Map<String, Value> = stored.map(|text| json("labels", text)).transpose()?.unwrap_or_default();
    labels.retain(|key, _| !remove.contains(key));
    for (key, value) in add {
        labels.insert(key.clone(), Value::from(value.as_str()));
    }
    if labels.len() > MOST_LABELS {
        return Err(Problem::new(ErrorKind::Invalid, "label.too_many", "there would be too many labels")
            .found(labels.len().to_string())
            .expected(format!("at most {MOST_LABELS}"))
            .into());
    }
    Ok(to_json(&labels))
}
