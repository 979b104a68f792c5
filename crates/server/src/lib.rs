//! The HTTP interface: routes, what they do, and who may call them.
//!
//! [`App`] holds the parts and does the work, one file per resource in `app/`; `routes/` only translates between it and
//! HTTP. Nothing here runs a step of a pipeline: runs are stored, workers take them up.

mod app;
mod auth;
mod extract;
mod reply;
mod routes;
pub mod scoring;

use std::future::Future;

use model::{Problem, Result};
use tokio::net::TcpListener;

pub use app::{App, ChartOptions, ExecutionLimits, Parts, WatchedSeed};
pub use routes::openapi;

/// Serves until `shutdown` is ready: no new connections then, open requests end, event streams are closed.
///
/// # Errors
/// When the listener fails.
pub async fn serve(listener: TcpListener, app: App, shutdown: impl Future<Output = ()> + Send + 'static) -> Result<()> {
    let router = routes::router(app.clone());
    let stop = async move {
        shutdown.await;
        app.close();
    };
    axum::serve(listener, router)
        .with_graceful_shutdown(stop)
        .await
        .map_err(|error| Problem::internal("server.listener_failed", "the server stopped listening").cause(error))
}
