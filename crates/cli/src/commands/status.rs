//! `status`: what the installation is doing.

use std::collections::BTreeMap;

use super::Done;
use crate::error::Exit;
use crate::output::Format;
use crate::session::Session;

pub fn run(session: &Session) -> Done {
    let client = session.client()?;
    let status = client.status()?;
    session.out.record(&status, || {
        vec![
            ("Server", format!("{} (version {}, up {} s)", client.server(), status.version, status.uptime_seconds)),
            ("Cluster", format!("{} {}", status.cluster, status.cluster_version)),
            ("Systems", format!("{} ({} enabled)", status.systems, status.systems_enabled)),
            ("Runs", counts(&status.runs)),
            ("Tasks", counts(&status.tasks)),
            ("Datapacks", counts(&status.datapacks)),
            ("Releases", status.releases.to_string()),
            ("Active faults", status.active_faults.to_string()),
            ("Leases", status.leases.len().to_string()),
        ]
    })?;
    if session.out.format == Format::Table && !status.recent_runs.is_empty() {
        session.out.write("\n")?;
        session.out.table(
            &status.recent_runs,
            &[
                ("RUN", |run| run.id.to_string()),
                ("SYSTEM", |run| run.system.clone()),
                ("FAULT", |run| run.fault_type.clone()),
                ("STATE", |run| run.state.to_string()),
                ("LAST-EVENT", |run| run.last_event.clone()),
            ],
        )?;
    }
    Ok(Exit::Success)
}

fn counts(counts: &BTreeMap<String, i32>) -> String {
    if counts.is_empty() {
        return "none".into();
    }
    counts.iter().map(|(state, count)| format!("{count} {state}")).collect::<Vec<_>>().join(", ")
}
