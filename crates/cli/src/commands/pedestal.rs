//! `pedestal`: what a system's workload is installed with.

use api::system::PedestalVersion;
use clap::Subcommand;
use model::{ErrorKind, Problem};

use super::{Done, chart, helm};
use crate::args::Consent;
use crate::error::Exit;
use crate::output::{Column, Format};
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print the Helm values of slot 0, as a run would install them
    Values {
        /// Short code of the system
        code: String,
        /// Print every leaf with the layer that it comes from, instead of the values file
        #[arg(long)]
        explain: bool,
    },
    /// Versions of a pedestal
    #[command(subcommand)]
    Version(VersionCommand),
    /// The chart's archive: hand it over, install it
    #[command(subcommand)]
    Chart(chart::Command),
    /// What a version is installed with, and whether its chart is in order
    #[command(subcommand)]
    Helm(helm::Command),
}

#[derive(Debug, Subcommand)]
pub enum VersionCommand {
    /// List the versions, the one that runs install first among the enabled ones
    List {
        /// Short code of the system
        code: String,
    },
    /// Let runs install a version no longer; what was run with it stays printable
    Retire {
        /// Short code of the system
        code: String,
        /// Name of the version
        #[arg(value_name = "VERSION")]
        name: String,
        #[command(flatten)]
        consent: Consent,
    },
    /// Let runs install a retired version again
    Restore {
        /// Short code of the system
        code: String,
        /// Name of the version
        #[arg(value_name = "VERSION")]
        name: String,
    },
}

const VERSIONS: &[Column<PedestalVersion>] = &[
    ("VERSION", |v| v.name.clone()),
    ("STATUS", |v| if v.enabled { "enabled" } else { "retired" }.to_owned()),
    ("USED", |v| if v.used { "by runs" } else { "-" }.to_owned()),
    ("CHART", |v| format!("{} {}", v.chart_name, v.chart_version)),
    ("ARCHIVE", |v| v.chart_digest.as_ref().map_or("not fetched".to_owned(), |hash| hash.chars().take(12).collect())),
    ("REVISION", |v| v.revision.chars().take(12).collect()),
    ("OVERLAY", |v| v.overlay.as_ref().map_or("-".to_owned(), |hash| hash.chars().take(12).collect())),
    ("REPOSITORY", |v| v.repo_url.clone()),
];

pub fn run(command: Command, session: &Session) -> Done {
    match command {
        Command::Values { code, explain } => values(&code, explain, session),
        Command::Chart(command) => chart::run(command, session),
        Command::Helm(command) => helm::run(command, session),
        Command::Version(command) => {
            let client = session.client()?;
            let versions = match command {
                VersionCommand::List { code } => client.pedestal_versions(&code)?,
                VersionCommand::Retire { code, name, consent } => {
                    session.confirm(&consent, &format!("retire version {name} of `{code}`"))?;
                    client.set_pedestal_version(&code, &name, false)?
                }
                VersionCommand::Restore { code, name } => client.set_pedestal_version(&code, &name, true)?,
            };
            session.out.items(&versions, VERSIONS)?;
            Ok(Exit::Success)
        }
    }
}

fn values(code: &str, explain: bool, session: &Session) -> Done {
    let detail = session.client()?.system(code)?;
    let pedestal = detail.pedestal.ok_or_else(|| {
        Problem::new(ErrorKind::Missing, "system.layer_not_ready", "the system has no pedestal to install")
            .place(format!("system {code}"))
            .fix("apply a seed that declares one")
    })?;
    if explain {
        session.out.items(
            &pedestal.origins,
            &[
                ("KEY", |origin| origin.key.clone()),
                ("VALUE", |origin| origin.value.to_string()),
                ("ORIGIN", |origin| origin.origin.clone()),
            ],
        )?;
    } else if session.out.format == Format::Table {
        session.out.yaml(&pedestal.values)?;
    } else {
        session.out.document(&pedestal.values)?;
    }
    Ok(Exit::Success)
}
