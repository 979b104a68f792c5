//! Injections and their datapacks.

use api::injection::{FileQuery, FileTree, Injection, InjectionDetail, InjectionQuery, InjectionSearch, VerifyReport};
use api::project::LabelRequest;
use api::{Envelope, ErrorData, Page};
use axum::body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::app::download::Download;
use crate::extract::{Body, Params, Segment};
use crate::reply::{Answer, Refusal, Reply};

/// List injections, newest first
#[utoipa::path(get, path = "/injections", tag = "datapacks", params(InjectionQuery), responses((status = 200, body = Envelope<Page<Injection>>)))]
pub async fn list(State(app): State<App>, Params(query): Params<InjectionQuery>) -> Answer<Page<Injection>> {
    Ok(Reply::ok(app.injections(&query).await?))
}

/// Show one injection by name or number, with its ground truth
#[utoipa::path(get, path = "/injections/{name}", tag = "datapacks", params(("name" = String, Path)), responses((status = 200, body = Envelope<InjectionDetail>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn show(State(app): State<App>, Segment(name): Segment) -> Answer<InjectionDetail> {
    Ok(Reply::ok(app.injection(&name).await?))
}

/// Search injections
#[utoipa::path(post, path = "/injections/search", tag = "datapacks", request_body = InjectionSearch, responses((status = 200, body = Envelope<Page<InjectionDetail>>), (status = 400, body = Envelope<ErrorData>)))]
pub async fn search(State(app): State<App>, Body(search): Body<InjectionSearch>) -> Answer<Page<InjectionDetail>> {
    Ok(Reply::ok(app.search_injections(None, search).await?))
}

/// Set labels of an injection, and take others away
#[utoipa::path(patch, path = "/injections/{name}/labels", tag = "datapacks", params(("name" = String, Path)), request_body = LabelRequest, responses((status = 200, body = Envelope<InjectionDetail>), (status = 400, body = Envelope<ErrorData>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn label(
    State(app): State<App>,
    Segment(name): Segment,
    Body(request): Body<LabelRequest>,
) -> Answer<InjectionDetail> {
    Ok(Reply::ok(app.label_injection(&name, &request).await?))
}

/// List the files of a datapack
#[utoipa::path(get, path = "/injections/{name}/files", tag = "datapacks", params(("name" = String, Path)), responses((status = 200, body = Envelope<FileTree>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn files(State(app): State<App>, Segment(name): Segment) -> Answer<FileTree> {
    Ok(Reply::ok(app.files(&name).await?))
}

/// Download one file of a datapack
#[utoipa::path(get, path = "/injections/{name}/files/download", tag = "datapacks", params(("name" = String, Path), FileQuery), responses((status = 200, content_type = "application/octet-stream"), (status = 404, body = Envelope<ErrorData>)))]
pub async fn file(
    State(app): State<App>,
    Segment(name): Segment,
    Params(query): Params<FileQuery>,
) -> Result<Response, Refusal> {
    Ok(respond(app.file(&name, &query.path).await?))
}

/// Download a datapack in the public layout as a zip archive
#[utoipa::path(get, path = "/injections/{name}/download", tag = "datapacks", params(("name" = String, Path)), responses((status = 200, content_type = "application/zip"), (status = 404, body = Envelope<ErrorData>)))]
pub async fn archive(State(app): State<App>, Segment(name): Segment) -> Result<Response, Refusal> {
    Ok(respond(app.archive(&name).await?))
}

/// Compare a datapack with its checksums
#[utoipa::path(post, path = "/injections/{name}/verify", tag = "datapacks", params(("name" = String, Path)), responses((status = 200, body = Envelope<VerifyReport>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn verify(State(app): State<App>, Segment(name): Segment) -> Answer<VerifyReport> {
    Ok(Reply::ok(app.verify(&name).await?))
}

pub fn respond(download: Download) -> Response {
    let mut response = body::Body::from_stream(download.body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(download.content_type));
    if let Some(length) = download.length {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{}\"", download.file_name)) {
        headers.insert(header::CONTENT_DISPOSITION, value);
    }
    response
}
