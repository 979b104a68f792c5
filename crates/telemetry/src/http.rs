//! OTLP over HTTP: `/v1/traces`, `/v1/metrics`, `/v1/logs`; protobuf or JSON, plain or gzip.
//!
//! Source: OTLP specification, section "OTLP/HTTP".

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::post;
use model::{ErrorKind, Problem, Result};

use crate::receive::{Encoding, Entrance, Packing};
use crate::reply::{self, Refused};
use crate::{Accepted, Export};

pub(crate) fn routes(entrance: Entrance) -> Router {
    Router::new()
        .route("/v1/traces", post(|State(entrance), request| answer(entrance, Export::Traces, request)))
        .route("/v1/metrics", post(|State(entrance), request| answer(entrance, Export::Metrics, request)))
        .route("/v1/logs", post(|State(entrance), request| answer(entrance, Export::Logs, request)))
        .fallback(|State(entrance), request| elsewhere(entrance, request))
        .method_not_allowed_fallback(|State(entrance), request| elsewhere(entrance, request))
        .with_state(entrance)
}

/// A request that no kind of telemetry is sent with: a wrong path, or a wrong method on a right one.
async fn elsewhere(entrance: Entrance, request: Request) -> Response {
    let (method, path) = (request.method(), request.uri().path());
    let export = Export::ALL.into_iter().find(|export| path == format!("/v1/{}", export.as_str()));
    let problem = match export {
        Some(_) => unsupported("otlp.method_wrong", "OTLP is sent with POST").found(format!("{method} {path}")),
        None => unsupported("otlp.path_unknown", "this is no path of OTLP over HTTP")
            .found(format!("{method} {path}"))
            .fix("set the endpoint of the exporter to the address alone; gRPC has an address of its own"),
    };
    let problem = problem.expected("POST to /v1/traces, /v1/metrics or /v1/logs");
    let form = encoding(request.headers()).unwrap_or(Encoding::Json);
    let mut response = refusal(&entrance.refuse(export, problem), form);
    if export.is_some() {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    }
    response
}

async fn answer(entrance: Entrance, export: Export, request: Request) -> Response {
    let (head, body) = request.into_parts();
    // An answer to what cannot be read is written in what can be read by eyes and by machines.
    let encoding = encoding(&head.headers);
    let form = *encoding.as_ref().unwrap_or(&Encoding::Json);
    let outcome = match encoding.and_then(|encoding| Ok((encoding, packing(&head.headers)?))) {
        Ok((encoding, packing)) => take(&entrance, export, packing, encoding, &head.headers, body).await,
        Err(problem) => Err(entrance.refuse(export, problem)),
    };
    match outcome {
        Ok(accepted) => {
            response(StatusCode::OK, form, || reply::taken(export, &accepted), || reply::taken_json(export, &accepted))
        }
        Err(problem) => refusal(&problem, form),
    }
}

async fn take(
    entrance: &Entrance,
    export: Export,
    packing: Packing,
    encoding: Encoding,
    headers: &HeaderMap,
    body: Body,
) -> Result<Accepted> {
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let read = entrance.read(body, length).await.map_err(|problem| entrance.refuse(export, problem))?;
    entrance.take(export, packing, encoding, read).await
}

fn encoding(headers: &HeaderMap) -> Result<Encoding> {
    let text = text(headers, CONTENT_TYPE);
    match text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "application/x-protobuf" => Ok(Encoding::Protobuf),
        "application/json" => Ok(Encoding::Json),
        _ => Err(unsupported("otlp.content_type_unsupported", "an OTLP request is of a type that OTLP does not have")
            .found(format!("Content-Type `{text}`"))
            .expected("application/x-protobuf or application/json")
            .fix("set the exporter's protocol to `http/protobuf` or `http/json`")),
    }
}

fn packing(headers: &HeaderMap) -> Result<Packing> {
    let text = text(headers, CONTENT_ENCODING);
    match text.trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(Packing::Plain),
        "gzip" => Ok(Packing::Gzip),
        _ => Err(unsupported(
            "otlp.encoding_unsupported",
            "an OTLP request is compressed in a way that is not supported",
        )
        .found(format!("Content-Encoding `{text}`"))
        .expected("gzip, or none")
        .fix("set the exporter's compression to `gzip` or `none`")),
    }
}

fn unsupported(code: &'static str, message: &'static str) -> Problem {
    Problem::new(ErrorKind::Invalid, code, message)
}

fn text(headers: &HeaderMap, name: HeaderName) -> String {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).unwrap_or_default()
}

fn refusal(problem: &Problem, form: Encoding) -> Response {
    let refused = Refused::of(problem);
    if refused.http >= 500 {
        tracing::error!(problem = %problem.chain(), "an OTLP request was not stored");
    }
    let status = StatusCode::from_u16(refused.http).expect("the table has only real ones");
    let mut response =
        response(status, form, || reply::status(refused, problem), || reply::status_json(refused, problem));
    if let Some(retry) = refused.retry {
        let seconds = retry.as_secs_f64().ceil().max(1.0) as u64;
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn response(
    status: StatusCode,
    form: Encoding,
    protobuf: impl FnOnce() -> Vec<u8>,
    json: impl FnOnce() -> serde_json::Value,
) -> Response {
    let (name, body) = match form {
        Encoding::Protobuf => ("application/x-protobuf", protobuf()),
        Encoding::Json => ("application/json", json().to_string().into_bytes()),
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(name));
    response
}
