//! `seed`: checking a seed, planning what it changes, applying it, and proving that it is live.

mod show;
pub mod source;

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use api::seed::{ApplyReply, ApplyRequest, Consents, PlanRequest, Proof, SeedQuery, SeedRevision};
use clap::{Args, Subcommand};
use client::{Client, Failure};
use model::{ErrorKind, Problem, counted};
use seed::{Plan, Seed};
use serde_json::json;

use self::source::{Source, environment_folder};
use super::Done;
use crate::args::Consent;
use crate::error::Exit;
use crate::output::{Column, Format, Output, or_dash};
use crate::session::Session;

/// How often an unfinished proof is looked at again.
const AGAIN: Duration = Duration::from_millis(500);

/// Which seed.
#[derive(Debug, Clone, Args)]
pub struct From {
    /// Folder of environments, folder of one environment, or its data.yaml
    #[arg(value_name = "PATH")]
    pub seed: PathBuf,
    /// Environment folder below the seed; may be left out when there is only one
    #[arg(long, value_name = "NAME")]
    pub env: Option<String>,
}

/// What is agreed to.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Agreed {
    /// Remove what the seed no longer has; versions are retired
    #[arg(long)]
    pub prune: bool,
    /// Replace values that an operator set at run time
    #[arg(long)]
    pub overwrite_operator: bool,
    /// Put back what was changed by another way than a seed
    #[arg(long)]
    pub revert_drift: bool,
}

#[derive(Debug, Clone, Default, Args)]
pub struct ProofArguments {
    /// Only what belongs to this system
    #[arg(long, value_name = "CODE")]
    pub system: Option<String>,
    /// Only objects and values whose name holds this text
    #[arg(long, value_name = "TEXT")]
    pub key: Option<String>,
    /// Wait until every hop is the seed's
    #[arg(long)]
    pub wait: bool,
    /// Longest time to wait, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = crate::duration::parse_positive)]
    pub timeout: u64,
    /// Remove releases that hold old values, under the leases of their slots; never one that a run holds
    #[arg(long)]
    pub restart_slots: bool,
}

#[derive(Debug, Args)]
pub struct ApplyArguments {
    /// Folder of environments, folder of one environment, or its data.yaml
    #[arg(value_name = "PATH", required_unless_present = "revision", conflicts_with = "revision")]
    pub seed: Option<PathBuf>,
    /// Environment folder below the seed; may be left out when there is only one
    #[arg(long, value_name = "NAME", requires = "seed")]
    pub env: Option<String>,
    /// Apply the seed of an earlier revision again
    #[arg(long, value_name = "N")]
    pub revision: Option<i32>,
    /// Hash of the plan that was looked at; anything else is refused
    #[arg(long, value_name = "HASH")]
    pub plan: Option<String>,
    #[command(flatten)]
    pub agreed: Agreed,
    #[command(flatten)]
    pub proof: ProofArguments,
    #[command(flatten)]
    pub consent: Consent,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check a seed; needs no server
    Lint(From),
    /// Show what a seed would change; exits 5 when there is something
    Plan {
        #[command(flatten)]
        from: From,
        /// Only what belongs to this system
        #[arg(long, value_name = "CODE")]
        system: Option<String>,
        /// Compare with the seed in this folder instead of the installation; needs no server
        #[arg(long, value_name = "PATH")]
        against: Option<PathBuf>,
        /// Ask the repositories of the seed's charts whether these are published at their exact versions
        #[arg(long, conflicts_with = "against")]
        charts: bool,
    },
    /// Bring the installation to a seed and prove that it is live
    Apply(Box<ApplyArguments>),
    /// What differs from the seed that was applied last; changes nothing, exits 5 when there is something
    Drift {
        /// Only what belongs to this system
        #[arg(long, value_name = "CODE")]
        system: Option<String>,
    },
    /// What the folder that the server watches would still change; exits 5 when there is something
    Watched,
    /// How far each value of the applied seed has come; exits 5 while something is old
    Proof(ProofArguments),
    /// Seeds that were applied, newest first
    History,
    /// Show one revision: where it came from and what it changed
    Show {
        /// Number of the revision
        revision: i32,
    },
    /// Write the installation as a seed
    Export {
        /// Folder for the files; it must be empty or not there
        folder: PathBuf,
    },
}

