//! `algorithm`: detectors and root-cause-analysis methods.

use api::algorithm::Algorithm;
use clap::Subcommand;

use super::Done;
use crate::error::Exit;
use crate::output::Column;
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List every version of every method, and whether it can run here
    #[command(visible_alias = "ls")]
    List,
}

const COLUMNS: &[Column<Algorithm>] = &[
    ("NAME", |a| a.name.clone()),
    ("VERSION", |a| a.version.clone()),
    ("ROLE", |a| a.role.clone()),
    ("KIND", |a| a.kind.clone()),
    ("RUNNABLE", |a| a.reason.clone().map_or_else(|| "yes".into(), |reason| format!("no: {reason}"))),
    ("SUMMARY", |a| a.summary.clone()),
];

pub fn run(command: Command, session: &Session) -> Done {
    match command {
        Command::List => session.out.items(&session.client()?.algorithms()?, COLUMNS)?,
    }
    Ok(Exit::Success)
}
