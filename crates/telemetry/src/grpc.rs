//! OTLP over gRPC: the method `Export` of three services, plain or gzip.
//!
//! A unary call is one length-prefixed message each way, so it is read and answered here, with the same limits and the same room in
//! memory as over HTTP; tonic speaks HTTP/2 beneath it.
//!
//! Source: gRPC over HTTP/2, "Request" and "Responses"; OTLP specification, section "OTLP/gRPC".

use std::convert::Infallible;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http_body_util::{BodyExt, Full};
use model::{ErrorKind, Problem, Result};
use tonic::{Code, Status};

use crate::receive::{Encoding, Entrance, Packing};
use crate::reply::{self, Refused};
use crate::{Accepted, Export};

/// Compressed flag and length before each message.
const PREFIX: usize = 5;

pub(crate) fn routes(entrance: Entrance) -> Router {
    const TRACES: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
    const METRICS: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
    const LOGS: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
    Router::new()
        .route(TRACES, post(|State(entrance), request| answer(entrance, Export::Traces, request)))
        .route(METRICS, post(|State(entrance), request| answer(entrance, Export::Metrics, request)))
        .route(LOGS, post(|State(entrance), request| answer(entrance, Export::Logs, request)))
        .fallback(async || failure(Status::unimplemented("there are three services here, each with the method Export")))
        .with_state(entrance)
}

async fn answer(entrance: Entrance, export: Export, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let content = head.headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    if !content.starts_with(b"application/grpc") {
        return StatusCode::UNSUPPORTED_MEDIA_TYPE.into_response();
    }
    match take(&entrance, export, &head.headers, body).await {
        Ok(accepted) => success(&reply::taken(export, &accepted)),
        Err(problem) => {
            let refused = Refused::of(&problem);
            if matches!(refused.grpc, Code::Internal | Code::Unavailable) {
                tracing::error!(problem = %problem.chain(), "an OTLP request was not stored");
            }
            let details = reply::status(refused, &problem);
            failure(Status::with_details(refused.grpc, problem.to_string(), details.into()))
        }
    }
}

async fn take(entrance: &Entrance, export: Export, headers: &HeaderMap, body: Body) -> Result<Accepted> {
    let read = async {
        let packing = packing(headers)?;
        let (frame, room) = entrance.read(body, None).await?;
        let (packed, message) = message(frame)?;
        Ok((if packed { packing } else { Packing::Plain }, (message, room)))
    };
    let (packing, body) = read.await.map_err(|problem| entrance.refuse(export, problem))?;
    entrance.take(export, packing, Encoding::Protobuf, body).await
}

fn packing(headers: &HeaderMap) -> Result<Packing> {
    match headers.get("grpc-encoding").map_or(&b"identity"[..], HeaderValue::as_bytes) {
        b"identity" => Ok(Packing::Plain),
        b"gzip" => Ok(Packing::Gzip),
        other => Err(Problem::new(
            ErrorKind::Invalid,
            "otlp.encoding_unsupported",
            "an OTLP request is compressed in a way that is not supported",
        )
        .found(format!("grpc-encoding `{}`", String::from_utf8_lossy(other)))
        .expected("gzip, or none")
        .fix("set the exporter's compression to `gzip` or `none`")),
    }
}

/// Takes the one message of a unary call out of its frame.
fn message(mut frame: Bytes) -> Result<(bool, Bytes)> {
    let malformed = |found: String| {
        Problem::new(ErrorKind::Invalid, "otlp.request_malformed", "a gRPC call does not hold one whole message")
            .found(found)
    };
    if frame.len() < PREFIX {
        return Err(malformed(format!("{} bytes", frame.len())));
    }
    let prefix = frame.split_to(PREFIX);
    let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
    match prefix[0] {
        flag @ (0 | 1) if length == frame.len() => Ok((flag == 1, frame)),
        0 | 1 => Err(malformed(format!("{} bytes where {length} were announced", frame.len()))),
        flag => Err(malformed(format!("the flag {flag}"))),
    }
}

fn success(message: &[u8]) -> Response {
    let mut frame = Vec::with_capacity(PREFIX + message.len());
    frame.push(0);
    frame.extend_from_slice(&u32::try_from(message.len()).expect("an answer is short").to_be_bytes());
    frame.extend_from_slice(message);
    let mut trailers = HeaderMap::new();
    trailers.insert(Status::GRPC_STATUS, HeaderValue::from_static("0"));
    let body = Full::new(Bytes::from(frame)).with_trailers(async { Some(Ok::<_, Infallible>(trailers)) });
    let mut response = Response::new(Body::new(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

fn failure(status: Status) -> Response {
    let mut response = status.into_http::<Body>();
    // What could be sent instead.
    response.headers_mut().insert("grpc-accept-encoding", HeaderValue::from_static("identity,gzip"));
    response
}
