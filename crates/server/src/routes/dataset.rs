//! Data sets.

use api::dataset::{Dataset, DatasetReport, DatasetRequest, DatasetVersion, DownloadQuery, Manifest};
use api::{Envelope, ErrorData, Page, PageQuery};
use axum::extract::State;
use axum::response::Response;

use super::injection::respond;
use crate::app::App;
use crate::extract::{Body, Params, Segment};
use crate::reply::{Answer, Refusal, Reply};

/// List data sets with their versions
#[utoipa::path(get, path = "/datasets", tag = "datasets", params(PageQuery), responses((status = 200, body = Envelope<Page<Dataset>>)))]
pub async fn list(State(app): State<App>, Params(query): Params<PageQuery>) -> Answer<Page<Dataset>> {
    Ok(Reply::ok(app.datasets(query).await?))
}

/// Make a version of a data set; it never changes
#[utoipa::path(post, path = "/datasets", tag = "datasets", request_body = DatasetRequest, responses((status = 201, body = Envelope<Dataset>), (status = 400, body = Envelope<ErrorData>), (status = 409, body = Envelope<ErrorData>)))]
pub async fn create(State(app): State<App>, Body(request): Body<DatasetRequest>) -> Answer<Dataset> {
    Ok(Reply::created(app.create_dataset(&request).await?))
}

/// Show one data set by name or number
#[utoipa::path(get, path = "/datasets/{name}", tag = "datasets", params(("name" = String, Path)), responses((status = 200, body = Envelope<Dataset>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn show(State(app): State<App>, Segment(name): Segment) -> Answer<Dataset> {
    Ok(Reply::ok(app.dataset(&name).await?))
}

/// List the versions of a data set, oldest first
#[utoipa::path(get, path = "/datasets/{name}/versions", tag = "datasets", params(("name" = String, Path)), responses((status = 200, body = Envelope<Page<DatasetVersion>>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn versions(State(app): State<App>, Segment(name): Segment) -> Answer<Page<DatasetVersion>> {
    Ok(Reply::ok(app.dataset_versions(&name).await?))
}

/// Show what a version is made of: `name` (the newest), `name:version`, or its number
#[utoipa::path(get, path = "/datasets/{name}/manifest", tag = "datasets", params(("name" = String, Path)), responses((status = 200, body = Envelope<Manifest>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn manifest(State(app): State<App>, Segment(name): Segment) -> Answer<Manifest> {
    Ok(Reply::ok(app.manifest(&name).await?))
}

/// Compare every datapack of a version with its manifest
#[utoipa::path(post, path = "/datasets/{name}/verify", tag = "datasets", params(("name" = String, Path)), responses((status = 200, body = Envelope<DatasetReport>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn verify(State(app): State<App>, Segment(name): Segment) -> Answer<DatasetReport> {
    Ok(Reply::ok(app.verify_dataset(&name).await?))
}

/// Download one version, by its name or number, as a zip archive
#[utoipa::path(get, path = "/datasets/{name}/versions/{version}/download", tag = "datasets", params(("name" = String, Path), ("version" = String, Path), DownloadQuery), responses((status = 200, content_type = "application/zip"), (status = 404, body = Envelope<ErrorData>)))]
pub async fn download_version(
    State(app): State<App>,
    Segment((name, version)): Segment<(String, String)>,
    Params(query): Params<DownloadQuery>,
) -> Result<Response, Refusal> {
    Ok(respond(app.dataset_version_archive(&name, &version, query.part.as_deref()).await?))
}

/// Download a version as a zip archive: its manifest, and each datapack in the public layout
#[utoipa::path(get, path = "/datasets/{name}/download", tag = "datasets", params(("name" = String, Path), DownloadQuery), responses((status = 200, content_type = "application/zip"), (status = 404, body = Envelope<ErrorData>)))]
pub async fn download(
    State(app): State<App>,
    Segment(name): Segment,
    Params(query): Params<DownloadQuery>,
) -> Result<Response, Refusal> {
    Ok(respond(app.dataset_archive(&name, query.part.as_deref()).await?))
}
