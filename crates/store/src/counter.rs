//! Named counters. Counting locks the counter's row until the transaction ends, so what counts comes one after the other.

use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, ExprTrait, IntoActiveModel, QueryFilter, QuerySelect};

use crate::entity::counter::{Column, Entity, Model};
use crate::failure::{Work, is_duplicate, lost};

/// Revisions of settings.
pub(crate) const SETTINGS: &str = "settings";
/// Changes of what is registered.
pub(crate) const REGISTRY: &str = "registry";
/// Changes of switches.
pub(crate) const SWITCHES: &str = "switches";

/// Counts one further, from 1.
pub(crate) async fn next(tx: &DatabaseTransaction, name: &str) -> Work<i64> {
    let count = || {
        Entity::update_many()
            .col_expr(Column::Reached, Expr::col(Column::Reached).add(1))
            .filter(Column::Name.eq(name))
            .exec(tx)
    };
    if count().await?.rows_affected == 0 {
        let none = Model { name: name.to_owned(), reached: 0 };
        match Entity::insert(none.into_active_model()).exec_without_returning(tx).await {
            Err(error) if !is_duplicate(&error) => return Err(error.into()),
            // Made here, or by another transaction at the same time.
            _ => count().await?,
        };
    }
    let row = Entity::find_by_id(name).one(tx).await?;
    Ok(row.ok_or_else(|| lost("counter"))?.reached)
}

/// Locks the counter's row until the transaction ends, and says how far it has counted.
pub(crate) async fn lock(tx: &DatabaseTransaction, name: &str) -> Work<i64> {
    match Entity::find_by_id(name).lock_exclusive().one(tx).await? {
        Some(row) => Ok(row.reached),
        None => next(tx, name).await,
    }
}
