//! `point`: where faults can be injected.

use api::fault::{Point, PointQuery};
use clap::Subcommand;
use serde_json::Value;

use super::Done;
use crate::args::Paging;
use crate::error::Exit;
use crate::output::Column;
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the points of a system
    #[command(visible_alias = "ls")]
    List {
        /// Short code
        #[arg(long, value_name = "CODE")]
        system: String,
        /// Only points of one service
        #[arg(long, value_name = "NAME")]
        service: Option<String>,
        /// Only points of one capability
        #[arg(long, value_name = "NAME")]
        capability: Option<String>,
        /// Only points that the known journeys of users come by
        #[arg(long)]
        on_path: bool,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show one point
    Show { id: String },
}

const COLUMNS: &[Column<Point>] = &[
    ("ID", |p| p.id.clone()),
    ("SERVICE", |p| p.service.clone()),
    ("CAPABILITY", |p| p.capability.clone()),
    ("TARGET", |p| Some(target(&p.target, " ")).filter(|text| !text.is_empty()).unwrap_or_else(|| "-".into())),
    ("NOTES", notes),
];

/// What is special about a point; empty for one that is seen in telemetry, reached and simulated.
fn notes(point: &Point) -> String {
    let notes =
        [(point.inferred, "inferred"), (!point.on_path, "off the journeys"), (!point.simulated, "not simulated")];
    notes.iter().filter(|(is, _)| *is).map(|(_, note)| *note).collect::<Vec<_>>().join(", ")
}

fn target(target: &Value, between: &str) -> String {
    let pairs = target.as_object().into_iter().flatten();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    pairs.map(|(key, value)| format!("{key}={}", text(value))).collect::<Vec<_>>().join(between)
}

/// A point without anything narrower is the service as a whole.
fn whole_target(point: &Point) -> String {
    match target(&point.target, "\n") {
        text if text.is_empty() => format!("{} as a whole", point.service),
        text => text,
    }
}

pub fn run(command: Command, session: &Session) -> Done {
    let client = session.client()?;
    match command {
        Command::List { system, service, capability, on_path, paging } => {
            session.out.pages(&paging, COLUMNS, |page| {
                let query = PointQuery {
                    page: page.page,
                    size: page.size,
                    service: service.clone(),
                    capability: capability.clone(),
                    on_path: on_path.then_some(true),
                };
                client.points(&system, &query)
            })?;
        }
        Command::Show { id } => {
            let point = client.point(&id)?;
            session.out.record(&point, || {
                let known = if point.inferred { "inferred from code or charts" } else { "seen in telemetry" };
                let path = if point.on_path { "come by here" } else { "do not come by here" };
                vec![
                    ("Point", point.id.clone()),
                    ("System", point.system.clone()),
                    ("Service", point.service.clone()),
                    ("Capability", format!("{} ({})", point.capability, point.family)),
                    ("Target", whole_target(&point)),
                    ("Known", known.to_owned()),
                    ("Journeys", path.to_owned()),
                    ("Simulated", if point.simulated { "yes" } else { "no" }.to_owned()),
                ]
            })?;
        }
    }
    Ok(Exit::Success)
}
