//! Algorithms and their executions.

use api::algorithm::{Algorithm, Execution, ExecutionDetail, ExecutionQuery};
use api::{Envelope, ErrorData, Page};
use axum::extract::State;
use model::{ErrorKind, ExecutionId, Problem};

use crate::app::App;
use crate::extract::{Params, Segment};
use crate::reply::{Answer, Reply};

/// List every version of every detector and algorithm
#[utoipa::path(get, path = "/algorithms", tag = "algorithms", responses((status = 200, body = Envelope<Vec<Algorithm>>)))]
pub async fn algorithms(State(app): State<App>) -> Answer<Vec<Algorithm>> {
    Ok(Reply::ok(app.algorithms().await?))
}

/// List executions, newest first
#[utoipa::path(get, path = "/executions", tag = "algorithms", params(ExecutionQuery), responses((status = 200, body = Envelope<Page<Execution>>)))]
pub async fn executions(State(app): State<App>, Params(query): Params<ExecutionQuery>) -> Answer<Page<Execution>> {
    Ok(Reply::ok(app.executions(&query).await?))
}

/// Show one execution with what it answered
#[utoipa::path(get, path = "/executions/{id}", tag = "algorithms", params(("id" = i32, Path)), responses((status = 200, body = Envelope<ExecutionDetail>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn execution(State(app): State<App>, Segment(id): Segment) -> Answer<ExecutionDetail> {
    let number = id.parse().map_err(|_| {
        Problem::new(ErrorKind::Invalid, "execution.id_malformed", "this is not an execution's id")
            .place("path")
            .found(format!("`{id}`"))
            .expected("a whole number")
    })?;
    Ok(Reply::ok(app.execution(ExecutionId(number)).await?))
}
