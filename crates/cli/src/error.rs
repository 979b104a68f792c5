//! How a failure is told: words for people, one JSON line for programs; and the exit codes.

use std::io::Write;
use std::process::ExitCode;

use client::{Class, Failure};
use model::{ErrorKind, Problem, printable};
use serde_json::{Value, json};

use crate::output::Format;

/// How a command ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Success,
    /// The workflow that was watched, or a part of a batch, failed. It was told already.
    WorkflowFailed,
    /// The submission was known by its idempotency key; nothing was stored.
    Deduplicated,
    /// The installation lacks something. It was told already.
    Missing,
    /// The input is wrong. It was told already.
    Invalid,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Success => 0,
            Exit::Invalid => 2,
            Exit::Missing => 4,
            Exit::WorkflowFailed => 5,
            Exit::Deduplicated => 9,
        })
    }
}

/// The table of exit codes, for `schema dump` and for the documentation.
pub const EXIT_CODES: [(u8, &str); 12] = [
    (0, "success"),
    (1, "unexpected: a defect of ours"),
    (2, "usage: wrong arguments or wrong input"),
    (3, "authentication: no token, a wrong or expired one, a missing right, an untrusted certificate"),
    (4, "missing: no server, a file or program that is not there, a check of the installation that failed"),
    (5, "failed: a run or a part of a batch failed"),
    (6, "timeout"),
    (7, "not found"),
    (8, "conflict with the present state"),
    (9, "deduplicated: the same submission was made before"),
    (10, "unavailable: server error, or a limit that is reached; retryable"),
    (11, "the answer could not be understood"),
];

/// Tells what went wrong on standard error.
pub fn report(failure: &Failure, format: Format) -> ExitCode {
    let text =
        if format == Format::Table { printable(&words(failure)).into_owned() } else { line(failure).to_string() };
    // There is nobody left to tell when standard error is closed.
    let _ = writeln!(std::io::stderr(), "{text}");
    ExitCode::from(failure.exit_code())
}

/// Tells what is wrong with the arguments; help and version are no errors.
pub fn usage(refusal: &clap::Error, format: Format) -> ExitCode {
    if !refusal.use_stderr() || format == Format::Table {
        let _ = refusal.print();
        return ExitCode::from(u8::try_from(refusal.exit_code()).unwrap_or(2));
    }
    let text = refusal.render().to_string();
    let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    let problem = Problem::new(ErrorKind::Invalid, "usage.wrong_arguments", message).fix("see `aegisctl --help`");
    report(&problem.into(), format)
}

/// The error as one JSON object, in the form that scripts know.
pub fn line(failure: &Failure) -> Value {
    let problem = &failure.problem;
    json!({
        "type": class(failure),
        "message": problem.message,
        "cause": cause(problem),
        "request_id": failure.request_id,
        "suggestion": problem.fix,
        "retryable": failure.retryable(),
        "exit_code": failure.exit_code(),
        "code": problem.code,
        "place": problem.place,
        "found": problem.found,
        "expected": problem.expected,
    })
}

fn class(failure: &Failure) -> &'static str {
    match (failure.class, failure.problem.kind) {
        (Class::Decode, _) => "decode",
        (Class::Tls, _) => "tls_verification_failed",
        (_, ErrorKind::Unauthenticated | ErrorKind::Denied) => "auth",
        (_, ErrorKind::Invalid) => "usage",
        (_, ErrorKind::NotFound) => "not_found",
        (_, ErrorKind::Conflict) => "conflict",
        (_, ErrorKind::Missing) => "missing",
        (_, ErrorKind::Failed) => "failed",
        (_, ErrorKind::Timeout) => "timeout",
        (_, ErrorKind::Busy | ErrorKind::Unavailable) => "server",
        (_, ErrorKind::Internal) => "internal",
    }
}

fn cause(problem: &Problem) -> Option<String> {
    let parts: Vec<String> = [("found", &problem.found), ("expected", &problem.expected)]
        .into_iter()
        .filter_map(|(name, value)| value.as_ref().map(|value| format!("{name} {value}")))
        .collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn words(failure: &Failure) -> String {
    let problem = &failure.problem;
    let mut text = format!("Error [{}]: {}", problem.code, problem.message);
    let lines = [
        ("place", &problem.place),
        ("found", &problem.found),
        ("expected", &problem.expected),
        ("fix", &problem.fix),
        ("request", &failure.request_id),
    ];
    for (name, value) in lines {
        if let Some(value) = value {
            text.push_str(&format!("\n  {:<9} {value}", format!("{name}:")));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_error_has_an_exit_code_of_the_table() {
        let codes: Vec<u8> = EXIT_CODES.iter().map(|(code, _)| *code).collect();
        assert_eq!(codes, (0..12).collect::<Vec<u8>>());
        let check = |kind: ErrorKind, code: u8, retryable: bool| {
            let failure = Failure::from(Problem::new(kind, "a.b", "c"));
            assert_eq!((failure.exit_code(), failure.retryable()), (code, retryable), "{kind:?}");
        };
        check(ErrorKind::Internal, 1, false);
        check(ErrorKind::Invalid, 2, false);
        check(ErrorKind::Unauthenticated, 3, false);
        check(ErrorKind::Denied, 3, false);
        check(ErrorKind::Missing, 4, false);
        check(ErrorKind::Failed, 5, false);
        check(ErrorKind::Timeout, 6, true);
        check(ErrorKind::NotFound, 7, false);
        check(ErrorKind::Conflict, 8, false);
        check(ErrorKind::Busy, 10, true);
        check(ErrorKind::Unavailable, 10, true);
    }
}
