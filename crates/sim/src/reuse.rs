//! Connections that wait for their next request: how many, how long, and for how many requests.
//!
//! Names are looked up when a connection is opened, so this decides how often that happens.

use system::{Kind, Language};

use crate::engine::{SECOND, Time};
use crate::plan::{CallKind, ServicePlan};

/// Pools of connections to data stores and of remote procedures keep them for half an hour (`HikariCP`, `maxLifetime`;
/// gRPC, idle time-out of a channel) or for good.
const POOLED: Time = 1800 * SECOND;

/// How connections from one service to another are used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reuse {
    /// A connection that waited longer is closed.
    pub idle: Time,
    /// Requests after which the server closes it.
    pub requests: u16,
}

impl Reuse {
    /// By the client's and the server's runtime; the shorter time counts.
    pub fn between(kind: CallKind, client: &ServicePlan, server: &ServicePlan) -> Self {
        if kind == CallKind::Http {
            Self { idle: client_idle(client).min(server_idle(server)), requests: server_requests(server) }
        } else {
            Self { idle: POOLED, requests: u16::MAX }
        }
    }
}

/// How long a client keeps a connection that is not used.
const fn client_idle(client: &ServicePlan) -> Time {
    match client.language {
        // `HttpURLConnection` (JDK networking properties, `http.keepAlive`): 5 s when the server names no time.
        Language::Java | Language::Kotlin => 5 * SECOND,
        // Go, `net/http` `DefaultTransport.IdleConnTimeout`.
        Language::Go => 90 * SECOND,
        // Caddy, `reverse_proxy` transport `keepalive`.
        Language::Caddy => 120 * SECOND,
        // .NET, `SocketsHttpHandler.PooledConnectionIdleTimeout`.
        Language::Csharp => 60 * SECOND,
        // Envoy, cluster `common_http_protocol_options.idle_timeout`.
        Language::Envoy => 3600 * SECOND,
        // Node.js since 19, `http.globalAgent` with `keepAlive`.
        Language::Javascript | Language::Typescript => 5 * SECOND,
        // nginx opens a connection to its upstream per request unless `keepalive` is configured; scripts call without a
        // session of connections.
        Language::Nginx | Language::Php | Language::Python | Language::Ruby => 0,
        _ => 60 * SECOND,
    }
}

/// How long a server keeps a connection without a request.
const fn server_idle(server: &ServicePlan) -> Time {
    match (server.language, server.kind) {
        // Embedded Tomcat in Spring Boot: `connectionTimeout` (20 s) is the keep-alive time too.
        (Language::Java | Language::Kotlin, _) => 20 * SECOND,
        // Node.js, `server.keepAliveTimeout`.
        (Language::Javascript | Language::Typescript, _) => 5 * SECOND,
        // Uvicorn, `--timeout-keep-alive`; Gunicorn keeps 2 s.
        (Language::Python, _) => 5 * SECOND,
        // nginx, `keepalive_timeout`.
        (Language::Nginx, _) => 75 * SECOND,
        // Caddy, `idle_timeout` of a server.
        (Language::Caddy, _) => 300 * SECOND,
        (_, Kind::Gateway) => 300 * SECOND,
        _ => 3600 * SECOND,
    }
}

const fn server_requests(server: &ServicePlan) -> u16 {
    match server.language {
        // Tomcat, `maxKeepAliveRequests`.
        Language::Java | Language::Kotlin => 100,
        // nginx since 1.19.10, `keepalive_requests`.
        Language::Nginx => 1000,
        _ => u16::MAX,
    }
}
