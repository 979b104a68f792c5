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
    #[serde(default)]
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
        next = following(&answer, &root);
        let page: Page = answer.body_mut().read_json().map_err(|error| unreadable(error.to_string()))?;
        // A tag has no `+`; Helm writes `_` for it.
        found.extend(page.tags.unwrap_or_default().iter().map(|tag| tag.replace('_', "+")));
    }
    Ok(found)
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
        let items = ureq::tls::parse_pem(&pem).filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        });
        let roots: Vec<Certificate<'static>> = items.collect();
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
            self.authorization = self.answer(challenge.unwrap_or_default())?;
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
fn following(answer: &Response<Body>, root: &str) -> Option<String> {
    let link = answer.headers().get("link")?.to_str().ok()?;
    let (_, rest) = link.split_once('<')?;
    let (target, rest) = rest.split_once('>')?;
    let path = target.strip_prefix(root).unwrap_or(target);
    (rest.contains("next") && path.starts_with('/')).then(|| path.to_owned())
}
