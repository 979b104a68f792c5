//! Benchmark systems.

use api::system::{
    PedestalVersion, RegisterReport, RegisterRequest, RegistrableRequest, System, SystemDetail, UnregisterReport,
    UpdateRequest,
};
use api::{Envelope, ErrorData, Page, PageQuery};
use axum::extract::State;

use crate::app::App;
use crate::extract::{Body, Params, Segment};
use crate::reply::{Answer, Reply};

/// List the registered systems
#[utoipa::path(get, path = "/systems", tag = "systems", params(PageQuery), responses((status = 200, body = Envelope<Page<System>>)))]
pub async fn list(State(app): State<App>, Params(query): Params<PageQuery>) -> Answer<Page<System>> {
    Ok(Reply::ok(app.systems(query.check()?).await?))
}

/// Register a system from a seed: all five layers, or none
#[utoipa::path(post, path = "/systems/register", tag = "systems", request_body = RegisterRequest, responses((status = 201, body = Envelope<RegisterReport>), (status = 400, body = Envelope<ErrorData>), (status = 409, body = Envelope<ErrorData>)))]
pub async fn register(State(app): State<App>, Body(request): Body<RegisterRequest>) -> Answer<RegisterReport> {
    let report = app.register(request).await?;
    Ok(if report.dry_run { Reply::ok(report) } else { Reply::created(report) })
}

/// List the systems that a seed declares, or without one those that the program knows
#[utoipa::path(post, path = "/systems/registrable", tag = "systems", request_body = RegistrableRequest, responses((status = 200, body = Envelope<Vec<String>>), (status = 400, body = Envelope<ErrorData>)))]
pub async fn registrable(State(app): State<App>, Body(request): Body<RegistrableRequest>) -> Answer<Vec<String>> {
    Ok(Reply::ok(app.registrable(&request)?))
}

/// Show one system by name or number
#[utoipa::path(get, path = "/systems/{name}", tag = "systems", params(("name" = String, Path)), responses((status = 200, body = Envelope<SystemDetail>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn show(State(app): State<App>, Segment(name): Segment) -> Answer<SystemDetail> {
    Ok(Reply::ok(app.system(&name).await?))
}

/// Enable (`status` 1) or disable (`status` 0) a system
#[utoipa::path(put, path = "/systems/{name}", tag = "systems", params(("name" = String, Path)), request_body = UpdateRequest, responses((status = 200, body = Envelope<System>), (status = 404, body = Envelope<ErrorData>), (status = 422, body = Envelope<ErrorData>)))]
pub async fn update(
    State(app): State<App>,
    Segment(name): Segment,
    Body(request): Body<UpdateRequest>,
) -> Answer<System> {
    Ok(Reply::ok(app.update_system(&name, &request).await?))
}

/// Remove a system from all five layers
#[utoipa::path(delete, path = "/systems/{name}", tag = "systems", params(("name" = String, Path)), responses((status = 200, body = Envelope<UnregisterReport>), (status = 404, body = Envelope<ErrorData>), (status = 409, body = Envelope<ErrorData>)))]
pub async fn unregister(State(app): State<App>, Segment(name): Segment) -> Answer<UnregisterReport> {
    Ok(Reply::ok(app.unregister(&name).await?))
}

/// The versions of a system's pedestal; the one that runs install is marked
#[utoipa::path(get, path = "/systems/{name}/versions", tag = "systems", params(("name" = String, Path)), responses((status = 200, body = Envelope<Vec<PedestalVersion>>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn versions(State(app): State<App>, Segment(name): Segment) -> Answer<Vec<PedestalVersion>> {
    Ok(Reply::ok(app.pedestal_versions(&name).await?))
}

/// Retire a version of a system's pedestal (`status` 0), or take it back into use (`status` 1)
#[utoipa::path(put, path = "/systems/{name}/versions/{version}", tag = "systems", params(("name" = String, Path), ("version" = String, Path)), request_body = UpdateRequest, responses((status = 200, body = Envelope<Vec<PedestalVersion>>), (status = 404, body = Envelope<ErrorData>), (status = 409, body = Envelope<ErrorData>)))]
pub async fn set_version(
    State(app): State<App>,
    Segment((name, version)): Segment<(String, String)>,
    Body(request): Body<UpdateRequest>,
) -> Answer<Vec<PedestalVersion>> {
    Ok(Reply::ok(app.set_pedestal_version(&name, &version, &request).await?))
}
