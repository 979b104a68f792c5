//! A load of spans for measuring a receiver, ours or another: bodies are built once and sent over and over.
//!
//! Every body differs in all ids, times and in part of its attributes; a span has ten attributes and about 500 bytes, a body 1,000 spans
//! of one resource with four attributes.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use model::{ErrorKind, Problem, Result, WallTime};
use prost::Message;
use prost::bytes::BufMut;
use serde::Serialize;
use tokio::net::TcpStream;
use tonic::client::Grpc;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;

use crate::otlp::common::any_value::Value;
use crate::otlp::common::{AnyValue, KeyValue};
use crate::otlp::trace::{ResourceSpans, ScopeSpans, Span, Status};
use crate::otlp::{ExportTraceServiceRequest, ExportTraceServiceResponse, Resource};

/// How the load travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Protobuf, uncompressed.
    Http,
    /// Protobuf, compressed beforehand.
    HttpGzip,
    Grpc,
    /// Compressed while it is sent.
    GrpcGzip,
}

/// What to send, and where.
#[derive(Debug, Clone)]
pub struct Load {
    pub address: SocketAddr,
    pub protocol: Protocol,
    pub duration: Duration,
    /// Different bodies.
    pub bodies: usize,
    pub connections: usize,
    pub spans_per_body: usize,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sent {
    pub protocol: Protocol,
    /// Spans in requests that were answered with success.
    pub spans: u64,
    /// From the first request to the last answer.
    pub seconds: f64,
    pub accepted: u64,
    /// Spans that a partial success named as rejected.
    pub refused: u64,
    /// Requests that were answered with something else.
    pub failed_requests: u64,
    /// What the first of them was answered.
    pub first_failure: Option<String>,
    pub accepted_per_second: f64,
    /// Bytes of one span in an uncompressed body, on average.
    pub bytes_per_span: f64,
    pub bodies: usize,
}

#[derive(Default)]
struct Counts {
    next: AtomicUsize,
    spans: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    first_failure: std::sync::OnceLock<String>,
}

impl Load {
    /// Sends until the time is over.
    ///
    /// # Errors
    /// `load.unreachable`.
    pub async fn send(&self) -> Result<Sent> {
        let bodies = (0..self.bodies as u64).map(|number| body(number, self.spans_per_body).encode_to_vec().into());
        let mut bodies: Vec<Bytes> = bodies.collect();
        let bytes: usize = bodies.iter().map(Bytes::len).sum();
        if self.protocol == Protocol::HttpGzip {
            bodies.iter_mut().for_each(|body| *body = gzip(body));
        }
        let (bodies, counts) = (Arc::new(bodies), Arc::new(Counts::default()));
        let started = Instant::now();
        let until = started + self.duration;
        let mut senders = tokio::task::JoinSet::new();
        for _ in 0..self.connections {
            let (load, bodies, counts) = (self.clone(), bodies.clone(), counts.clone());
            senders.spawn(async move {
                match load.protocol {
                    Protocol::Http | Protocol::HttpGzip => load.http(&bodies, until, &counts).await,
                    Protocol::Grpc | Protocol::GrpcGzip => load.grpc(&bodies, until, &counts).await,
                }
            });
        }
        while let Some(sender) = senders.join_next().await {
            sender.map_err(|error| Problem::internal("load.sender_failed", error.to_string()))??;
        }
        let seconds = started.elapsed().as_secs_f64();
        let (spans, refused) = (counts.spans.load(Ordering::Relaxed), counts.refused.load(Ordering::Relaxed));
        Ok(Sent {
            protocol: self.protocol,
            spans,
            seconds,
            accepted: spans - refused,
            refused,
            failed_requests: counts.failed.load(Ordering::Relaxed),
            first_failure: counts.first_failure.get().cloned(),
            accepted_per_second: (spans - refused) as f64 / seconds,
            bytes_per_span: bytes as f64 / (self.bodies * self.spans_per_body) as f64,
            bodies: self.bodies,
        })
    }

    async fn http(&self, bodies: &[Bytes], until: Instant, counts: &Counts) -> Result<()> {
        let mut connection = self.connect().await?;
        while Instant::now() < until {
            let body = bodies[counts.next.fetch_add(1, Ordering::Relaxed) % bodies.len()].clone();
            let mut request = Request::post("/v1/traces")
                .header("host", self.address.to_string())
                .header("content-type", "application/x-protobuf");
            if self.protocol == Protocol::HttpGzip {
                request = request.header("content-encoding", "gzip");
            }
            let request = request.body(Full::new(body)).expect("the parts are well formed");
            let answer = async {
                connection.ready().await?;
                let (head, body) = connection.send_request(request).await?.into_parts();
                Ok::<_, hyper::Error>((head, body.collect().await?.to_bytes()))
            };
            match answer.await {
                Ok((head, body)) if head.status.is_success() => match ExportTraceServiceResponse::decode(body) {
                    Ok(answer) => counts.success(self.spans_per_body, &answer),
                    Err(error) => counts.failure(format!("the answer is no OTLP: {error}")).await,
                },
                Ok((head, body)) => {
                    let text = String::from_utf8_lossy(&body).into_owned();
                    counts.failure(format!("{}: {text}", head.status)).await;
                }
                Err(error) => {
                    counts.failure(error.to_string()).await;
                    connection = self.connect().await?;
                }
            }
        }
        Ok(())
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect(self.address).await.map_err(|error| self.unreachable(&error))?;
        stream.set_nodelay(true).map_err(|error| self.unreachable(&error))?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| self.unreachable(&error))?;
        tokio::spawn(connection);
        Ok(sender)
    }

