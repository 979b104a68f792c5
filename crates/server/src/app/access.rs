//! Logging in with a password or an API key, and the administration of both.

use std::sync::LazyLock;
use std::time::Duration;

use api::auth::{
    Key, KeyRequest, LoginReply, LoginRequest, NewKey, PasswordRequest, RefreshRequest, User, UserInfo, signed_text,
};
use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, PasswordHasher, PasswordVerifier};
use model::{ErrorKind, Problem, Result, WallTime};
use ring::hmac;
use store::{ApiKey, NewApiKey, NewToken, TokenOrigin, TokenRole, fresh_secret, secret_hash};

use super::App;
use crate::auth::{Caller, random};

/// How long a token lasts, and how long it can be refreshed after the login.
const TOKEN_LASTS: Duration = Duration::from_secs(24 * 3600);
const SESSION_LASTS: Duration = Duration::from_secs(30 * 24 * 3600);
/// How far the clock of a caller that signs may be off, in seconds.
const CLOCK_SKEW: i64 = 300;
/// Of a user and of a key.
const LONGEST_NAME: usize = 64;
const SHORTEST_PASSWORD: usize = 12;
const LONGEST_PASSWORD: usize = 1024;
const MOST_DAYS: u32 = 3650;

/// What a signed call carries.
pub struct Signed {
    pub key_id: String,
    pub timestamp: String,
    pub nonce: String,
    pub signature: String,
}

/// Logging in.
impl App {
    /// # Errors
    /// `login.refused`, whether the name or the password is wrong; `login.too_many_failures`.
    pub async fn login(&self, request: LoginRequest) -> Result<LoginReply> {
        let name = request.username;
        if name.chars().count() > LONGEST_NAME {
            return Err(wrong_password());
        }
        self.access().attempts.check(&name)?;
        let user = self.store().user(&name).await?;
        // Who is not there takes as long as a wrong password.
        let hash = user.as_ref().map_or_else(|| NOBODY.clone(), |user| user.password_hash.clone());
        let right = self.hashing(move || verifies(&request.password, &hash)).await?;
        let Some(user) = user.filter(|_| right) else {
            self.access().attempts.failed(&name);
            return Err(wrong_password());
        };
        self.access().attempts.succeeded(&name);
        let origin = TokenOrigin::Password(user.name.clone());
        let reply = self.issue(&user.name, user.role, origin, WallTime::now(), None).await?;
        let info = UserInfo { id: user.id, username: user.name };
        Ok(LoginReply { user: Some(info), auth_type: "password".into(), ..reply })
    }

    /// # Errors
    /// `key.clock_skew`, `key.nonce_malformed`, `key.refused`, `key.expired`, `key.revoked`, `key.nonce_used`;
    /// `login.too_many_failures`.
    pub async fn login_by_key(&self, signed: Signed) -> Result<LoginReply> {
        let at = check_freshness(&signed)?;
        self.access().attempts.check(&signed.key_id)?;
        let key = self.store().key(&signed.key_id).await?;
        let secret = match &key {
            Some(key) => self.access().seal.open_secret(&key.key_id, &key.sealed_secret)?,
            None => random::<32>()?.to_vec(),
        };
        let text = signed_text(&signed.timestamp, &signed.nonce);
        let signature = hex::decode(&signed.signature).unwrap_or_default();
        let right = hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, &secret), text.as_bytes(), &signature).is_ok();
        let Some(key) = key.filter(|_| right) else {
            self.access().attempts.failed(&signed.key_id);
            return Err(refused("key.refused", "the key or its signature is wrong"));
        };
        usable(&key)?;
        // A nonce need not be known for longer than its timestamp is accepted.
        let forget = WallTime((at + CLOCK_SKEW + 1) * 1_000_000);
        self.store().use_key(&key.key_id, &signed.nonce, forget).await?;
        self.access().attempts.succeeded(&signed.key_id);
        let origin = TokenOrigin::Key(key.key_id.clone());
        let reply = self.issue(&key.name, key.role, origin, WallTime::now(), key.expires_at).await?;
        Ok(LoginReply { key_id: Some(key.key_id), auth_type: "api_key".into(), ..reply })
    }

    /// A token that lasts longer than the given one, which stays valid until its own end.
    ///
    /// # Errors
    /// As for any call with the given token; `token.not_refreshable`; `session.over`.
    pub async fn refresh(&self, request: RefreshRequest) -> Result<LoginReply> {
        let token = self.store().authenticate(&secret_hash(&request.token)).await?;
        let (auth_type, key) = match &token.origin {
            TokenOrigin::Password(_) => ("password", None),
            TokenOrigin::Key(id) => ("api_key", self.store().key(id).await?),
            TokenOrigin::File | TokenOrigin::Execution(_) => {
                let message = "the token comes from no login, so there is nothing to refresh";
                return Err(Problem::new(ErrorKind::Conflict, "token.not_refreshable", message));
            }
        };
        if let Some(key) = &key {
            usable(key)?;
        }
        let began = token.session_at.unwrap_or(token.created_at);
        let end = began.plus(SESSION_LASTS);
        if end <= WallTime::now() {
            return Err(refused("session.over", "the login is too long ago")
                .found(began.to_string())
                .fix("log in again"));
        }
        let last = key.as_ref().and_then(|key| key.expires_at);
        let reply = self.issue(&token.name, token.role, token.origin, began, last).await?;
        Ok(LoginReply { auth_type: auth_type.into(), key_id: key.map(|key| key.key_id), ..reply })
    }

    /// A token of a session that began then. None outlives its key, which ends at `last`.
    async fn issue(
        &self,
        name: &str,
        role: TokenRole,
        origin: TokenOrigin,
        began: WallTime,
        last: Option<WallTime>,
    ) -> Result<LoginReply> {
        let ends = [Some(WallTime::now().plus(TOKEN_LASTS)), Some(began.plus(SESSION_LASTS)), last];
        let expires_at = ends.into_iter().flatten().min().expect("a day from now is one of them");
        let new =
            NewToken { name: name.to_owned(), role, origin, expires_at: Some(expires_at), session_at: Some(began) };
        let (_, token) = self.store().issue_token(&new).await?;
        Ok(LoginReply {
            token,
            expires_at: expires_at.to_string(),
            token_type: "Bearer".into(),
            auth_type: String::new(),
            key_id: None,
            user: None,
        })
    }

    /// Runs what takes a core and memory for a while: few at once, and never on a thread that serves.
    async fn hashing<T: Send + 'static>(&self, work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        let _place = self.access().hashing.acquire().await.expect("the semaphore is never closed");
        tokio::task::spawn_blocking(work)
            .await
            .map_err(|error| Problem::internal("server.panicked", "hashing a password failed").cause(error))?
    }
}

