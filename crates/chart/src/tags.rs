//! Every version of a chart in a registry: its tags, page by page.
//!
//! OCI distribution specification, "Listing Tags"; tokens as Docker's registries give them
//! (<https://distribution.github.io/distribution/spec/auth/token/>). Helm lists no tags itself.

use std::time::Duration;

use base64::Engine;
use model::{ErrorKind, Problem, Result};
use serde::Deserialize;
use ureq::http::Response;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig};
use ureq::{Agent, Body};

use crate::login::Login;

/// More pages than any chart has.
const MOST_PAGES: usize = 100;
/// Tags of one page, as far as the registry likes.
const PAGE: &str = "n=1000";

#[derive(Deserialize)]
struct Page {
    /// Null is how a registry says that a name has none.
    #[serde(deserialize_with = "Option::deserialize")]
    tags: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Token {
    #[serde(alias = "access_token")]
    token: String,
}

/// The published versions of `oci://HOST/NAME`, as Helm writes them.
///
/// # Errors
/// `chart.tags_unreadable`.
pub(crate) fn published(
    reference: &str,
    plain_http: bool,
    login: Option<&Login>,
    limit: Duration,
) -> Result<Vec<String>> {
    let unreadable = |found: String| {
        Problem::new(ErrorKind::Unavailable, "chart.tags_unreadable", "the registry does not tell the chart's versions")
            .place(reference.to_owned())
            .found(found)
    };
    let rest = reference.strip_prefix("oci://").unwrap_or(reference);
    let (host, name) = rest.split_once('/').ok_or_else(|| unreadable("no name of a chart".to_owned()))?;
    let root = root(host, plain_http);
    let mut asker = Asker { agent: agent(login, limit).map_err(unreadable)?, login, authorization: None };
    let mut found = Vec::new();
    let mut next = Some(format!("/v2/{name}/tags/list?{PAGE}"));
    for _ in 0..MOST_PAGES {
        let Some(path) = next.take() else { return Ok(found) };
        let mut answer = asker.get(&format!("{root}{path}")).map_err(unreadable)?;
        next = following(&answer, &root).map_err(unreadable)?;
        let page: Page = answer.body_mut().read_json().map_err(|error| unreadable(error.to_string()))?;
        // A tag has no `+`; Helm writes `_` for it.
        found.extend(page.tags.iter().flatten().map(|tag| tag.replace('_', "+")));
    }
    match next {
        None => Ok(found),
        Some(_) => Err(unreadable(format!("more than {MOST_PAGES} pages"))),
    }
}

/// Where a registry's interface is. Loopback is spoken to in the clear, as Helm does.
fn root(host: &str, plain_http: bool) -> String {
    let is_loopback = ["localhost", "127.0.0.1", "[::1]"]
        .iter()
        .any(|name| host.strip_prefix(name).is_some_and(|port| port.is_empty() || port.starts_with(':')));
    let scheme = if plain_http || is_loopback { "http" } else { "https" };
    let host = if host == "docker.io" { "registry-1.docker.io" } else { host };
    format!("{scheme}://{host}")
}

fn agent(login: Option<&Login>, limit: Duration) -> std::result::Result<Agent, String> {
    let mut config = Agent::config_builder().timeout_global(Some(limit)).http_status_as_error(false);
    if let Some(file) = login.and_then(|login| login.ca.as_ref()) {
        let pem = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let unusable = |found: String| format!("{}: {found}", file.display());
        let mut roots: Vec<Certificate<'static>> = Vec::new();
        for item in ureq::tls::parse_pem(&pem) {
            // Keys may stand in the same file.
            if let PemItem::Certificate(certificate) = item.map_err(|error| unusable(error.to_string()))? {
                roots.push(certificate);
            }
        }
        if roots.is_empty() {
            return Err(unusable("no certificate".to_owned()));
        }
        config = config.tls_config(TlsConfig::builder().root_certs(RootCerts::new_with_certs(&roots)).build());
    }
    Ok(Agent::new_with_config(config.build()))
}

struct Asker<'a> {
    agent: Agent,
    login: Option<&'a Login>,
    authorization: Option<String>,
}

