//! Whether the server lives, whether it is ready, and what it is doing.

use api::Envelope;
use api::health::{Health, Ready, Status};
use axum::extract::State;
use axum::http::StatusCode;

use crate::app::App;
use crate::reply::{Answer, Reply};

/// Whether the server and its store live
#[utoipa::path(get, path = "/system/health", tag = "system", responses((status = 200, body = Envelope<Health>)))]
pub async fn health(State(app): State<App>) -> Reply<Health> {
    Reply::ok(app.health().await)
}

/// Whether every part can serve; 503 with the parts that cannot
#[utoipa::path(get, path = "/system/ready", tag = "system", responses((status = 200, body = Envelope<Ready>), (status = 503, body = Envelope<Ready>)))]
pub async fn ready(State(app): State<App>) -> Reply<Ready> {
    let ready = app.ready().await;
    let status = if ready.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Reply::with_status(status, ready)
}

/// What the installation is doing
#[utoipa::path(get, path = "/status", tag = "system", responses((status = 200, body = Envelope<Status>)))]
pub async fn status(State(app): State<App>) -> Answer<Status> {
    Ok(Reply::ok(app.status().await?))
}
