//! Users with passwords, and API keys with the nonces of their signed calls. Secrets come here hashed or sealed.

use model::{ErrorKind, Problem, Result, WallTime};
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveValue, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder, QuerySelect};

use crate::connect::Store;
use crate::convert::{wall, word};
use crate::entity;
use crate::failure::{Failure, Work, is_duplicate};
use crate::missing::not_found;
use crate::token::{TokenOrigin, TokenRole, revoke_origin};

/// Someone who logs in with a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub id: i32,
    pub name: String,
    pub role: TokenRole,
    /// In the PHC string form.
    pub password_hash: String,
    pub created_at: WallTime,
    pub updated_at: WallTime,
}

/// A key that signs calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// The public part.
    pub key_id: String,
    pub name: String,
    pub role: TokenRole,
    /// The secret, encrypted: checking a signature needs it.
    pub sealed_secret: String,
    pub created_by: String,
    pub created_at: WallTime,
    pub expires_at: Option<WallTime>,
    pub last_used_at: Option<WallTime>,
    pub revoked_at: Option<WallTime>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApiKey {
    pub key_id: String,
    pub name: String,
    pub role: TokenRole,
    pub sealed_secret: String,
    pub created_by: String,
    pub expires_at: Option<WallTime>,
}

impl User {
    fn read(row: entity::user::Model) -> Work<Self> {
        Ok(Self {
            id: row.id,
            name: row.name,
            role: word("role", row.role.as_str(), TokenRole::parse)?,
            password_hash: row.password_hash,
            created_at: WallTime(row.created_at),
            updated_at: WallTime(row.updated_at),
        })
    }
}

impl ApiKey {
    fn read(row: entity::api_key::Model) -> Work<Self> {
        Ok(Self {
            key_id: row.key_id,
            name: row.name,
            role: word("role", row.role.as_str(), TokenRole::parse)?,
            sealed_secret: row.sealed_secret,
            created_by: row.created_by,
            created_at: WallTime(row.created_at),
            expires_at: wall(row.expires_at),
            last_used_at: wall(row.last_used_at),
            revoked_at: wall(row.revoked_at),
        })
    }
}

/// Users.
impl Store {
    /// Stores a user's password and role. Whoever logged in with the old password is logged out.
    pub async fn put_user(&self, name: &str, role: TokenRole, password_hash: &str) -> Result<User> {
        use entity::user::{Column, Entity, Model};
        self.write(|tx, _| {
            Box::pin(async move {
                let now = WallTime::now().0;
                let found = Entity::find().filter(Column::Name.eq(name)).lock_exclusive().one(tx).await?;
                if found.is_some() {
                    Entity::update_many()
                        .col_expr(Column::Role, Expr::value(role.as_str()))
                        .col_expr(Column::PasswordHash, Expr::value(password_hash))
                        .col_expr(Column::UpdatedAt, Expr::value(now))
                        .filter(Column::Name.eq(name))
                        .exec(tx)
                        .await?;
                    revoke_origin(tx, &TokenOrigin::Password(name.to_owned())).await?;
                } else {
                    let row = Model {
                        id: 0,
                        name: name.to_owned(),
                        role: role.as_str().to_owned(),
                        password_hash: password_hash.to_owned(),
                        created_at: now,
                        updated_at: now,
                    };
                    let mut row = row.into_active_model();
                    row.id = ActiveValue::NotSet;
                    Entity::insert(row).exec_without_returning(tx).await?;
                }
                let row = Entity::find().filter(Column::Name.eq(name)).one(tx).await?;
                User::read(row.ok_or_else(|| crate::failure::lost("user"))?)
            })
        })
        .await
    }

    /// The user of this name, if there is one.
    pub async fn user(&self, name: &str) -> Result<Option<User>> {
        let found = entity::user::Entity::find().filter(entity::user::Column::Name.eq(name)).one(self.reader()).await;
        Ok(found.map_err(Failure::from)?.map(User::read).transpose()?)
    }

    /// Every user, by name.
    pub async fn users(&self) -> Result<Vec<User>> {
        let rows = entity::user::Entity::find().order_by_asc(entity::user::Column::Name).all(self.reader()).await;
        Ok(rows.map_err(Failure::from)?.into_iter().map(User::read).collect::<Work<_>>()?)
    }
}

