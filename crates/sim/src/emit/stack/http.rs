//! Spans of HTTP requests, client and server, as each instrumentation makes them.

use system::{Conventions, Kind, Stack};
use telemetry::otlp::common::KeyValue;
use telemetry::otlp::trace::span::SpanKind;

use super::{Ends, Scopes, cluster_ip, is_java, user_agent};
use crate::emit::attribute::{int, text};
use crate::emit::template::{Slot, Template, Verdict};

const OTELHTTP: &str = "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp";
const THREAD: [(&str, Slot); 2] = [("thread.id", Slot::ThreadId), ("thread.name", Slot::ThreadName)];

/// Scope of the server's span.
fn server_scope(stack: Stack, name: &str, scopes: &mut Scopes) -> u8 {
    match stack {
        Stack::SpringAgent | Stack::JerseyAgent => scopes.agent("tomcat-10.0"),
        Stack::HelidonAgent => scopes.agent("helidon-4.3"),
        Stack::JavaAgent => scopes.agent("java-http-server"),
        Stack::Go | Stack::Caddy => scopes.number(OTELHTTP, "0.63.0"),
        Stack::Node | Stack::Next => scopes.number("@opentelemetry/instrumentation-http", "0.57.2"),
        Stack::Python => scopes.number("opentelemetry.instrumentation.flask", "0.57b0"),
        Stack::Dotnet => scopes.number("Microsoft.AspNetCore", ""),
        Stack::Rust => scopes.number("opentelemetry-instrumentation-actix-web", "0.23.0"),
        Stack::Ruby => scopes.number("OpenTelemetry::Instrumentation::Rack", "0.26.0"),
        Stack::Php => scopes.number("io.opentelemetry.contrib.php.slim", "1.2.0"),
        Stack::NginxOtel => scopes.number("nginx", "1.27.3"),
        Stack::Envoy => scopes.number("envoy", "1.32.1"),
        // Jaeger's client has no scopes.
        Stack::NginxOpentracing => scopes.number("", ""),
        Stack::Cpp | Stack::None => scopes.number(name, ""),
    }
}

fn client_scope(stack: Stack, name: &str, scopes: &mut Scopes) -> u8 {
    match stack {
        Stack::SpringAgent | Stack::JerseyAgent => scopes.agent("http-url-connection"),
        Stack::HelidonAgent | Stack::JavaAgent => scopes.agent("java-http-client"),
        Stack::Go | Stack::Caddy => scopes.number(OTELHTTP, "0.63.0"),
        Stack::Node => scopes.number("@opentelemetry/instrumentation-http", "0.57.2"),
        Stack::Next => scopes.number("@opentelemetry/instrumentation-undici", "0.10.1"),
        Stack::Python => scopes.number("opentelemetry.instrumentation.requests", "0.57b0"),
        Stack::Dotnet => scopes.number("System.Net.Http", ""),
        Stack::Rust => scopes.number("reqwest-tracing", "0.5.8"),
        Stack::Ruby => scopes.number("OpenTelemetry::Instrumentation::Net::HTTP", "0.23.0"),
        Stack::Php => scopes.number("io.opentelemetry.contrib.php.guzzle", "1.1.0"),
        Stack::Envoy => scopes.number("envoy", "1.32.1"),
        Stack::NginxOtel | Stack::NginxOpentracing => scopes.number("", ""),
        Stack::Cpp | Stack::None => scopes.number(name, ""),
    }
}

pub fn server(ends: &Ends<'_>, scopes: &mut Scopes) -> Template {
    let stack = ends.callee.stack;
    let scope = server_scope(stack, &ends.to.reported_name, scopes);
    let (method, route) = (ends.operation.method.as_str(), ends.operation.route.as_str());
    let named = ends.operation.span.as_deref().or(ends.callee.spans.get(&ends.operation.name).map(String::as_str));
    let full = format!("{method} {}", braces(route));
    let name = match (named, stack) {
        (Some(name), _) => name.to_owned(),
        (None, Stack::Envoy) => "ingress".to_owned(),
        (None, Stack::NginxOpentracing | Stack::NginxOtel | Stack::Rust) => route.to_owned(),
        _ => full,
    };
    let stable = ends.callee.conventions == Conventions::Stable;
    let verdict = Verdict::HttpServer { named: stable };
    let template = Template::new(name, SpanKind::Server, scope, verdict);
    match stack {
        Stack::Envoy => envoy(template, ends, false),
        Stack::NginxOpentracing => opentracing(template, ends),
        _ if stable => stable_server(template, ends),
        _ => old_server(template, ends),
    }
}

