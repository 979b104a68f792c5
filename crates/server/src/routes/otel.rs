//! What the telemetry of a system lacks, and the collector that makes it whole.

use api::otel::{OtelQuery, OtelReport, RenderQuery, Rendered};
use api::{Envelope, ErrorData};
use axum::extract::State;

use crate::app::App;
use crate::extract::{Params, Segment};
use crate::reply::{Answer, Reply};

/// Check the telemetry of a system: which required attribute is missing, on what share of records, since when
#[utoipa::path(get, path = "/systems/{name}/otel", tag = "systems", params(("name" = String, Path), OtelQuery), responses((status = 200, body = Envelope<OtelReport>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn check(
    State(app): State<App>,
    Segment(name): Segment,
    Params(query): Params<OtelQuery>,
) -> Answer<OtelReport> {
    Ok(Reply::ok(app.otel_check(&name, query).await?))
}

/// Render the collector of a system: its configuration, and what it runs as on Kubernetes
#[utoipa::path(get, path = "/systems/{name}/otel/collector", tag = "systems", params(("name" = String, Path), RenderQuery), responses((status = 200, body = Envelope<Rendered>), (status = 400, body = Envelope<ErrorData>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn render(
    State(app): State<App>,
    Segment(name): Segment,
    Params(query): Params<RenderQuery>,
) -> Answer<Rendered> {
    Ok(Reply::ok(app.otel_render(&name, &query)?))
}
