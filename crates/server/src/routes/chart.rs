//! Charts of pedestals, and what they are installed with.

use api::chart::{
    AttachRequest, Chart, ChartArchive, ChartReport, HelmConfig, HelmRequest, InstallReply, InstallRequest, Release,
    UnusedArchive, VerifyRequest, VersionQuery,
};
use api::{Envelope, ErrorData};
use axum::Extension;
use axum::extract::State;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Archive, Body, Params, Segment};
use crate::reply::{Answer, Reply};

/// Keep a chart's archive; the body is the archive as `helm package` makes it
#[utoipa::path(post, path = "/charts", tag = "charts", request_body(content = Vec<u8>, content_type = "application/gzip"), responses((status = 201, body = Envelope<ChartArchive>), (status = 400, body = Envelope<ErrorData>)))]
pub async fn keep(State(app): State<App>, Archive(bytes): Archive) -> Answer<ChartArchive> {
    Ok(Reply::created(app.keep_chart(bytes).await?))
}

/// Archives that no version and no release refers to, an hour and more after they were kept
#[utoipa::path(get, path = "/charts/unused", tag = "charts", responses((status = 200, body = Envelope<Vec<UnusedArchive>>)))]
pub async fn unused(State(app): State<App>) -> Answer<Vec<UnusedArchive>> {
    Ok(Reply::ok(app.unused_charts().await?))
}

/// Take those archives away
#[utoipa::path(delete, path = "/charts/unused", tag = "charts", responses((status = 200, body = Envelope<Vec<UnusedArchive>>)))]
pub async fn prune(State(app): State<App>) -> Answer<Vec<UnusedArchive>> {
    Ok(Reply::ok(app.prune_charts().await?))
}

/// The chart of each version of a system's pedestal, newest first
#[utoipa::path(get, path = "/systems/{name}/charts", tag = "charts", params(("name" = String, Path)), responses((status = 200, body = Envelope<Vec<Chart>>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn list(State(app): State<App>, Segment(name): Segment) -> Answer<Vec<Chart>> {
    Ok(Reply::ok(app.system_charts(&name).await?))
}

/// Make a kept archive that of the system's chart of this name and version
#[utoipa::path(post, path = "/systems/{name}/charts", tag = "charts", params(("name" = String, Path)), request_body = AttachRequest, responses((status = 200, body = Envelope<Chart>), (status = 400, body = Envelope<ErrorData>), (status = 409, body = Envelope<ErrorData>)))]
pub async fn attach(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Segment(name): Segment,
    Body(request): Body<AttachRequest>,
) -> Answer<Chart> {
    Ok(Reply::ok(app.attach_chart(&name, &request, &caller.token().name).await?))
}

/// Fetch a system's chart if it is not kept, compare it with its digest, render it and judge what comes out
#[utoipa::path(post, path = "/systems/{name}/charts/verify", tag = "charts", params(("name" = String, Path)), request_body = VerifyRequest, responses((status = 200, body = Envelope<ChartReport>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn verify(
    State(app): State<App>,
    Segment(name): Segment,
    Body(request): Body<VerifyRequest>,
) -> Answer<ChartReport> {
    Ok(Reply::ok(app.verify_chart(&name, &request).await?))
}

/// Install a system's chart in a slot that nobody uses
#[utoipa::path(post, path = "/systems/{name}/charts/install", tag = "charts", params(("name" = String, Path)), request_body = InstallRequest, responses((status = 200, body = Envelope<InstallReply>), (status = 409, body = Envelope<ErrorData>), (status = 422, body = Envelope<ErrorData>)))]
pub async fn install(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Segment(name): Segment,
    Body(request): Body<InstallRequest>,
) -> Answer<InstallReply> {
    Ok(Reply::ok(app.install_chart(&name, &request, &caller.token().name).await?))
}

/// What is installed in the slots of a system
#[utoipa::path(get, path = "/systems/{name}/releases", tag = "charts", params(("name" = String, Path)), responses((status = 200, body = Envelope<Vec<Release>>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn releases(State(app): State<App>, Segment(name): Segment) -> Answer<Vec<Release>> {
    Ok(Reply::ok(app.system_releases(&name).await?))
}

/// What a version of a system's pedestal is installed with
#[utoipa::path(get, path = "/systems/{name}/helm", tag = "charts", params(("name" = String, Path), VersionQuery), responses((status = 200, body = Envelope<HelmConfig>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn helm(
    State(app): State<App>,
    Segment(name): Segment,
    Params(query): Params<VersionQuery>,
) -> Answer<HelmConfig> {
    Ok(Reply::ok(app.helm_config(&name, query.version.as_deref()).await?))
}

/// Set values of a version of a system's pedestal, as a new revision of it
#[utoipa::path(put, path = "/systems/{name}/helm", tag = "charts", params(("name" = String, Path)), request_body = HelmRequest, responses((status = 200, body = Envelope<HelmConfig>), (status = 400, body = Envelope<ErrorData>), (status = 409, body = Envelope<ErrorData>)))]
pub async fn set_helm(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Segment(name): Segment,
    Body(request): Body<HelmRequest>,
) -> Answer<HelmConfig> {
    Ok(Reply::ok(app.set_helm_config(&name, &request, &caller.token().name).await?))
}