/// Administration.
impl App {
    /// # Errors
    /// `key.name_malformed`, `role.unknown`, `key.days_out_of_range`.
    pub async fn make_key(&self, caller: &Caller, request: KeyRequest) -> Result<NewKey> {
        let name = label(&request.name, "key.name_malformed", "name")?;
        let role = role(&request.role)?;
        let expires_at = match request.days {
            None => None,
            Some(days) if (1..=MOST_DAYS).contains(&days) => {
                Some(WallTime::now().plus(Duration::from_secs(u64::from(days) * 24 * 3600)))
            }
            Some(days) => {
                return Err(Problem::new(ErrorKind::Invalid, "key.days_out_of_range", "a key cannot last that long")
                    .place("days")
                    .found(days.to_string())
                    .expected(format!("1 to {MOST_DAYS}")));
            }
        };
        let (key_id, key_secret) = (format!("ak_{}", hex::encode(random::<10>()?)), fresh_secret("sk"));
        let sealed_secret = self.access().seal.seal(&key_id, &key_secret)?;
        let created_by = caller.token().name.clone();
        let new = NewApiKey { key_id, name, role, sealed_secret, created_by, expires_at };
        let made = self.store().add_key(&new).await?;
        tracing::info!(key = %made.key_id, role = made.role.as_str(), by = %made.created_by, "an API key was made");
        Ok(NewKey { key: key(&made), key_secret })
    }

    /// # Errors
    /// Whatever the store fails with.
    pub async fn keys(&self) -> Result<Vec<Key>> {
        Ok(self.store().keys().await?.iter().map(key).collect())
    }

    /// # Errors
    /// `key.unknown`.
    pub async fn revoke_key(&self, caller: &Caller, key_id: &str) -> Result<Key> {
        let revoked = self.store().revoke_key(key_id).await?;
        tracing::info!(key = %key_id, by = %caller.token().name, "an API key was revoked");
        Ok(key(&revoked))
    }

    /// # Errors
    /// `user.name_malformed`, `user.role_missing`, `role.unknown`, `password.length_out_of_range`.
    pub async fn set_password(&self, caller: &Caller, name: &str, request: PasswordRequest) -> Result<User> {
        let name = label(name, "user.name_malformed", "path")?;
        let known = self.store().user(&name).await?;
        let role = match (&request.role, &known) {
            (Some(text), _) => role(text)?,
            (None, Some(user)) => user.role,
            (None, None) => {
                return Err(Problem::new(ErrorKind::Invalid, "user.role_missing", "a new user needs a role")
                    .place("role")
                    .expected(roles()));
            }
        };
        let length = request.password.chars().count();
        if !(SHORTEST_PASSWORD..=LONGEST_PASSWORD).contains(&length) {
            return Err(Problem::new(
                ErrorKind::Invalid,
                "password.length_out_of_range",
                "the password is not allowed",
            )
            .place("password")
            .found(format!("{length} characters"))
            .expected(format!("{SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters")));
        }
        let hash = self.hashing(move || hashed(&request.password)).await?;
        let user = self.store().put_user(&name, role, &hash).await?;
        tracing::info!(user = %user.name, role = user.role.as_str(), by = %caller.token().name, "a password was set");
        Ok(self::user(&user))
    }

