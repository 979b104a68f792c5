//! Evaluations.

use api::answers::{Answered, DatapackQuestions, DatapackReply, DatasetQuestions, DatasetReply};
use api::evaluation::{CancelEvaluationReply, CompareQuery, Evaluation, EvaluationComparison, EvaluationRequest};
use api::{Envelope, ErrorData, Page, PageQuery};
use axum::extract::State;
use axum::http::StatusCode;
use model::{ErrorKind, EvaluationId, Problem};

use crate::app::App;
use crate::extract::{Body, Params, Segment};
use crate::reply::{Answer, Reply};

/// List evaluations, newest first
#[utoipa::path(get, path = "/evaluations", tag = "evaluations", params(PageQuery), responses((status = 200, body = Envelope<Page<Evaluation>>)))]
pub async fn list(State(app): State<App>, Params(query): Params<PageQuery>) -> Answer<Page<Evaluation>> {
    Ok(Reply::ok(app.evaluations(query).await?))
}

/// Run algorithms on datapacks; the work outlives every process
#[utoipa::path(post, path = "/evaluations", tag = "evaluations", request_body = EvaluationRequest, responses((status = 202, body = Envelope<Evaluation>), (status = 400, body = Envelope<ErrorData>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn create(State(app): State<App>, Body(request): Body<EvaluationRequest>) -> Answer<Evaluation> {
    Ok(Reply::with_status(StatusCode::ACCEPTED, app.create_evaluation(&request).await?))
}

/// Show one evaluation and how far it is; its board is `/board?evaluation=ID`
#[utoipa::path(get, path = "/evaluations/{id}", tag = "evaluations", params(("id" = i32, Path)), responses((status = 200, body = Envelope<Evaluation>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn show(State(app): State<App>, Segment(id): Segment) -> Answer<Evaluation> {
    Ok(Reply::ok(app.evaluation(number(&id)?).await?))
}

/// Start nothing more of an evaluation; what has ended stays
#[utoipa::path(post, path = "/evaluations/{id}/cancel", tag = "evaluations", params(("id" = i32, Path)), responses((status = 200, body = Envelope<CancelEvaluationReply>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn cancel(State(app): State<App>, Segment(id): Segment) -> Answer<CancelEvaluationReply> {
    Ok(Reply::ok(app.cancel_evaluation(number(&id)?).await?))
}

/// Compare two evaluations, algorithm by algorithm, on the datapacks that both scored
#[utoipa::path(get, path = "/evaluations/compare", tag = "evaluations", params(CompareQuery), responses((status = 200, body = Envelope<EvaluationComparison>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn compare(State(app): State<App>, Params(query): Params<CompareQuery>) -> Answer<EvaluationComparison> {
    Ok(Reply::ok(app.compare_evaluations(&query).await?))
}

/// Answers of algorithms on single datapacks beside the truth, for programs that score by themselves; nothing is run
#[utoipa::path(post, path = "/evaluations/datapacks", tag = "evaluations", request_body = DatapackQuestions, responses((status = 200, body = Envelope<Answered<DatapackReply>>), (status = 400, body = Envelope<ErrorData>)))]
pub async fn datapacks(
    State(app): State<App>,
    Body(questions): Body<DatapackQuestions>,
) -> Answer<Answered<DatapackReply>> {
    Ok(Reply::ok(app.datapack_answers(&questions).await?))
}

/// Answers of algorithms on whole data sets beside the truth, for programs that score by themselves; nothing is run
#[utoipa::path(post, path = "/evaluations/datasets", tag = "evaluations", request_body = DatasetQuestions, responses((status = 200, body = Envelope<Answered<DatasetReply>>), (status = 400, body = Envelope<ErrorData>)))]
pub async fn datasets(
    State(app): State<App>,
    Body(questions): Body<DatasetQuestions>,
) -> Answer<Answered<DatasetReply>> {
    Ok(Reply::ok(app.dataset_answers(&questions).await?))
}

fn number(text: &str) -> model::Result<EvaluationId> {
    text.parse().map(EvaluationId).map_err(|_| {
        Problem::new(ErrorKind::Invalid, "evaluation.id_malformed", "this is not an evaluation's id")
            .place("path")
            .found(format!("`{text}`"))
            .expected("a whole number")
    })
}