const REVISIONS: &[Column<SeedRevision>] = &[
    ("REVISION", |r| r.id.to_string()),
    ("ENV", |r| r.env.clone()),
    ("SYSTEM", |r| or_dash(r.system.as_ref())),
    ("STATE", |r| r.state.clone()),
    ("CHANGES", |r| r.changes.to_string()),
    ("COMMIT", commit),
    ("BY", |r| r.by.clone()),
    ("STARTED", |r| r.started_at.clone()),
    ("DIGEST", |r| r.digest.chars().take(12).collect()),
];

fn commit(revision: &SeedRevision) -> String {
    let Some(commit) = &revision.commit else { return "-".to_owned() };
    let short: String = commit.id.chars().take(12).collect();
    if commit.dirty { format!("{short} and changes") } else { short }
}

/// The commands that need no server.
pub fn offline(command: &Command, out: &Output) -> Option<Done> {
    match command {
        Command::Lint(from) => Some(lint(from, out)),
        Command::Plan { from, system, against: Some(against), .. } => {
            Some(compare(from, against, system.as_deref(), out))
        }
        _ => None,
    }
}

pub fn run(command: Command, session: &Session) -> Done {
    if let Some(done) = offline(&command, &session.out) {
        return done;
    }
    match command {
        Command::Lint(_) => unreachable!("it is done without a session"),
        Command::Plan { from, system, charts, .. } => plan(&from, system, charts, session),
        Command::Apply(arguments) => apply(*arguments, session),
        Command::Drift { system } => drift(system, session),
        Command::Watched => watched(session),
        Command::Proof(arguments) => prove(&arguments, session),
        Command::History => {
            let client = session.client()?;
            session.out.items(&client.seed_history()?, REVISIONS)?;
            Ok(Exit::Success)
        }
        Command::Show { revision } => show_revision(revision, session),
        Command::Export { folder } => export(&folder, session),
    }
}

fn lint(from: &From, out: &Output) -> Done {
    let folder = environment_folder(&from.seed, from.env.as_deref())?;
    let findings = match Seed::load(&folder) {
        Ok(seed) => seed.lint(),
        Err(findings) => findings.into_vec(),
    };
    show::findings(&findings, out)?;
    let errors = findings.iter().filter(|finding| finding.severity == seed::Severity::Error).count();
    let warnings = counted(findings.len() - errors, "warning");
    out.say(format!("{}: {}, {warnings}", folder.display(), counted(errors, "error")));
    if errors == 0 {
        return Ok(Exit::Success);
    }
    let missing = findings.iter().all(|finding| Problem::from(finding.clone()).kind == ErrorKind::Missing);
    Ok(if missing { Exit::Missing } else { Exit::Invalid })
}

/// Reads a seed and refuses one with errors here, where every one of them can be told with its place.
fn checked(path: &Path, env: Option<&str>, out: &Output) -> Result<(Source, Seed), Failure> {
    let folder = environment_folder(path, env)?;
    let refuse = |findings: seed::Findings| {
        if out.format == Format::Table {
            findings.iter().for_each(|finding| out.say(finding.to_string()));
        }
        Failure::from(Problem::from(findings))
    };
    let seed = Seed::load(&folder).map_err(refuse)?;
    seed.check().map_err(refuse)?;
    Ok((Source::read(path, env)?, seed))
}

fn compare(from: &From, against: &Path, system: Option<&str>, out: &Output) -> Done {
    let (_, new) = checked(&from.seed, from.env.as_deref(), out)?;
    // The environment's name counts for both where both have such folders.
    let env = from.env.as_deref().filter(|env| against.join(env).is_dir());
    let (_, old) = checked(against, env, out)?;
    let state = |seed: &Seed| -> Result<seed::State, Failure> {
        let state = seed.check().map_err(Problem::from)?.state(seed);
        Ok(match system {
            Some(code) => state.of_system(code),
            None => state,
        })
    };
    let (old, new) = (state(&old)?, state(&new)?);
    let plan = Plan::of(&old, &new, &old);
    show::plan(&plan, &json!({"plan": plan}), out)?;
    Ok(different(plan.is_same()))
}

