//! `auth`: who calls and with what; keys and passwords.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use api::auth::{Key, KeyRequest, LoginReply, PasswordRequest, User};
use clap::{Args, Subcommand, ValueEnum};
use model::{ErrorKind, Problem, Result};
use serde_json::json;

use super::Done;
use crate::args::Consent;
use crate::config::Config;
use crate::error::Exit;
use crate::output::{Column, or_dash};
use crate::session::{Session, read_token};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Prove who you are and store the token with the server's address in a context of the config file
    Login(Login),
    /// Show the server, the token's origin and the caller as the server knows it
    Status,
    /// Keys that programs sign their logins with
    #[command(subcommand)]
    Key(KeyCommand),
    /// Passwords that people log in with
    #[command(subcommand)]
    Password(PasswordCommand),
    /// People who log in with a password
    #[command(subcommand)]
    User(UserCommand),
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("proof").required(true).args(["token_file", "username", "key_id"]))]
pub struct Login {
    /// File with a token, one line
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Name of a user; the password is read from standard input
    #[arg(long, value_name = "NAME", requires = "password_stdin")]
    username: Option<String>,
    /// Read the password from standard input
    #[arg(long, requires = "username")]
    password_stdin: bool,
    /// Id of an API key; its secret is read from standard input
    #[arg(long, value_name = "ID", requires = "key_secret_stdin")]
    key_id: Option<String>,
    /// Read the key's secret from standard input
    #[arg(long, requires = "key_id")]
    key_secret_stdin: bool,
    /// Name of the context to store, which becomes the current one
    #[arg(long, value_name = "NAME", default_value = "default")]
    save_as: String,
}

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make a key; its secret is printed this once
    Create {
        /// What it is for
        #[arg(long, value_name = "TEXT")]
        name: String,
        /// What its bearer may do
        #[arg(long, value_enum)]
        role: Role,
        /// Days until it ends; never when absent
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3650))]
        days: Option<u32>,
    },
    /// List the keys, without their secrets
    #[command(visible_alias = "ls")]
    List,
    /// Make a key and every token that it gave invalid
    Revoke {
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        consent: Consent,
    },
}

#[derive(Debug, Subcommand)]
pub enum PasswordCommand {
    /// Set a user's password, read from standard input; makes the user where there is none
    Set {
        #[arg(value_name = "NAME")]
        name: String,
        /// What the user may do; a user who is there already keeps the role when absent
        #[arg(long, value_enum)]
        role: Option<Role>,
    },
}

#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// List the users
    #[command(visible_alias = "ls")]
    List,
}

/// What the bearer of a token may do.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Role {
    /// Read everything
    Viewer,
    /// And run algorithms, upload answers, set labels
    Author,
    /// And run, register and change everything
    Operator,
    /// And give keys and passwords to others
    Admin,
}

