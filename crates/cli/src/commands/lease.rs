//! `lease`: what runs and processes hold, and giving back what a run left that has ended.

use api::health::Lease;
use clap::Subcommand;

use super::Done;
use crate::args::Consent;
use crate::error::Exit;
use crate::output::Column;
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the leases that are held
    #[command(visible_alias = "ls")]
    List,
    /// Give back a lease whose run has ended; one of a run that goes on is refused
    Release {
        /// Its resource, as `lease list` names it
        resource: String,
        #[command(flatten)]
        consent: Consent,
    },
}

const COLUMNS: &[Column<Lease>] = &[
    ("RESOURCE", |l| l.resource.clone()),
    ("OWNER", |l| l.owner.clone()),
    ("FENCE", |l| l.fence.to_string()),
    ("HEARTBEAT", |l| l.heartbeat_at.clone()),
];

pub fn run(command: Command, session: &Session) -> Done {
    let client = session.client()?;
    match command {
        Command::List => session.out.items(&client.status()?.leases, COLUMNS)?,
        Command::Release { resource, consent } => {
            session.confirm(&consent, &format!("give back `{resource}`"))?;
            let released = client.release_lease(&resource)?;
            session.out.record(&released, || {
                vec![("Released", released.resource.clone()), ("It was held by", released.owner.clone())]
            })?;
        }
    }
    Ok(Exit::Success)
}
