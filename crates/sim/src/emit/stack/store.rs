//! Spans of commands to data stores, by the library of the client or by hand.

use system::{Stack, StoreSpans, StoreSystem};
use telemetry::otlp::common::KeyValue;
use telemetry::otlp::trace::span::SpanKind;

use super::statement::{self, pascal};
use super::{Ends, Scopes, is_java};
use crate::emit::attribute::{int, text};
use crate::emit::template::{Slot, Template, Verdict};

const THREAD: [(&str, Slot); 2] = [("thread.id", Slot::ThreadId), ("thread.name", Slot::ThreadName)];

/// The client's span, and the span of the mapper around it.
pub fn spans(ends: &Ends<'_>, caller: &str, scopes: &mut Scopes) -> (Option<Template>, Option<Template>) {
    match ends.caller.store_spans {
        StoreSpans::None => (None, None),
        StoreSpans::Named => (named(ends, scopes), None),
        StoreSpans::Library => match ends.operation.store {
            Some(StoreSystem::Mysql | StoreSystem::Postgresql) => sql(ends, caller, scopes),
            Some(_) => (Some(command(ends, scopes)), None),
            None => (None, None),
        },
    }
}

/// A span that the code makes around a command to which it gives a name. It says nothing else.
fn named(ends: &Ends<'_>, scopes: &mut Scopes) -> Option<Template> {
    let name = ends.named_by_caller()?;
    let scope = scopes.number(&ends.from.reported_name, "");
    let template = Template::new(name, SpanKind::Internal, scope, Verdict::Never);
    Some(if ends.caller.stack == Stack::Go { template.with([text("span.kind", "client")]) } else { template })
}

fn sql(ends: &Ends<'_>, caller: &str, scopes: &mut Scopes) -> (Option<Template>, Option<Template>) {
    let operation = ends.operation;
    let (verb, table) = (operation.method.as_str(), operation.route.as_str());
    let system = operation.store.map_or("", StoreSystem::as_str);
    let stack = ends.caller.stack;
    let mapped = statement::hibernate(verb, table, caller);
    let text_of = match (stack, operation.store) {
        (Stack::SpringAgent, _) => mapped.text.clone(),
        (Stack::JerseyAgent, _) => statement::eclipselink(verb, table),
        (_, Some(StoreSystem::Postgresql)) => statement::postgres(verb, table),
        _ => mapped.text.clone(),
    };
    let (address, port) = (ends.to.dns_name.as_str(), ends.port(3306));
    let name = format!("{verb} {}.{table}", operation.database);
    let named = Verdict::Exception { named: true };
    let client = match stack {
        Stack::Go => {
            Template::new("sql.conn.query", SpanKind::Client, scopes.number("github.com/XSAM/otelsql", "0.40.0"), named)
                .with([
                    text("db.system.name", system),
                    text("db.query.text", text_of),
                    text("db.namespace", operation.database.as_str()),
                    text("db.collection.name", table),
                    text("server.address", address),
                    int("server.port", port),
                ])
        }
        Stack::Dotnet => {
            Template::new(operation.database.as_str(), SpanKind::Client, scopes.number("Npgsql", "8.0.5"), named).with(
                [
                    text("db.system", system),
                    text("db.name", operation.database.as_str()),
                    text("db.user", "otelu"),
                    text("db.statement", text_of),
                    text("net.peer.name", address),
                    int("net.peer.port", port),
                    text("net.transport", "ip_tcp"),
                ],
            )
        }
        _ => {
            let scope =
                if stack == Stack::SpringAgent { scopes.number("com.mysql.cj", "9.1.0") } else { scopes.agent("jdbc") };
            let attributes = java(ends, system, &text_of, address, port);
            Template::new(name, SpanKind::Client, scope, named).with(attributes).slots(THREAD)
        }
    };
    let wrapper = (stack == Stack::SpringAgent).then(|| {
        let repository = format!("{}Repository", pascal(table));
        let constant = [text("code.namespace", repository.as_str()), text("code.function", mapped.method.as_str())];
        let scope = scopes.agent("spring-data-1.8");
        Template::new(
            format!("{repository}.{}", mapped.method),
            SpanKind::Internal,
            scope,
            Verdict::Exception { named: false },
        )
        .with(constant)
        .slots(THREAD)
    });
    (Some(client), wrapper)
}

/// The attributes of the agent's database modules before the stable conventions, which it still has by default.
fn java(ends: &Ends<'_>, system: &str, statement: &str, address: &str, port: i64) -> Vec<KeyValue> {
    let operation = ends.operation;
    vec![
        text("db.system", system),
        text("db.name", operation.database.as_str()),
        text("db.user", if ends.caller.stack == Stack::SpringAgent { "ts" } else { "teauser" }),
        text("db.operation", operation.method.as_str()),
        text("db.sql.table", operation.route.as_str()),
        text("db.statement", statement),
        text("db.connection_string", format!("{system}://{address}:{port}")),
        text("server.address", address),
        int("server.port", port),
    ]
}

/// Redis, memcached, MongoDB through an instrumented library.
fn command(ends: &Ends<'_>, scopes: &mut Scopes) -> Template {
    let operation = ends.operation;
    let stack = ends.caller.stack;
    let system = operation.store.map_or("", StoreSystem::as_str);
    let verb = if operation.store == Some(StoreSystem::Mongodb) {
        operation.method.clone()
    } else {
        operation.method.to_uppercase()
    };
    let scope = match (stack, operation.store) {
        (Stack::Dotnet, _) => scopes.number("OpenTelemetry.Instrumentation.StackExchangeRedis", "1.9.0-beta.1"),
        (stack, Some(StoreSystem::Redis)) if is_java(stack) => scopes.agent("jedis-4.0"),
        (stack, Some(StoreSystem::Mongodb)) if is_java(stack) => scopes.agent("mongo-4.0"),
        _ => scopes.number(&ends.from.reported_name, ""),
    };
    let name = if operation.route.is_empty() { verb.clone() } else { format!("{verb} {}", operation.route) };
    let mut constant = vec![
        text("db.system", system),
        text("db.operation", verb.as_str()),
        text("db.statement", verb.as_str()),
        text("server.address", ends.to.dns_name.as_str()),
        int("server.port", ends.port(6379)),
    ];
    if !operation.route.is_empty() {
        constant.push(text("db.collection.name", operation.route.as_str()));
    }
    if operation.store == Some(StoreSystem::Redis) {
        constant.push(int("db.redis.database_index", 0));
    }
    Template::new(name, SpanKind::Client, scope, Verdict::Exception { named: false }).with(constant)
}
