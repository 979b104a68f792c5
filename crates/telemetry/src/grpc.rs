//! The OTLP receiver over gRPC: three services that hand their requests' bytes to the [`Ingest`] as they came.
//!
//! The services take bytes rather than decoded messages, so that the journal gets what was sent and the same entrance can serve HTTP.

use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use model::{ErrorKind, Problem, Result};
use prost::Message;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::body::Body;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::{BoxFuture, Bytes, Service, http};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::Server;
use tonic::{Code, Request, Response, Status};

use crate::ingest::too_large;
use crate::otlp::{
    ExportLogsPartialSuccess, ExportLogsServiceResponse, ExportMetricsPartialSuccess, ExportMetricsServiceResponse,
    ExportTracePartialSuccess, ExportTraceServiceResponse,
};
use crate::{Accepted, Export, Ingest};

/// Requests whose bodies are in memory at one time; the others wait.
const REQUESTS_AT_ONCE: usize = 16;

/// How long one request may take, its body's arrival included.
const REQUEST_TIME: Duration = Duration::from_secs(30);

/// Serves OTLP over gRPC (gzip accepted) until `shutdown` is done; port 0 takes a free one. Gives the address that it listens on.
///
/// A request with bad records gets a partial success; one over the size limit `RESOURCE_EXHAUSTED`; one that cannot be decoded
/// `INVALID_ARGUMENT`; a disk that fails `UNAVAILABLE`, so that the sender tries again.
///
/// # Errors
/// `otlp.address_in_use`, `otlp.address_unusable`. The task ends with what its last flush says.
pub async fn serve_grpc(
    address: SocketAddr,
    ingest: Ingest,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(SocketAddr, JoinHandle<Result<()>>)> {
    let listener = TcpListener::bind(address).await.map_err(|error| unusable(address, error))?;
    let bound = listener.local_addr().map_err(|error| unusable(address, error))?;
    let permits = Arc::new(Semaphore::new(REQUESTS_AT_ONCE));
    let server = Server::builder()
        .timeout(REQUEST_TIME)
        .add_service(Endpoint::<Traces>::new(&ingest, &permits))
        .add_service(Endpoint::<Metrics>::new(&ingest, &permits))
        .add_service(Endpoint::<Logs>::new(&ingest, &permits))
        .serve_with_incoming_shutdown(TcpListenerStream::new(listener), shutdown);
    let task = tokio::spawn(async move {
        let flusher = tokio::spawn(flush_regularly(ingest.clone()));
        let served = server.await;
        flusher.abort();
        blocking(move || ingest.flush()).await?;
        served.map_err(|error| Problem::internal("otlp.server_failed", "the OTLP receiver ended").cause(error))
    });
    Ok((bound, task))
}

fn unusable(address: SocketAddr, error: io::Error) -> Problem {
    let problem = if error.kind() == io::ErrorKind::AddrInUse {
        Problem::new(ErrorKind::Conflict, "otlp.address_in_use", "another process listens on the OTLP address")
            .fix("stop it, or choose another port; 0 takes a free one")
    } else {
        Problem::new(ErrorKind::Invalid, "otlp.address_unusable", "the OTLP address cannot be listened on")
            .fix("choose an address of this machine, for example 127.0.0.1")
    };
    problem.place(address.to_string()).found(error.to_string()).cause(error)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Problem::internal("telemetry.task_failed", "a task ended early").cause(error)))
}

async fn flush_regularly(ingest: Ingest) {
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    loop {
        tick.tick().await;
        let ingest = ingest.clone();
        if let Err(problem) = blocking(move || ingest.flush_if_due()).await {
            tracing::warn!(problem = %problem.chain(), "received records stay in the journal for now");
        }
    }
}

/// One of the three services.
trait Kind: Send + Sync + 'static {
    const EXPORT: Export;
    const NAME: &'static str;
    const METHOD: &'static str;
    type Answer: Message + 'static;

    /// The answer to a request of which something (`refused` above zero) or nothing was refused.
    fn answer(refused: i64, message: String) -> Self::Answer;
}

macro_rules! kind {
    ($name:ident, $package:literal, $service:literal, $answer:ident, $partial:ident, $rejected:ident) => {
        struct $name;

        impl Kind for $name {
            const EXPORT: Export = Export::$name;
            const NAME: &'static str = concat!("opentelemetry.proto.collector.", $package, ".v1.", $service);
            const METHOD: &'static str =
                concat!("/opentelemetry.proto.collector.", $package, ".v1.", $service, "/Export");
            type Answer = $answer;

            fn answer(refused: i64, message: String) -> $answer {
                let partial = $partial { $rejected: refused, error_message: message };
                $answer { partial_success: (refused > 0).then_some(partial) }
            }
        }
    };
}

