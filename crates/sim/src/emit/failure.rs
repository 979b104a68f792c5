//! How failures show: the exceptions and errors that each runtime reports for them.

use system::Stack;

use super::Recorder;
use super::stack::{cluster_ip, is_java};
use crate::plan::{CallKind, CallPlan};
use crate::request::{Cause, Failure};

/// An error as a program says it: class or code, and message.
pub type Words = (String, String);

/// What a runtime says of a failure of the network or of a pool on the way to `host:port`; `None` for other failures.
pub fn of_connection(stack: Stack, failure: Failure, host: &str, port: i64) -> Option<Words> {
    let words = match stack {
        _ if is_java(stack) => java(failure)?,
        Stack::Go | Stack::Caddy | Stack::Rust => go(failure, host, port)?,
        Stack::Node | Stack::Next => node(failure, host, port)?,
        Stack::Python => python(failure, host, port)?,
        Stack::Dotnet => dotnet(failure, host, port)?,
        Stack::Envoy => envoy(failure)?,
        _ => native(failure, host, port)?,
    };
    Some(words)
}

fn pair(class: &str, message: impl Into<String>) -> Option<Words> {
    Some((class.to_owned(), message.into()))
}

fn java(failure: Failure) -> Option<Words> {
    match failure {
        Failure::Refused => pair("java.net.ConnectException", "Connection refused"),
        Failure::Reset => pair("java.net.SocketException", "Connection reset"),
        Failure::Closed => pair("java.net.SocketException", "Unexpected end of file from server"),
        Failure::UnknownHost => pair("java.net.UnknownHostException", "Temporary failure in name resolution"),
        Failure::Unreachable => pair("java.net.ConnectException", "Connection timed out"),
        Failure::Timeout => pair("java.net.SocketTimeoutException", "Read timed out"),
        Failure::PoolTimeout => pair(
            "java.sql.SQLTransientConnectionException",
            "HikariPool-1 - Connection is not available, request timed out after 30000ms.",
        ),
        _ => None,
    }
}

fn go(failure: Failure, host: &str, port: i64) -> Option<Words> {
    let ip = cluster_ip(host);
    match failure {
        Failure::Refused => pair("*net.OpError", format!("dial tcp {ip}:{port}: connect: connection refused")),
        Failure::Closed => pair("*errors.errorString", "EOF"),
        Failure::UnknownHost => pair("*net.DNSError", format!("lookup {host}: server misbehaving")),
        Failure::Reset => pair("*net.OpError", format!("read tcp {ip}:{port}: read: connection reset by peer")),
        Failure::Unreachable => pair("*net.OpError", format!("dial tcp {ip}:{port}: connect: connection timed out")),
        Failure::Timeout => pair("context.deadlineExceededError", "context deadline exceeded"),
        Failure::PoolTimeout => pair("*net.OpError", "timeout: no free connection in pool"),
        _ => None,
    }
}

fn node(failure: Failure, host: &str, port: i64) -> Option<Words> {
    let ip = cluster_ip(host);
    match failure {
        Failure::Refused => pair("ECONNREFUSED", format!("connect ECONNREFUSED {ip}:{port}")),
        Failure::Reset | Failure::Closed => pair("ECONNRESET", "socket hang up"),
        Failure::UnknownHost => pair("EAI_AGAIN", format!("getaddrinfo EAI_AGAIN {host}")),
        Failure::Unreachable => pair("ETIMEDOUT", format!("connect ETIMEDOUT {ip}:{port}")),
        Failure::Timeout => pair("ESOCKETTIMEDOUT", "ESOCKETTIMEDOUT"),
        _ => None,
    }
}

fn python(failure: Failure, host: &str, port: i64) -> Option<Words> {
    let pool = format!("HTTPConnectionPool(host='{host}', port={port})");
    match failure {
        Failure::Refused => pair(
            "ConnectionError",
            format!(
                "{pool}: Max retries exceeded with url (Caused by NewConnectionError: [Errno 111] Connection refused)"
            ),
        ),
        Failure::Reset | Failure::Closed => {
            pair("ConnectionError", "('Connection aborted.', ConnectionResetError(104, 'Connection reset by peer'))")
        }
        Failure::Unreachable => {
            pair("ConnectTimeout", format!("{pool}: Max retries exceeded with url (Caused by ConnectTimeoutError)"))
        }
        Failure::UnknownHost => pair(
            "ConnectionError",
            format!(
                "{pool}: Max retries exceeded with url (Caused by NameResolutionError: Failed to resolve '{host}')"
            ),
        ),
        Failure::Timeout => pair("ReadTimeout", format!("{pool}: Read timed out.")),
        _ => None,
    }
}

