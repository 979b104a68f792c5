//! `doctor`: the checks of this machine, then those of the server. What cannot be checked is listed with the reason.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use api::doctor::{Check, CheckState, Report};
use clap::Args;
use client::Failure;
use model::{ErrorKind, Problem};

use super::Done;
use crate::error::Exit;
use crate::output::{Column, Format};
use crate::session::Session;

#[derive(Debug, Args)]
pub struct Arguments {
    /// List the checks and run none
    #[arg(long)]
    list: bool,
    /// Run only this check; may be repeated
    #[arg(long, value_name = "ID")]
    only: Vec<String>,
}

const COLUMNS: &[Column<Check>] = &[
    ("CHECK", |check| check.id.clone()),
    ("STATE", |check| check.state.as_str().to_owned()),
    ("OBSERVED", |check| check.observed.clone()),
    ("FIX", |check| check.fix.clone().unwrap_or_default()),
];

const LISTED: &[Column<Check>] = &[
    ("CHECK", |check| check.id.clone()),
    ("SEVERITY", |check| check.severity.clone()),
    ("WHY", |check| check.why.clone()),
];

pub fn run(arguments: &Arguments, session: &Session) -> Done {
    let mut checks = local_checks(session);
    checks.extend(server_checks(session));
    if let Some(unknown) = arguments.only.iter().find(|id| !checks.iter().any(|check| check.id == **id)) {
        let known = checks.iter().map(|check| check.id.as_str());
        return Err(Problem::unknown("doctor.check_unknown", "check", unknown, known).into());
    }
    checks.retain(|check| arguments.only.is_empty() || arguments.only.contains(&check.id));
    if arguments.list {
        session.out.items(&checks, LISTED)?;
        return Ok(Exit::Success);
    }
    let failed = checks.iter().any(|check| check.state == CheckState::Failed);
    let report = Report { ok: !failed, checks };
    match session.out.format {
        Format::Table => session.out.table(&report.checks, COLUMNS)?,
        Format::Ndjson => session.out.lines(&report.checks)?,
        Format::Json | Format::Yaml => session.out.document(&report)?,
    }
    Ok(if failed { Exit::Missing } else { Exit::Success })
}

fn local_checks(session: &Session) -> Vec<Check> {
    let path = &session.config.path;
    let mode = fs::metadata(path).ok().map(|metadata| metadata.permissions().mode() & 0o777);
    let observed = match mode {
        None => "there is no config file".to_owned(),
        Some(mode) => format!("mode {mode:04o}"),
    };
    let open = mode.is_some_and(|mode| mode & 0o077 != 0);
    vec![Check {
        id: "client.config_private".into(),
        severity: "warning".into(),
        state: if open { CheckState::Warning } else { CheckState::Ok },
        observed,
        why: "the config file holds tokens that others on this machine could read".into(),
        fix: open.then(|| format!("chmod 600 {}", path.display())),
    }]
}

const REACHABLE: (&str, &str) = ("server.reachable", "without a server nothing can be run or looked at");
const VERSION: (&str, &str) =
    ("server.same_version", "a client and a server of different builds may misunderstand each other");

fn server_checks(session: &Session) -> Vec<Check> {
    let client = match session.client() {
        Ok(client) => client,
        Err(problem) => {
            // No server at all is how a fresh machine looks; one that was named and is wrong is a failure.
            let none = problem.kind == ErrorKind::Missing && problem.code == "server.not_found";
            let state = if none { CheckState::Skipped } else { CheckState::Failed };
            return vec![check(REACHABLE, state, problem.message, problem.fix), skipped(VERSION)];
        }
    };
    let health = match client.health() {
        Ok(health) => health,
        Err(failure) => return vec![failed(REACHABLE, &failure), skipped(VERSION)],
    };
    let ours = env!("CARGO_PKG_VERSION");
    let reachable = check(REACHABLE, CheckState::Ok, format!("{} is {}", client.server(), health.status), None);
    let (state, fix) = if health.version == ours {
        (CheckState::Ok, None)
    } else {
        (CheckState::Warning, Some("install the same version of both".to_owned()))
    };
    let version = check(VERSION, state, format!("client {ours}, server {}", health.version), fix);
    let mut checks = vec![reachable, version];
    match client.doctor() {
        Ok(report) => checks.extend(report.checks),
        Err(failure) => checks.push(failed(("server.checks", "the server's own checks cannot be read"), &failure)),
    }
    checks
}

fn check((id, why): (&str, &str), state: CheckState, observed: String, fix: Option<String>) -> Check {
    Check { id: id.into(), severity: "error".into(), state, observed, why: why.into(), fix }
}

fn failed(about: (&str, &str), failure: &Failure) -> Check {
    check(about, CheckState::Failed, failure.problem.message.clone(), failure.problem.fix.clone())
}

fn skipped(about: (&str, &str)) -> Check {
    check(about, CheckState::Skipped, "no server to ask".into(), None)
}
