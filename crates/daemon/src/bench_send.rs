//! `aegis bench-send`: a load of spans for any OTLP receiver, and what became of it as one line of JSON.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use clap::ValueEnum;
use model::{ErrorKind, Problem, Result};
use telemetry::load::{Load, Protocol};

#[derive(clap::Args)]
pub struct Args {
    /// The receiver, `http://127.0.0.1:4318` or `127.0.0.1:4317`.
    #[arg(long)]
    endpoint: String,
    #[arg(long, value_enum, default_value_t = Transport::Http)]
    protocol: Transport,
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Different bodies, each of 1,000 spans of about 500 bytes, sent in turn.
    #[arg(long, default_value_t = 256)]
    bodies: usize,
    #[arg(long, default_value_t = 8)]
    connections: usize,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Transport {
    Http,
    HttpGzip,
    Grpc,
    GrpcGzip,
}

pub fn run(args: &Args) -> Result<()> {
    let load = Load {
        address: address(&args.endpoint)?,
        protocol: match args.protocol {
            Transport::Http => Protocol::Http,
            Transport::HttpGzip => Protocol::HttpGzip,
            Transport::Grpc => Protocol::Grpc,
            Transport::GrpcGzip => Protocol::GrpcGzip,
        },
        duration: Duration::from_secs(args.seconds.max(1)),
        bodies: args.bodies.max(1),
        connections: args.connections.max(1),
        spans_per_body: 1000,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Problem::internal("daemon.runtime", error.to_string()))?;
    let sent = runtime.block_on(load.send())?;
    println!("{}", serde_json::to_string(&sent).map_err(|error| Problem::internal("load.print", error.to_string()))?);
    Ok(())
}

fn address(endpoint: &str) -> Result<SocketAddr> {
    let host = endpoint.trim_start_matches("http://").trim_end_matches('/');
    let found = host.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    found.ok_or_else(|| {
        Problem::new(ErrorKind::Invalid, "load.endpoint", "this is no endpoint")
            .found(format!("`{endpoint}`"))
            .expected("`http://HOST:PORT`")
    })
}
