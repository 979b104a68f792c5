//! Submitting runs.

use api::submit::{RunRequest, SubmitReply};
use api::{Envelope, ErrorData};
use axum::extract::State;
use axum::http::HeaderMap;

use crate::app::App;
use crate::extract::Body;
use crate::reply::{Answer, Reply};

/// Submit runs: everything is checked before anything is stored
///
/// With the header `Idempotency-Key`, a repeated submission answers what the first one did.
#[utoipa::path(post, path = "/runs", tag = "runs", request_body = RunRequest, params(("Idempotency-Key" = Option<String>, Header)), responses((status = 200, body = Envelope<SubmitReply>), (status = 400, body = Envelope<ErrorData>), (status = 404, body = Envelope<ErrorData>), (status = 409, body = Envelope<ErrorData>), (status = 422, body = Envelope<ErrorData>)))]
pub async fn submit(
    State(app): State<App>,
    headers: HeaderMap,
    Body(request): Body<RunRequest>,
) -> Answer<SubmitReply> {
    Ok(Reply::ok(app.submit(request, super::project::key(&headers).as_deref()).await?))
}
