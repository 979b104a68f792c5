//! Whether the server lives, whether it is ready, and what it is doing.

use api::health::{Health, Lease, LeaseRequest, Ready, Status};
use api::{Envelope, ErrorData};
use axum::extract::State;
use axum::http::StatusCode;

use crate::app::App;
use crate::extract::Body;
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

/// Give a lease of a run back that has ended
#[utoipa::path(post, path = "/leases/release", tag = "system", request_body = LeaseRequest, responses((status = 200, body = Envelope<Lease>), (status = 404, body = Envelope<ErrorData>), (status = 409, body = Envelope<ErrorData>)))]
pub async fn release_lease(State(app): State<App>, Body(request): Body<LeaseRequest>) -> Answer<Lease> {
    Ok(Reply::ok(app.release_lease(&request).await?))
}
