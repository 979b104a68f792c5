//! Projects, and what is listed and submitted within one.

use api::algorithm::{Execution, ExecutionQuery};
use api::injection::{Injection, InjectionDetail, InjectionQuery, InjectionSearch};
use api::project::{ExecuteReply, ExecuteRequest, InjectReply, InjectRequest, Project, ProjectRequest};
use api::{Envelope, ErrorData, Page, PageQuery};
use axum::extract::State;
use axum::http::HeaderMap;

use crate::app::App;
use crate::extract::{Body, Params, Segment};
use crate::reply::{Answer, Reply};

/// List projects, oldest first
#[utoipa::path(get, path = "/projects", tag = "projects", params(PageQuery), responses((status = 200, body = Envelope<Page<Project>>)))]
pub async fn list(State(app): State<App>, Params(query): Params<PageQuery>) -> Answer<Page<Project>> {
    Ok(Reply::ok(app.projects(query).await?))
}

/// Make a project
#[utoipa::path(post, path = "/projects", tag = "projects", request_body = ProjectRequest, responses((status = 201, body = Envelope<Project>), (status = 400, body = Envelope<ErrorData>), (status = 409, body = Envelope<ErrorData>)))]
pub async fn create(State(app): State<App>, Body(request): Body<ProjectRequest>) -> Answer<Project> {
    Ok(Reply::created(app.add_project(&request).await?))
}

/// Show one project by name or number
#[utoipa::path(get, path = "/projects/{project}", tag = "projects", params(("project" = String, Path)), responses((status = 200, body = Envelope<Project>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn show(State(app): State<App>, Segment(project): Segment) -> Answer<Project> {
    Ok(Reply::ok(app.project(&project).await?))
}

/// List a project's injections, newest first
#[utoipa::path(get, path = "/projects/{project}/injections", tag = "projects", params(("project" = String, Path), InjectionQuery), responses((status = 200, body = Envelope<Page<Injection>>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn injections(
    State(app): State<App>,
    Segment(project): Segment,
    Params(query): Params<InjectionQuery>,
) -> Answer<Page<Injection>> {
    Ok(Reply::ok(app.project_injections(&project, &query).await?))
}

/// Search a project's injections
#[utoipa::path(post, path = "/projects/{project}/injections/search", tag = "projects", params(("project" = String, Path)), request_body = InjectionSearch, responses((status = 200, body = Envelope<Page<InjectionDetail>>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn search(
    State(app): State<App>,
    Segment(project): Segment,
    Body(search): Body<InjectionSearch>,
) -> Answer<Page<InjectionDetail>> {
    Ok(Reply::ok(app.search_injections(Some(&project), search).await?))
}

/// Submit runs in the public form: batches of guided faults
///
/// With the header `Idempotency-Key`, a repeated submission answers what the first one did.
#[utoipa::path(post, path = "/projects/{project}/injections/inject", tag = "projects", params(("project" = String, Path), ("Idempotency-Key" = Option<String>, Header)), request_body = InjectRequest, responses((status = 200, body = Envelope<InjectReply>), (status = 400, body = Envelope<ErrorData>), (status = 404, body = Envelope<ErrorData>), (status = 409, body = Envelope<ErrorData>), (status = 422, body = Envelope<ErrorData>)))]
pub async fn inject(
    State(app): State<App>,
    headers: HeaderMap,
    Segment(project): Segment,
    Body(request): Body<InjectRequest>,
) -> Answer<InjectReply> {
    Ok(Reply::ok(app.inject(&project, request, key(&headers).as_deref()).await?))
}

/// List a project's executions, newest first
#[utoipa::path(get, path = "/projects/{project}/executions", tag = "projects", params(("project" = String, Path), ExecutionQuery), responses((status = 200, body = Envelope<Page<Execution>>), (status = 404, body = Envelope<ErrorData>)))]
pub async fn executions(
    State(app): State<App>,
    Segment(project): Segment,
    Params(query): Params<ExecutionQuery>,
) -> Answer<Page<Execution>> {
    Ok(Reply::ok(app.project_executions(&project, &query).await?))
}

/// Run algorithms on datapacks that are there already, or wait for the answers of algorithms that run elsewhere
///
/// With the header `Idempotency-Key`, a repeated submission answers what the first one did.
#[utoipa::path(post, path = "/projects/{project}/executions/execute", tag = "projects", params(("project" = String, Path), ("Idempotency-Key" = Option<String>, Header)), request_body = ExecuteRequest, responses((status = 200, body = Envelope<ExecuteReply>), (status = 400, body = Envelope<ErrorData>), (status = 404, body = Envelope<ErrorData>), (status = 409, body = Envelope<ErrorData>)))]
pub async fn execute(
    State(app): State<App>,
    headers: HeaderMap,
    Segment(project): Segment,
    Body(request): Body<ExecuteRequest>,
) -> Answer<ExecuteReply> {
    Ok(Reply::ok(app.execute(Some(&project), request, key(&headers).as_deref()).await?))
}

/// The same as within the project that the body names
#[utoipa::path(post, path = "/executions/execute", tag = "algorithms", params(("Idempotency-Key" = Option<String>, Header)), request_body = ExecuteRequest, responses((status = 200, body = Envelope<ExecuteReply>), (status = 400, body = Envelope<ErrorData>), (status = 404, body = Envelope<ErrorData>), (status = 409, body = Envelope<ErrorData>)))]
pub async fn execute_anywhere(
    State(app): State<App>,
    headers: HeaderMap,
    Body(request): Body<ExecuteRequest>,
) -> Answer<ExecuteReply> {
    Ok(Reply::ok(app.execute(None, request, key(&headers).as_deref()).await?))
}

pub fn key(headers: &HeaderMap) -> Option<String> {
    headers.get(api::IDEMPOTENCY_KEY).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}
