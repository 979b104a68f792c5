//! Names and constant attributes of the spans of each call, made once per run.

use telemetry::otlp::common::KeyValue;

use system::{Kind, Language};

use super::attribute::{int, text};
use crate::plan::{CallKind, CallPlan, OperationPlan, Plan, ServicePlan};
use crate::rng::{Stream, join};

/// A path whose variable segments are filled in per request.
pub struct Path {
    /// Constant pieces; a value stands between each two.
    pieces: Vec<String>,
}

impl Path {
    fn new(route: &str) -> Self {
        let mut pieces = vec![String::new()];
        for segment in route.split('/').skip(1) {
            let last = pieces.last_mut().expect("there is always one");
            last.push('/');
            if segment == "*" || segment.starts_with('{') {
                pieces.push(String::new());
            } else {
                last.push_str(segment);
            }
        }
        Self { pieces }
    }

    /// The path of one request: the values are the same on each hop of a trace.
    pub fn fill(&self, trace: u64) -> String {
        let mut path = self.pieces[0].clone();
        for (place, piece) in self.pieces.iter().enumerate().skip(1) {
            let mut draw = Stream::new(trace, "path").at(place as u64);
            path.push_str(&crate::pod::uuid(&mut draw));
            path.push_str(piece);
        }
        path
    }
}

pub struct CallText {
    pub client_name: String,
    pub client: Vec<KeyValue>,
    pub server_name: String,
    pub server: Vec<KeyValue>,
    /// Name and attributes of the framework's own span.
    pub inner: Option<(String, Vec<KeyValue>)>,
    /// `scheme://host:port` of the callee.
    pub base: String,
    pub path: Path,
    /// Class that writes the log lines of the handling.
    pub logger: Option<String>,
    /// Method that answers.
    pub function: String,
    pub access_log: bool,
}

impl CallText {
    pub fn new(plan: &Plan, call: &CallPlan) -> Self {
        let operation = &plan.operations[call.operation as usize];
        let (from, to) = (&plan.services[call.from as usize], &plan.services[call.to as usize]);
        let mut made = match call.kind {
            CallKind::Http => http(operation, from, to),
            CallKind::Sql => sql(operation, to),
            CallKind::Grpc | CallKind::Thrift => procedure(operation, call.kind, to),
            CallKind::Mongo | CallKind::Redis | CallKind::Memcached => command(operation, to),
            CallKind::Publish => message(operation, to, "publish"),
            CallKind::Process => message(operation, &plan.services[call.from as usize], "process"),
        };
        if to.jvm && matches!(call.kind, CallKind::Http | CallKind::Process) {
            (made.logger, made.function) = logger(operation, to);
            if call.kind == CallKind::Http {
                made.inner = controller(operation);
            }
        }
        made.access_log = call.kind == CallKind::Http && to.kind == Kind::Gateway;
        made
    }
}

fn http(operation: &OperationPlan, from: &ServicePlan, to: &ServicePlan) -> CallText {
    let route = operation.route.replace('*', "{id}");
    let port = to.port.unwrap_or(80);
    let base = format!("http://{}:{port}", to.dns_name);
    let request = text("http.request.method", operation.method.as_str());
    let protocol = text("network.protocol.version", "1.1");
    let client = vec![
        request.clone(),
        text("server.address", to.dns_name.as_str()),
        int("server.port", i64::from(port)),
        protocol.clone(),
    ];
    let mut server = vec![
        request,
        text("url.scheme", "http"),
        text("server.address", to.dns_name.as_str()),
        int("server.port", i64::from(port)),
        protocol,
        text("user_agent.original", user_agent(from)),
    ];
    if to.kind != Kind::Gateway {
        server.push(text("http.route", route.as_str()));
    }
    // A generator outside and a gateway name their calls by path, the Java agent by method alone.
    let named = matches!(from.kind, Kind::Loadgen | Kind::Gateway);
    let full = format!("{} {route}", operation.method);
    CallText {
        client_name: if named { full.clone() } else { operation.method.clone() },
        client,
        server_name: full,
        server,
        inner: None,
        base,
        path: Path::new(&operation.route),
        logger: None,
        function: String::new(),
        access_log: false,
    }
}

fn user_agent(from: &ServicePlan) -> &'static str {
    match (from.kind, from.language) {
        (Kind::Loadgen, _) | (_, Language::Go) => "Go-http-client/1.1",
        (Kind::Gateway, _) => "Caddy",
        (_, Language::Java | Language::Kotlin) => "Java/17.0.12",
        _ => "HTTP",
    }
}