impl Asker<'_> {
    fn get(&mut self, url: &str) -> std::result::Result<Response<Body>, String> {
        let mut answer = self.ask(url, self.authorization.as_deref())?;
        if answer.status() == 401 && self.authorization.is_none() {
            let challenge = answer.headers().get("www-authenticate").and_then(|text| text.to_str().ok());
            let challenge = challenge.ok_or("HTTP 401, and nothing about the login that it wants")?;
            self.authorization = self.answer(challenge)?;
            answer = self.ask(url, self.authorization.as_deref())?;
        }
        if answer.status().is_success() { Ok(answer) } else { Err(format!("HTTP {}", answer.status().as_u16())) }
    }

    fn ask(&self, url: &str, authorization: Option<&str>) -> std::result::Result<Response<Body>, String> {
        let mut request = self.agent.get(url);
        if let Some(text) = authorization {
            request = request.header("Authorization", text);
        }
        request.call().map_err(|error| error.to_string())
    }

    /// What a registry wants to see that asks who we are: the login itself, or a token that is given for it, or for nothing.
    fn answer(&self, challenge: &str) -> std::result::Result<Option<String>, String> {
        let basic = self.login.and_then(Login::credentials).map(|(user, password)| {
            let both = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{}", password.reveal()));
            format!("Basic {both}")
        });
        let Some(parameters) = challenge.strip_prefix("Bearer ") else { return Ok(basic) };
        let word = |name: &str| {
            let (_, rest) = parameters.split_once(&format!("{name}=\""))?;
            rest.split_once('"').map(|(text, _)| text)
        };
        let realm = word("realm").ok_or("it asks for a token and does not say where one is had")?;
        let mut request = self.agent.get(realm);
        for name in ["service", "scope"] {
            if let Some(text) = word(name) {
                request = request.query(name, text);
            }
        }
        // A login is sent in the clear to no other machine.
        if let Some(basic) = basic.filter(|_| realm.starts_with("https://")) {
            request = request.header("Authorization", basic);
        }
        let mut answer = request.call().map_err(|error| error.to_string())?;
        let token: Token = answer.body_mut().read_json().map_err(|error| error.to_string())?;
        Ok(Some(format!("Bearer {}", token.token)))
    }
}

/// The page after this one: `Link: </v2/…>; rel="next"`, on the same registry.
fn following(answer: &Response<Body>, root: &str) -> std::result::Result<Option<String>, String> {
    let Some(link) = answer.headers().get("link") else { return Ok(None) };
    let wrong = || format!("a page that goes on at `{}`", String::from_utf8_lossy(link.as_bytes()));
    let (target, rest) =
        link.to_str().ok().and_then(|text| text.trim().strip_prefix('<')?.split_once('>')).ok_or_else(wrong)?;
    if !rest.contains("next") {
        return Ok(None);
    }
    let path = target.strip_prefix(root).unwrap_or(target);
    if path.starts_with('/') { Ok(Some(path.to_owned())) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;

    /// A registry that answers each request line with an authorization by what a function says; its address.
    fn registry(answer: impl Fn(&str, Option<&str>) -> String + Send + 'static) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
                let lines: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                let path = lines[0].split(' ').nth(1).unwrap();
                let login = lines.iter().find_map(|line| {
                    let (name, value) = line.split_once(": ")?;
                    name.eq_ignore_ascii_case("authorization").then_some(value)
                });
                stream.write_all(answer(path, login).as_bytes()).unwrap();
            }
        });
        host
    }

    fn http(head: &str, body: &str) -> String {
        format!("HTTP/1.1 {head}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    fn tags(host: &str) -> Result<Vec<String>> {
        published(&format!("oci://{host}/team/shop"), true, None, Duration::from_secs(5))
    }

    #[test]
    fn a_token_is_fetched_where_the_registry_says() {
        let token = "/token?service=shelf&scope=repository%3Ateam%2Fshop%3Apull";
        let host = registry(move |path, login| match login {
            None if path == token => http("200 OK", r#"{"token":"t0"}"#),
            _ => http("401 Unauthorized", ""),
        });
        assert!(tags(&host).unwrap_err().found.unwrap().contains("nothing about the login"));
        let realm = host.clone();
        let challenged = registry(move |path, login| match login {
            Some("Bearer t0") if path.contains("last=1") => http("200 OK", r#"{"tags":null}"#),
            Some("Bearer t0") => {
                http("200 OK\r\nLink: </v2/team/shop/tags/list?last=1>; rel=\"next\"", r#"{"tags":["1.0.0_a"]}"#)
            }
            _ => {
                let words = "service=\"shelf\",scope=\"repository:team/shop:pull\"";
                http(
                    &format!("401 Unauthorized\r\nWWW-Authenticate: Bearer realm=\"http://{realm}/token\",{words}"),
                    "",
                )
            }
        });
        assert_eq!(tags(&challenged).unwrap(), ["1.0.0+a"]);
    }

    #[test]
    fn a_listing_that_is_not_whole_is_told() {
        let wrong = |head: &'static str, body: &'static str| {
            let host = registry(move |_, _| http(head, body));
            let problem = tags(&host).unwrap_err();
            assert_eq!(problem.code, "chart.tags_unreadable");
            problem.found.unwrap()
        };
        let one = r#"{"tags":["1.0.0"]}"#;
        let elsewhere = "200 OK\r\nLink: <https://elsewhere.example/v2/x>; rel=\"next\"";
        assert!(wrong(elsewhere, one).contains("elsewhere.example"));
        let always = "200 OK\r\nLink: </v2/team/shop/tags/list?last=1>; rel=\"next\"";
        assert_eq!(wrong(always, one), "more than 100 pages");
        assert!(wrong("200 OK", r#"{"name":"shop"}"#).contains("tags"));
        assert_eq!(wrong("503 Service Unavailable", ""), "HTTP 503");
    }
}
