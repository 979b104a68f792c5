//! `fault`: what can be injected, and stopping all of it.

use api::fault::{Capability, Field};
use clap::Subcommand;
use client::Failure;
use serde_json::Value;

use super::{Done, kill_switch};
use crate::error::Exit;
use crate::output::{Column, Format};
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the capabilities
    #[command(visible_alias = "ls")]
    List,
    /// Show one capability: its target, its parameters, what it needs
    Show { name: String },
    /// Turn the kill switch on: recover every live fault and let none start
    StopAll(kill_switch::On),
}

const COLUMNS: &[Column<Capability>] = &[
    ("ID", |c| c.id.to_string()),
    ("NAME", |c| c.name.clone()),
    ("FAMILY", |c| c.family.clone()),
    ("TARGET", |c| c.target_kind.clone()),
    ("NEEDS", |c| if c.requires.is_empty() { "-".to_owned() } else { c.requires.join(", ") }),
    ("SIMULATED", |c| yes(c.simulated).to_owned()),
];

const FIELDS: &[Column<Field>] = &[
    ("MEMBER", |f| f.name.clone()),
    ("TYPE", |f| f.kind.clone()),
    ("DEFAULT", |f| match &f.default {
        Some(value) => value.to_string(),
        None if f.required => "required".into(),
        None => "-".into(),
    }),
    ("RANGE", range),
    ("MEANING", |f| f.description.clone()),
];

fn range(field: &Field) -> String {
    match (field.minimum, field.maximum) {
        (Some(low), Some(high)) => format!("{low} to {high}"),
        (Some(low), None) => format!("from {low}"),
        (None, Some(high)) => format!("up to {high}"),
        (None, None) => field.values.join(" | "),
    }
}

const fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

pub fn run(command: Command, session: &Session) -> Done {
    match command {
        Command::List => session.out.items(&session.client()?.capabilities()?, COLUMNS)?,
        Command::Show { name } => show(session, &session.client()?.capability(&name)?)?,
        Command::StopAll(arguments) => return kill_switch::on(&arguments, session),
    }
    Ok(Exit::Success)
}

fn show(session: &Session, capability: &Capability) -> Result<(), Failure> {
    session.out.record(capability, || fields(capability))?;
    if session.out.format != Format::Table {
        return Ok(());
    }
    for (title, fields) in [("Target", &capability.target), ("Parameters", &capability.params)] {
        if !fields.is_empty() {
            session.out.write(&format!("\n{title}\n"))?;
            session.out.table(fields, FIELDS)?;
        }
    }
    Ok(())
}

fn fields(row: &Capability) -> Vec<(&'static str, String)> {
    let witness = &row.witness;
    let share = format!("at least {} {} and {:.0} %", witness.min_count, witness.unit, witness.min_share * 100.0);
    let available = row.reason.clone().map_or_else(|| "yes".into(), |reason| format!("no: {reason}"));
    let mut fields = vec![
        ("Capability", format!("{} (number {})", row.name, row.id)),
        ("Public name", row.chaos_type.clone()),
        ("Family", row.family.clone()),
        ("Summary", row.summary.clone()),
        ("Target", row.target_kind.clone()),
        ("Acts on", format!("{}, {}", row.acts_on, row.length.replace('_', " "))),
        ("Needs", if row.requires.is_empty() { "nothing".into() } else { row.requires.join(", ") }),
        ("Witness", format!("{share} of them\n{}", witness.why)),
    ];
    if !row.contract.is_null() {
        fields.push(("Contract", lines(&row.contract)));
    }
    fields.extend([
        ("Ground truth", truth(row)),
        ("Chaos kind", row.chaos_kind.clone()),
        ("Simulated", yes(row.simulated).to_owned()),
        ("Available", available),
    ]);
    fields
}

fn truth(row: &Capability) -> String {
    let truth = &row.truth;
    let mut parts = vec!["service, pods and container of the acting service (root)".to_owned()];
    parts.extend(truth.peer.then(|| "service of the other party (peer)".to_owned()));
    parts.extend(truth.metric.as_ref().map(|metric| format!("metric {metric}")));
    parts.extend(truth.function.then(|| "function".to_owned()));
    parts.extend(truth.span.then(|| "spans".to_owned()));
    parts.join("; ")
}

/// Whatever a part of the table says, as lines: `key: value`, lists and texts below each other.
fn lines(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(|item| !item.is_object() && !item.is_array()) => {
            if items.is_empty() {
                "-".into()
            } else {
                items.iter().map(lines).collect::<Vec<_>>().join(", ")
            }
        }
        Value::Array(items) => items.iter().map(lines).collect::<Vec<_>>().join("\n"),
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| match value {
                Value::Object(_) => {
                    format!("{key}:\n  {}", lines(value).replace('\n', "\n  "))
                }
                _ => format!("{key}: {}", lines(value)),
            };
            members.iter().filter(|(_, value)| !value.is_null()).map(member).collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    }
}
