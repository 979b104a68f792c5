//! Algorithms and their executions.

use api::algorithm::{
    AddAlgorithmRequest, Algorithm, DetectorUpload, Execution, ExecutionDetail, ExecutionQuery, RankingUpload,
    TestAlgorithmRequest, UploadReply,
};
use api::evaluation::Evaluation;
use api::project::LabelRequest;
use api::{Envelope, ErrorData, Page};
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use model::{ErrorKind, ExecutionId, Problem};

use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Body, Params, Segment};
use crate::reply::{Answer, Reply};

/// List every version of every detector and algorithm
#[utoipa::path(get, path = "/algorithms", tag = "algorithms", responses((status = 200, body = Envelope<Vec<Algorithm>>)))]
pub async fn algorithms(State(app): State<App>) -> Answer<Vec<Algorithm>> {
    Ok(Reply::ok(app.algorithms().await?))
}

/// Add a version of a command; the same again is no change
#[utoipa::path(post, path = "/algorithms", tag = "algorithms", request_body = AddAlgorithmRequest, responses((status = 200, body = Envelope<Algorithm>), (status = 400, body = Envelope<ErrorData>), (status = 409, body = Envelope<ErrorData>), (status = 422, body = Envelope<ErrorData>)))]
pub async fn add(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<AddAlgorithmRequest>,
) -> Answer<Algorithm> {
    Ok(Reply::ok(app.add_algorithm(&caller, &request).await?))
}

/// Show one version by `name` or `name:version`
#[utoipa::path(get, path = "/algorithms/{name}", tag = "algorithms", params(("name" = String, Path)), responses((status = 200, body = Envelope<Algorithm>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn algorithm(State(app): State<App>, Segment(name): Segment) -> Answer<Algorithm> {
    Ok(Reply::ok(app.algorithm(&name).await?))
}

/// Run one algorithm on one datapack, as an evaluation of its own
#[utoipa::path(post, path = "/algorithms/{name}/test", tag = "algorithms", params(("name" = String, Path)), request_body = TestAlgorithmRequest, responses((status = 202, body = Envelope<Evaluation>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn test(
    State(app): State<App>,
    Segment(name): Segment,
    Body(request): Body<TestAlgorithmRequest>,
) -> Answer<Evaluation> {
    Ok(Reply::with_status(StatusCode::ACCEPTED, app.test_algorithm(&name, &request.datapack).await?))
}

/// List executions, newest first
#[utoipa::path(get, path = "/executions", tag = "algorithms", params(ExecutionQuery), responses((status = 200, body = Envelope<Page<Execution>>)))]
pub async fn executions(State(app): State<App>, Params(query): Params<ExecutionQuery>) -> Answer<Page<Execution>> {
    Ok(Reply::ok(app.executions(&query).await?))
}

/// Show one execution with what it answered
#[utoipa::path(get, path = "/executions/{id}", tag = "algorithms", params(("id" = i32, Path)), responses((status = 200, body = Envelope<ExecutionDetail>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn execution(State(app): State<App>, Segment(id): Segment) -> Answer<ExecutionDetail> {
    Ok(Reply::ok(app.execution(execution_id(&id)?).await?))
}

/// Hand over what a method that runs elsewhere found: its suspects, most suspicious first
#[utoipa::path(post, path = "/executions/{id}/granularity_results", tag = "algorithms", params(("id" = i32, Path)), request_body = RankingUpload, responses((status = 200, body = Envelope<UploadReply>), (status = 400, body = Envelope<ErrorData>), (status = 403, body = Envelope<ErrorData>), (status = 404, body = Envelope<ErrorData>), (status = 409, body = Envelope<ErrorData>)))]
pub async fn upload_ranking(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment,
    Body(upload): Body<RankingUpload>,
) -> Answer<UploadReply> {
    Ok(Reply::ok(app.upload_ranking(&caller, execution_id(&id)?, upload).await?))
}

/// Hand over what a detector that runs elsewhere saw, one entry for each entrance
#[utoipa::path(post, path = "/executions/{id}/detector_results", tag = "algorithms", params(("id" = i32, Path)), request_body = DetectorUpload, responses((status = 200, body = Envelope<UploadReply>), (status = 400, body = Envelope<ErrorData>), (status = 403, body = Envelope<ErrorData>), (status = 404, body = Envelope<ErrorData>), (status = 409, body = Envelope<ErrorData>)))]
pub async fn upload_detection(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment,
    Body(upload): Body<DetectorUpload>,
) -> Answer<UploadReply> {
    Ok(Reply::ok(app.upload_detection(&caller, execution_id(&id)?, upload).await?))
}

/// Set labels of an execution, and take others away
#[utoipa::path(patch, path = "/executions/{id}/labels", tag = "algorithms", params(("id" = i32, Path)), request_body = LabelRequest, responses((status = 200, body = Envelope<ExecutionDetail>), (status = 400, body = Envelope<ErrorData>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn label(
    State(app): State<App>,
    Segment(id): Segment,
    Body(request): Body<LabelRequest>,
) -> Answer<ExecutionDetail> {
    Ok(Reply::ok(app.label_execution(execution_id(&id)?, &request).await?))
}

pub fn execution_id(text: &str) -> model::Result<ExecutionId> {
    text.parse().map(ExecutionId).map_err(|_| {
        Problem::new(ErrorKind::Invalid, "execution.id_malformed", "this is not an execution's id")
            .place("path")
            .found(format!("`{text}`"))
            .expected("a whole number")
    })
}
