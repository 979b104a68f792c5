//! What a command works with: the settings, resolved once before any work, and the client made from them.

use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use client::{Client, Connection, Failure, local};
use model::{ErrorKind, Problem, Result};

use crate::args::{Consent, Global};
use crate::config::Config;
use crate::output::{Format, Output};

const DEFAULT_TIMEOUT: u64 = 30;

/// A value and where it came from.
#[derive(Debug, Clone)]
pub struct Sourced {
    pub value: String,
    pub source: String,
}

#[derive(Debug)]
pub struct Session {
    pub out: Output,
    pub config: Config,
    /// Name of the context in use, whether it exists or not.
    pub context: Option<String>,
    /// From flag, environment or context; else the local server is looked for.
    server: Option<Sourced>,
    token: Option<Sourced>,
    timeout: Duration,
    ca_cert: Option<PathBuf>,
    insecure: bool,
    interactive: bool,
}

impl Session {
    /// Resolves the settings: flag, environment, context, default.
    ///
    /// # Errors
    /// A config file that is wrong, or a context that does not exist.
    pub fn new(global: &Global) -> std::result::Result<Self, Failure> {
        let config = Config::read()?;
        let context = global.context.clone().or_else(|| config.current().map(str::to_owned));
        if let Some(name) = global.context.as_deref()
            && !config.context_names().any(|known| known == name)
        {
            return Err(Problem::unknown("context.unknown", "context", name, config.context_names())
                .place(config.path.display().to_string())
                .into());
        }
        let of_context = |key: &str| context.as_deref().and_then(|name| config.context(name, key));
        let choose = |given: &Option<String>, key: &str| {
            let given = given.clone().filter(|text| !text.is_empty());
            let given = given.map(|value| Sourced { value, source: "flag or environment".into() });
            given.or_else(|| {
                let source = format!("context {}", context.as_deref().unwrap_or_default());
                of_context(key).map(|value| Sourced { value, source })
            })
        };
        let format = format(global, &config)?;
        Ok(Self {
            out: Output::new(format, global.no_color, global.quiet),
            server: choose(&global.server, "server"),
            token: choose(&global.token, "token"),
            timeout: Duration::from_secs(timeout(global, &config)?),
            ca_cert: global.ca_cert.clone().or_else(|| of_context("ca-cert").map(PathBuf::from)),
            insecure: global.insecure_skip_tls_verify
                || of_context("insecure-skip-tls-verify").is_some_and(|value| value == "true"),
            interactive: !global.non_interactive && io::stdin().is_terminal() && io::stderr().is_terminal(),
            context,
            config,
        })
    }

    /// The server's address and the token for it. A local server's own token serves when no other is given.
    ///
    /// # Errors
    /// `server.not_found` when no server is named and none runs here.
    pub fn endpoint(&self) -> Result<(Sourced, Option<Sourced>)> {
        if let Some(server) = &self.server {
            let token = match &self.token {
                Some(token) => Some(token.clone()),
                // A stale file is no error when the server was named.
                None => match local::find() {
                    Ok(Some(file)) if file.address == server.value.trim_end_matches('/') => {
                        Some(read_token(&file.token_file)?)
                    }
                    _ => None,
                },
            };
            return Ok((server.clone(), token));
        }
        let Some(file) = local::find()? else {
            return Err(Problem::new(ErrorKind::Missing, "server.not_found", "no server is named and none runs here")
                .expected("a server")
                .fix("start one with `aegis serve`, or name one with `--server`, AEGIS_SERVER or a context"));
        };
        let source = local::server_file().map(|path| path.display().to_string()).unwrap_or_default();
        let token = match &self.token {
            // A context's token belongs to that context's server, not to this one.
            Some(token) if token.source.starts_with("flag") => token.clone(),
            _ => read_token(&file.token_file)?,
        };
        Ok((Sourced { value: file.address, source }, Some(token)))
    }

    pub fn client(&self) -> Result<Client> {
        let (server, token) = self.endpoint()?;
        self.client_for(server.value, token.map(|token| token.value))
    }

    pub fn client_for(&self, server: String, token: Option<String>) -> Result<Client> {
        if self.insecure {
            self.out.say("warning: the server's certificate is not verified");
        }
        let ca_pem = match &self.ca_cert {
            Some(path) => Some(read_file(path, "config.certificate_unreadable")?),
            None => None,
        };
        Client::new(Connection { server, token, timeout: self.timeout, ca_pem, insecure: self.insecure })
    }

    /// Asks before something that cannot be undone.
    ///
    /// # Errors
    /// `consent.needed` when nobody can be asked or the answer is no.
    pub fn confirm(&self, consent: &Consent, question: &str) -> Result<()> {
        if consent.yes {
            return Ok(());
        }
        let refused = |found: &str| {
            Problem::new(ErrorKind::Invalid, "consent.needed", format!("not done: {question}"))
                .found(found)
                .fix("confirm it with `--yes`")
        };
        if !self.interactive {
            return Err(refused("nobody to ask"));
        }
        let unanswered = |error: io::Error| refused(&error.to_string());
        write!(io::stderr(), "{question}? [y/N] ").and_then(|()| io::stderr().flush()).map_err(unanswered)?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer).map_err(unanswered)?;
        if matches!(answer.trim(), "y" | "Y" | "yes") { Ok(()) } else { Err(refused("the answer no")) }
    }
}

fn format(global: &Global, config: &Config) -> Result<Format> {
    let Some(text) = config.preference("output").filter(|_| global.output.is_none()) else {
        return Ok(global.output.unwrap_or_default());
    };
    Format::from_str(&text, false).map_err(|_| {
        Problem::new(ErrorKind::Invalid, "config.value_wrong", "there is no such output form")
            .place(format!("{}: preferences.output", config.path.display()))
            .found(format!("`{text}`"))
            .expected("table, json, ndjson or yaml")
    })
}

fn timeout(global: &Global, config: &Config) -> Result<u64> {
    let Some(text) = config.preference("request-timeout").filter(|_| global.request_timeout.is_none()) else {
        return Ok(global.request_timeout.unwrap_or(DEFAULT_TIMEOUT));
    };
    crate::duration::parse_positive(&text).map_err(|reason| {
        Problem::new(ErrorKind::Invalid, "config.value_wrong", reason)
            .place(format!("{}: preferences.request-timeout", config.path.display()))
    })
}

/// The token in a file, without white space around it.
pub fn read_token(path: &Path) -> Result<Sourced> {
    let bytes = read_file(path, "token.file_unreadable")?;
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    if text.is_empty() || text.contains(char::is_whitespace) {
        return Err(Problem::new(ErrorKind::Invalid, "token.file_malformed", "the file holds no token")
            .place(path.display().to_string())
            .expected("one line with the token"));
    }
    Ok(Sourced { value: text, source: path.display().to_string() })
}

/// A file that the user named.
pub fn read_file(path: &Path, code: &'static str) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| {
        Problem::new(ErrorKind::Missing, code, "the file cannot be read")
            .place(path.display().to_string())
            .found(error.to_string())
    })
}
