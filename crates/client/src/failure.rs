//! How a call can fail, and which exit code that is.

use std::fmt;

use model::{ErrorKind, Problem};

pub type Result<T> = std::result::Result<T, Failure>;

/// Where a failure comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The server answered with an error.
    Answer,
    /// The server could not be reached, or did not answer.
    Transport,
    /// The server's certificate was not accepted.
    Tls,
    /// The answer is not what the contract says.
    Decode,
}

/// A call that did not succeed.
#[derive(Debug)]
pub struct Failure {
    pub class: Class,
    pub problem: Problem,
    /// The server's id of the request, to be found in its log.
    pub request_id: Option<String>,
    /// The HTTP status, when there was an answer.
    pub status: Option<u16>,
}

impl Failure {
    /// Exit code of a program that ends with this failure.
    pub fn exit_code(&self) -> u8 {
        match self.class {
            Class::Decode => 11,
            Class::Tls => 3,
            Class::Answer | Class::Transport => self.problem.kind.exit_code(),
        }
    }

    pub fn retryable(&self) -> bool {
        matches!(self.class, Class::Answer | Class::Transport) && self.problem.kind.retryable()
    }

    pub(crate) fn decode(what: &str, status: Option<u16>, cause: impl fmt::Display) -> Self {
        Self {
            class: Class::Decode,
            problem: Problem::internal("client.answer_not_understood", format!("the server's answer is not {what}"))
                .found(cause.to_string())
                .fix("check that the address is that of an Aegis server of the same version"),
            request_id: None,
            status,
        }
    }

    pub(crate) fn with_request_id(mut self, id: Option<String>) -> Self {
        self.request_id = self.request_id.or(id);
        self
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self { class: Class::Transport, problem, request_id: None, status: None }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(f)
    }
}

impl std::error::Error for Failure {}

/// The kind of an error whose answer carries no problem object: decided by the HTTP status.
pub(crate) fn kind_of_status(status: u16) -> ErrorKind {
    match status {
        401 => ErrorKind::Unauthenticated,
        403 => ErrorKind::Denied,
        404 | 410 => ErrorKind::NotFound,
        409 => ErrorKind::Conflict,
        429 => ErrorKind::Busy,
        408 | 504 => ErrorKind::Timeout,
        400..=499 => ErrorKind::Invalid,
        _ => ErrorKind::Unavailable,
    }
}