fn stable_server(template: Template, ends: &Ends<'_>) -> Template {
    let agent = user_agent(ends.caller.stack, ends.from);
    let mut constant = vec![
        text("http.request.method", ends.operation.method.as_str()),
        text("url.scheme", "http"),
        text("server.address", ends.to.dns_name.as_str()),
        int("server.port", ends.port(80)),
        text("network.protocol.version", "1.1"),
    ];
    if !agent.is_empty() {
        constant.push(text("user_agent.original", agent));
    }
    if ends.to.kind != Kind::Gateway {
        constant.push(text("http.route", braces(&ends.operation.route)));
    }
    let slots = [
        ("url.path", Slot::Path),
        ("network.peer.address", Slot::PeerAddress),
        ("network.peer.port", Slot::PeerPort),
        ("client.address", Slot::PeerAddress),
        ("http.response.status_code", Slot::Status),
    ];
    let template = template.with(constant).slots(slots);
    match ends.callee.stack {
        stack if is_java(stack) => template.slots(THREAD),
        Stack::Go | Stack::Caddy => template.slots([("http.response.body.size", Slot::ResponseSize)]),
        _ => template,
    }
}

/// The names before the stable conventions, in the dialect of each product.
fn old_server(template: Template, ends: &Ends<'_>) -> Template {
    let port = ends.port(80);
    let method = text("http.method", ends.operation.method.as_str());
    let agent = user_agent(ends.caller.stack, ends.from);
    let mut constant = vec![
        method,
        text("http.scheme", "http"),
        text("net.host.name", ends.to.dns_name.as_str()),
        int("net.host.port", port),
    ];
    if !agent.is_empty() {
        constant
            .push(text(if ends.callee.stack == Stack::Go { "user_agent.original" } else { "http.user_agent" }, agent));
    }
    let template = template.with(constant);
    match ends.callee.stack {
        Stack::Go => template.with([text("net.protocol.version", "1.1")]).slots([
            ("http.target", Slot::Path),
            ("net.sock.peer.addr", Slot::PeerAddress),
            ("net.sock.peer.port", Slot::PeerPort),
            ("http.status_code", Slot::Status),
            ("http.response_content_length", Slot::ResponseSize),
        ]),
        Stack::NginxOtel => template.with([text("http.flavor", "1.1"), text("http.route", "/")]).slots([
            ("http.target", Slot::Path),
            ("http.request_content_length", Slot::RequestSize),
            ("http.response_content_length", Slot::ResponseSize),
            ("net.sock.peer.addr", Slot::PeerAddress),
            ("net.sock.peer.port", Slot::PeerPort),
            ("http.status_code", Slot::Status),
        ]),
        _ => {
            let host = format!("{}:{port}", ends.to.dns_name);
            template
                .with([
                    text("http.host", host),
                    text("http.flavor", "1.1"),
                    text("http.route", colons(&ends.operation.route)),
                ])
                .slots([
                    ("http.url", Slot::Url),
                    ("http.target", Slot::Path),
                    ("net.peer.ip", Slot::PeerAddress),
                    ("net.peer.port", Slot::PeerPort),
                    ("http.status_code", Slot::Status),
                ])
        }
    }
}

/// Envoy's tags, the same on both sides of a proxied request.
fn envoy(template: Template, ends: &Ends<'_>, egress: bool) -> Template {
    let cluster = if egress { ends.to.name.as_str() } else { "" };
    let mut constant = vec![
        text("node_id", ""),
        text("component", "proxy"),
        text("http.method", ends.operation.method.as_str()),
        text("http.protocol", "HTTP/1.1"),
        text("downstream_cluster", "-"),
    ];
    if egress {
        constant.push(text("upstream_cluster", cluster));
        constant.push(text("upstream_cluster.name", cluster));
    } else {
        constant.push(text("user_agent", user_agent(ends.caller.stack, ends.from)));
    }
    let peer = if egress { "upstream_address" } else { "peer.address" };
    template.with(constant).slots([
        ("http.url", Slot::Url),
        ("http.status_code", Slot::StatusText),
        ("response_flags", Slot::ResponseFlags),
        ("request_size", Slot::RequestSize),
        ("response_size", Slot::ResponseSize),
        ("guid:x-request-id", Slot::RequestId),
        (peer, Slot::Peer),
    ])
}

/// nginx's `OpenTracing` module, after the collector's translation from Jaeger.
fn opentracing(template: Template, ends: &Ends<'_>) -> Template {
    let worker = (super::name_key(&ends.to.name) % 8 + 7).to_string();
    let constant = [
        text("component", "nginx"),
        text("nginx.worker_pid", worker),
        text("http.method", ends.operation.method.as_str()),
        text("http.host", format!("{}:{}", ends.to.dns_name, ends.port(8080))),
    ];
    template.with(constant).slots([
        ("http.url", Slot::Url),
        ("peer.address", Slot::Peer),
        ("http.status_code", Slot::Status),
        ("http.status_line", Slot::StatusLine),
    ])
}

