//! Real bytes over real sockets: a client of HTTP/1.1 and one of gRPC, and a receiver to send to.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::handshake;
use hyper::header::HeaderMap;
use hyper::http::request::Builder;
use hyper_util::rt::TokioIo;
use prost::bytes::{Buf, BufMut, Bytes};
use telemetry::otlp::Message;
use telemetry::{Export, Listen, Listening, SignalStore, serve};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tonic::client::Grpc;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic::{Request, Status};

const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A receiver on ports of its own.
pub struct Receiver {
    pub grpc: SocketAddr,
    pub http: SocketAddr,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<model::Result<()>>,
}

impl Receiver {
    pub async fn start(store: &SignalStore) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let listen = Listen { grpc: Some(ANY_PORT), http: Some(ANY_PORT) };
        let shutdown = async { drop(stopped.await) };
        let Listening { grpc, http, task } = serve(listen, store.ingest().unwrap(), shutdown).await.unwrap();
        Self { grpc: grpc.unwrap(), http: http.unwrap(), stop, task }
    }

    pub async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap().unwrap();
    }
}

/// The answer to a request over HTTP.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> serde_json::Value {
        assert_eq!(self.headers["content-type"], "application/json", "{self:?}");
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The message of a `google.rpc.Status`, and its code.
    pub fn status(&self) -> (i32, String) {
        assert_eq!(self.headers["content-type"], "application/x-protobuf", "{self:?}");
        let status = RpcStatus::decode(&self.body[..]).unwrap();
        (status.code, status.message)
    }
}

#[derive(Clone, PartialEq, Message)]
pub struct RpcStatus {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
}

pub const PROTOBUF: (&str, &str) = ("content-type", "application/x-protobuf");
pub const JSON: (&str, &str) = ("content-type", "application/json");
pub const GZIP: (&str, &str) = ("content-encoding", "gzip");

pub async fn post(address: SocketAddr, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
    send(address, hyper::Request::post(path), headers, body.into()).await
}

pub async fn get(address: SocketAddr, path: &str) -> Answer {
    send(address, hyper::Request::get(path), &[], Bytes::new()).await
}

async fn send(address: SocketAddr, request: Builder, headers: &[(&str, &str)], body: Bytes) -> Answer {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = request.header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = sender.send_request(request.body(Full::new(body)).unwrap()).await.unwrap();
    let (head, body) = answer.into_parts();
    Answer { status: head.status.as_u16(), headers: head.headers, body: body.collect().await.unwrap().to_bytes() }
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub fn path(export: Export) -> &'static str {
    match export {
        Export::Traces => "/v1/traces",
        Export::Metrics => "/v1/metrics",
        Export::Logs => "/v1/logs",
    }
}

pub fn method(export: Export) -> &'static str {
    match export {
        Export::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
        Export::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        Export::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    }
}

/// One call over gRPC with a body as it is.
pub async fn call(address: SocketAddr, method: &'static str, zip: bool, body: Vec<u8>) -> Result<Vec<u8>, Status> {
    let channel = Endpoint::new(format!("http://{address}")).unwrap().connect().await.unwrap();
    let mut client = Grpc::new(channel);
    if zip {
        client = client.send_compressed(CompressionEncoding::Gzip);
    }
    client.ready().await.unwrap();
    let answer = client.unary(Request::new(body), PathAndQuery::from_static(method), Verbatim).await?;
    Ok(answer.into_inner())
}

/// Sends a body as it is and takes the answer as bytes.
#[derive(Default)]
struct Verbatim;

impl Codec for Verbatim {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;
    fn encoder(&mut self) -> Self {
        Self
    }
    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Verbatim {
    type Item = Vec<u8>;
    type Error = Status;
    fn encode(&mut self, body: Vec<u8>, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put_slice(&body);
        Ok(())
    }
}

impl Decoder for Verbatim {
    type Item = Vec<u8>;
    type Error = Status;
    fn decode(&mut self, body: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(body.copy_to_bytes(body.remaining()).to_vec()))
    }
}