fn dotnet(failure: Failure, host: &str, port: i64) -> Option<Words> {
    match failure {
        Failure::Refused => pair("System.Net.Sockets.SocketException", format!("Connection refused ({host}:{port})")),
        Failure::Reset | Failure::Closed => pair("System.IO.IOException", "The response ended prematurely."),
        Failure::UnknownHost => {
            pair("System.Net.Sockets.SocketException", format!("Name or service not known ({host}:{port})"))
        }
        Failure::Unreachable => {
            pair("System.Net.Sockets.SocketException", format!("Connection timed out ({host}:{port})"))
        }
        Failure::Timeout | Failure::PoolTimeout => pair("System.TimeoutException", "The operation has timed out."),
        _ => None,
    }
}

fn envoy(failure: Failure) -> Option<Words> {
    match failure {
        Failure::Refused => pair("UF", "delayed connect error: Connection refused"),
        Failure::Reset | Failure::Closed => pair("UC", "connection termination"),
        Failure::Unreachable => pair("UF", "connection timeout"),
        Failure::Timeout => pair("UT", "response timeout"),
        _ => None,
    }
}

/// C, C++ and Lua: the words of the system and of Thrift.
fn native(failure: Failure, host: &str, port: i64) -> Option<Words> {
    match failure {
        Failure::Refused => {
            pair("TTransportException", format!("Could not connect to {host}:{port} (connection refused)"))
        }
        Failure::Reset | Failure::Closed => pair("TTransportException", "No more data to read."),
        Failure::UnknownHost => {
            pair("TTransportException", format!("Could not resolve host {host}: Temporary failure in name resolution"))
        }
        Failure::Unreachable | Failure::Timeout => {
            pair("TTransportException", format!("Failed to read from {host}:{port} (timeout)"))
        }
        Failure::PoolTimeout => pair("ServiceException", "Failed to pop a client from the pool"),
        _ => None,
    }
}

/// The number of gRPC's status for a failure that has none of its own.
pub fn grpc_status(failure: Failure, status: u16) -> i64 {
    match failure {
        _ if status != 0 => i64::from(status),
        Failure::None => 0,
        Failure::Cancelled => 1,
        Failure::Timeout => 4,
        Failure::Refused | Failure::Reset | Failure::Closed | Failure::Unreachable | Failure::UnknownHost => 14,
        Failure::Own | Failure::Thrown(_) => 2,
        _ => 13,
    }
}

const fn grpc_name(status: i64) -> &'static str {
    match status {
        1 => "Canceled",
        2 => "Unknown",
        4 => "DeadlineExceeded",
        5 => "NotFound",
        8 => "ResourceExhausted",
        13 => "Internal",
        14 => "Unavailable",
        _ => "OK",
    }
}

impl Recorder {
    /// Class and message of the exception that a failure shows as, in code of `stack`, about `call`.
    pub(super) fn exception(
        &self,
        stack: Stack,
        failure: Failure,
        cause: Option<Cause>,
        call: &CallPlan,
    ) -> Option<Words> {
        let to = &self.plan.services[call.to as usize];
        match failure {
            Failure::None => None,
            Failure::Own => own(stack),
            Failure::Thrown(number) => self.throwables.get(usize::from(number)).cloned(),
            Failure::Upstream => cause.and_then(|cause| self.upstream(stack, cause)),
            other => of_connection(stack, other, &to.dns_name, i64::from(to.service_port.or(to.port).unwrap_or(80))),
        }
    }