fn different(same: bool) -> Exit {
    if same { Exit::Success } else { Exit::WorkflowFailed }
}

fn plan(from: &From, system: Option<String>, charts: bool, session: &Session) -> Done {
    let (source, _) = checked(&from.seed, from.env.as_deref(), &session.out)?;
    let (client, request) = (session.client()?, PlanRequest { env: source.env, files: source.files, system });
    let mut reply = client.seed_plan(&request)?;
    if charts {
        reply.charts = client.seed_charts(&request)?;
    }
    for warning in &reply.warnings {
        session.out.say(format!("warning: {warning}"));
    }
    show::plan(&reply.plan, &reply, &session.out)?;
    if session.out.format == Format::Table {
        session.out.write(&show::charts_text(&reply.charts))?;
    }
    Ok(different(reply.plan.is_same()))
}

fn apply(arguments: ApplyArguments, session: &Session) -> Done {
    let client = session.client()?;
    let Agreed { prune, overwrite_operator, revert_drift } = arguments.agreed;
    let mut request = ApplyRequest {
        revision: arguments.revision,
        system: arguments.proof.system.clone(),
        plan: arguments.plan.clone(),
        consents: Consents { prune, overwrite_operator, revert_drift },
        ..ApplyRequest::default()
    };
    if let Some(seed) = &arguments.seed {
        let (source, _) = checked(seed, arguments.env.as_deref(), &session.out)?;
        request.commit = source.commit();
        (request.env, request.files) = (source.env, source.files);
    }
    if request.plan.is_none() && !arguments.consent.yes && request.revision.is_none() {
        let planned =
            PlanRequest { env: request.env.clone(), files: request.files.clone(), system: request.system.clone() };
        let reply = client.seed_plan(&planned)?;
        if session.out.format == Format::Table {
            session.out.say(show::plan_text(&reply.plan));
        }
        if reply.plan.accepted(request.consents).next().is_some() {
            session.confirm(&arguments.consent, "apply this plan")?;
        }
        request.plan = Some(reply.plan.hash);
    } else if !arguments.consent.yes && request.plan.is_none() {
        session.confirm(&arguments.consent, "apply this revision")?;
    }
    let reply = client.seed_apply(&request)?;
    finish(&reply, &arguments.proof, session, &client)
}

/// Tells what was applied, replaces old releases if that is asked for, and ends with the proof.
pub fn finish(reply: &ApplyReply, arguments: &ProofArguments, session: &Session, client: &Client) -> Done {
    for warning in &reply.warnings {
        session.out.say(format!("warning: {warning}"));
    }
    if arguments.restart_slots {
        restart(arguments, session, client)?;
    }
    let proof = proof_of(arguments, session, client)?;
    if session.out.format == Format::Table {
        session.out.write(&show::applied_text(reply))?;
        session.out.write(&show::proof_text(&proof, false))?;
    } else {
        session.out.document(&json!({"apply": reply, "proof": proof}))?;
    }
    let waits = arguments.wait && !proof.complete;
    Ok(if waits { Exit::WorkflowFailed } else { Exit::Success })
}

fn restart(arguments: &ProofArguments, session: &Session, client: &Client) -> Result<(), Failure> {
    let reply = client.seed_restart_slots(&SeedQuery { system: arguments.system.clone(), key: None })?;
    for namespace in &reply.removed {
        session.out.say(format!("{namespace}: the old release is removed; the next run installs the new one"));
    }
    for held in &reply.held {
        session.out.say(format!("left as it is: {held}"));
    }
    Ok(())
}

fn proof_of(arguments: &ProofArguments, session: &Session, client: &Client) -> Result<Proof, Failure> {
    let query = SeedQuery { system: arguments.system.clone(), key: arguments.key.clone() };
    let deadline = Instant::now() + Duration::from_secs(arguments.timeout);
    loop {
        let proof = client.seed_proof(&query)?;
        if proof.complete || !arguments.wait {
            return Ok(proof);
        }
        if Instant::now() + AGAIN > deadline {
            let old = proof.lines.iter().filter(|line| line.first_difference.is_some()).count();
            session.out.say(format!("not within {} s: {} still old", arguments.timeout, counted(old, "value")));
            return Ok(proof);
        }
        sleep(AGAIN);
    }
}

