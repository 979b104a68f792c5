//! Health, differences, the flat layout, and SQL.

use api::datapack::{Converted, Diagnosis, Diff, DiffQuery, ExportRequest, QueryFirst, QueryRequest};
use api::{Envelope, ErrorData};
use axum::extract::State;
use axum::response::Response;

use super::injection::respond;
use crate::app::App;
use crate::extract::{Body, Params, Segment};
use crate::reply::{Answer, Refusal, Reply};

/// Ask datapacks in SQL; the answer is lines of JSON: the columns, an array for each row, the end or an error
#[utoipa::path(post, path = "/injections/query", tag = "datapacks", request_body = QueryRequest, responses((status = 200, content_type = "application/x-ndjson", body = QueryFirst), (status = 400, body = Envelope<ErrorData>), (status = 404, body = Envelope<ErrorData>), (status = 504, body = Envelope<ErrorData>)))]
pub async fn query(State(app): State<App>, Body(request): Body<QueryRequest>) -> Result<Response, Refusal> {
    Ok(respond(app.query(request).await?))
}

/// Export datapacks into another layout, as a tar archive
#[utoipa::path(post, path = "/injections/export", tag = "datapacks", request_body = ExportRequest, responses((status = 200, content_type = "application/x-tar"), (status = 400, body = Envelope<ErrorData>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn export(State(app): State<App>, Body(request): Body<ExportRequest>) -> Result<Response, Refusal> {
    Ok(respond(app.export(&request).await?))
}

/// Say in what two datapacks differ
#[utoipa::path(get, path = "/injections/diff", tag = "datapacks", params(DiffQuery), responses((status = 200, body = Envelope<Diff>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn diff(State(app): State<App>, Params(query): Params<DiffQuery>) -> Answer<Diff> {
    Ok(Reply::ok(app.diff(&query).await?))
}

/// Say what is right and wrong with a datapack
#[utoipa::path(get, path = "/injections/{name}/diagnose", tag = "datapacks", params(("name" = String, Path)), responses((status = 200, body = Envelope<Diagnosis>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn diagnose(State(app): State<App>, Segment(name): Segment) -> Answer<Diagnosis> {
    Ok(Reply::ok(app.diagnose(&name).await?))
}

/// Attach the flat layout of the public algorithms to a datapack
#[utoipa::path(post, path = "/injections/{name}/convert", tag = "datapacks", params(("name" = String, Path)), responses((status = 200, body = Envelope<Converted>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn convert(State(app): State<App>, Segment(name): Segment) -> Answer<Converted> {
    Ok(Reply::ok(app.convert(&name).await?))
}
