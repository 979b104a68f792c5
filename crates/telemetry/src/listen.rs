//! The two listeners: OTLP over gRPC and over HTTP.

use std::future::Future;
use std::io;
use std::net::SocketAddr;

use axum::Router;
use model::{ErrorKind, Problem, Result};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;

use crate::receive::{Entrance, blocking};
use crate::{Ingest, grpc, http};

/// How much of a call over HTTP/2 may be on its way before it is asked for.
const WINDOW: u32 = 1 << 20;

/// The largest frame of HTTP/2, bytes.
const FRAME: u32 = 1 << 18;

/// Which transports are received, and where. Port 0 takes a free one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Listen {
    pub grpc: Option<SocketAddr>,
    pub http: Option<SocketAddr>,
}

/// Where a receiver really listens, and the task that ends when it has stopped.
pub struct Listening {
    pub grpc: Option<SocketAddr>,
    pub http: Option<SocketAddr>,
    /// Ends with what its last flush says.
    pub task: JoinHandle<Result<()>>,
}

/// Receives OTLP until `shutdown` is done.
///
/// A request with bad records gets a partial success. One that cannot be read is refused (400, `INVALID_ARGUMENT`), so is one over
/// the size limit (413, `RESOURCE_EXHAUSTED`); both transports share one room in memory, and when it is full or the disk fails, the
/// sender is told to try again (429 or 503 with `Retry-After`, `UNAVAILABLE` with `RetryInfo`).
///
/// # Errors
/// `otlp.address_in_use`, `otlp.address_unusable`.
pub async fn serve(
    listen: Listen,
    ingest: Ingest,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<Listening> {
    let entrance = Entrance::new(&ingest);
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let (mut servers, mut bound) = (Vec::new(), [None, None]);
    let transports =
        [(listen.grpc, grpc::routes(entrance.clone()), false), (listen.http, http::routes(entrance), true)];
    for (at, (address, routes, http1)) in transports.into_iter().enumerate() {
        let Some(address) = address else { continue };
        let (address, listener) = bind(address).await?;
        bound[at] = Some(address);
        servers.push(tokio::spawn(run(listener, routes, http1, stopped.clone())));
    }
    let task = tokio::spawn(async move {
        shutdown.await;
        stop.send_replace(true);
        for server in servers {
            server.await.map_err(|error| ended().cause(error))??;
        }
        blocking(move || ingest.flush()).await
    });
    Ok(Listening { grpc: bound[0], http: bound[1], task })
}

async fn run(
    listener: TcpListener,
    routes: Router,
    http1: bool,
    mut stopped: tokio::sync::watch::Receiver<bool>,
) -> Result<()> {
    let stop = async move {
        // The sender lives until it has sent; its end is a stop as well.
        let _ended = stopped.wait_for(|stop| *stop).await;
    };
    Server::builder()
        .accept_http1(http1)
        .tcp_nodelay(true)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW * 4)
        .max_frame_size(FRAME)
        .add_routes(routes.into())
        .serve_with_incoming_shutdown(TcpListenerStream::new(listener), stop)
        .await
        .map_err(|error| ended().cause(error))
}

fn ended() -> Problem {
    Problem::internal("otlp.server_failed", "the OTLP receiver ended")
}

async fn bind(address: SocketAddr) -> Result<(SocketAddr, TcpListener)> {
    let listener = TcpListener::bind(address).await.map_err(|error| unusable(address, error))?;
    let bound = listener.local_addr().map_err(|error| unusable(address, error))?;
    Ok((bound, listener))
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
