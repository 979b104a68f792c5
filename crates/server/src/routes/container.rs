//! Containers in the public form.

use api::container::{Container, ContainerDetail, ContainerQuery};
use api::{Envelope, ErrorData, Page};
use axum::extract::State;

use crate::app::App;
use crate::extract::{Params, Segment};
use crate::reply::{Answer, Reply};

/// List containers, built-in methods among them
#[utoipa::path(get, path = "/containers", tag = "containers", params(ContainerQuery), responses((status = 200, body = Envelope<Page<Container>>), (status = 400, body = Envelope<ErrorData>)))]
pub async fn list(State(app): State<App>, Params(query): Params<ContainerQuery>) -> Answer<Page<Container>> {
    Ok(Reply::ok(app.containers(&query).await?))
}

/// Show one container by name or number, with its versions
#[utoipa::path(get, path = "/containers/{name}", tag = "containers", params(("name" = String, Path)), responses((status = 200, body = Envelope<ContainerDetail>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn show(State(app): State<App>, Segment(name): Segment) -> Answer<ContainerDetail> {
    Ok(Reply::ok(app.container(&name).await?))
}