/// Keys.
impl Store {
    pub async fn add_key(&self, new: &NewApiKey) -> Result<ApiKey> {
        use entity::api_key::{Column, Entity, Model};
        self.write(|tx, _| {
            Box::pin(async move {
                let row = Model {
                    id: 0,
                    key_id: new.key_id.clone(),
                    name: new.name.clone(),
                    role: new.role.as_str().to_owned(),
                    sealed_secret: new.sealed_secret.clone(),
                    created_by: new.created_by.clone(),
                    created_at: WallTime::now().0,
                    expires_at: new.expires_at.map(|at| at.0),
                    last_used_at: None,
                    revoked_at: None,
                };
                let mut row = row.into_active_model();
                row.id = ActiveValue::NotSet;
                Entity::insert(row).exec_without_returning(tx).await?;
                let row = Entity::find().filter(Column::KeyId.eq(new.key_id.as_str())).one(tx).await?;
                ApiKey::read(row.ok_or_else(|| crate::failure::lost("API key"))?)
            })
        })
        .await
    }

    /// The key of this id, if there is one.
    pub async fn key(&self, key_id: &str) -> Result<Option<ApiKey>> {
        use entity::api_key::{Column, Entity};
        let found = Entity::find().filter(Column::KeyId.eq(key_id)).one(self.reader()).await;
        Ok(found.map_err(Failure::from)?.map(ApiKey::read).transpose()?)
    }

    /// Every key, oldest first.
    pub async fn keys(&self) -> Result<Vec<ApiKey>> {
        use entity::api_key::{Column, Entity};
        let rows = Entity::find().order_by_asc(Column::Id).all(self.reader()).await;
        Ok(rows.map_err(Failure::from)?.into_iter().map(ApiKey::read).collect::<Work<_>>()?)
    }

    /// Makes a key and every token that it gave invalid. A second time changes nothing.
    ///
    /// # Errors
    /// `key.unknown`.
    pub async fn revoke_key(&self, key_id: &str) -> Result<ApiKey> {
        use entity::api_key::{Column, Entity};
        self.write(|tx, _| {
            Box::pin(async move {
                Entity::update_many()
                    .col_expr(Column::RevokedAt, Expr::value(WallTime::now().0))
                    .filter(Column::KeyId.eq(key_id))
                    .filter(Column::RevokedAt.is_null())
                    .exec(tx)
                    .await?;
                revoke_origin(tx, &TokenOrigin::Key(key_id.to_owned())).await?;
                let row = Entity::find().filter(Column::KeyId.eq(key_id)).one(tx).await?;
                ApiKey::read(row.ok_or_else(|| not_found("key.unknown", "API key", key_id))?)
            })
        })
        .await
    }

    /// Notes that a key signed a call with this nonce. The nonce is kept until `expires_at`.
    ///
    /// # Errors
    /// `key.nonce_used`.
    pub async fn use_key(&self, key_id: &str, nonce: &str, expires_at: WallTime) -> Result<()> {
        use entity::nonce::{Column, Entity, Model};
        self.write(|tx, _| {
            Box::pin(async move {
                let now = WallTime::now().0;
                Entity::delete_many().filter(Column::ExpiresAt.lt(now)).exec(tx).await?;
                let row = Model { key_id: key_id.to_owned(), nonce: nonce.to_owned(), expires_at: expires_at.0 };
                match Entity::insert(row.into_active_model()).exec_without_returning(tx).await {
                    Ok(_) => {}
                    Err(error) if is_duplicate(&error) => {
                        let message = "the signed call was made before";
                        return Err(Problem::new(ErrorKind::Unauthenticated, "key.nonce_used", message)
                            .fix("draw a new nonce for each call")
                            .into());
                    }
                    Err(error) => return Err(error.into()),
                }
                entity::api_key::Entity::update_many()
                    .col_expr(entity::api_key::Column::LastUsedAt, Expr::value(now))
                    .filter(entity::api_key::Column::KeyId.eq(key_id))
                    .exec(tx)
                    .await?;
                Ok(())
            })
        })
        .await
    }
}
