//! One HTTP call: address, token, request id, envelope, and every way in which it can go wrong.

use std::time::Duration;

use api::envelope::{Envelope, ErrorData};
use model::{ErrorKind, Problem};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::http::Response;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body, Timeout};

use crate::failure::{Class, Failure, Result, kind_of_status};

/// Largest JSON answer that is read.
const LARGEST_ANSWER: u64 = 64 * 1024 * 1024;

/// Longest time for what a server does with programs and repositories of others.
const SLOW: Duration = Duration::from_secs(600);

/// How to reach a server.
#[derive(Debug, Clone)]
pub struct Connection {
    /// Base URL without a path.
    pub server: String,
    pub token: Option<String>,
    /// Longest time that one call may take; downloads and streams have their own bounds.
    pub timeout: Duration,
    /// PEM text of certificates to trust beside the usual ones.
    pub ca_pem: Option<Vec<u8>>,
    /// Accept any certificate.
    pub insecure: bool,
}

/// A client of one server.
#[derive(Debug, Clone)]
pub struct Client {
    pub(crate) agent: Agent,
    server: String,
    token: Option<String>,
    timeout: Duration,
}

impl Client {
    /// No call is made.
    ///
    /// # Errors
    /// `server.address_malformed`, `config.certificate_malformed`.
    pub fn new(connection: Connection) -> model::Result<Self> {
        let server = connection.server.trim_end_matches('/').to_owned();
        if !(server.starts_with("http://") || server.starts_with("https://")) {
            return Err(Problem::new(ErrorKind::Invalid, "server.address_malformed", "the server's address is no URL")
                .found(format!("`{server}`"))
                .expected("`http://HOST:PORT` or `https://HOST:PORT`"));
        }
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .user_agent(concat!("aegisctl/", env!("CARGO_PKG_VERSION")))
            .proxy(None)
            .max_redirects(0);
        if let Some(tls) = tls_config(&connection)? {
            config = config.tls_config(tls);
        }
        let agent = config.build().new_agent();
        Ok(Self { agent, server, token: connection.token, timeout: connection.timeout })
    }

    pub fn server(&self) -> &str {
        &self.server
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.server)
    }

    pub(crate) fn authorization(&self) -> Option<String> {
        self.token.as_ref().map(|token| format!("Bearer {token}"))
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str, query: &impl Serialize) -> Result<T> {
        envelope(self.send_without_body("GET", path, query, self.timeout)?)
    }

    pub(crate) fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        envelope(self.send_without_body("DELETE", path, &(), self.timeout)?)
    }

    pub(crate) fn send<T: DeserializeOwned>(&self, method: &str, path: &str, body: &impl Serialize) -> Result<T> {
        self.send_with_headers(method, path, body, &[])
    }

    pub(crate) fn send_with_headers<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        body: &impl Serialize,
        headers: &[(&str, &str)],
    ) -> Result<T> {
        let url = self.url(path);
        let mut request = if method == "PUT" { self.agent.put(&url) } else { self.agent.post(&url) };
        if let Some(value) = self.authorization() {
            request = request.header("authorization", value);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.config().timeout_global(Some(self.timeout)).build().send_json(body);
        envelope(self.judge(answer)?)
    }

    /// The same for work that takes the server longer than usual calls do.
    pub(crate) fn send_slow<T: DeserializeOwned>(&self, method: &str, path: &str, body: &impl Serialize) -> Result<T> {
        let patient = Self { timeout: self.timeout.max(SLOW), ..self.clone() };
        patient.send(method, path, body)
    }

    /// Bytes as the body of a POST.
    pub(crate) fn upload<T: DeserializeOwned>(&self, path: &str, kind: &str, bytes: &[u8]) -> Result<T> {
        let mut request = self.agent.post(self.url(path)).header("content-type", kind);
        if let Some(value) = self.authorization() {
            request = request.header("authorization", value);
        }
        let answer = request.config().timeout_global(Some(self.timeout.max(SLOW))).build().send(bytes);
        envelope(self.judge(answer)?)
    }

    /// The body of a file route, to be read as a stream. `per_read` bounds the silence, not the whole transfer.
    pub(crate) fn stream(&self, path: &str, query: &impl Serialize, per_read: Duration) -> Result<Response<Body>> {
        let mut request = self.agent.get(self.url(path)).query_pairs(pairs(query));
        if let Some(value) = self.authorization() {
            request = request.header("authorization", value);
        }
        let config = request.config().timeout_connect(Some(self.timeout)).timeout_per_read(Some(per_read));
        accepted(self.judge(config.build().call())?)
    }

    /// The same for an answer that is computed from a body. `per_read` bounds each silence.
    pub(crate) fn stream_answer(
        &self,
        path: &str,
        body: &impl Serialize,
        per_read: Duration,
    ) -> Result<Response<Body>> {
        let mut request = self.agent.post(self.url(path));
        if let Some(value) = self.authorization() {
            request = request.header("authorization", value);
        }
        let config = request.config().timeout_connect(Some(self.timeout)).timeout_per_read(Some(per_read));
        accepted(self.judge(config.build().send_json(body))?)
    }

    fn send_without_body(
        &self,
        method: &str,
        path: &str,
        query: &impl Serialize,
        timeout: Duration,
    ) -> Result<Response<Body>> {
        let url = self.url(path);
        let request = if method == "DELETE" { self.agent.delete(&url) } else { self.agent.get(&url) };
        let mut request = request.query_pairs(pairs(query));
        if let Some(value) = self.authorization() {
            request = request.header("authorization", value);
        }
        self.judge(request.config().timeout_global(Some(timeout)).build().call())
    }

    pub(crate) fn judge(&self, answer: std::result::Result<Response<Body>, ureq::Error>) -> Result<Response<Body>> {
        answer.map_err(|error| transport_failure(&self.server, self.timeout, error))
    }
}