    /// What the client library of a service makes of a failed call.
    fn upstream(&self, stack: Stack, cause: Cause) -> Option<Words> {
        let call = &self.plan.calls[cause.call as usize];
        let operation = &self.plan.operations[call.operation as usize];
        let peer = &self.plan.services[call.to as usize];
        let port = i64::from(peer.service_port.or(peer.port).unwrap_or(80));
        let connection = of_connection(stack, cause.failure, &peer.dns_name, port);
        if call.kind == CallKind::Grpc {
            let status = grpc_status(cause.failure, cause.status);
            return Some(grpc(stack, status, connection.map(|(_, message)| message)));
        }
        if !is_java(stack) {
            return Some(connection.unwrap_or_else(|| {
                let message = match call.kind {
                    CallKind::Thrift => format!("Failed to call {} of {}", operation.method, peer.dns_name),
                    _ => format!("unexpected status {} of {}", cause.status, operation.name),
                };
                ("ServiceException".to_owned(), message)
            }));
        }
        let target = format!("http://{}:{port}{}", peer.dns_name, operation.route);
        let words = match (call.kind, cause.failure) {
            (CallKind::Sql, Failure::Thrown(number)) => {
                let (class, message) = self.throwables.get(usize::from(number))?;
                let outer = "org.springframework.orm.jpa.JpaSystemException";
                (outer, format!("Unable to execute statement; nested exception is {class}: {message}"))
            }
            (_, Failure::Unreadable) => {
                let class = "org.springframework.web.client.RestClientException";
                (class, "Error while extracting response for content type [application/json]".to_owned())
            }
            (_, Failure::Unusable) => {
                ("java.lang.IllegalStateException", format!("unexpected content of the answer of {}", peer.dns_name))
            }
            (CallKind::Sql, _) => {
                let (class, message) = connection?;
                let outer = "org.springframework.dao.DataAccessResourceFailureException";
                (outer, format!("Unable to acquire JDBC Connection [{class}: {message}]"))
            }
            (CallKind::Publish, _) => {
                let (class, message) = connection?;
                ("org.springframework.amqp.AmqpConnectException", format!("{class}: {message}"))
            }
            (_, Failure::None) if stack == Stack::SpringAgent => {
                let class = if cause.status >= 500 {
                    "org.springframework.web.client.HttpServerErrorException"
                } else {
                    "org.springframework.web.client.HttpClientErrorException"
                };
                (class, format!("{} on {} request for \"{target}\"", cause.status, operation.method))
            }
            (_, Failure::None) => {
                ("jakarta.ws.rs.InternalServerErrorException", format!("HTTP {} Internal Server Error", cause.status))
            }
            (_, _) if stack == Stack::SpringAgent => {
                let (_, message) = connection?;
                let class = "org.springframework.web.client.ResourceAccessException";
                (class, format!("I/O error on {} request for \"{target}\": {message}", operation.method))
            }
            _ => {
                let (class, message) = connection?;
                ("jakarta.ws.rs.ProcessingException", format!("{class}: {message}"))
            }
        };
        Some((words.0.to_owned(), words.1))
    }
}

/// An error of the service's own.
fn own(stack: Stack) -> Option<Words> {
    match stack {
        _ if is_java(stack) => pair("java.lang.IllegalStateException", "unexpected state of the requested resource"),
        Stack::Go => pair("*errors.errorString", "unexpected end of JSON input"),
        Stack::Node | Stack::Next => pair("TypeError", "Cannot read properties of undefined (reading 'units')"),
        Stack::Python => pair("KeyError", "'items'"),
        Stack::Dotnet => pair("System.InvalidOperationException", "Sequence contains no elements"),
        _ => pair("ServiceException", "Attribute of MongoDB item is not complete"),
    }
}

fn grpc(stack: Stack, status: i64, inner: Option<String>) -> Words {
    let name = grpc_name(status);
    match stack {
        Stack::Go => {
            let description = inner.map_or_else(
                || "unexpected end of JSON input".to_owned(),
                |inner| {
                    if status == 14 {
                        format!("connection error: desc = \"transport: Error while {inner}\"")
                            .replace("while dial", "while dialing: dial")
                    } else {
                        inner
                    }
                },
            );
            ("*status.Error".to_owned(), format!("rpc error: code = {name} desc = {description}"))
        }
        Stack::Node | Stack::Next => {
            let reason = inner.unwrap_or_else(|| "Internal error".to_owned());
            let message = if status == 14 {
                format!("14 UNAVAILABLE: No connection established. Last error: {reason}")
            } else {
                format!("{status} {}: {reason}", name.to_uppercase())
            };
            ("Error".to_owned(), message)
        }
        Stack::Python => {
            let details =
                if status == 14 { "failed to connect to all addresses" } else { "Exception calling application" };
            let message = format!(
                "<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.{}\n\tdetails = \"{details}\"\n>",
                name.to_uppercase()
            );
            ("grpc._channel._InactiveRpcError".to_owned(), message)
        }
        Stack::Dotnet => (
            "Grpc.Core.RpcException".to_owned(),
            format!("Status(StatusCode=\"{name}\", Detail=\"{}\")", inner.unwrap_or_default()),
        ),
        _ => (
            "io.grpc.StatusRuntimeException".to_owned(),
            format!("{}: {}", name.to_uppercase(), inner.unwrap_or_else(|| "io exception".to_owned())),
        ),
    }
}

