//! Capabilities and points.

use api::fault::{Capability, Point, PointQuery};
use api::{Envelope, ErrorData, Page};
use axum::extract::State;

use crate::app::App;
use crate::extract::{Params, Segment};
use crate::reply::{Answer, Reply};

/// List the capabilities
#[utoipa::path(get, path = "/capabilities", tag = "faults", responses((status = 200, body = Envelope<Vec<Capability>>)))]
pub async fn capabilities(State(app): State<App>) -> Reply<Vec<Capability>> {
    Reply::ok(app.capabilities())
}

/// Show one capability
#[utoipa::path(get, path = "/capabilities/{name}", tag = "faults", params(("name" = String, Path)), responses((status = 200, body = Envelope<Capability>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn capability(State(app): State<App>, Segment(name): Segment) -> Answer<Capability> {
    Ok(Reply::ok(app.capability(&name)?))
}

/// List the points of a system where faults can be injected
#[utoipa::path(get, path = "/systems/{name}/points", tag = "faults", params(("name" = String, Path), PointQuery), responses((status = 200, body = Envelope<Page<Point>>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn points(
    State(app): State<App>,
    Segment(name): Segment,
    Params(query): Params<PointQuery>,
) -> Answer<Page<Point>> {
    Ok(Reply::ok(app.points(&name, &query)?))
}

/// Show one point by its id
#[utoipa::path(get, path = "/points/{id}", tag = "faults", params(("id" = String, Path)), responses((status = 200, body = Envelope<Point>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn point(State(app): State<App>, Segment(id): Segment) -> Answer<Point> {
    Ok(Reply::ok(app.point(&id)?))
}