fn tls_config(connection: &Connection) -> model::Result<Option<TlsConfig>> {
    if connection.insecure {
        return Ok(Some(TlsConfig::builder().disable_verification(true).build()));
    }
    let Some(pem) = &connection.ca_pem else { return Ok(None) };
    let malformed = |found: String| {
        Problem::new(ErrorKind::Invalid, "config.certificate_malformed", "the extra certificate is no PEM file")
            .found(found)
    };
    let certificates = ureq::tls::parse_pem(pem)
        .filter_map(|item| match item {
            Ok(ureq::tls::PemItem::Certificate(certificate)) => Some(Ok(certificate)),
            Ok(_) => None,
            Err(error) => Some(Err(malformed(error.to_string()))),
        })
        .collect::<model::Result<Vec<Certificate<'static>>>>()?;
    if certificates.is_empty() {
        return Err(malformed("no certificate in it".into()));
    }
    let mut roots = usual_roots();
    roots.extend(certificates);
    Ok(Some(TlsConfig::builder().root_certs(RootCerts::new_with_certs(&roots)).build()))
}

/// The authorities that are trusted when no certificate is added.
fn usual_roots() -> Vec<Certificate<'static>> {
    webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().map(|der| Certificate::from_der(der.as_ref())).collect()
}

/// Query parameters of a flat structure; absent members are left out.
fn pairs(query: &impl Serialize) -> Vec<(String, String)> {
    let value = serde_json::to_value(query).expect("a query is a flat structure");
    let Value::Object(members) = value else { return Vec::new() };
    members
        .into_iter()
        .filter_map(|(name, value)| match value {
            Value::Null => None,
            Value::String(text) => Some((name, text)),
            other => Some((name, other.to_string())),
        })
        .collect()
}