fn drift(system: Option<String>, session: &Session) -> Done {
    let reply = session.client()?.seed_drift(&SeedQuery { system, key: None })?;
    if session.out.format == Format::Table {
        session.out.write(&show::changes_text(&reply.drift))?;
        session.out.say(counted(reply.drift.len(), "difference"));
    } else if session.out.format == Format::Ndjson {
        session.out.lines(&reply.drift)?;
    } else {
        session.out.document(&reply)?;
    }
    Ok(different(reply.drift.is_empty()))
}

fn watched(session: &Session) -> Done {
    let seen = session.client()?.seed_watched()?;
    let changes = seen.changes.as_deref();
    match session.out.format {
        Format::Table => {
            session.out.write(&changes.map_or_else(|| "not known\n".to_owned(), show::changes_text))?;
            let (folder, auto) = (&seen.folder, seen.auto.as_str());
            session.out.say(format!("{folder} ({auto}), read {}", seen.read_at));
            if let Some(revision) = seen.applied {
                session.out.say(format!("revision {revision} applied the rest"));
            }
        }
        Format::Ndjson => session.out.lines(&[&seen])?,
        Format::Json | Format::Yaml => session.out.document(&seen)?,
    }
    if let Some(problem) = &seen.problem {
        session.out.say(problem);
    }
    Ok(different(changes.is_some_and(<[_]>::is_empty) && seen.problem.is_none()))
}

fn prove(arguments: &ProofArguments, session: &Session) -> Done {
    let client = session.client()?;
    if arguments.restart_slots {
        restart(arguments, session, &client)?;
    }
    let proof = proof_of(arguments, session, &client)?;
    match session.out.format {
        Format::Table => session.out.write(&show::proof_text(&proof, true))?,
        Format::Ndjson => session.out.lines(&proof.lines)?,
        Format::Json | Format::Yaml => session.out.document(&proof)?,
    }
    Ok(different(proof.complete))
}

fn show_revision(number: i32, session: &Session) -> Done {
    let detail = session.client()?.seed_revision(number)?;
    session.out.record(&detail, || {
        let revision = &detail.revision;
        vec![
            ("Revision", revision.id.to_string()),
            ("Environment", revision.env.clone()),
            ("System", or_dash(revision.system.as_ref())),
            ("State", revision.state.clone()),
            ("Digest", revision.digest.clone()),
            ("Commit", commit(revision)),
            ("By", revision.by.clone()),
            ("Started", revision.started_at.clone()),
            ("Ended", or_dash(revision.ended_at.as_ref())),
        ]
    })?;
    if session.out.format == Format::Table {
        session.out.write("\n")?;
        session.out.write(&show::changes_text(&detail.applied))?;
    }
    Ok(Exit::Success)
}

fn export(folder: &Path, session: &Session) -> Done {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let failed = |place: &Path, error: std::io::Error| {
        Problem::new(ErrorKind::Missing, "export.not_written", "the seed cannot be written")
            .place(place.display().to_string())
            .found(error.to_string())
    };
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    if std::fs::read_dir(folder).map_err(|error| failed(folder, error))?.next().is_some() {
        return Err(Problem::new(ErrorKind::Conflict, "export.folder_not_empty", "the folder has files in it")
            .place(folder.display().to_string())
            .expected("a folder that is empty or not there")
            .into());
    }
    let reply = session.client()?.seed_export()?;
    for (name, text) in &reply.files {
        let path = folder.join(name);
        // A seed may hold secrets.
        let file = std::fs::File::options().write(true).create_new(true).mode(0o600).open(&path);
        let mut file = file.map_err(|error| failed(&path, error))?;
        file.write_all(text.as_bytes()).map_err(|error| failed(&path, error))?;
    }
    let names: Vec<&String> = reply.files.keys().collect();
    session.out.record(&json!({"folder": folder, "files": names}), || {
        let names: Vec<&str> = reply.files.keys().map(String::as_str).collect();
        vec![("Folder", folder.display().to_string()), ("Files", names.join(", "))]
    })?;
    Ok(Exit::Success)
}
