//! Runs: `traces` on the wire.

use api::run::{CancelReply, RetryReply, RetryRequest, Run, RunDetail, RunQuery, Why};
use api::{Envelope, ErrorData, Page};
use axum::extract::State;

use crate::app::App;
use crate::extract::{Body, Params, Segment};
use crate::reply::{Answer, Reply};

/// List runs, newest first
#[utoipa::path(get, path = "/traces", tag = "runs", params(RunQuery), responses((status = 200, body = Envelope<Page<Run>>)))]
pub async fn list(State(app): State<App>, Params(query): Params<RunQuery>) -> Answer<Page<Run>> {
    Ok(Reply::ok(app.runs(&query).await?))
}

/// Show one run with its tasks and its specification
#[utoipa::path(get, path = "/traces/{id}", tag = "runs", params(("id" = String, Path)), responses((status = 200, body = Envelope<RunDetail>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn show(State(app): State<App>, Segment(id): Segment) -> Answer<RunDetail> {
    Ok(Reply::ok(app.run(app.find_run(&id).await?).await?))
}

/// Say in words what a run waits for, or why it ended
#[utoipa::path(get, path = "/traces/{id}/why", tag = "runs", params(("id" = String, Path)), responses((status = 200, body = Envelope<Why>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn why(State(app): State<App>, Segment(id): Segment) -> Answer<Why> {
    Ok(Reply::ok(app.why(app.find_run(&id).await?).await?))
}

/// End a run, recover its faults and give its slot back
#[utoipa::path(post, path = "/traces/{id}/cancel", tag = "runs", params(("id" = String, Path)), responses((status = 200, body = Envelope<CancelReply>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn cancel(State(app): State<App>, Segment(id): Segment) -> Answer<CancelReply> {
    Ok(Reply::ok(app.cancel(app.find_run(&id).await?).await?))
}

/// Repeat a run that failed or was cancelled
#[utoipa::path(post, path = "/traces/{id}/retry", tag = "runs", params(("id" = String, Path)), request_body = RetryRequest, responses((status = 200, body = Envelope<RetryReply>), (status = 404, body = Envelope<ErrorData>), (status = 409, body = Envelope<ErrorData>)))]
pub async fn retry(
    State(app): State<App>,
    Segment(id): Segment,
    Body(request): Body<RetryRequest>,
) -> Answer<RetryReply> {
    Ok(Reply::ok(app.retry(app.find_run(&id).await?, &request).await?))
}
