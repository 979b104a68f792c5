//! `system reseed`: the seed engine under the name and with the report that operators know.

use std::path::PathBuf;

use api::seed::{ApplyReply, ApplyRequest, Change, ChangeKind, Consents, PlanRequest};
use clap::Args;
use serde_json::{Value, json};

use crate::commands::Done;
use crate::commands::seed::source::Source;
use crate::error::Exit;
use crate::output::{Format, or_dash};
use crate::session::Session;

#[derive(Debug, Args)]
pub struct Arguments {
    /// Folder of environments, folder of one environment, or its data.yaml
    #[arg(long, value_name = "PATH")]
    from_seed: PathBuf,
    /// Environment folder below the seed; may be left out when there is only one
    #[arg(long, value_name = "NAME")]
    env: Option<String>,
    /// Only this system; every one that the seed declares when left out
    #[arg(long, value_name = "CODE")]
    name: Option<String>,
    /// Do it
    #[arg(long)]
    apply: bool,
    /// Replace values that an operator set at run time
    #[arg(long)]
    reset_overrides: bool,
}

/// What is said of one change.
#[derive(Clone, Copy, PartialEq)]
enum Word {
    New,
    Applied,
    Backfilled,
    Kept,
}

impl Word {
    const fn of(change: &Change, done: bool) -> Self {
        match (done, change.kind) {
            (false, _) => Self::Kept,
            (true, ChangeKind::Added | ChangeKind::NewVersion) => Self::New,
            (true, ChangeKind::Backfilled) => Self::Backfilled,
            (true, _) => Self::Applied,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Applied => "applied",
            Self::Backfilled => "backfilled",
            Self::Kept => "kept",
        }
    }
}

pub fn run(arguments: &Arguments, session: &Session) -> Done {
    let source = Source::read(&arguments.from_seed, arguments.env.as_deref())?;
    let consents = Consents { overwrite_operator: arguments.reset_overrides, ..Consents::default() };
    let client = session.client()?;
    let commit = source.commit();
    let reply = if arguments.apply {
        client.seed_apply(&ApplyRequest {
            env: source.env.clone(),
            files: source.files,
            system: arguments.name.clone(),
            consents,
            commit,
            ..ApplyRequest::default()
        })?
    } else {
        let request = PlanRequest { env: source.env.clone(), files: source.files, system: arguments.name.clone() };
        let reply = client.seed_plan(&request)?;
        let (applied, left) = reply.plan.changes.into_iter().partition(|change| consents.covers(change.consent));
        ApplyReply {
            revision: reply.revision,
            changed: false,
            applied,
            left,
            drift: reply.plan.drift,
            impact: reply.plan.impact,
            warnings: reply.warnings,
        }
    };
    for warning in &reply.warnings {
        session.out.say(format!("warning: {warning}"));
    }
    if session.out.format == Format::Table {
        session.out.table(
            &rows(&reply),
            &[
                ("CHANGE", |(word, _)| word.as_str().to_owned()),
                ("LAYER", |(_, change)| change.layer.to_string()),
                ("SYSTEM", |(_, change)| or_dash(change.system.as_ref())),
                ("KEY", |(_, change)| key(change)),
                ("OLD", |(_, change)| or_dash(change.before.as_ref())),
                ("NEW", |(_, change)| or_dash(change.after.as_ref())),
                ("NOTE", |(_, change)| change.reason.clone()),
            ],
        )?;
        session.out.say(if arguments.apply { "done" } else { "nothing was written; `--apply` does it" });
    } else {
        session.out.document(&report(arguments, &source.env, &reply))?;
    }
    Ok(Exit::Success)
}

fn rows(reply: &ApplyReply) -> Vec<(Word, Change)> {
    let of = |changes: &[Change], done: bool| -> Vec<(Word, Change)> {
        changes.iter().map(|change| (Word::of(change, done), change.clone())).collect()
    };
    [of(&reply.applied, true), of(&reply.left, false), of(&reply.drift, false)].concat()
}

fn key(change: &Change) -> String {
    change.field.as_ref().map_or_else(|| change.name.clone(), |field| format!("{} {field}", change.name))
}

/// In the form that scripts know.
fn report(arguments: &Arguments, env: &str, reply: &ApplyReply) -> Value {
    let action = |(word, change): &(Word, Change)| {
        json!({
            "layer": change.layer.as_str(),
            "system": change.system,
            "key": key(change),
            "old_value": change.before,
            "new_value": change.after,
            "note": change.reason,
            "change": word.as_str(),
            "applied": arguments.apply && *word != Word::Kept,
        })
    };
    let rows = rows(reply);
    let names = |wanted: &dyn Fn(Word, &Change) -> bool| -> Vec<String> {
        rows.iter().filter(|(word, change)| wanted(*word, change)).map(|(_, change)| key(change)).collect()
    };
    let mut versions: Vec<&str> =
        rows.iter().filter(|(_, change)| change.kind == ChangeKind::NewVersion).map(|(_, c)| c.name.as_str()).collect();
    versions.dedup();
    json!({
        "env": env,
        "dry_run": !arguments.apply,
        "reset_overrides": arguments.reset_overrides,
        "system_filter": arguments.name,
        "seed_path": arguments.from_seed,
        "revision": reply.revision,
        "actions": rows.iter().map(action).collect::<Vec<_>>(),
        "preserved_overrides": names(&|_, change| {
            change.kind == ChangeKind::OperatorValue || (change.kind == ChangeKind::Conflict && !arguments.reset_overrides)
        }),
        "new_versions": versions,
        "defaults_updated": names(&|word, change| word == Word::Applied && change.kind == ChangeKind::ChangedDefault),
        "backfilled": names(&|word, _| word == Word::Backfilled),
    })
}
