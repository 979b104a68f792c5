//! Checks of the installation.

use api::Envelope;
use api::doctor::Report;
use axum::extract::State;

use crate::app::App;
use crate::reply::{Answer, Reply};

/// Check the installation for known failures
#[utoipa::path(get, path = "/doctor", tag = "system", responses((status = 200, body = Envelope<Report>)))]
pub async fn doctor(State(app): State<App>) -> Answer<Report> {
    Ok(Reply::ok(app.doctor().await?))
}
