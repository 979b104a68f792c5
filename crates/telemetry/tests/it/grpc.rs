//! The receiver over gRPC, spoken to by a tonic client.

use std::net::SocketAddr;

use prost::bytes::{Buf, BufMut};
use telemetry::otlp::Message;
use telemetry::otlp::logs_service_client::LogsServiceClient;
use telemetry::otlp::metrics_service_client::MetricsServiceClient;
use telemetry::otlp::trace_service_client::TraceServiceClient;
use telemetry::{Export, Signal, SignalStore, serve_grpc};
use tokio::sync::oneshot;
use tonic::client::Grpc;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status};

use crate::fixture::*;

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_signals_arrive_with_partial_success_and_limits() {
    let folder = tempfile::tempdir().unwrap();
    let store = SignalStore::open(folder.path()).unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async { drop(stopped.await) };
    let (address, server) = serve_grpc(ANY_PORT, store.ingest().unwrap(), shutdown).await.unwrap();
    let url = format!("http://{address}");

    let mut client = TraceServiceClient::connect(url.clone()).await.unwrap();
    let answer = client.export(traces("ts0", vec![span(0, 1.0)])).await.unwrap().into_inner();
    assert_eq!(answer.partial_success, None);
    let mut backwards = span(1, 1.0);
    backwards.end_time_unix_nano = backwards.start_time_unix_nano - 1;
    let answer = client.export(traces("ts0", vec![span(2, 1.0), backwards])).await.unwrap().into_inner();
    let partial = answer.partial_success.unwrap();
    assert_eq!(partial.rejected_spans, 1);
    assert!(partial.error_message.starts_with("1 of 2 spans refused: 1 x otlp.span_ends_before_start"), "{partial:?}");

    let mut zipped =
        MetricsServiceClient::connect(url.clone()).await.unwrap().send_compressed(CompressionEncoding::Gzip);
    let list = vec![gauge("g", vec![point(1.0, 1.0, vec![])]), sum("s", vec![point(1.0, f64::NAN, vec![])])];
    let answer = zipped.export(metrics("ts0", list)).await.unwrap().into_inner();
    assert_eq!(answer.partial_success.unwrap().rejected_data_points, 1);
    let mut logger = LogsServiceClient::connect(url.clone()).await.unwrap().send_compressed(CompressionEncoding::Gzip);
    assert_eq!(
        logger.export(logs("ts0", vec![log(1.0, "hi", vec![])])).await.unwrap().into_inner().partial_success,
        None
    );

    // 20 MiB, plain and zipped: refused with the limit, and the connection lives on.
    let large = || logs("ts0", vec![log(1.0, &"x".repeat(20 << 20), vec![])]);
    let mut plain = LogsServiceClient::connect(url.clone()).await.unwrap();
    for client in [&mut plain, &mut logger] {
        let status = client.export(large()).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
        assert!(status.message().contains("at most 16777216 bytes"), "{status:?}");
        assert!(status.message().contains("otlp.request_too_large"), "{status:?}");
        client.export(logs("ts0", vec![log(2.0, "after", vec![])])).await.unwrap();
    }
    assert_eq!(store.status().kinds[&Export::Logs].requests_refused["otlp.request_too_large"], 2);

    let reader = store.clone();
    let rows = move |signal| read(&reader, &query(signal, "ts0", None, 0, 10)).num_rows();
    let counts = tokio::task::spawn_blocking(move || Signal::ALL.map(rows)).await.unwrap();
    assert_eq!(counts, [2, 3, 1, 0, 0]);

    let taken = serve_grpc(address, store.ingest().unwrap(), async {}).await.err().unwrap();
    assert_eq!(taken.code, "otlp.address_in_use");
    client.export(traces("ts0", vec![span(3, 1.0)])).await.unwrap();
    drop((client, zipped, logger, plain));
    stop.send(()).unwrap();
    server.await.unwrap().unwrap();
    assert_eq!(store.freshness("ts0", None).unwrap(), Some(at(2)));
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_truncated_body_gets_a_clear_error_and_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let store = SignalStore::open(folder.path()).unwrap();
    let (_stop, stopped) = oneshot::channel::<()>();
    let shutdown = async { drop(stopped.await) };
    let (address, _server) = serve_grpc(ANY_PORT, store.ingest().unwrap(), shutdown).await.unwrap();
    let channel = Endpoint::new(format!("http://{address}")).unwrap().connect().await.unwrap();
    let mut client = Grpc::new(channel);
    let mut send = async |body: Vec<u8>, path: &'static str| {
        client.ready().await.unwrap();
        client.unary(Request::new(body), PathAndQuery::from_static(path), Verbatim).await
    };
    let path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
    let body = traces("ts0", vec![span(0, 1.0)]).encode_to_vec();
    let status = send(body[..body.len() - 1].to_vec(), path).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("otlp.request_malformed"), "{status:?}");
    assert_eq!(send(body, path).await.unwrap().into_inner(), [] as [u8; 0]);
    assert_eq!(store.status().kinds[&Export::Traces].requests_refused["otlp.request_malformed"], 1);
    let other = "/opentelemetry.proto.collector.trace.v1.TraceService/Import";
    assert_eq!(send(vec![], other).await.unwrap_err().code(), Code::Unimplemented);
}
