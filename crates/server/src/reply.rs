//! Every response in the envelope: successes, errors, and what the framework itself refuses.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use api::{Envelope, ErrorData};
use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use model::{ErrorKind, Problem, WallTime};
use serde::Serialize;
use uuid::Uuid;

/// What a handler returns.
pub type Answer<T> = Result<Reply<T>, Refusal>;

/// A success with its data.
#[derive(Debug)]
pub struct Reply<T> {
    status: StatusCode,
    data: T,
}

impl<T> Reply<T> {
    pub fn ok(data: T) -> Self {
        Self { status: StatusCode::OK, data }
    }

    pub fn created(data: T) -> Self {
        Self { status: StatusCode::CREATED, data }
    }

    pub fn with_status(status: StatusCode, data: T) -> Self {
        Self { status, data }
    }
}

impl<T: Serialize> IntoResponse for Reply<T> {
    fn into_response(self) -> Response {
        let envelope = Envelope::success(self.status.as_u16(), self.data, WallTime::now());
        (self.status, Json(envelope)).into_response()
    }
}

/// An error on its way out; [`seal`] gives it its envelope, because only there the request's id is known.
#[derive(Debug, Clone)]
pub struct Refusal {
    problem: Arc<Problem>,
    status: StatusCode,
}

impl Refusal {
    /// With a status that HTTP itself gives a meaning to.
    pub fn with_status(problem: Problem, status: StatusCode) -> Self {
        Self { problem: Arc::new(problem), status }
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        let status = StatusCode::from_u16(problem.kind.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { problem: Arc::new(problem), status }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Outermost layer: gives the request its id, puts errors into the envelope and logs them.
pub async fn seal(request: Request, next: Next) -> Response {
    let id = request_id(&request);
    let (method, path, started) = (request.method().clone(), request.uri().path().to_owned(), Instant::now());
    let mut response = next.run(request).await;
    if let Some(refusal) = response.extensions_mut().remove::<Refusal>() {
        log(&refusal, &id, &path);
        response = envelope(&refusal, &id, &path);
    }
    let status = response.status().as_u16();
    tracing::debug!(request = %id, %method, %path, status, micros = started.elapsed().as_micros(), "answered");
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(api::REQUEST_ID, value);
    }
    response
}

/// The caller's own id when it is printable and short, else a new one.
fn request_id(request: &Request) -> String {
    let given = request.headers().get(api::REQUEST_ID).and_then(|value| value.to_str().ok());
    match given {
        Some(id) if (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic()) => id.to_owned(),
        _ => Uuid::new_v4().to_string(),
    }
}

fn envelope(refusal: &Refusal, id: &str, path: &str) -> Response {
    let data = ErrorData::with_status(&refusal.problem, refusal.status.as_u16(), id, path);
    let mut response = (refusal.status, Json(data.into_envelope(WallTime::now()))).into_response();
    if refusal.status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if refusal.problem.kind.retryable() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

fn log(refusal: &Refusal, id: &str, path: &str) {
    let chain = refusal.problem.chain();
    match refusal.problem.kind {
        ErrorKind::Internal | ErrorKind::Unavailable => tracing::error!(request = %id, %path, "{chain}"),
        _ => tracing::debug!(request = %id, %path, "{chain}"),
    }
}

/// What a handler that panicked answers.
pub fn after_panic(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    tracing::error!("a request handler panicked: {}", text.unwrap_or_default());
    Refusal::from(Problem::internal("server.panicked", "the server failed on this request; its log says more"))
        .into_response()
}

pub async fn no_such_route(request: Request) -> Refusal {
    Problem::new(ErrorKind::NotFound, "route.unknown", "there is no such route")
        .found(format!("{} {}", request.method(), request.uri().path()))
        .expected("a route of the OpenAPI document at `/api/v2/openapi.json`")
        .into()
}

pub async fn no_such_method(request: Request) -> Refusal {
    let problem = Problem::new(ErrorKind::Invalid, "route.method_unknown", "the route does not take this method")
        .found(format!("{} {}", request.method(), request.uri().path()));
    Refusal::with_status(problem, StatusCode::METHOD_NOT_ALLOWED)
}
