//! `settings`: what is live, who set it, and what stands between the store and the place where values are published.

use api::setting::{Change, ChangeQuery, Finding, Process, SetRequest, Setting, SettingQuery, Status, TreeKey};
use clap::Subcommand;
use client::Failure;
use model::{ErrorKind, Problem, counted};

use super::Done;
use crate::args::{Consent, Paging};
use crate::error::Exit;
use crate::output::{Column, Format};
use crate::session::Session;

/// Seconds that one question for changes waits at the server.
const WAIT: u32 = 15;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the declared keys with their live values
    #[command(visible_alias = "ls")]
    List {
        /// Beginning of the keys
        #[arg(long, value_name = "KEY")]
        prefix: Option<String>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show one key: its value, who set it, and its bounds
    Get { key: String },
    /// Set a key; every process applies it without a restart
    Set {
        key: String,
        #[arg(allow_hyphen_values = true)]
        value: String,
        /// Only if the value still has this revision
        #[arg(long, value_name = "N")]
        revision: Option<i64>,
    },
    /// Show the changes of a key, newest first
    History { key: String },
    /// Set a key to what it was after an earlier change
    Rollback {
        key: String,
        /// Revision of that change, from `settings history`
        #[arg(long, value_name = "N")]
        to: i64,
    },
    /// Print changes as they happen, until interrupted
    Watch {
        /// Beginning of the keys
        #[arg(long, value_name = "KEY")]
        prefix: Option<String>,
        /// Those after this revision instead of those from now on
        #[arg(long, value_name = "N")]
        after: Option<i64>,
        /// End after this many changes
        #[arg(long, value_name = "N")]
        count: Option<u64>,
    },
    /// Show which revision every process applies, and what was found where values are published
    Status,
    /// Show every key of a tree that this installation did not write, and take it over when confirmed
    Adopt {
        #[command(flatten)]
        consent: Consent,
    },
    /// Delete what stands where nothing reads it, as `settings status` and `doctor` list it
    Discard {
        /// Path below the prefix, or whole name outside of it; with a dot at its end, everything that begins so
        path: String,
        #[command(flatten)]
        consent: Consent,
    },
    /// Put back what every installation has, and every key that went missing where values are published
    Restore {
        #[command(flatten)]
        consent: Consent,
    },
}

const COLUMNS: &[Column<Setting>] = &[
    ("KEY", |s| s.key.clone()),
    ("VALUE", |s| s.value.clone()),
    ("OWNER", |s| s.owner.clone()),
    ("TYPE", |s| s.value_type.clone()),
    ("SCOPE", |s| s.scope.clone()),
    ("REVISION", |s| s.revision.map_or_else(|| "-".to_owned(), |revision| revision.to_string())),
];

const CHANGES: &[Column<Change>] = &[
    ("REVISION", |c| c.revision.to_string()),
    ("AT", |c| c.at.clone()),
    ("KEY", |c| c.key.clone()),
    ("VALUE", |c| c.value.clone().unwrap_or_else(|| "deleted".to_owned())),
    ("BEFORE", |c| c.previous.clone().unwrap_or_else(|| "-".to_owned())),
    ("OWNER", |c| c.owner.clone()),
    ("BY", |c| c.changed_by.clone()),
];

const PROCESSES: &[Column<Process>] = &[
    ("PROCESS", |p| format!("{} {}", p.host, p.pid)),
    ("ROLE", |p| p.role.clone()),
    ("APPLIES", |p| p.revision.to_string()),
    ("PUBLISHED", |p| p.source_revision.map_or_else(|| "-".to_owned(), |revision| revision.to_string())),
    ("SAID AT", |p| p.reported_at.clone()),
    ("PROBLEM", |p| p.problem.clone().unwrap_or_else(|| "-".to_owned())),
];

const FINDINGS: &[Column<Finding>] = &[
    ("CODE", |f| f.code.clone()),
    ("PLACE", |f| f.place.clone().unwrap_or_default()),
    ("WHAT", |f| match &f.found {
        Some(found) => format!("{}; found {found}", f.message),
        None => f.message.clone(),
    }),
    ("FIX", |f| f.fix.clone().unwrap_or_default()),
];

const TREE: &[Column<TreeKey>] = &[
    ("PATH", |k| k.path.clone()),
    ("LIVE", |k| k.live.clone().unwrap_or_else(|| "-".to_owned())),
    ("IN FORCE", |k| k.accepted.clone().unwrap_or_else(|| "-".to_owned())),
    ("WHAT HAPPENS", |k| k.effect.clone()),
];

