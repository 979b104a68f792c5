//! Spans of remote procedures over gRPC and Thrift, client and server.

use system::{Conventions, Stack};
use telemetry::otlp::common::KeyValue;
use telemetry::otlp::trace::span::SpanKind;

use super::{Ends, Scopes, cluster_ip, is_java};
use crate::emit::attribute::{int, text};
use crate::emit::template::{Slot, Template, Verdict};
use crate::plan::CallKind;

const THREAD: [(&str, Slot); 2] = [("thread.id", Slot::ThreadId), ("thread.name", Slot::ThreadName)];

fn scope(stack: Stack, name: &str, scopes: &mut Scopes) -> u8 {
    match stack {
        Stack::Go => {
            scopes.number("go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc", "0.63.0")
        }
        Stack::Node | Stack::Next => scopes.number("@opentelemetry/instrumentation-grpc", "0.57.2"),
        Stack::Python => scopes.number("opentelemetry.instrumentation.grpc", "0.57b0"),
        Stack::Dotnet => scopes.number("OpenTelemetry.Instrumentation.GrpcNetClient", "1.9.0-beta.1"),
        Stack::Envoy => scopes.number("envoy", "1.32.1"),
        Stack::NginxOpentracing | Stack::NginxOtel => scopes.number("", ""),
        stack if is_java(stack) => scopes.agent("grpc-1.6"),
        _ => scopes.number(name, ""),
    }
}

fn common(ends: &Ends<'_>) -> [KeyValue; 3] {
    let system = if ends.call.kind == CallKind::Grpc { "grpc" } else { "thrift" };
    [
        text("rpc.system", system),
        text("rpc.service", ends.operation.route.as_str()),
        text("rpc.method", ends.operation.method.as_str()),
    ]
}

/// How an instrumentation names a procedure that the data gives no name.
fn name(stack: Stack, ends: &Ends<'_>) -> String {
    let operation = ends.operation.name.as_str();
    match stack {
        Stack::Node | Stack::Next => format!("grpc.{operation}"),
        Stack::Python => format!("/{operation}"),
        _ => operation.to_owned(),
    }
}

pub fn server(ends: &Ends<'_>, scopes: &mut Scopes) -> Template {
    let stack = ends.callee.stack;
    if ends.call.kind == CallKind::Thrift {
        return thrift_server(ends, scopes);
    }
    if stack == Stack::Dotnet {
        return aspnet(ends, scopes);
    }
    let named = ends.operation.span.clone();
    let scope = scope(stack, &ends.to.reported_name, scopes);
    let template =
        Template::new(named.unwrap_or_else(|| name(stack, ends)), SpanKind::Server, scope, Verdict::GrpcServer)
            .with(common(ends));
    match (stack, ends.callee.conventions) {
        (Stack::Cpp | Stack::Node | Stack::Next, _) => template.slots([("rpc.grpc.status_code", Slot::GrpcStatus)]),
        (_, Conventions::Old) => template.slots([
            (if stack == Stack::Python { "net.peer.ip" } else { "net.sock.peer.addr" }, Slot::PeerAddress),
            (if stack == Stack::Python { "net.peer.port" } else { "net.sock.peer.port" }, Slot::PeerPort),
            ("rpc.grpc.status_code", Slot::GrpcStatus),
        ]),
        _ => {
            let template = template
                .with([text("server.address", ends.to.dns_name.as_str()), int("server.port", ends.port(80))])
                .slots([
                    ("network.peer.address", Slot::PeerAddress),
                    ("network.peer.port", Slot::PeerPort),
                    ("rpc.grpc.status_code", Slot::GrpcStatus),
                ]);
            if is_java(stack) { template.with([text("network.type", "ipv4")]).slots(THREAD) } else { template }
        }
    }
}

/// gRPC in ASP.NET Core is an HTTP/2 request to its server.
fn aspnet(ends: &Ends<'_>, scopes: &mut Scopes) -> Template {
    let path = format!("/{}", ends.operation.name);
    let scope = scopes.number("Microsoft.AspNetCore", "");
    let constant = [
        text("http.request.method", "POST"),
        text("http.route", path.as_str()),
        text("url.path", path.as_str()),
        text("url.scheme", "http"),
        text("server.address", ends.to.dns_name.as_str()),
        int("server.port", ends.port(80)),
        text("network.protocol.version", "2"),
        text("user_agent.original", "grpc-node-js/1.12.4"),
        text("grpc.method", path.as_str()),
        int("http.response.status_code", 200),
    ];
    Template::new(format!("POST {path}"), SpanKind::Server, scope, Verdict::GrpcServer)
        .with(constant)
        .with(common(ends))
        .slots([("grpc.status_code", Slot::GrpcStatus)])
}

/// Made by hand in the handler. Nobody sets a status: an exception just ends the span.
fn thrift_server(ends: &Ends<'_>, scopes: &mut Scopes) -> Template {
    let name = ends.operation.span.clone().unwrap_or_else(|| ends.operation.method.clone());
    let scope = scopes.number(&ends.to.reported_name, "");
    Template::new(name, SpanKind::Server, scope, Verdict::Never).with(common(ends))
}

pub fn client(ends: &Ends<'_>, scopes: &mut Scopes) -> Template {
    let stack = ends.caller.stack;
    let scope = scope(stack, &ends.from.reported_name, scopes);
    if ends.call.kind == CallKind::Thrift {
        let server = ends.operation.span.clone().unwrap_or_else(|| ends.operation.method.clone());
        let derived = server.strip_suffix("_server").map_or_else(|| server.clone(), |stem| format!("{stem}_client"));
        let name = ends.named_by_caller().map_or(derived, str::to_owned);
        let kind = if stack == Stack::Cpp { SpanKind::Client } else { SpanKind::Internal };
        let template = Template::new(name, kind, scope, Verdict::Never);
        // A span of Lua's bridge has no tags.
        return if stack == Stack::Cpp { template.with(common(ends)).with(address(ends)) } else { template };
    }
    let kind = SpanKind::Client;
    let name = ends.named_by_caller().map_or_else(|| name(stack, ends), str::to_owned);
    let template = Template::new(name, kind, scope, Verdict::GrpcClient).with(common(ends));
    let template = match (stack, ends.caller.conventions) {
        (Stack::Python, _) => template,
        (_, Conventions::Old) => {
            template.with([text("net.peer.name", ends.to.dns_name.as_str()), int("net.peer.port", ends.port(80))])
        }
        _ => {
            let template = template.with(address(ends)).with(peer(ends));
            if is_java(stack) { template.slots(THREAD) } else { template }
        }
    };
    template.slots([("rpc.grpc.status_code", Slot::GrpcStatus)])
}

fn address(ends: &Ends<'_>) -> [KeyValue; 2] {
    [text("server.address", ends.to.dns_name.as_str()), int("server.port", ends.port(80))]
}

fn peer(ends: &Ends<'_>) -> [KeyValue; 2] {
    [text("network.peer.address", cluster_ip(&ends.to.name)), int("network.peer.port", ends.port(80))]
}
