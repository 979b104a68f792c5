//! The lines that a stack's frameworks and the code in it usually write, where a system's data gives none.

use system::{Level, Moment, Stack};

use super::calls::logs_accesses;
use super::lines::Draft;
use super::stack::Ends;
use super::stack::statement::pascal;
use crate::plan::{CallKind, ServicePlan};
use crate::rng::name_key;

const CADDY: &str = r#"{"level":"info","ts":{epoch},"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"{ip}","remote_port":"{count}","client_ip":"{ip}","proto":"HTTP/1.1","method":"{method}","host":"ts-ui-dashboard:8080","uri":"{path}","headers":{"User-Agent":["{agent}"],"Accept-Encoding":["gzip"]}},"bytes_read":{request_bytes},"user_id":"","duration":{seconds},"size":{response_bytes},"status":{status},"resp_headers":{"Server":["Caddy"],"Content-Type":["application/json"]},"traceID":"{trace}","spanID":"{span}"}"#;
const CADDY_ERROR: &str = r#"{"level":"error","ts":{epoch},"logger":"http.log.error.log0","msg":"{error}","request":{"remote_ip":"{ip}","client_ip":"{ip}","proto":"HTTP/1.1","method":"{method}","host":"ts-ui-dashboard:8080","uri":"{path}"},"duration":{seconds},"status":{status},"err_id":"{hex8}","err_trace":"reverseproxy.statusError (reverseproxy.go:1373)","traceID":"{trace}","spanID":"{span}"}"#;

fn line(level: Level, text: impl Into<String>, logger: &str, share: f64) -> Draft {
    Draft { level, text: text.into(), logger: logger.to_owned(), share, throws: false }
}

/// Class or module that writes about a call.
pub fn logger(service: &ServicePlan, stack: Stack, ends: &Ends<'_>) -> String {
    let code = &ends.operation.code;
    let found = code.iter().find(|(class, _)| class.ends_with("Impl") || class.ends_with("Resource")).or(code.first());
    match (found, stack) {
        (Some((class, _)), _) => class.clone(),
        (None, Stack::SpringAgent) => format!("{}.Application", service.name.replace('-', ".")),
        (None, Stack::Cpp) => {
            if ends.call.kind == CallKind::Thrift {
                "social_network_logger".to_owned()
            } else {
                service.name.clone()
            }
        }
        _ => service.name.clone(),
    }
}

pub fn of_call(service: &ServicePlan, stack: Stack, ends: &Ends<'_>, moment: Moment) -> Vec<Draft> {
    match (stack, moment) {
        (Stack::Caddy, Moment::Answered) => vec![line(Level::Info, CADDY, "http.log.access", 1.0)],
        (Stack::Caddy, Moment::Failed) => {
            vec![
                line(Level::Error, CADDY_ERROR, "http.log.error", 1.0),
                line(Level::Info, CADDY, "http.log.access", 1.0),
            ]
        }
        _ if logs_accesses(service, stack) => Vec::new(),
        (Stack::SpringAgent, _) => spring(service, ends, moment),
        (Stack::JerseyAgent | Stack::HelidonAgent | Stack::JavaAgent, _) => java(service, stack, ends, moment),
        (Stack::Cpp, _) => cpp(service, ends, moment),
        (Stack::Go, Moment::Failed) => vec![line(Level::Error, "{error}", &service.name, 1.0)],
        (Stack::Go, Moment::CallFailed) if service.kind == system::Kind::Loadgen => {
            vec![line(Level::Error, "request failed: {method} {path}: {error}", &service.name, 1.0)]
        }
        (Stack::Node | Stack::Next, Moment::Failed | Moment::CallFailed) => {
            let text = "Error: {error}\n    at callErrorFromStatus (/usr/src/app/node_modules/@grpc/grpc-js/build/src/call.js:32:19)\n    at Object.onReceiveStatus (/usr/src/app/node_modules/@grpc/grpc-js/build/src/client.js:193:76)\n    at process.processTicksAndRejections (node:internal/process/task_queues:85:11)";
            vec![line(Level::Error, text, &service.name, 1.0)]
        }
        (Stack::Python, Moment::Failed | Moment::CallFailed) => {
            let text = "Exception calling application: {error}\nTraceback (most recent call last):\n  File \"/usr/local/lib/python3.12/site-packages/grpc/_server.py\", line 609, in _call_behavior\n    response_or_iterator = behavior(argument, context)\n                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"/app/server.py\", line 71, in handle\n    response = stub.Call(request)\n{class}: {error}";
            vec![line(Level::Error, text, &service.name, 1.0)]
        }
        (Stack::Dotnet, Moment::Failed) => {
            vec![line(
                Level::Error,
                "Error when executing service method.",
                "Grpc.AspNetCore.Server.ServerCallHandler",
                1.0,
            )]
        }
        (Stack::Rust | Stack::Php | Stack::Ruby, Moment::Failed | Moment::CallFailed) => {
            vec![line(Level::Error, "{class}: {error}", &service.name, 1.0)]
        }
        _ => Vec::new(),
    }
}