pub fn run(command: Command, session: &Session) -> Done {
    let client = session.client()?;
    match command {
        Command::List { prefix, paging } => session.out.pages(&paging, COLUMNS, |query| {
            client.settings(&SettingQuery { prefix: prefix.clone(), page: query.page, size: query.size })
        })?,
        Command::Get { key } => show(session, &client.setting(&key)?)?,
        Command::Set { key, value, revision } => {
            show(session, &client.set_setting(&key, &SetRequest { value, revision })?)?;
        }
        Command::History { key } => session.out.items(&client.setting_history(&key)?, CHANGES)?,
        Command::Rollback { key, to } => show(session, &client.roll_back_setting(&key, to)?)?,
        Command::Watch { prefix, after, count } => return watch(session, prefix.as_deref(), after, count),
        Command::Status => status(session, &client.settings_status()?)?,
        Command::Adopt { consent } => return adopt(session, &consent),
        Command::Discard { path, consent } => {
            session.confirm(&consent, &format!("delete `{path}`, which nothing reads"))?;
            let gone = client.discard_settings(&path)?;
            session.out.record(&gone, || vec![("Deleted", gone.keys.join("\n"))])?;
        }
        Command::Restore { consent } => {
            session.confirm(&consent, "put back every key that went missing")?;
            let restored = client.restore_settings()?;
            session.out.record(&restored, || vec![("Restored", restored.keys.join("\n"))])?;
        }
    }
    Ok(Exit::Success)
}

fn show(session: &Session, setting: &Setting) -> Result<(), Failure> {
    session.out.record(setting, || {
        let number = |bound: Option<f64>| bound.map_or_else(|| "any".to_owned(), |bound| bound.to_string());
        let mut fields = vec![
            ("Key", setting.key.clone()),
            ("Value", setting.value.clone()),
            ("Owner", setting.owner.clone()),
            ("Type", format!("{}, scope {}", setting.value_type, setting.scope)),
            ("Default", setting.default.clone()),
        ];
        if let Some(seed) = &setting.seed {
            fields.push(("Seed", seed.clone()));
        }
        if setting.min.is_some() || setting.max.is_some() {
            fields.push(("Bounds", format!("{} to {}", number(setting.min), number(setting.max))));
        }
        if let Some(pattern) = &setting.pattern {
            fields.push(("Pattern", pattern.clone()));
        }
        if !setting.options.is_empty() {
            fields.push(("Options", setting.options.join(", ")));
        }
        if let Some(revision) = setting.revision {
            fields.push(("Revision", revision.to_string()));
        }
        fields.push(("Meaning", setting.description.clone()));
        fields
    })
}

fn status(session: &Session, status: &Status) -> Result<(), Failure> {
    session.out.record(status, || {
        let mut fields = vec![
            ("Published in", status.source.clone().unwrap_or_else(|| "nothing else: the store keeps them".to_owned())),
            ("Revision", status.revision.to_string()),
        ];
        if let Some(revision) = status.source_revision {
            fields.push(("Published revision", format!("{revision}, tree: {}", status.standing)));
        }
        if let Some(problem) = &status.problem {
            fields.push(("Problem", problem.clone()));
        }
        fields.push(("Findings", status.findings.len().to_string()));
        fields
    })?;
    if session.out.format != Format::Table {
        return Ok(());
    }
    session.out.write("\n")?;
    session.out.table(&status.processes, PROCESSES)?;
    if !status.findings.is_empty() {
        session.out.write("\n")?;
        session.out.table(&status.findings, FINDINGS)?;
    }
    Ok(())
}

fn adopt(session: &Session, consent: &Consent) -> Done {
    let client = session.client()?;
    let tree = client.settings_tree()?;
    if session.out.format == Format::Table {
        session.out.table(&tree.keys, TREE)?;
    }
    let other = tree.other.as_ref().map(|id| format!(", marked by installation {id}")).unwrap_or_default();
    session.out.say(format!(
        "{} of {}, at revision {}{other}",
        counted(tree.keys.len(), "key"),
        tree.source,
        tree.revision
    ));
    if tree.standing != "foreign" {
        let message = "there is nothing to adopt: this installation wrote these settings, or nobody did";
        return Err(Problem::new(ErrorKind::Conflict, "settings.nothing_to_adopt", message)
            .place(tree.source)
            .found(tree.standing)
            .into());
    }
    session.confirm(consent, &format!("adopt the settings of {}", tree.source))?;
    status(session, &client.adopt_settings(tree.revision)?)?;
    Ok(Exit::Success)
}

fn watch(session: &Session, prefix: Option<&str>, after: Option<i64>, count: Option<u64>) -> Done {
    let client = session.client()?;
    let mut after = match after {
        Some(after) => after,
        None => client.setting_changes(&ChangeQuery::default())?.revision,
    };
    session.out.say(format!("waiting for changes after revision {after}"));
    let mut left = count;
    loop {
        let found = client.setting_changes(&ChangeQuery { after: Some(after), wait: Some(WAIT) })?;
        after = found.revision;
        for change in found.changes.iter().filter(|change| change.key.starts_with(prefix.unwrap_or_default())) {
            if left == Some(0) {
                break;
            }
            print_change(session, change)?;
            left = left.map(|left| left - 1);
        }
        if left == Some(0) {
            return Ok(Exit::Success);
        }
    }
}

fn print_change(session: &Session, change: &Change) -> Result<(), Failure> {
    if session.out.format != Format::Table {
        return session.out.lines(std::slice::from_ref(change));
    }
    let value = change.value.as_deref().unwrap_or("deleted");
    let before = change.previous.as_deref().map(|before| format!(" (was {before})")).unwrap_or_default();
    session.out.write(&format!(
        "{} {} {} = {value}{before}, {} by {}\n",
        change.revision, change.at, change.key, change.owner, change.changed_by
    ))
}
