//! Who may call: bearer tokens, of which only hashes are stored.

mod attempts;
pub mod rule;
mod seal;

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use api::auth::Profile;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;
use futures::future::BoxFuture;
use model::{ErrorKind, Problem, Result};
use store::{NewToken, Store, Token, TokenOrigin, TokenRole, fresh_secret, secret_hash};
use tokio::sync::Semaphore;

use crate::app::App;
use crate::reply::Refusal;

/// Name of the administrator's token in the store, and its file.
const ADMIN: &str = "admin";
const FILE: &str = "admin.token";
/// What is stored of that token, kept beside its file: several data folders may share one store, and each replaces its own.
const HASH_FILE: &str = "admin.hash";

/// The caller of a request.
#[derive(Debug, Clone)]
pub struct Caller(Token);

impl Caller {
    pub fn token(&self) -> &Token {
        &self.0
    }

    pub fn profile(&self) -> Profile {
        Profile {
            id: self.0.id,
            username: self.0.name.clone(),
            role: self.0.role.as_str().to_owned(),
            auth_type: match self.0.origin {
                TokenOrigin::File => "token",
                TokenOrigin::Password(_) => "password",
                TokenOrigin::Key(_) => "api_key",
                TokenOrigin::Execution(_) => "execution",
            }
            .into(),
            is_active: true,
            expires_at: self.0.expires_at.map(|at| at.to_string()),
        }
    }
}

pub use seal::random;

/// What logging in needs beside the store.
pub struct Access {
    pub seal: seal::Seal,
    pub attempts: attempts::Attempts,
    /// Password hashing takes a core and 19 MiB each: two at once are enough.
    pub hashing: Semaphore,
}

impl Access {
    /// # Errors
    /// `keys.file_unusable`.
    pub fn open(data: &Path) -> Result<Self> {
        Ok(Self { seal: seal::Seal::open(data)?, attempts: attempts::Attempts::default(), hashing: Semaphore::new(2) })
    }
}

/// The tokens of this installation.
pub struct Tokens {
    store: Store,
    file: PathBuf,
}

impl Tokens {
    /// At the first start, makes the administrator's token and writes it to a file that only this user can read. A file
    /// that is gone or wrong gets a new token in its place, and the old one is revoked.
    ///
    /// # Errors
    /// `token.file_unwritable`, and whatever the store fails with.
    pub async fn open(store: Store, data: &Path) -> Result<Self> {
        let tokens = Self { store, file: data.join(FILE) };
        let kept = match fs::read_to_string(&tokens.file) {
            Ok(text) => tokens.authenticate(text.trim()).await.map(|_| text),
            Err(error) => Err(Problem::new(ErrorKind::Unauthenticated, "token.file_missing", error.to_string())),
        };
        match kept {
            Ok(text) => tokens.keep_hash(text.trim())?,
            Err(problem) if problem.kind == ErrorKind::Unauthenticated => tokens.replace_admin().await?,
            Err(problem) => return Err(problem),
        }
        Ok(tokens)
    }

    pub fn file(&self) -> &Path {
        &self.file
    }

    async fn replace_admin(&self) -> Result<()> {
        let token = fresh_secret("aegis");
        let hash_file = self.file.with_file_name(HASH_FILE);
        let before = match fs::read_to_string(&hash_file) {
            Ok(hash) => hash,
            // The first start: there is nothing to revoke.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(unwritable(&hash_file, &error)),
        };
        // The file first: a token that is stored and that nobody has would lock everybody out.
        write_private(&self.file, &token).map_err(|error| unwritable(&self.file, &error))?;
        if let Ok(old) = self.store.authenticate(before.trim()).await {
            self.store.revoke_token(old.id).await?;
        }
        self.keep_hash(&token)?;
        let admin = NewToken {
            name: ADMIN.to_owned(),
            role: TokenRole::Admin,
            origin: TokenOrigin::File,
            expires_at: None,
            session_at: None,
        };
        self.store.add_token(&admin, &secret_hash(&token)).await?;
        Ok(())
    }

    fn keep_hash(&self, token: &str) -> Result<()> {
        let file = self.file.with_file_name(HASH_FILE);
        if fs::read_to_string(&file).is_ok_and(|kept| kept.trim() == secret_hash(token)) {
            return Ok(());
        }
        write_private(&file, &secret_hash(token)).map_err(|error| unwritable(&file, &error))
    }

    fn authenticate(&self, token: &str) -> BoxFuture<'static, Result<Token>> {
        let (store, hash) = (self.store.clone(), secret_hash(token));
        Box::pin(async move { store.authenticate(&hash).await })
    }

    /// # Errors
    /// `token.missing`, `token.unknown`, `token.expired`, `token.revoked`.
    async fn identify(&self, given: Option<&str>) -> Result<Caller> {
        const FIX: &str = "send `Authorization: Bearer TOKEN`; the administrator's token is in the file that the server named when it started";
        let Some(token) = given.filter(|token| !token.is_empty()) else {
            return Err(Problem::new(ErrorKind::Unauthenticated, "token.missing", "the call carries no token")
                .place("header Authorization")
                .fix(FIX));
        };
        let found = self.authenticate(token).await;
        found.map(Caller).map_err(|problem| problem.place("header Authorization"))
    }
}

fn unwritable(file: &Path, error: &io::Error) -> Problem {
    Problem::new(ErrorKind::Missing, "token.file_unwritable", "the administrator's token cannot be written")
        .place(file.display().to_string())
        .found(error.to_string())
}

/// Layer of every route but the open ones.
pub async fn guard(State(app): State<App>, mut request: Request, next: Next) -> Result<Response, Refusal> {
    let header = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = header.and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
    });
    let caller = app.tokens().identify(token.as_deref()).await?;
    // Without a route there is nothing to protect: the answer is that there is none.
    if let Some(matched) = request.extensions().get::<MatchedPath>() {
        let route = matched.as_str().strip_prefix(api::PREFIX).unwrap_or(matched.as_str());
        rule::allow(caller.token(), request.method(), route, request.uri().path())?;
    }
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

/// Writes a secret aside and moves it into place, readable by this user alone.
fn write_private(path: &Path, secret: &str) -> io::Result<()> {
    let part = path.with_extension(format!("{}.part", std::process::id()));
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
    file.write_all(format!("{secret}\n").as_bytes())?;
    file.sync_all()?;
    fs::rename(&part, path)
}
