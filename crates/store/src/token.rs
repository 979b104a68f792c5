//! Access tokens: only their hashes are stored.

use model::{ErrorKind, Problem, Result, WallTime};
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveValue, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder};

use crate::connect::Store;
use crate::convert::{fit, wall, word};
use crate::entity::{self, token::Column};
use crate::failure::{Failure, Work};

/// What the bearer of a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenRole {
    Admin,
    Operator,
    Author,
    Viewer,
}

impl TokenRole {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Operator => "operator",
            Self::Author => "author",
            Self::Viewer => "viewer",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Admin, Self::Operator, Self::Author, Self::Viewer].into_iter().find(|role| role.as_str() == text)
    }
}

/// A token as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub id: i32,
    pub name: String,
    pub role: TokenRole,
    pub created_at: WallTime,
    pub expires_at: Option<WallTime>,
    pub last_used_at: Option<WallTime>,
    pub revoked_at: Option<WallTime>,
}

/// How often the time of last use is written at most, in microseconds.
const USE_RESOLUTION: i64 = 60_000_000;

impl Token {
    fn read(row: entity::token::Model) -> Work<Self> {
        Ok(Self {
            id: row.id,
            name: row.name,
            role: word("role", row.role.as_str(), TokenRole::parse)?,
            created_at: WallTime(row.created_at),
            expires_at: wall(row.expires_at),
            last_used_at: wall(row.last_used_at),
            revoked_at: wall(row.revoked_at),
        })
    }
}

impl Store {
    /// Stores a token by the SHA-256 of its secret (64 hexadecimal digits) and returns its number.
    pub async fn add_token(
        &self,
        name: &str,
        hash: &str,
        role: TokenRole,
        expires_at: Option<WallTime>,
    ) -> Result<i32> {
        self.write(|tx, _| {
            Box::pin(async move {
                let row = entity::token::Model {
                    id: 0,
                    name: fit(name, 128),
                    hash: hash.to_owned(),
                    role: role.as_str().to_owned(),
                    created_at: WallTime::now().0,
                    expires_at: expires_at.map(|at| at.0),
                    last_used_at: None,
                    revoked_at: None,
                };
                let mut row = row.into_active_model();
                row.id = ActiveValue::NotSet;
                Ok(entity::token::Entity::insert(row).exec(tx).await?.last_insert_id)
            })
        })
        .await
    }

    /// Who bears the secret with this hash. The time of last use is kept, by the minute.
    ///
    /// # Errors
    /// `token.unknown`, `token.expired`, `token.revoked`: all of kind `Unauthenticated`.
    pub async fn authenticate(&self, hash: &str) -> Result<Token> {
        let row = entity::token::Entity::find().filter(Column::Hash.eq(hash)).one(self.reader()).await;
        let refuse = |code, message: &str| Problem::new(ErrorKind::Unauthenticated, code, message);
        let Some(row) = row.map_err(Failure::from)? else {
            return Err(refuse("token.unknown", "the token is not known").fix("log in again with a valid token"));
        };
        let token = Token::read(row)?;
        let now = WallTime::now();
        if token.revoked_at.is_some() {
            return Err(refuse("token.revoked", "the token was revoked").fix("log in again with a valid token"));
        }
        if let Some(at) = token.expires_at.filter(|at| *at <= now) {
            return Err(refuse("token.expired", "the token has expired").found(at.to_string()).fix("log in again"));
        }
        if token.last_used_at.is_none_or(|at| now.0 - at.0 >= USE_RESOLUTION) {
            // Whoever looks at an installation whose disk is full must still be let in.
            if let Err(problem) = self.touch(token.id, now).await {
                tracing::warn!(token = %token.name, %problem, "the time of the token's last use is not kept");
            }
        }
        Ok(token)
    }

    async fn touch(&self, id: i32, now: WallTime) -> Result<()> {
        self.write(|tx, _| {
            Box::pin(async move {
                let update = entity::token::Entity::update_many().col_expr(Column::LastUsedAt, Expr::value(now.0));
                update.filter(Column::Id.eq(id)).exec(tx).await?;
                Ok(())
            })
        })
        .await
    }

    /// Every token, oldest first.
    pub async fn tokens(&self) -> Result<Vec<Token>> {
        let rows = entity::token::Entity::find().order_by_asc(Column::Id).all(self.reader()).await;
        Ok(rows.map_err(Failure::from)?.into_iter().map(Token::read).collect::<Work<_>>()?)
    }

    /// Makes a token invalid. `false` when it was, or there is none of this number.
    pub async fn revoke_token(&self, id: i32) -> Result<bool> {
        self.write(|tx, _| {
            Box::pin(async move {
                let revoked = entity::token::Entity::update_many()
                    .col_expr(Column::RevokedAt, Expr::value(WallTime::now().0))
                    .filter(Column::Id.eq(id))
                    .filter(Column::RevokedAt.is_null())
                    .exec(tx)
                    .await?;
                Ok(revoked.rows_affected == 1)
            })
        })
        .await
    }
}
