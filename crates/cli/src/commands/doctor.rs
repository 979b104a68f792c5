//! `doctor`: the checks of this machine, then those of the server. What cannot be checked is listed with the reason.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command as Program;

use api::doctor::{Check, CheckState, ROWS, Repair, Report, Row, row};
use clap::{Args, Subcommand};
use client::Failure;
use model::{ErrorKind, Problem};

use super::Done;
use crate::args::Consent;
use crate::error::Exit;
use crate::output::{Column, Format, Output};
use crate::session::Session;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Option<Command>,
    /// List the checks and run none
    #[arg(long)]
    list: bool,
    /// Run only this check; may be repeated
    #[arg(long, value_name = "ID")]
    only: Vec<String>,
    /// Run the fixes that are commands of ours, then check again; those that take something away only with `--yes`
    #[arg(long, conflicts_with = "list")]
    fix: bool,
    #[command(flatten)]
    consent: Consent,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say which check is about a message or a description
    Explain {
        /// What was read somewhere, such as an error message
        text: String,
    },
}

const COLUMNS: &[Column<Check>] = &[
    ("CHECK", |check| check.id.clone()),
    ("STATE", |check| check.state.as_str().to_owned()),
    ("OBSERVED", |check| check.observed.clone()),
    ("FIX", |check| check.fix.clone().unwrap_or_default()),
];

const LISTED: &[Column<&Row>] = &[
    ("CHECK", |row| row.id.to_owned()),
    ("LAYER", |row| row.layer.to_owned()),
    ("SEVERITY", |row| severity(row).to_owned()),
    ("SYMPTOMS", |row| row.symptoms.iter().map(u8::to_string).collect::<Vec<_>>().join(", ")),
    ("WHY", |row| row.why.to_owned()),
];

fn severity(row: &Row) -> &'static str {
    if row.is_error { "error" } else { "warning" }
}

/// # Errors
/// `doctor.text_unknown` when nothing known is in the text.
pub fn explain(command: &Command, out: &Output) -> Done {
    let Command::Explain { text } = command;
    let rows = api::doctor::explain(text);
    if rows.is_empty() {
        let message = "no check is about this text";
        return Err(Problem::new(ErrorKind::NotFound, "doctor.text_unknown", message)
            .found(format!("`{text}`"))
            .fix("run every check: `aegisctl doctor`")
            .into());
    }
    print_rows(&rows, out)?;
    Ok(Exit::Success)
}

