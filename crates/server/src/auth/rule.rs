//! What a route asks of its caller: a role, or the right to hand over one execution's answer.

use axum::http::Method;
use model::{ErrorKind, ExecutionId, Problem, Result};
use store::{Token, TokenOrigin, TokenRole};

/// Reading is for everyone who has a token, changing for operators. What differs stands here.
const EXCEPTIONS: &[(&str, &str, TokenRole)] = &[
    // These only read; the body is what is asked for.
    ("POST", "/injections/query", TokenRole::Viewer),
    ("POST", "/injections/search", TokenRole::Viewer),
    ("POST", "/injections/export", TokenRole::Viewer),
    ("POST", "/injections/{name}/verify", TokenRole::Viewer),
    ("POST", "/projects/{project}/injections/search", TokenRole::Viewer),
    ("POST", "/datasets/{name}/verify", TokenRole::Viewer),
    ("POST", "/evaluations/datapacks", TokenRole::Viewer),
    ("POST", "/evaluations/datasets", TokenRole::Viewer),
    ("POST", "/seeds/plan", TokenRole::Viewer),
    ("POST", "/systems/registrable", TokenRole::Viewer),
    // An algorithm's author brings it along, compares it with others and keeps what it was compared on.
    ("POST", "/algorithms", TokenRole::Author),
    ("POST", "/algorithms/{name}/test", TokenRole::Author),
    ("POST", "/evaluations", TokenRole::Author),
    ("POST", "/evaluations/{id}/cancel", TokenRole::Author),
    ("POST", "/datasets", TokenRole::Author),
    // An algorithm's author runs it, hands over answers and marks what was found.
    ("POST", "/executions/execute", TokenRole::Author),
    ("POST", "/projects/{project}/executions/execute", TokenRole::Author),
    ("POST", "/executions/{id}/detector_results", TokenRole::Author),
    ("POST", "/executions/{id}/granularity_results", TokenRole::Author),
    ("PATCH", "/executions/{id}/labels", TokenRole::Author),
    ("PATCH", "/injections/{name}/labels", TokenRole::Author),
    // The flat layout is what the author's program reads.
    ("POST", "/injections/{name}/convert", TokenRole::Author),
    // Keys and passwords are other people's rights.
    ("GET", "/auth/keys", TokenRole::Admin),
    ("POST", "/auth/keys", TokenRole::Admin),
    ("DELETE", "/auth/keys/{key}", TokenRole::Admin),
    ("GET", "/auth/users", TokenRole::Admin),
    ("PUT", "/auth/users/{name}/password", TokenRole::Admin),
];

/// The only routes that take the token of an execution, and only for its own number.
const UPLOADS: [&str; 2] = ["/executions/{id}/detector_results", "/executions/{id}/granularity_results"];

/// The lowest role that may call a route. `route` is its path as declared, without the prefix.
pub fn role(method: &Method, route: &str) -> TokenRole {
    let exception = EXCEPTIONS.iter().find(|(verb, path, _)| method.as_str() == *verb && route == *path);
    match exception {
        Some((_, _, role)) => *role,
        None if method == Method::GET || method == Method::HEAD => TokenRole::Viewer,
        None => TokenRole::Operator,
    }
}

/// # Errors
/// `token.role_too_low`, `token.scope_too_narrow`: both of kind `Denied`.
pub fn allow(token: &Token, method: &Method, route: &str, path: &str) -> Result<()> {
    if let TokenOrigin::Execution(id) = token.origin {
        return own_upload(id, method, route, path);
    }
    let role = role(method, route);
    if token.role >= role {
        return Ok(());
    }
    Err(Problem::new(ErrorKind::Denied, "token.role_too_low", "the caller may not do this")
        .place(format!("{method} {route}"))
        .found(format!("role {}", token.role.as_str()))
        .expected(format!("role {} or higher", role.as_str()))
        .fix("ask an administrator for a key or a user of that role"))
}

fn own_upload(id: ExecutionId, method: &Method, route: &str, path: &str) -> Result<()> {
    let number = path.trim_end_matches('/').rsplit('/').nth(1).and_then(|part| part.parse().ok());
    if method == Method::POST && UPLOADS.contains(&route) && number == Some(id.0) {
        return Ok(());
    }
    Err(Problem::new(ErrorKind::Denied, "token.scope_too_narrow", "the token is for one execution's answer alone")
        .place(format!("{method} {path}"))
        .expected(format!("the upload of execution {id}")))
}