pub fn of_process(service: &ServicePlan, stack: Stack, moment: Moment) -> Vec<Draft> {
    let name = service.name.as_str();
    let port = service.port.unwrap_or(8080);
    let main = format!("{}Application", pascal(name.trim_start_matches("ts-").trim_end_matches("-service")));
    let info = |text: String, logger: &str| line(Level::Info, text, logger, 1.0);
    match (stack, moment) {
        (Stack::SpringAgent, Moment::Started) => vec![
            info(
                format!("Tomcat started on port {port} (http) with context path '/'"),
                "org.springframework.boot.web.embedded.tomcat.TomcatWebServer",
            ),
            info(format!("Started {main} in {{took}} seconds (process running for {{took}})"), &main),
            info(
                "Initializing Spring DispatcherServlet 'dispatcherServlet'".to_owned(),
                "org.apache.catalina.core.ContainerBase.[Tomcat].[localhost].[/]",
            ),
            info("HikariPool-1 - Start completed.".to_owned(), "com.zaxxer.hikari.HikariDataSource"),
        ],
        (Stack::SpringAgent, Moment::Background) if service.has_database => vec![line(
            Level::Debug,
            "HikariPool-1 - Pool stats (total=10, active=0, idle=10, waiting=0)",
            "com.zaxxer.hikari.pool.HikariPool",
            0.3,
        )],
        (Stack::JerseyAgent, Moment::Started) => vec![
            info("Starting ProtocolHandler [\"http-nio-8080\"]".to_owned(), "org.apache.coyote.AbstractProtocol"),
            info("Server startup in [{count}] milliseconds".to_owned(), "org.apache.catalina.startup.Catalina"),
        ],
        (Stack::HelidonAgent, Moment::Started) => vec![
            info(
                format!("[0x{:08x}] http://0.0.0.0:{port} bound for socket '@default'", name_key(name) as u32),
                "io.helidon.webserver.ServerListener",
            ),
            info(
                "Started all channels in {count} milliseconds. {took} seconds since JVM startup. Java 21.0.5+11-LTS"
                    .to_owned(),
                "io.helidon.webserver.LoomServer",
            ),
        ],
        (Stack::HelidonAgent, Moment::Background) => vec![line(
            Level::Debug,
            "Service Management has been running for {count} milliseconds; all {k} services are joined",
            "coherence",
            0.2,
        )],
        (Stack::JavaAgent, Moment::Started) => vec![info(format!("Server started, listening on {port}"), name)],
        (Stack::Cpp, Moment::Started) => vec![info(format!("(main.cpp:74:main) Starting the {name} server..."), name)],
        (Stack::Go, Moment::Started) => vec![info(format!("starting {name} on port {port}"), name)],
        (Stack::Caddy, Moment::Started) => {
            vec![info(r#"{"level":"info","ts":{epoch},"msg":"serving initial configuration"}"#.to_owned(), "")]
        }
        (Stack::Node | Stack::Next, Moment::Started) => {
            vec![info(format!("App now running in production mode on port {port}"), name)]
        }
        (Stack::Python, Moment::Started) => {
            vec![info(format!("{} started, listening on port {port}", pascal(name)), name)]
        }
        (Stack::Dotnet, Moment::Started) => vec![
            info(format!("Now listening on: http://[::]:{port}"), "Microsoft.Hosting.Lifetime"),
            info("Application started. Press Ctrl+C to shut down.".to_owned(), "Microsoft.Hosting.Lifetime"),
        ],
        (Stack::NginxOtel | Stack::NginxOpentracing, Moment::Started) => {
            vec![line(Level::Info, "{slash_clock} [notice] 1#1: start worker processes", "", 1.0)]
        }
        (Stack::Envoy, Moment::Started) => vec![info(
            "[{iso}][1][info][main] [source/server/server.cc:1037] starting main dispatch loop".to_owned(),
            "",
        )],
        _ => Vec::new(),
    }
}

/// The benchmark's Spring services write the method, what it is about, and the key of the subject.
fn spring(service: &ServicePlan, ends: &Ends<'_>, moment: Moment) -> Vec<Draft> {
    let logger = logger(service, Stack::SpringAgent, ends);
    let code = &ends.operation.code;
    let function = code
        .iter()
        .find(|(class, _)| class.ends_with("Impl"))
        .or(code.first())
        .map_or("handle", |(_, method)| method.as_str());
    let words = words(function);
    let subject = subject(&words, &service.name);
    let key = format!("{subject}Id");
    match moment {
        Moment::Entered if ends.call.kind == CallKind::Process => {
            vec![line(Level::Info, format!("[process][{words}][Receive message][{key}: {{uuid}}]"), &logger, 1.0)]
        }
        Moment::Entered => {
            let (first, share) = match name_key(function) % 4 {
                0 => (format!("[{function}][{words}][{key}: {{uuid}}]"), 1.0),
                1 => (format!("[{function}][Get {subject} Info][{key}: {{uuid}}, user: {{user}}]"), 0.9),
                2 => (format!("[{function}][Ready to {words}]"), 0.8),
                _ => (format!("[{function}][{words}][Request from {{user}}][{key}: {{uuid}}]"), 1.0),
            };
            vec![line(Level::Info, first, &logger, share)]
        }
        Moment::Answered => vec![
            line(Level::Info, format!("[{function}][{words} Success][{key}: {{uuid}}]"), &logger, 0.35),
            line(
                Level::Warn,
                format!("[{function}][{words} Fail][{subject} info is empty][{key}: {{uuid}}]"),
                &logger,
                0.02,
            ),
            line(Level::Info, format!("[{function}][Get {subject}][size:{{k}}]"), &logger, 0.15),
        ],
        Moment::Failed => {
            let text = if ends.call.kind == CallKind::Process {
                "Execution of Rabbit message listener failed.".to_owned()
            } else {
                "Servlet.service() for servlet [dispatcherServlet] in context with path [] threw exception [Request processing failed: {class}: {error}] with root cause".to_owned()
            };
            let writer = if ends.call.kind == CallKind::Process {
                "org.springframework.amqp.rabbit.listener.ConditionalRejectingErrorHandler"
            } else {
                "org.apache.catalina.core.ContainerBase.[Tomcat].[localhost].[/].[dispatcherServlet]"
            };
            vec![Draft { throws: true, ..line(Level::Error, text, writer, 1.0) }]
        }
        Moment::CallFailed if ends.call.kind == CallKind::Sql => {
            vec![
                line(
                    Level::Warn,
                    "SQL Error: 0, SQLState: null",
                    "org.hibernate.engine.jdbc.spi.SqlExceptionHelper",
                    1.0,
                ),
                line(Level::Error, "{error}", "org.hibernate.engine.jdbc.spi.SqlExceptionHelper", 1.0),
            ]
        }
        _ => Vec::new(),
    }
}

fn java(service: &ServicePlan, stack: Stack, ends: &Ends<'_>, moment: Moment) -> Vec<Draft> {
    let logger = logger(service, stack, ends);
    match moment {
        Moment::Failed => {
            let text = match stack {
                Stack::JerseyAgent => "Servlet.service() for servlet in context with path [/{peer}] threw exception",
                Stack::HelidonAgent => "Internal server error",
                _ => "{error}",
            };
            vec![Draft { throws: true, ..line(Level::Error, text, &logger, 1.0) }]
        }
        Moment::CallFailed => vec![line(Level::Warn, "Request to {peer} failed: {class}: {error}", &logger, 1.0)],
        _ => Vec::new(),
    }
}

/// Boost.Log's lines begin with file, line and function.
fn cpp(service: &ServicePlan, ends: &Ends<'_>, moment: Moment) -> Vec<Draft> {
    let stem = pascal(service.name.trim_end_matches("-service"));
    let at = if moment == Moment::CallFailed { ends.from } else { ends.to };
    let function = ends.operation.method.as_str();
    let number = 60 + name_key(&format!("{}{function}", at.name)) % 240;
    let place = |function: &str| format!("({stem}Handler.h:{number}:{function})");
    let logger = "social_network_logger";
    let peer = ends.to.name.as_str();
    match (moment, ends.call.kind) {
        (Moment::Entered, CallKind::Thrift) => {
            vec![line(Level::Info, format!("{} {function}: req_id={{id}}", place(function)), logger, 0.35)]
        }
        (Moment::CallFailed, CallKind::Thrift) => {
            vec![line(
                Level::Error,
                format!("{} Failed to send {} to {peer}", place(function), dashed(function)),
                logger,
                1.0,
            )]
        }
        (Moment::CallFailed, CallKind::Mongo) => {
            vec![line(
                Level::Error,
                format!(
                    "{} Failed to {} in MongoDB: No suitable servers found: `serverSelectionTimeoutMS` expired: [{{error}} calling hello on '{peer}:27017']",
                    place("operator()"),
                    ends.operation.name
                ),
                logger,
                1.0,
            )]
        }
        (Moment::CallFailed, CallKind::Memcached) => {
            vec![line(
                Level::Warn,
                format!("{} Failed to {} from Memcached: CONNECTION FAILURE", place("operator()"), function),
                logger,
                1.0,
            )]
        }
        (Moment::CallFailed, CallKind::Redis) => {
            vec![line(
                Level::Error,
                format!("{} Failed to connect to Redis: {{error}}", place("operator()")),
                logger,
                1.0,
            )]
        }
        _ => Vec::new(),
    }
}

/// `queryAlreadySoldOrders` becomes `Query Already Sold Orders`.
fn words(function: &str) -> String {
    let mut words = String::new();
    for (at, letter) in function.chars().enumerate() {
        if at == 0 {
            words.push(letter.to_ascii_uppercase());
        } else {
            if letter.is_ascii_uppercase() {
                words.push(' ');
            }
            words.push(letter);
        }
    }
    words
}

/// What a method is about: the last noun-like word of its name, or of its service's.
fn subject(words: &str, service: &str) -> String {
    let last =
        words.rsplit(' ').find(|word| !matches!(*word, "Id" | "Ids" | "All" | "Info" | "By" | "Handle" | "Name"));
    match last {
        Some(word) if words.contains(' ') => word.trim_end_matches('s').to_owned(),
        _ => pascal(service.trim_start_matches("ts-").trim_end_matches("-service")),
    }
}

/// `ComposeText` becomes `compose-text`.
fn dashed(name: &str) -> String {
    words(name).to_lowercase().replace(' ', "-")
}
