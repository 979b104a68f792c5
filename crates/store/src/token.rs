//! Access tokens: only their hashes are stored.

use model::{ErrorKind, ExecutionId, Problem, Result, WallTime};
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveValue, ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::connect::Store;
use crate::convert::{fit, wall, word};
use crate::entity::{self, token::Column};
use crate::failure::{Failure, Work, corrupt};

/// What the bearer of a token may do. A later role may do all that an earlier one may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TokenRole {
    Viewer,
    Author,
    Operator,
    Admin,
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

    pub const ALL: [Self; 4] = [Self::Viewer, Self::Author, Self::Operator, Self::Admin];

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

/// How the bearer got a token. Tokens of one origin are revoked together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenOrigin {
    /// The administrator's, from its file.
    File,
    /// A user logged in with a password.
    Password(String),
    /// A signed call with an API key, by its id.
    Key(String),
    /// Given to a program for one execution: it may hand over that execution's answer, once, and nothing else.
    Execution(ExecutionId),
}

impl TokenOrigin {
    pub(crate) fn to_text(&self) -> String {
        match self {
            Self::File => "file".to_owned(),
            Self::Password(name) => format!("user:{name}"),
            Self::Key(id) => format!("key:{id}"),
            Self::Execution(id) => format!("execution:{id}"),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        match text.split_once(':') {
            None => (text == "file").then_some(Self::File),
            Some(("user", name)) => Some(Self::Password(name.to_owned())),
            Some(("key", id)) => Some(Self::Key(id.to_owned())),
            Some(("execution", id)) => id.parse().ok().map(|id| Self::Execution(ExecutionId(id))),
            Some(_) => None,
        }
    }
}

/// A token that is to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// Of its bearer: shown wherever a caller is named.
    pub name: String,
    pub role: TokenRole,
    pub origin: TokenOrigin,
    pub expires_at: Option<WallTime>,
    /// When its bearer proved who it is, where refreshed tokens end some time after that.
    pub session_at: Option<WallTime>,
}

impl NewToken {
    /// For the program that computes one execution's answer.
    pub fn of_execution(id: ExecutionId, expires_at: WallTime) -> Self {
        Self {
            name: format!("execution {id}"),
            role: TokenRole::Viewer,
            origin: TokenOrigin::Execution(id),
            expires_at: Some(expires_at),
            session_at: None,
        }
    }
}

/// A fresh secret of 244 random bits.
pub fn fresh_secret(prefix: &str) -> String {
    format!("{prefix}_{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

/// What is stored of a secret that is random and long: one round is enough.
pub fn secret_hash(secret: &str) -> String {
    hex::encode(Sha256::digest(secret.as_bytes()))
}

/// A token as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub id: i32,
    pub name: String,
    pub role: TokenRole,
    pub origin: TokenOrigin,
    pub created_at: WallTime,
    pub expires_at: Option<WallTime>,
    pub session_at: Option<WallTime>,
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
            origin: TokenOrigin::parse(&row.origin).ok_or_else(|| corrupt("origin of a token", &row.origin))?,
            created_at: WallTime(row.created_at),
            expires_at: wall(row.expires_at),
            session_at: wall(row.session_at),
            last_used_at: wall(row.last_used_at),
            revoked_at: wall(row.revoked_at),
        })
    }
}

impl Store {
    /// Makes a token and returns it with its secret, which nobody can read again.
    pub async fn issue_token(&self, new: &NewToken) -> Result<(i32, String)> {
        let secret = fresh_secret("aegis");
        Ok((self.add_token(new, &secret_hash(&secret)).await?, secret))
    }

    /// Stores a token by the hash of its secret ([`secret_hash`]) and returns its number.
    pub async fn add_token(&self, new: &NewToken, hash: &str) -> Result<i32> {
        self.write(|tx, _| {
            Box::pin(async move {
                let row = entity::token::Model {
                    id: 0,
                    name: fit(&new.name, 128),
                    hash: hash.to_owned(),
                    role: new.role.as_str().to_owned(),
                    created_at: WallTime::now().0,
                    expires_at: new.expires_at.map(|at| at.0),
                    last_used_at: None,
                    revoked_at: None,
                    origin: new.origin.to_text(),
                    session_at: new.session_at.map(|at| at.0),
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

/// Makes every token of an origin invalid.
pub(crate) async fn revoke_origin(tx: &DatabaseTransaction, origin: &TokenOrigin) -> Work<()> {
    entity::token::Entity::update_many()
        .col_expr(Column::RevokedAt, Expr::value(WallTime::now().0))
        .filter(Column::Origin.eq(origin.to_text()))
        .filter(Column::RevokedAt.is_null())
        .exec(tx)
        .await?;
    Ok(())
}