fn sql(operation: &OperationPlan, to: &ServicePlan) -> CallText {
    let (verb, table) = (operation.method.as_str(), operation.route.as_str());
    let system = to.image.split(':').next().unwrap_or("mysql").to_owned();
    let client = vec![
        text("db.system", system.as_str()),
        text("db.name", operation.database.as_str()),
        text("db.operation", verb),
        text("db.sql.table", table),
        text("db.statement", statement(verb, table)),
        text("db.connection_string", format!("{system}://{}:{}", to.dns_name, to.port.unwrap_or(3306))),
        text("server.address", to.dns_name.as_str()),
        int("server.port", i64::from(to.port.unwrap_or(3306))),
    ];
    let repository = repository(verb, table);
    let code = vec![text("code.namespace", repository.0.as_str()), text("code.function", repository.1)];
    CallText {
        client_name: format!("{verb} {}.{table}", operation.database),
        client,
        server_name: String::new(),
        server: Vec::new(),
        inner: Some((format!("{}.{}", repository.0, repository.1), code)),
        base: String::new(),
        path: Path::new(""),
        logger: None,
        function: String::new(),
        access_log: false,
    }
}

fn statement(verb: &str, table: &str) -> String {
    let alias = format!("{}1_0", &table[..table.len().min(1)]);
    match verb {
        "INSERT" => format!("insert into {table} values (?)"),
        "UPDATE" => format!("update {table} set status=? where id=?"),
        "DELETE" => format!("delete from {table} where id=?"),
        _ => format!("select {alias}.* from {table} {alias} where {alias}.id=?"),
    }
}

/// Spring Data's repository and method behind a statement.
fn repository(verb: &str, table: &str) -> (String, &'static str) {
    let mut name: String = table
        .split('_')
        .flat_map(|word| {
            let mut chars = word.chars();
            chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars)
        })
        .collect();
    name.push_str("Repository");
    let method = match verb {
        "INSERT" | "UPDATE" => "save",
        "DELETE" => "deleteById",
        _ => "findById",
    };
    (name, method)
}

/// A remote procedure, by the conventions for RPC.
fn procedure(operation: &OperationPlan, kind: CallKind, to: &ServicePlan) -> CallText {
    let common = vec![
        text("rpc.system", if kind == CallKind::Grpc { "grpc" } else { "thrift" }),
        text("rpc.service", operation.route.as_str()),
        text("rpc.method", operation.method.as_str()),
    ];
    let mut client = common.clone();
    client.push(text("server.address", to.dns_name.as_str()));
    client.push(int("server.port", i64::from(to.service_port.unwrap_or(80))));
    CallText {
        client_name: operation.name.clone(),
        client,
        server_name: operation.span.clone().unwrap_or_else(|| operation.name.clone()),
        server: common,
        inner: None,
        base: String::new(),
        path: Path::new(""),
        logger: None,
        function: String::new(),
        access_log: false,
    }
}

/// A command to a store without a language of statements.
fn command(operation: &OperationPlan, to: &ServicePlan) -> CallText {
    let mut client = vec![text("db.operation", operation.method.as_str())];
    if let Some(store) = operation.store {
        client.push(text("db.system", store.as_str()));
    }
    client.push(text("server.address", to.dns_name.as_str()));
    client.push(int("server.port", i64::from(to.service_port.unwrap_or(80))));
    CallText {
        client_name: operation.span.clone().unwrap_or_else(|| operation.name.clone()),
        client,
        server_name: String::new(),
        server: Vec::new(),
        inner: None,
        base: String::new(),
        path: Path::new(""),
        logger: None,
        function: String::new(),
        access_log: false,
    }
}

fn message(operation: &OperationPlan, broker: &ServicePlan, verb: &'static str) -> CallText {
    let queue = operation.route.as_str();
    let common = vec![
        text("messaging.system", "rabbitmq"),
        text("messaging.operation", verb),
        text("messaging.destination.name", queue),
        text("messaging.rabbitmq.destination.routing_key", queue),
        int("messaging.message.body.size", i64::from(operation.request_bytes)),
    ];
    let mut client = common.clone();
    client.push(text("network.peer.port", broker.port.unwrap_or(5672).to_string()));
    let name = format!("{queue} {verb}");
    CallText {
        client_name: name.clone(),
        client,
        server_name: name,
        server: common,
        inner: None,
        base: String::new(),
        path: Path::new(""),
        logger: None,
        function: String::new(),
        access_log: false,
    }
}

/// The controller's span: `Class.method`.
fn controller(operation: &OperationPlan) -> Option<(String, Vec<KeyValue>)> {
    let (class, method) = operation.code.iter().find(|(class, _)| class.ends_with("Controller"))?;
    let attributes = vec![text("code.namespace", class.as_str()), text("code.function", method.as_str())];
    Some((format!("{}.{method}", simple(class)), attributes))
}

fn logger(operation: &OperationPlan, to: &ServicePlan) -> (Option<String>, String) {
    let code = operation.code.iter().find(|(class, _)| class.ends_with("Impl")).or_else(|| operation.code.first());
    match code {
        Some((class, method)) => (Some(class.clone()), method.clone()),
        None => (Some(format!("{}.Application", to.name.replace('-', "."))), "handle".to_owned()),
    }
}

/// A class name without its package.
pub fn simple(class: &str) -> &str {
    class.rsplit('.').next().unwrap_or(class)
}

/// The thread that handles a request: one of a few.
pub fn thread(key: u64) -> String {
    format!("http-nio-8080-exec-{}", 1 + join(key, 17) % 10)
}