impl Role {
    fn text(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

const KEYS: &[Column<Key>] = &[
    ("ID", |key| key.key_id.clone()),
    ("NAME", |key| key.name.clone()),
    ("ROLE", |key| key.role.clone()),
    ("MADE-BY", |key| key.created_by.clone()),
    ("CREATED", |key| key.created_at.clone()),
    ("EXPIRES", |key| key.expires_at.clone().unwrap_or_else(|| "never".into())),
    ("LAST-USED", |key| or_dash(key.last_used_at.as_ref())),
    ("REVOKED", |key| or_dash(key.revoked_at.as_ref())),
];

const USERS: &[Column<User>] = &[
    ("ID", |user| user.id.to_string()),
    ("NAME", |user| user.username.clone()),
    ("ROLE", |user| user.role.clone()),
    ("CHANGED", |user| user.updated_at.clone()),
];

pub fn run(command: Command, session: &Session) -> Done {
    match command {
        Command::Login(arguments) => login(session, &arguments),
        Command::Status => status(session),
        Command::Key(command) => key(command, session),
        Command::Password(PasswordCommand::Set { name, role }) => {
            let password = secret_from_stdin("password")?;
            let request = PasswordRequest { password, role: role.map(Role::text) };
            let user = session.client()?.set_password(&name, &request)?;
            session.out.record(&user, || vec![("User", user.username.clone()), ("Role", user.role.clone())])?;
            Ok(Exit::Success)
        }
        Command::User(UserCommand::List) => {
            session.out.items(&session.client()?.users()?, USERS)?;
            Ok(Exit::Success)
        }
    }
}

fn key(command: KeyCommand, session: &Session) -> Done {
    let client = session.client()?;
    match command {
        KeyCommand::Create { name, role, days } => {
            let made = client.make_key(&KeyRequest { name, role: role.text(), days })?;
            session.out.record(&made, || {
                vec![
                    ("Key id", made.key.key_id.clone()),
                    ("Key secret", made.key_secret.clone()),
                    ("Role", made.key.role.clone()),
                    ("Expires", made.key.expires_at.clone().unwrap_or_else(|| "never".into())),
                ]
            })?;
            session.out.say("the secret is not shown again");
        }
        KeyCommand::List => session.out.items(&client.keys()?, KEYS)?,
        KeyCommand::Revoke { id, consent } => {
            session.confirm(&consent, &format!("revoke the key {id} and every token that it gave"))?;
            let key = client.revoke_key(&id)?;
            session
                .out
                .record(&key, || vec![("Key id", key.key_id.clone()), ("Revoked", or_dash(key.revoked_at.as_ref()))])?;
        }
    }
    Ok(Exit::Success)
}

/// The first line of standard input. A secret among the arguments would be seen by every process of the machine.
fn secret_from_stdin(what: &str) -> Result<String> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        eprintln!("type the {what} and press enter; it is shown as you type");
    }
    let mut line = String::new();
    let unreadable = |found: String| {
        Problem::new(ErrorKind::Invalid, "secret.not_given", format!("standard input gives no {what}"))
            .found(found)
            .expected("one line")
    };
    stdin.read_line(&mut line).map_err(|error| unreadable(error.to_string()))?;
    let secret = line.trim_end_matches(['\r', '\n']);
    if secret.is_empty() { Err(unreadable("nothing".into())) } else { Ok(secret.to_owned()) }
}

fn login(session: &Session, arguments: &Login) -> Done {
    let (server, _) = session.endpoint()?;
    let client = session.client_for(server.value.clone(), None)?;
    let mut extra: Vec<(&str, String)> = Vec::new();
    let (token, auth_type, ends) = match (&arguments.username, &arguments.key_id) {
        (Some(name), _) => {
            extra.push(("username", name.clone()));
            let LoginReply { token, expires_at, .. } = client.login(name, &secret_from_stdin("password")?)?;
            (token, "password", Some(expires_at))
        }
        (None, Some(id)) => {
            extra.push(("key-id", id.clone()));
            let reply = client.login_by_key(id, &secret_from_stdin("key's secret")?)?;
            (reply.token, "api-key", Some(reply.expires_at))
        }
        (None, None) => {
            let file = arguments.token_file.as_deref().expect("the parser asks for one of the three");
            (read_token(file)?.value, "token", None)
        }
    };
    let profile = session.client_for(server.value.clone(), Some(token.clone()))?.profile()?;
    extra.extend(ends.iter().map(|at| ("token-expiry", at.clone())));
    let mut entries = vec![("server", server.value.as_str()), ("token", token.as_str()), ("auth-type", auth_type)];
    entries.extend(extra.iter().map(|(key, value)| (*key, value.as_str())));
    // Read afresh, so that what another login stored meanwhile is not lost.
    let mut config = Config::read()?;
    config.store_context(&arguments.save_as, &entries)?;
    let answer = json!({
        "context": arguments.save_as, "server": server.value, "auth_type": auth_type, "username": profile.username,
        "role": profile.role, "expires_at": profile.expires_at,
    });
    session.out.record(&answer, || {
        vec![
            ("Context", arguments.save_as.clone()),
            ("Server", server.value.clone()),
            ("User", format!("{} ({})", profile.username, profile.role)),
            ("Expires", profile.expires_at.clone().unwrap_or_else(|| "never".into())),
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
            .fix("log in with `aegisctl auth login`, or set AEGIS_TOKEN")
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
