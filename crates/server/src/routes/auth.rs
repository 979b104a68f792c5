//! Who calls, how a caller proves who it is, and the keys and passwords for that.

use api::auth::{
    Key, KeyRequest, LoginReply, LoginRequest, NewKey, PasswordRequest, Profile, RefreshRequest, User, header,
};
use api::{Envelope, ErrorData};
use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use model::{ErrorKind, Problem};

use crate::app::App;
use crate::app::access::Signed;
use crate::auth::Caller;
use crate::extract::{Body, Segment};
use crate::reply::{Answer, Reply};

/// The caller, as the server knows it
#[utoipa::path(get, path = "/auth/profile", tag = "auth", responses((status = 200, body = Envelope<Profile>)))]
pub async fn profile(Extension(caller): Extension<Caller>) -> Reply<Profile> {
    Reply::ok(caller.profile())
}

/// Log in with a name and a password
#[utoipa::path(post, path = "/auth/login", tag = "auth", request_body = LoginRequest, responses((status = 200, body = Envelope<LoginReply>), (status = 401, body = Envelope<ErrorData>), (status = 429, body = Envelope<ErrorData>)))]
pub async fn login(State(app): State<App>, Body(request): Body<LoginRequest>) -> Answer<LoginReply> {
    Ok(Reply::ok(app.login(request).await?))
}

/// Log in with an API key: the call is signed with its secret
#[utoipa::path(post, path = "/auth/api-key/token", tag = "auth", params(("X-Key-Id" = String, Header), ("X-Timestamp" = String, Header), ("X-Nonce" = String, Header), ("X-Signature" = String, Header)), responses((status = 200, body = Envelope<LoginReply>), (status = 400, body = Envelope<ErrorData>), (status = 401, body = Envelope<ErrorData>), (status = 429, body = Envelope<ErrorData>)))]
pub async fn login_by_key(State(app): State<App>, headers: HeaderMap) -> Answer<LoginReply> {
    let read = |name: &'static str| {
        let given = headers.get(name).and_then(|value| value.to_str().ok()).filter(|text| !text.is_empty());
        given.map(str::to_owned).ok_or_else(|| {
            Problem::new(ErrorKind::Invalid, "key.header_missing", "the signed call lacks a header")
                .place(format!("header {name}"))
        })
    };
    let signed = Signed {
        key_id: read(header::KEY_ID)?,
        timestamp: read(header::TIMESTAMP)?,
        nonce: read(header::NONCE)?,
        signature: read(header::SIGNATURE)?,
    };
    Ok(Reply::ok(app.login_by_key(signed).await?))
}

/// Exchange a token of a login for one that ends later
#[utoipa::path(post, path = "/auth/refresh", tag = "auth", request_body = RefreshRequest, responses((status = 200, body = Envelope<LoginReply>), (status = 401, body = Envelope<ErrorData>), (status = 409, body = Envelope<ErrorData>)))]
pub async fn refresh(State(app): State<App>, Body(request): Body<RefreshRequest>) -> Answer<LoginReply> {
    Ok(Reply::ok(app.refresh(request).await?))
}

/// List the API keys, without their secrets
#[utoipa::path(get, path = "/auth/keys", tag = "auth", responses((status = 200, body = Envelope<Vec<Key>>)))]
pub async fn keys(State(app): State<App>) -> Answer<Vec<Key>> {
    Ok(Reply::ok(app.keys().await?))
}

/// Make an API key; its secret is shown this once
#[utoipa::path(post, path = "/auth/keys", tag = "auth", request_body = KeyRequest, responses((status = 201, body = Envelope<NewKey>), (status = 400, body = Envelope<ErrorData>)))]
pub async fn make_key(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<KeyRequest>,
) -> Answer<NewKey> {
    Ok(Reply::created(app.make_key(&caller, request).await?))
}

/// Make an API key and every token that it gave invalid
#[utoipa::path(delete, path = "/auth/keys/{key}", tag = "auth", params(("key" = String, Path)), responses((status = 200, body = Envelope<Key>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn revoke_key(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Segment(key): Segment,
) -> Answer<Key> {
    Ok(Reply::ok(app.revoke_key(&caller, &key).await?))
}

/// List the users
#[utoipa::path(get, path = "/auth/users", tag = "auth", responses((status = 200, body = Envelope<Vec<User>>)))]
pub async fn users(State(app): State<App>) -> Answer<Vec<User>> {
    Ok(Reply::ok(app.users().await?))
}

/// Set a user's password, and make the user where there is none
#[utoipa::path(put, path = "/auth/users/{name}/password", tag = "auth", params(("name" = String, Path)), request_body = PasswordRequest, responses((status = 200, body = Envelope<User>), (status = 400, body = Envelope<ErrorData>)))]
pub async fn set_password(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Segment(name): Segment,
    Body(request): Body<PasswordRequest>,
) -> Answer<User> {
    Ok(Reply::ok(app.set_password(&caller, &name, request).await?))
}