    async fn grpc(&self, bodies: &[Bytes], until: Instant, counts: &Counts) -> Result<()> {
        const METHOD: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
        let endpoint = Endpoint::new(format!("http://{}", self.address)).map_err(|error| self.unreachable(&error))?;
        let channel = endpoint.tcp_nodelay(true).connect().await.map_err(|error| self.unreachable(&error))?;
        let mut client = Grpc::new(channel);
        if self.protocol == Protocol::GrpcGzip {
            client = client.send_compressed(CompressionEncoding::Gzip);
        }
        while Instant::now() < until {
            let body = bodies[counts.next.fetch_add(1, Ordering::Relaxed) % bodies.len()].clone();
            client.ready().await.map_err(|error| self.unreachable(&error))?;
            match client.unary(tonic::Request::new(body), PathAndQuery::from_static(METHOD), Encoded).await {
                Ok(answer) => counts.success(self.spans_per_body, answer.get_ref()),
                Err(status) => counts.failure(status.to_string()).await,
            }
        }
        Ok(())
    }

    fn unreachable(&self, error: &dyn std::error::Error) -> Problem {
        Problem::new(ErrorKind::Unavailable, "load.unreachable", "nothing receives OTLP at this address")
            .place(self.address.to_string())
            .found(error.to_string())
    }
}

impl Counts {
    fn success(&self, spans: usize, answer: &ExportTraceServiceResponse) {
        self.spans.fetch_add(spans as u64, Ordering::Relaxed);
        let rejected = answer.partial_success.as_ref().map_or(0, |partial| partial.rejected_spans);
        // A receiver that counts below zero is not to be believed: nothing of the body counts as accepted.
        let rejected = u64::try_from(rejected).unwrap_or(spans as u64);
        self.refused.fetch_add(rejected, Ordering::Relaxed);
    }

    /// Counts it and waits a little, as a sender that is told to come back does.
    async fn failure(&self, text: String) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.first_failure.get_or_init(|| text);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Requests that are encoded already, answers as protobuf.
struct Encoded;

impl Codec for Encoded {
    type Encode = Bytes;
    type Decode = ExportTraceServiceResponse;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Encoded {
    type Item = Bytes;
    type Error = tonic::Status;

    fn encode(&mut self, body: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), tonic::Status> {
        out.put_slice(&body);
        Ok(())
    }
}

impl Decoder for Encoded {
    type Item = ExportTraceServiceResponse;
    type Error = tonic::Status;

    fn decode(&mut self, body: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, tonic::Status> {
        let answer = ExportTraceServiceResponse::decode(body);
        answer.map(Some).map_err(|error| tonic::Status::internal(error.to_string()))
    }
}

fn gzip(body: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    encoder.write_all(body).expect("writing to memory");
    encoder.finish().expect("writing to memory").into()
}

fn pair(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn text(key: &str, value: impl Into<String>) -> KeyValue {
    pair(key, Value::StringValue(value.into()))
}

/// Mixes a number so that neighbours have nothing in common (the finaliser of SplitMix64).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// One body: spans that ended in the last minute.
fn body(number: u64, spans: usize) -> ExportTraceServiceRequest {
    let now = u64::try_from(WallTime::now().0).expect("after 1970") * 1000;
    let service = format!("service-{}", number % 12);
    let attributes = vec![
        text("service.name", service.as_str()),
        text("k8s.namespace.name", "bench0"),
        text("k8s.pod.name", format!("{service}-7d9f8b6c5d-{:05}", number % 24)),
        text("telemetry.sdk.language", "java"),
    ];
    let resource = Some(Resource { attributes, ..Resource::default() });
    let spans = (0..spans as u64).map(|at| span(mix(number << 32 | at), now)).collect();
    let scope_spans = vec![ScopeSpans { spans, ..ScopeSpans::default() }];
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans { resource, scope_spans, ..ResourceSpans::default() }],
    }
}

fn span(seed: u64, now: u64) -> Span {
    let end = now - seed % 60_000_000_000;
    let start = end - mix(seed + 1) % 250_000_000;
    let trace_id = [mix(seed ^ 1 << 40).to_be_bytes(), mix(seed ^ 1 << 41).to_be_bytes()].concat();
    let route = ["orders", "travel", "stations", "payment", "contacts", "seats", "prices"][(seed % 7) as usize];
    let order = mix(seed + 2);
    Span {
        trace_id,
        span_id: seed.to_be_bytes().to_vec(),
        parent_span_id: mix(seed + 3).to_be_bytes().to_vec(),
        name: format!("POST /api/v1/{route}/{{id}}"),
        kind: 1 + (seed % 3) as i32,
        start_time_unix_nano: start,
        end_time_unix_nano: end,
        attributes: vec![
            text("http.request.method", "POST"),
            text("http.route", format!("/api/v1/{route}/{{id}}")),
            text("url.full", format!("http://gateway:8080/api/v1/{route}/{order:016x}")),
            pair("http.response.status_code", Value::IntValue(if seed.is_multiple_of(50) { 500 } else { 200 })),
            text("network.peer.address", format!("10.244.{}.{}", seed % 3, mix(seed + 4) % 250)),
            pair("network.peer.port", Value::IntValue((1024 + mix(seed + 5) % 60_000) as i64)),
            text("user_agent.original", "Java-http-client/17.0.9"),
            text("thread.name", format!("http-nio-8080-exec-{}", seed % 200)),
            text("enduser.id", format!("user-{}", mix(seed + 6) % 10_000)),
            text("server.address", format!("ts-{route}-service")),
        ],
        status: Some(Status { code: if seed.is_multiple_of(50) { 2 } else { 0 }, message: String::new() }),
        flags: 257,
        ..Span::default()
    }
}
