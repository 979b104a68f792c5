//! Who calls.

use api::Envelope;
use api::auth::Profile;
use axum::Extension;

use crate::auth::Caller;
use crate::reply::Reply;

/// The caller, as the server knows it
#[utoipa::path(get, path = "/auth/profile", tag = "auth", responses((status = 200, body = Envelope<Profile>)))]
pub async fn profile(Extension(caller): Extension<Caller>) -> Reply<Profile> {
    Reply::ok(caller.profile())
}
