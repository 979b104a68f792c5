//! `fault`: what can be injected, and where.

use api::fault::{Capability, Field, Point, PointQuery};
use clap::Subcommand;
use client::Failure;

use super::Done;
use crate::args::Paging;
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
    /// List the points of a system where faults can be injected
    Points {
        /// Short code
        system: String,
        /// Only points of one service
        #[arg(long, value_name = "NAME")]
        service: Option<String>,
        /// Only points of one capability
        #[arg(long, value_name = "NAME")]
        capability: Option<String>,
        #[command(flatten)]
        paging: Paging,
    },
}

const COLUMNS: &[Column<Capability>] = &[
    ("ID", |c| c.id.to_string()),
    ("NAME", |c| c.name.clone()),
    ("FAMILY", |c| c.family.clone()),
    ("AVAILABLE", |c| c.reason.clone().map_or_else(|| "yes".into(), |reason| format!("no: {reason}"))),
    ("REQUIRES", |c| c.requires.join(", ")),
    ("SUMMARY", |c| c.summary.clone()),
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

const POINTS: &[Column<Point>] = &[
    ("ID", |p| p.id.clone()),
    ("SERVICE", |p| p.service.clone()),
    ("CAPABILITY", |p| p.capability.clone()),
    ("TARGET", |p| p.target.to_string()),
];

fn range(field: &Field) -> String {
    match (field.minimum, field.maximum) {
        (Some(low), Some(high)) => format!("{low} to {high}"),
        (Some(low), None) => format!("from {low}"),
        (None, Some(high)) => format!("up to {high}"),
        (None, None) => field.values.join(" | "),
    }
}

pub fn run(command: Command, session: &Session) -> Done {
    let client = session.client()?;
    match command {
        Command::List => session.out.items(&client.capabilities()?, COLUMNS)?,
        Command::Show { name } => show(session, &client.capability(&name)?)?,
        Command::Points { system, service, capability, paging } => {
            session.out.pages(&paging, POINTS, |page| {
                let query = PointQuery {
                    page: page.page,
                    size: page.size,
                    service: service.clone(),
                    capability: capability.clone(),
                };
                client.points(&system, &query)
            })?;
        }
    }
    Ok(Exit::Success)
}

fn show(session: &Session, capability: &Capability) -> Result<(), Failure> {
    session.out.record(capability, || {
        vec![
            ("Capability", format!("{} ({})", capability.name, capability.id)),
            ("Family", capability.family.clone()),
            ("Summary", capability.summary.clone()),
            ("Requires", capability.requires.join(", ")),
            ("Chaos kind", capability.chaos_kind.clone()),
            ("Available", capability.reason.clone().map_or_else(|| "yes".into(), |reason| format!("no: {reason}"))),
        ]
    })?;
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
