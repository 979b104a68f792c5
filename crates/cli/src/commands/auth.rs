//! `auth`: who calls, and with which token.

use std::path::PathBuf;

use clap::Subcommand;
use model::{ErrorKind, Problem};
use serde_json::json;

use super::Done;
use crate::config::Config;
use crate::error::Exit;
use crate::output::or_dash;
use crate::session::{Session, read_token};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check a token and store it with the server's address in a context of the config file
    Login {
        /// File with the token, one line
        #[arg(long, value_name = "FILE")]
        token_file: PathBuf,
        /// Name of the context to store, which becomes the current one
        #[arg(long, value_name = "NAME", default_value = "default")]
        save_as: String,
    },
    /// Show the server, the token's origin and the caller as the server knows it
    Status,
}

pub fn run(command: Command, session: &Session) -> Done {
    match command {
        Command::Login { token_file, save_as } => login(session, &token_file, &save_as),
        Command::Status => status(session),
    }
}

fn login(session: &Session, token_file: &std::path::Path, name: &str) -> Done {
    let token = read_token(token_file)?.value;
    let (server, _) = session.endpoint()?;
    let profile = session.client_for(server.value.clone(), Some(token.clone()))?.profile()?;
    // Read afresh, so that what another login stored meanwhile is not lost.
    let mut config = Config::read()?;
    config.store_context(name, &[("server", &server.value), ("token", &token), ("auth-type", "token")])?;
    let answer = json!({
        "context": name, "server": server.value, "auth_type": "token", "username": profile.username,
        "expires_at": profile.expires_at,
    });
    session.out.record(&answer, || {
        vec![
            ("Context", name.to_owned()),
            ("Server", server.value.clone()),
            ("User", profile.username.clone()),
            ("Stored in", config.path.display().to_string()),
        ]
    })?;
    Ok(Exit::Success)
}

fn status(session: &Session) -> Done {
    let (server, token) = session.endpoint()?;
    let Some(token) = token else {
        return Err(Problem::new(ErrorKind::Unauthenticated, "token.not_found", "there is no token for this server")
            .place(server.value)
            .fix("log in with `aegisctl auth login --token-file FILE`, or set AEGIS_TOKEN")
            .into());
    };
    let profile = session.client_for(server.value.clone(), Some(token.value))?.profile()?;
    let answer = json!({
        "context": session.context, "server": server.value, "server_from": server.source, "token_from": token.source,
        "status": "valid", "username": profile.username, "role": profile.role, "expires_at": profile.expires_at,
    });
    session.out.record(&answer, || {
        vec![
            ("Context", or_dash(session.context.as_ref())),
            ("Server", format!("{} (from {})", server.value, server.source)),
            ("Token", format!("valid (from {})", token.source)),
            ("User", format!("{} ({})", profile.username, profile.role)),
            ("Expires", profile.expires_at.clone().unwrap_or_else(|| "never".into())),
        ]
    })?;
    Ok(Exit::Success)
}