kind!(Traces, "trace", "TraceService", ExportTraceServiceResponse, ExportTracePartialSuccess, rejected_spans);
kind!(
    Metrics,
    "metrics",
    "MetricsService",
    ExportMetricsServiceResponse,
    ExportMetricsPartialSuccess,
    rejected_data_points
);
kind!(Logs, "logs", "LogsService", ExportLogsServiceResponse, ExportLogsPartialSuccess, rejected_log_records);

struct Endpoint<K> {
    ingest: Ingest,
    permits: Arc<Semaphore>,
    kind: PhantomData<K>,
}

impl<K> Endpoint<K> {
    fn new(ingest: &Ingest, permits: &Arc<Semaphore>) -> Self {
        Self { ingest: ingest.clone(), permits: permits.clone(), kind: PhantomData }
    }
}

impl<K> Clone for Endpoint<K> {
    fn clone(&self) -> Self {
        Self::new(&self.ingest, &self.permits)
    }
}

impl<K: Kind> NamedService for Endpoint<K> {
    const NAME: &'static str = K::NAME;
}

impl<K: Kind> Service<http::Request<Body>> for Endpoint<K> {
    type Response = http::Response<Body>;
    type Error = std::convert::Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let endpoint = self.clone();
        Box::pin(async move {
            if request.uri().path() != K::METHOD {
                return Ok(Status::unimplemented("this service has the method Export only").into_http());
            }
            let _permit = endpoint.permits.acquire().await.expect("the semaphore is never closed");
            let limit = endpoint.ingest.request_limit();
            let response = Grpc::new(Raw::<K::Answer>(PhantomData))
                .accept_compressed(CompressionEncoding::Gzip)
                .max_decoding_message_size(limit)
                .unary(Handler::<K> { ingest: endpoint.ingest.clone(), kind: PhantomData }, request)
                .await;
            Ok(endpoint.name_the_limit(response, limit))
        })
    }
}

impl<K: Kind> Endpoint<K> {
    /// A body over the limit is stopped by the transport, as "out of range" when it says its length and as "exhausted" when it
    /// only grows while it is decompressed. Both mean the same here, and both are counted.
    fn name_the_limit(&self, response: http::Response<Body>, limit: usize) -> http::Response<Body> {
        match Status::from_header_map(response.headers()) {
            Some(status) if matches!(status.code(), Code::OutOfRange | Code::ResourceExhausted) => {
                let problem = too_large(status.message(), limit);
                self.ingest.refuse(K::EXPORT, &problem);
                status_of(&problem).into_http()
            }
            _ => response,
        }
    }
}

struct Handler<K> {
    ingest: Ingest,
    kind: PhantomData<K>,
}

impl<K: Kind> UnaryService<Bytes> for Handler<K> {
    type Response = K::Answer;
    type Future = BoxFuture<Response<K::Answer>, Status>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let ingest = self.ingest.clone();
        Box::pin(async move {
            let body = request.into_inner();
            let accepted = blocking(move || ingest.accept(K::EXPORT, &body)).await;
            accepted.map(|accepted| Response::new(answer::<K>(&accepted))).map_err(|problem| status_of(&problem))
        })
    }
}

fn answer<K: Kind>(accepted: &Accepted) -> K::Answer {
    let refused = i64::try_from(accepted.refused_total()).expect("a request holds fewer than 2^63 records");
    K::answer(refused, accepted.message(K::EXPORT))
}

fn status_of(problem: &Problem) -> Status {
    let code = match problem.kind {
        _ if problem.code == "otlp.request_too_large" => Code::ResourceExhausted,
        ErrorKind::Invalid => Code::InvalidArgument,
        // The sender keeps the records and tries again.
        ErrorKind::Busy | ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Missing => Code::Unavailable,
        _ => Code::Internal,
    };
    if code == Code::Internal || code == Code::Unavailable {
        tracing::error!(problem = %problem.chain(), "an OTLP request was not stored");
    }
    Status::new(code, problem.to_string())
}

/// Requests as bytes, answers as protobuf.
struct Raw<A>(PhantomData<A>);

impl<A: Message + 'static> Codec for Raw<A> {
    type Encode = A;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self(PhantomData)
    }

    fn decoder(&mut self) -> Self {
        Self(PhantomData)
    }
}

impl<A: Message + 'static> Encoder for Raw<A> {
    type Item = A;
    type Error = Status;

    fn encode(&mut self, answer: A, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        answer.encode(out).map_err(|error| Status::internal(error.to_string()))
    }
}

impl<A: Message + 'static> Decoder for Raw<A> {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, body: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        use prost::bytes::Buf;
        Ok(Some(body.copy_to_bytes(body.remaining())))
    }
}
