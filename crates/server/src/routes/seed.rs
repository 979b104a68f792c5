//! Seeds: the declared state of the installation.

use api::chart::Lookup;
use api::seed::{
    ApplyReply, ApplyRequest, DriftReply, ExportReply, PlanReply, PlanRequest, Proof, RestartReply, SeedQuery,
    SeedRevision, SeedRevisionDetail, Watched,
};
use api::{Envelope, ErrorData};
use axum::Extension;
use axum::extract::State;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Body, Params, Segment};
use crate::reply::{Answer, Reply};

/// Compare a seed with the installation; nothing is written
#[utoipa::path(post, path = "/seeds/plan", tag = "seeds", request_body = PlanRequest, responses((status = 200, body = Envelope<PlanReply>), (status = 400, body = Envelope<ErrorData>)))]
pub async fn plan(State(app): State<App>, Body(request): Body<PlanRequest>) -> Answer<PlanReply> {
    Ok(Reply::ok(app.seed_plan(&request).await?))
}

/// Ask the repositories of a seed's charts whether they are published at their exact versions; nothing is written
#[utoipa::path(post, path = "/seeds/charts", tag = "seeds", request_body = PlanRequest, responses((status = 200, body = Envelope<Vec<Lookup>>), (status = 400, body = Envelope<ErrorData>)))]
pub async fn charts(State(app): State<App>, Body(request): Body<PlanRequest>) -> Answer<Vec<Lookup>> {
    Ok(Reply::ok(app.seed_charts(&request).await?))
}

/// Bring the installation to a seed: everything that was agreed to, or nothing
#[utoipa::path(post, path = "/seeds/apply", tag = "seeds", request_body = ApplyRequest, responses((status = 200, body = Envelope<ApplyReply>), (status = 400, body = Envelope<ErrorData>), (status = 409, body = Envelope<ErrorData>)))]
pub async fn apply(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<ApplyRequest>,
) -> Answer<ApplyReply> {
    Ok(Reply::ok(app.seed_apply(&request, &caller.token().name).await?))
}

/// Seeds that were applied, newest first
#[utoipa::path(get, path = "/seeds/revisions", tag = "seeds", responses((status = 200, body = Envelope<Vec<SeedRevision>>)))]
pub async fn history(State(app): State<App>) -> Answer<Vec<SeedRevision>> {
    Ok(Reply::ok(app.seed_history().await?))
}

/// Show one revision: where it came from and what it changed
#[utoipa::path(get, path = "/seeds/revisions/{number}", tag = "seeds", params(("number" = i32, Path)), responses((status = 200, body = Envelope<SeedRevisionDetail>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn show(State(app): State<App>, Segment(number): Segment) -> Answer<SeedRevisionDetail> {
    Ok(Reply::ok(app.seed_revision(&number).await?))
}

/// What differs from the seed that was applied last
#[utoipa::path(get, path = "/seeds/drift", tag = "seeds", params(SeedQuery), responses((status = 200, body = Envelope<DriftReply>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn drift(State(app): State<App>, Params(query): Params<SeedQuery>) -> Answer<DriftReply> {
    Ok(Reply::ok(app.seed_drift(&query).await?))
}

/// What the watched folder would still change
#[utoipa::path(get, path = "/seeds/watched", tag = "seeds", responses((status = 200, body = Envelope<Watched>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn watched(State(app): State<App>) -> Answer<Watched> {
    Ok(Reply::ok(app.seed_watched().await?))
}

/// How far each value of the applied seed has come
#[utoipa::path(get, path = "/seeds/proof", tag = "seeds", params(SeedQuery), responses((status = 200, body = Envelope<Proof>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn proof(State(app): State<App>, Params(query): Params<SeedQuery>) -> Answer<Proof> {
    Ok(Reply::ok(app.seed_proof(&query).await?))
}

/// Remove releases that hold old values and that no run holds
#[utoipa::path(post, path = "/seeds/restart-slots", tag = "seeds", request_body = SeedQuery, responses((status = 200, body = Envelope<RestartReply>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn restart_slots(State(app): State<App>, Body(query): Body<SeedQuery>) -> Answer<RestartReply> {
    Ok(Reply::ok(app.seed_restart_slots(&query).await?))
}

/// The installation as a seed, secrets included
#[utoipa::path(post, path = "/seeds/export", tag = "seeds", responses((status = 200, body = Envelope<ExportReply>)))]
pub async fn export(State(app): State<App>) -> Answer<ExportReply> {
    Ok(Reply::ok(app.seed_export().await?))
}
