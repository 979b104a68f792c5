//! Reading what a request carries; what is wrong with it is told in the one error form.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use model::{ErrorKind, Problem, TaskId};
use serde::de::DeserializeOwned;

use crate::reply::Refusal;

/// A JSON body. An empty body counts as `{}`.
#[derive(Debug)]
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let bytes = Bytes::from_request(request, state).await.map_err(|rejection| unreadable(&rejection))?;
        let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        serde_json::from_slice(text).map(Self).map_err(|error| {
            Problem::new(ErrorKind::Invalid, "request.malformed", "the request's body is not what the route takes")
                .place(format!("body, line {}, column {}", error.line(), error.column()))
                .found(error.to_string())
                .into()
        })
    }
}

/// A body of bytes: a chart's archive, which may be larger than other bodies.
#[derive(Debug)]
pub struct Archive(pub Vec<u8>);

impl<S: Send + Sync> FromRequest<S> for Archive {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refusal> {
        match axum::body::to_bytes(request.into_body(), api::chart::LARGEST_ARCHIVE).await {
            Ok(bytes) => Ok(Self(bytes.into())),
            Err(error) => Err(Problem::new(
                ErrorKind::Invalid,
                "chart.archive_too_large",
                "the chart's archive is too large, or was not sent to its end",
            )
            .found(error.to_string())
            .expected(format!("at most {} MiB", api::chart::LARGEST_ARCHIVE >> 20))
            .into()),
        }
    }
}

fn unreadable(rejection: &BytesRejection) -> Refusal {
    let status = rejection.status();
    if status == StatusCode::PAYLOAD_TOO_LARGE {
        let problem = Problem::new(ErrorKind::Invalid, "request.too_large", "the request's body is too large")
            .expected(format!("at most {} MiB", crate::routes::LARGEST_BODY / (1024 * 1024)));
        return Refusal::with_status(problem, status);
    }
    Problem::new(ErrorKind::Invalid, "request.unreadable", "the request's body cannot be read")
        .found(rejection.body_text())
        .into()
}

/// Query parameters. Unknown ones are ignored, as clients of the public contract send some that mean nothing here.
#[derive(Debug)]
pub struct Params<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(params)) => Ok(Self(params)),
            Err(rejection) => {
                Err(Problem::new(ErrorKind::Invalid, "request.query_malformed", "a query parameter cannot be read")
                    .place("query")
                    .found(rejection.body_text())
                    .into())
            }
        }
    }
}

/// The variable part of a route's path, as text; several are a tuple.
#[derive(Debug)]
pub struct Segment<T = String>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Segment<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(text)) => Ok(Self(text)),
            Err(rejection) => {
                Err(Problem::new(ErrorKind::Invalid, "request.path_malformed", "the request's path cannot be read")
                    .place("path")
                    .found(rejection.body_text())
                    .into())
            }
        }
    }
}

/// # Errors
/// `task.id_malformed`.
pub fn task_id(text: &str) -> model::Result<TaskId> {
    text.parse().map_err(|_| {
        Problem::new(ErrorKind::Invalid, "task.id_malformed", "this is not a task's id")
            .place("path")
            .found(format!("`{text}`"))
            .expected("a UUID")
    })
}

/// A state by its name (in any case) or its number, as query parameters carry it.
///
/// # Errors
/// `state.unknown`, with the nearest name.
pub fn state<T: Copy>(
    text: Option<&str>,
    all: &[T],
    name: impl Fn(T) -> &'static str,
    code: impl Fn(T) -> i32,
) -> model::Result<Option<T>> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    let found = all.iter().copied().find(|&state| {
        name(state).eq_ignore_ascii_case(text) || text.parse::<i32>().is_ok_and(|number| number == code(state))
    });
    found.map(Some).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|&state| name(state)).collect();
        let mut problem = Problem::unknown("state.unknown", "state", text, names).place("query: state");
        // The list exists; it is the parameter that is wrong.
        problem.kind = ErrorKind::Invalid;
        problem
    })
}

#[cfg(test)]
mod tests {
    use model::TaskState;

    use super::*;

    #[test]
    fn a_state_is_read_by_name_and_by_number() {
        let read = |text| state(text, TaskState::ALL, TaskState::as_str, TaskState::code);
        assert_eq!(read(Some("running")).unwrap(), Some(TaskState::Running));
        assert_eq!(read(Some("-1")).unwrap(), Some(TaskState::Error));
        assert_eq!(read(Some("0")).unwrap(), Some(TaskState::Pending));
        assert_eq!(read(None).unwrap(), None);
        let problem = read(Some("Runing")).unwrap_err();
        assert_eq!((problem.code.as_ref(), problem.kind), ("state.unknown", ErrorKind::Invalid));
    }
}
