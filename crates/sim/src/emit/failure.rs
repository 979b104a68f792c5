//! How failures show: the exceptions and errors that each runtime reports for them.

use system::Language;

use super::Recorder;
use crate::plan::CallKind;
use crate::request::{Cause, Failure};

/// Class and message that a runtime gives a failure of the network or of a pool; `None` for other failures.
pub fn of_connection(language: Language, failure: Failure) -> Option<(&'static str, &'static str)> {
    match language {
        Language::Go | Language::Caddy => go(failure),
        _ => java(failure),
    }
}

const fn java(failure: Failure) -> Option<(&'static str, &'static str)> {
    match failure {
        Failure::Refused => Some(("java.net.ConnectException", "Connection refused")),
        Failure::Reset => Some(("java.net.SocketException", "Connection reset")),
        Failure::Closed => Some(("java.net.SocketException", "Unexpected end of file from server")),
        Failure::UnknownHost => Some(("java.net.UnknownHostException", "Temporary failure in name resolution")),
        Failure::Unreachable => Some(("java.net.ConnectException", "Connection timed out")),
        Failure::Timeout => Some(("java.net.SocketTimeoutException", "Read timed out")),
        Failure::PoolTimeout => Some((
            "java.sql.SQLTransientConnectionException",
            "HikariPool-1 - Connection is not available, request timed out after 30000ms.",
        )),
        _ => None,
    }
}

const fn go(failure: Failure) -> Option<(&'static str, &'static str)> {
    match failure {
        Failure::Refused => Some(("*net.OpError", "connect: connection refused")),
        Failure::Reset => Some(("*net.OpError", "read: connection reset by peer")),
        Failure::Closed => Some(("*errors.errorString", "EOF")),
        Failure::UnknownHost => Some(("*net.DNSError", "server misbehaving")),
        Failure::Unreachable => Some(("*net.OpError", "connect: connection timed out")),
        Failure::Timeout => Some(("context.deadlineExceededError", "context deadline exceeded")),
        _ => None,
    }
}

impl Recorder {
    /// Class and message of the exception that a failure shows as.
    pub(super) fn exception(
        &self,
        language: Language,
        failure: Failure,
        cause: Option<Cause>,
    ) -> Option<(String, String)> {
        match failure {
            Failure::None => None,
            Failure::Own => {
                let message = "unexpected state of the requested resource";
                Some(("java.lang.IllegalStateException".to_owned(), message.to_owned()))
            }
            Failure::Thrown(number) => self.throwables.get(usize::from(number)).cloned(),
            Failure::Upstream => cause.and_then(|cause| self.upstream(cause)),
            other => of_connection(language, other).map(|(class, message)| (class.to_owned(), message.to_owned())),
        }
    }

    /// What the client library of a Spring service throws for a failed call.
    fn upstream(&self, cause: Cause) -> Option<(String, String)> {
        let call = &self.plan.calls[cause.call as usize];
        let operation = &self.plan.operations[call.operation as usize];
        let peer = &self.plan.services[call.to as usize];
        let target = format!("http://{}:{}{}", peer.dns_name, peer.port.unwrap_or(80), operation.route);
        let (class, message) = match (call.kind, cause.failure) {
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
            (CallKind::Sql, failure) => {
                let (class, message) = java(failure)?;
                let outer = "org.springframework.dao.DataAccessResourceFailureException";
                (outer, format!("Unable to acquire JDBC Connection [{class}: {message}]"))
            }
            (CallKind::Publish, failure) => {
                let (class, message) = java(failure)?;
                ("org.springframework.amqp.AmqpConnectException", format!("{class}: {message}"))
            }
            (_, Failure::None) => {
                let class = if cause.status >= 500 {
                    "org.springframework.web.client.HttpServerErrorException"
                } else {
                    "org.springframework.web.client.HttpClientErrorException"
                };
                (class, format!("{} on {} request for \"{target}\"", cause.status, operation.method))
            }
            (_, failure) => {
                let (_, message) = java(failure)?;
                let class = "org.springframework.web.client.ResourceAccessException";
                (class, format!("I/O error on {} request for \"{target}\": {message}", operation.method))
            }
        };
        Some((class.to_owned(), message))
    }
}