/// A stack trace under an exception, as the Java virtual machine prints it.
pub fn java_trace(class: &str, message: &str, logger: &str, function: &str, stack: Stack) -> String {
    let simple = logger.rsplit('.').next().unwrap_or(logger);
    let package = logger.rsplit_once('.').map_or("", |(package, _)| package);
    let line = |salt: u64| 40 + crate::rng::join(crate::rng::name_key(function), salt) % 180;
    let mut trace = format!("{class}: {message}\n\tat {logger}.{function}({simple}.java:{})", line(1));
    if stack == Stack::SpringAgent {
        let controller = simple.trim_end_matches("ServiceImpl");
        let root = package.rsplit_once('.').map_or(package, |(root, _)| root);
        trace.push_str(&format!(
            "\n\tat {root}.controller.{controller}Controller.{function}({controller}Controller.java:{})",
            line(2)
        ));
    }
    let frames: &[&str] = match stack {
        Stack::SpringAgent => &[
            "java.base/jdk.internal.reflect.DirectMethodHandleAccessor.invoke(DirectMethodHandleAccessor.java:103)",
            "org.springframework.web.method.support.InvocableHandlerMethod.doInvoke(InvocableHandlerMethod.java:255)",
            "org.springframework.web.servlet.mvc.method.annotation.RequestMappingHandlerAdapter.invokeHandlerMethod(RequestMappingHandlerAdapter.java:926)",
            "org.springframework.web.servlet.DispatcherServlet.doDispatch(DispatcherServlet.java:1089)",
            "jakarta.servlet.http.HttpServlet.service(HttpServlet.java:590)",
            "org.apache.catalina.core.ApplicationFilterChain.internalDoFilter(ApplicationFilterChain.java:195)",
            "org.apache.tomcat.util.net.NioEndpoint$SocketProcessor.doRun(NioEndpoint.java:1740)",
            "java.base/java.lang.Thread.run(Thread.java:840)",
        ],
        Stack::JerseyAgent => &[
            "org.glassfish.jersey.server.model.internal.JavaResourceMethodDispatcherProvider$ResponseOutInvoker.doDispatch(JavaResourceMethodDispatcherProvider.java:205)",
            "org.glassfish.jersey.servlet.ServletContainer.service(ServletContainer.java:358)",
            "org.apache.catalina.core.StandardWrapperValve.invoke(StandardWrapperValve.java:167)",
            "org.apache.tomcat.util.net.NioEndpoint$SocketProcessor.doRun(NioEndpoint.java:1740)",
            "java.base/java.lang.Thread.run(Thread.java:1583)",
        ],
        Stack::HelidonAgent => &[
            "org.glassfish.jersey.server.internal.process.RequestScope.runInScope(RequestScope.java:265)",
            "io.helidon.microprofile.server.JaxRsService.doHandle(JaxRsService.java:234)",
            "io.helidon.webserver.http1.Http1Connection.handle(Http1Connection.java:194)",
            "java.base/java.lang.VirtualThread.run(VirtualThread.java:329)",
        ],
        _ => &[
            "io.grpc.stub.ServerCalls$UnaryServerCallHandler$UnaryServerCallListener.onHalfClose(ServerCalls.java:182)",
            "io.grpc.internal.ServerImpl$JumpToApplicationThreadServerStreamListener$1HalfClosed.runInContext(ServerImpl.java:861)",
            "java.base/java.util.concurrent.ThreadPoolExecutor.runWorker(ThreadPoolExecutor.java:1144)",
            "java.base/java.lang.Thread.run(Thread.java:1583)",
        ],
    };
    for frame in frames {
        trace.push_str("\n\tat ");
        trace.push_str(frame);
    }
    trace
}