/// One segment of a path, percent-encoded (RFC 3986: everything but unreserved characters).
pub(crate) fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn request_id(response: &Response<Body>) -> Option<String> {
    response.headers().get(api::REQUEST_ID).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// The `data` of a successful answer.
fn envelope<T: DeserializeOwned>(response: Response<Body>) -> Result<T> {
    let mut response = accepted(response)?;
    let (id, status) = (request_id(&response), response.status().as_u16());
    let text = response
        .body_mut()
        .with_config()
        .limit(LARGEST_ANSWER)
        .read_to_string()
        .map_err(|error| Failure::decode("readable", Some(status), error).with_request_id(id.clone()))?;
    match serde_json::from_str::<Envelope<T>>(&text) {
        Ok(envelope) => Ok(envelope.data),
        Err(error) => Err(Failure::decode("in the expected form", Some(status), error).with_request_id(id)),
    }
}

/// The response itself when its status is a success, else the error that it carries.
pub(crate) fn accepted(mut response: Response<Body>) -> Result<Response<Body>> {
    let status = response.status().as_u16();
    if (200..300).contains(&status) {
        return Ok(response);
    }
    let id = request_id(&response);
    let text = response.body_mut().with_config().limit(LARGEST_ANSWER).read_to_string().unwrap_or_default();
    let (problem, id) = match serde_json::from_str::<Envelope<ErrorData>>(&text) {
        Ok(envelope) => {
            let own = envelope.data.request_id.clone();
            (envelope.data.into_problem(), id.or(Some(own)))
        }
        Err(_) => (bare_problem(status, &text), id),
    };
    Err(Failure { class: Class::Answer, problem, request_id: id, status: Some(status) })
}

/// For an answer that is none of ours: a proxy's page, or an envelope without a problem object.
fn bare_problem(status: u16, text: &str) -> Problem {
    let message = serde_json::from_str::<Value>(text)
        .ok()
        .and_then(|value| value.get("message").and_then(Value::as_str).map(str::to_owned))
        .unwrap_or_else(|| "the server refused the call".to_owned());
    Problem::new(kind_of_status(status), "server.refused", message).found(format!("HTTP status {status}"))
}

fn transport_failure(server: &str, timeout: Duration, error: ureq::Error) -> Failure {
    let (class, problem) = match &error {
        ureq::Error::Timeout(Timeout::Global | Timeout::Connect | Timeout::RecvResponse | Timeout::PerCall) => (
            Class::Transport,
            Problem::new(ErrorKind::Timeout, "server.no_answer", "the server did not answer in time")
                .expected(format!("an answer within {} s", timeout.as_secs()))
                .fix("try again, or give it longer with `--request-timeout`"),
        ),
        ureq::Error::Timeout(_) => (
            Class::Transport,
            Problem::new(
                ErrorKind::Timeout,
                "server.went_silent",
                "the server stopped sending in the middle of an answer",
            ),
        ),
        ureq::Error::Rustls(_) | ureq::Error::Tls(_) => (Class::Tls, tls_problem(&error)),
        ureq::Error::Io(cause) if cause.get_ref().is_some_and(|inner| inner.to_string().contains("certificate")) => {
            (Class::Tls, tls_problem(&error))
        }
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => (
            Class::Transport,
            Problem::new(ErrorKind::Invalid, "server.address_malformed", "the server's address is no URL")
                .found(error.to_string()),
        ),
        ureq::Error::Protocol(_) | ureq::Error::LargeResponseHeader(..) => {
            return Failure::decode("HTTP", None, error);
        }
        _ => (
            Class::Transport,
            Problem::new(ErrorKind::Unavailable, "server.unreachable", "the server cannot be reached")
                .found(error.to_string())
                .fix("check the address, and that the server runs"),
        ),
    };
    Failure { class, problem: problem.place(server).cause(error), request_id: None, status: None }
}

fn tls_problem(error: &ureq::Error) -> Problem {
    Problem::new(ErrorKind::Denied, "tls.verification_failed", "the server's certificate is not trusted")
        .found(error.to_string())
        .fix("trust its authority with `--ca-cert FILE` or with `ca-cert` in the context of the config file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_cannot_leave_its_place() {
        assert_eq!(segment("otel-demo"), "otel-demo");
        assert_eq!(segment("../a b?c"), "..%2Fa%20b%3Fc");
    }

    #[test]
    fn an_own_authority_is_trusted_beside_the_usual_ones() {
        // Any certificate will do; this one is of the usual ones already.
        let own = webpki_root_certs::TLS_SERVER_ROOT_CERTS[0].as_ref();
        let pem = format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", base64(own));
        let connection = Connection {
            server: "https://h".into(),
            token: None,
            timeout: Duration::from_secs(1),
            ca_pem: Some(pem.into_bytes()),
            insecure: false,
        };
        let config = tls_config(&connection).unwrap().unwrap();
        let RootCerts::Specific(roots) = config.root_certs() else { panic!("{config:?}") };
        assert_eq!(roots.len(), webpki_root_certs::TLS_SERVER_ROOT_CERTS.len() + 1);
        let nonsense = Connection { ca_pem: Some(b"nonsense".to_vec()), ..connection };
        assert_eq!(tls_config(&nonsense).unwrap_err().code, "config.certificate_malformed");
    }

    fn base64(bytes: &[u8]) -> String {
        const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::new();
        for chunk in bytes.chunks(3) {
            let mut word = 0_u32;
            chunk.iter().for_each(|byte| word = word << 8 | u32::from(*byte));
            word <<= 8 * (3 - chunk.len());
            for place in 0..4 {
                let digit = char::from(DIGITS[(word >> (18 - 6 * place) & 63) as usize]);
                text.push(if place > chunk.len() { '=' } else { digit });
            }
        }
        text
    }

    #[test]
    fn absent_members_are_no_parameters_and_zero_is_one() {
        let query = api::run::RunQuery { page: Some(0), state: Some("0".into()), ..Default::default() };
        assert_eq!(pairs(&query), [("page".into(), "0".into()), ("state".into(), "0".into())]);
        assert_eq!(pairs(&()), []);
    }
}