fn print_rows(rows: &[&'static Row], out: &Output) -> Result<(), Failure> {
    match out.format {
        Format::Table => out.table(rows, LISTED),
        Format::Ndjson => out.lines(&rows.iter().map(|row| listed(row)).collect::<Vec<_>>()),
        Format::Json | Format::Yaml => out.document(&rows.iter().map(|row| listed(row)).collect::<Vec<_>>()),
    }
}

fn listed(row: &Row) -> serde_json::Value {
    serde_json::json!({
        "id": row.id, "layer": row.layer, "severity": severity(row), "symptoms": row.symptoms, "why": row.why,
        "after": row.after, "command": format!("aegisctl doctor --only {}", row.id),
    })
}

pub fn run(arguments: &Arguments, session: &Session) -> Done {
    let known = || ROWS.iter().map(|row| row.id);
    if let Some(unknown) = arguments.only.iter().find(|id| !known().any(|known| known == **id)) {
        return Err(Problem::unknown("doctor.check_unknown", "check", unknown, known()).into());
    }
    let is_meant = |id: &str| arguments.only.is_empty() || arguments.only.iter().any(|only| only == id);
    if arguments.list {
        let rows: Vec<&Row> = ROWS.iter().filter(|row| is_meant(row.id)).collect();
        print_rows(&rows, &session.out)?;
        return Ok(Exit::Success);
    }
    let examine = || {
        let mut checks = examine(session);
        checks.retain(|check| is_meant(&check.id));
        checks
    };
    let mut checks = examine();
    if arguments.fix {
        for check in checks.iter().filter(|check| check.fix.is_some()) {
            put_right(check, arguments.consent.yes, session);
        }
        checks = examine();
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

/// Runs a fix when it is a command of ours and may be run, and says what was done about it.
fn put_right(check: &Check, consents: bool, session: &Session) {
    let (Some(fix), Some(repair)) = (&check.fix, check.repair) else { return };
    let left = |why: &str| session.out.say(format!("{}: left as it is, {why}: {fix}", check.id));
    match repair {
        Repair::Person => return left("for a person"),
        Repair::Consent if !consents => return left("for it needs `--yes`"),
        Repair::Safe | Repair::Consent => {}
    }
    for command in fix.split(" && ") {
        let Some(words) = shlex::split(command) else { return left("for its quotes cannot be read") };
        let Some((name, arguments)) = words.split_first().filter(|(name, _)| *name == "aegisctl") else {
            return left("for it is no command of ours");
        };
        session.out.say(format!("{}: {command}", check.id));
        match ours(arguments, session) {
            Ok(()) => {}
            Err(why) => return session.out.say(format!("{}: {name} failed: {why}", check.id)),
        }
    }
}

/// This program itself, on the same server.
fn ours(arguments: &[String], session: &Session) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let (server, token) = session.endpoint().map_err(|problem| problem.to_string())?;
    let mut command = Program::new(program);
    command.args(arguments).args(["--non-interactive", "--output", "json"]).env("AEGIS_SERVER", server.value);
    if let Some(token) = token {
        command.env("AEGIS_TOKEN", token.value);
    }
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let told = String::from_utf8_lossy(&output.stderr);
    Err(told.lines().last().unwrap_or("it said nothing").to_owned())
}

fn examine(session: &Session) -> Vec<Check> {
    let mut checks = vec![config_private(session)];
    checks.extend(server_checks(session));
    checks
}

fn config_private(session: &Session) -> Check {
    let path = &session.config.path;
    let mode = fs::metadata(path).ok().map(|metadata| metadata.permissions().mode() & 0o777);
    let observed = match mode {
        None => "there is no config file".to_owned(),
        Some(mode) => format!("mode {mode:04o}"),
    };
    let open = mode.is_some_and(|mode| mode & 0o077 != 0);
    let state = if open { CheckState::Warning } else { CheckState::Ok };
    check("client.config_private", state, observed, open.then(|| format!("chmod 600 {}", path.display())))
}

fn server_checks(session: &Session) -> Vec<Check> {
    let client = match session.client() {
        Ok(client) => client,
        Err(problem) => {
            // No server at all is how a fresh machine looks; one that was named and is wrong is a failure.
            let none = problem.kind == ErrorKind::Missing && problem.code == "server.not_found";
            let state = if none { CheckState::Skipped } else { CheckState::Failed };
            return unreachable(check("server.reachable", state, problem.message, problem.fix));
        }
    };
    let health = match client.health() {
        Ok(health) => health,
        Err(failure) => return unreachable(failed("server.reachable", &failure)),
    };
    let observed = format!("{} is {}", client.server(), health.status);
    let mut checks = vec![check("server.reachable", CheckState::Ok, observed, None)];
    checks.push(match client.settings_status() {
        Ok(status) => builds(&health.version, &status.processes),
        Err(failure) => failed("builds.same", &failure),
    });
    match client.doctor() {
        Ok(report) => checks.extend(report.checks),
        Err(failure) => checks.push(failed("store.reachable", &failure)),
    }
    checks
}

/// This program, the server that answers, and every process that works on the same store.
fn builds(server: &str, processes: &[api::setting::Process]) -> Check {
    let ours = env!("CARGO_PKG_VERSION");
    let mut others = vec![(format!("server {server}"), server == ours)];
    for process in processes.iter().filter(|process| !process.build.is_empty() && process.build != server) {
        let name = format!("process {} on {} {}", process.pid, process.host, process.build);
        others.push((name, process.build == ours));
    }
    let same = others.iter().all(|(_, same)| *same);
    let names: Vec<String> = others.into_iter().map(|(name, _)| name).collect();
    let state = if same { CheckState::Ok } else { CheckState::Warning };
    let fix = (!same).then(|| "install the same version of all".to_owned());
    check("builds.same", state, format!("client {ours}, {}", names.join(", ")), fix)
}

/// The other checks need a server.
fn unreachable(first: Check) -> Vec<Check> {
    let rest = ROWS.iter().filter(|row| !matches!(row.id, "client.config_private" | "server.reachable"));
    let skipped = rest.map(|row| check(row.id, CheckState::Skipped, "skipped, because server.reachable".into(), None));
    std::iter::once(first).chain(skipped).collect()
}

fn check(id: &str, state: CheckState, observed: String, fix: Option<String>) -> Check {
    let row = row(id).expect("the checks of this program are in the table");
    Check {
        id: id.into(),
        severity: severity(row).into(),
        state,
        observed,
        why: row.why.into(),
        repair: fix.as_ref().map(|_| Repair::Person),
        fix,
        symptoms: row.symptoms.to_vec(),
    }
}

fn failed(id: &str, failure: &Failure) -> Check {
    check(id, CheckState::Failed, failure.problem.message.clone(), failure.problem.fix.clone())
}