    /// # Errors
    /// Whatever the store fails with.
    pub async fn users(&self) -> Result<Vec<User>> {
        Ok(self.store().users().await?.iter().map(user).collect())
    }
}

fn wrong_password() -> Problem {
    refused("login.refused", "the name or the password is wrong")
        .fix("an administrator sets a password with `aegisctl auth password set NAME`")
}

fn refused(code: &'static str, message: &str) -> Problem {
    Problem::new(ErrorKind::Unauthenticated, code, message)
}

/// The timestamp, if it is near and the nonce can be one.
fn check_freshness(signed: &Signed) -> Result<i64> {
    let now = WallTime::now().seconds();
    let at = signed.timestamp.parse().ok().filter(|at: &i64| (now - CLOCK_SKEW..=now + CLOCK_SKEW).contains(at));
    let Some(at) = at else {
        return Err(refused("key.clock_skew", "the signed call is too old, or from the future")
            .place("header X-Timestamp")
            .found(format!("`{}`", signed.timestamp))
            .expected(format!("seconds since 1970, within {CLOCK_SKEW} of {now}"))
            .fix("set the clock"));
    };
    let shape = (8..=128).contains(&signed.nonce.len()) && signed.nonce.bytes().all(|byte| byte.is_ascii_graphic());
    if !shape {
        return Err(refused("key.nonce_malformed", "the nonce is malformed")
            .place("header X-Nonce")
            .expected("8 to 128 printable ASCII characters without blanks"));
    }
    Ok(at)
}

fn usable(key: &ApiKey) -> Result<()> {
    if let Some(at) = key.revoked_at {
        return Err(refused("key.revoked", "the key was revoked").found(at.to_string()));
    }
    match key.expires_at.filter(|at| *at <= WallTime::now()) {
        Some(at) => Err(refused("key.expired", "the key has ended").found(at.to_string())),
        None => Ok(()),
    }
}

/// A hash that no password has.
static NOBODY: LazyLock<String> =
    LazyLock::new(|| hashed(&fresh_secret("nobody")).expect("the default parameters hash any text"));

/// Argon2id with its recommended parameters and a salt of its own, in the PHC string form.
fn hashed(password: &str) -> Result<String> {
    let hash = Argon2::default().hash_password(password.as_bytes());
    hash.map(|hash| hash.to_string()).map_err(|error| {
        Problem::internal("password.not_hashed", "a password cannot be hashed").found(error.to_string())
    })
}

fn verifies(password: &str, hash: &str) -> Result<bool> {
    let hash = PasswordHash::new(hash).map_err(|error| {
        Problem::internal("password.hash_malformed", "a stored hash cannot be read").found(error.to_string())
    })?;
    Ok(Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
}

fn roles() -> String {
    TokenRole::ALL.map(TokenRole::as_str).join(", ")
}

fn role(text: &str) -> Result<TokenRole> {
    TokenRole::parse(text).ok_or_else(|| {
        let mut problem = Problem::unknown("role.unknown", "role", text, TokenRole::ALL.map(TokenRole::as_str));
        problem.kind = ErrorKind::Invalid;
        problem.place("role")
    })
}

fn label(text: &str, code: &'static str, place: &str) -> Result<String> {
    let text = text.trim();
    if (1..=LONGEST_NAME).contains(&text.chars().count()) && !text.chars().any(char::is_control) {
        return Ok(text.to_owned());
    }
    Err(Problem::new(ErrorKind::Invalid, code, "the name is malformed")
        .place(place)
        .expected(format!("1 to {LONGEST_NAME} characters")))
}

fn key(stored: &ApiKey) -> Key {
    let text = |at: Option<WallTime>| at.map(|at| at.to_string());
    Key {
        key_id: stored.key_id.clone(),
        name: stored.name.clone(),
        role: stored.role.as_str().to_owned(),
        created_by: stored.created_by.clone(),
        created_at: stored.created_at.to_string(),
        expires_at: text(stored.expires_at),
        last_used_at: text(stored.last_used_at),
        revoked_at: text(stored.revoked_at),
    }
}

fn user(stored: &store::User) -> User {
    User {
        id: stored.id,
        username: stored.name.clone(),
        role: stored.role.as_str().to_owned(),
        created_at: stored.created_at.to_string(),
        updated_at: stored.updated_at.to_string(),
    }
}