/// The framework's own span inside a handling, where it makes one.
pub fn inner(ends: &Ends<'_>, scopes: &mut Scopes) -> Option<Template> {
    let operation = ends.operation;
    let verdict = Verdict::Exception { named: false };
    match ends.callee.stack {
        Stack::SpringAgent => {
            let (class, method) = operation.code.iter().find(|(class, _)| class.ends_with("Controller"))?;
            Some(code(class, method, scopes.agent("spring-webmvc-6.0")))
        }
        Stack::JerseyAgent | Stack::HelidonAgent => {
            let resource =
                |class: &str| class.ends_with("Resource") || class.ends_with("Endpoint") || class.ends_with("Rest");
            let (class, method) = operation.code.iter().find(|(class, _)| resource(class))?;
            Some(code(class, method, scopes.agent("jaxrs-3.0-annotations")))
        }
        Stack::NginxOpentracing => {
            let scope = scopes.number("", "");
            Some(Template::new(operation.route.as_str(), SpanKind::Internal, scope, Verdict::Never))
        }
        Stack::Next => {
            let route = brackets(&operation.route);
            let scope = scopes.number("next.js", "0.0.1");
            let constant = [text("next.route", route.as_str()), text("next.span_type", "Node.runHandler")];
            let name = if operation.route.starts_with("/api") {
                format!("executing api route (pages) {route}")
            } else {
                format!("render route (pages) {route}")
            };
            let named = text("next.span_name", name.as_str());
            Some(Template::new(name, SpanKind::Internal, scope, verdict).with(constant).with([named]))
        }
        Stack::Node => {
            let scope = scopes.number("@opentelemetry/instrumentation-express", "0.47.1");
            let route = colons(&operation.route);
            let constant = [
                text("express.name", route.as_str()),
                text("express.type", "request_handler"),
                text("http.route", route.as_str()),
            ];
            Some(Template::new(format!("request handler - {route}"), SpanKind::Internal, scope, verdict).with(constant))
        }
        Stack::Php => Some(Template::new(
            "calculate-quote",
            SpanKind::Internal,
            scopes.number("manual-instrumentation", ""),
            verdict,
        )),
        Stack::Ruby => {
            let scope = scopes.number("email", "");
            Some(Template::new("send_email", SpanKind::Internal, scope, verdict))
        }
        _ => None,
    }
}

/// A span around a method of the service's own code.
fn code(class: &str, method: &str, scope: u8) -> Template {
    let simple = class.rsplit('.').next().unwrap_or(class);
    let constant = [text("code.namespace", class), text("code.function", method)];
    Template::new(format!("{simple}.{method}"), SpanKind::Internal, scope, Verdict::Exception { named: false })
        .with(constant)
        .slots(THREAD)
}

pub fn client(ends: &Ends<'_>, scopes: &mut Scopes) -> Template {
    let stack = ends.caller.stack;
    let scope = client_scope(stack, &ends.from.reported_name, scopes);
    let method = ends.operation.method.as_str();
    let name = match (ends.named_by_caller().filter(|_| ends.from.kind != Kind::Loadgen), stack) {
        (Some(name), _) => name.to_owned(),
        (None, Stack::Envoy) => format!("router {} egress", ends.to.name),
        // A generator outside and Caddy name their calls by path.
        (None, Stack::Caddy) => format!("{method} {}", braces(&ends.operation.route)),
        (None, Stack::Go) if ends.from.kind == Kind::Loadgen => format!("{method} {}", braces(&ends.operation.route)),
        (None, Stack::Go | Stack::Ruby) => format!("HTTP {method}"),
        _ => method.to_owned(),
    };
    let stable = ends.caller.conventions == Conventions::Stable;
    let template = Template::new(name, SpanKind::Client, scope, Verdict::HttpClient { named: stable });
    if stack == Stack::Envoy {
        return envoy(template, ends, true);
    }
    let (address, port) = (ends.to.dns_name.as_str(), ends.port(80));
    if stable {
        let constant = [
            text("http.request.method", method),
            text("server.address", address),
            int("server.port", port),
            text("network.protocol.version", "1.1"),
        ];
        let template =
            template.with(constant).slots([("url.full", Slot::Url), ("http.response.status_code", Slot::Status)]);
        return if is_java(stack) { template.slots(THREAD) } else { template };
    }
    let constant: Vec<KeyValue> = match stack {
        Stack::Python => vec![text("http.method", method), text("net.peer.name", address)],
        _ => vec![
            text("http.method", method),
            text("http.host", format!("{address}:{port}")),
            text("http.flavor", "1.1"),
            text("net.peer.name", address),
            int("net.peer.port", port),
            text("net.peer.ip", cluster_ip(&ends.to.name)),
        ],
    };
    template.with(constant).slots([("http.url", Slot::Url), ("http.status_code", Slot::Status)])
}

/// The span of a user's task around its requests: Locust's, in the demo.
pub fn task(ends: &Ends<'_>, scopes: &mut Scopes) -> Option<Template> {
    let name = ends.named_by_caller().filter(|_| ends.from.kind == Kind::Loadgen)?;
    let scope = scopes.number("locustfile", "");
    Some(Template::new(name, SpanKind::Internal, scope, Verdict::Never))
}

/// `{name}` for each variable segment.
pub fn braces(route: &str) -> String {
    route.replace('*', "{id}")
}

/// Express's way: `:name`.
fn colons(route: &str) -> String {
    braces(route).replace('{', ":").replace('}', "")
}

/// Next's way: `[name]`.
fn brackets(route: &str) -> String {
    braces(route).replace('{', "[").replace('}', "]")
}
