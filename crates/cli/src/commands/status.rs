//! `status`: what the installation is doing.

use std::collections::BTreeMap;

use api::health::Ingest;

use super::Done;
use crate::error::Exit;
use crate::output::Format;
use crate::session::Session;

pub fn run(session: &Session) -> Done {
    let client = session.client()?;
    let status = client.status()?;
    session.out.record(&status, || {
        vec![
            ("Server", format!("{} (version {}, since {})", client.server(), status.version, status.started_at)),
            ("Cluster", format!("{} {}", status.cluster, status.cluster_version)),
            ("Systems", format!("{} ({} enabled)", status.systems, status.systems_enabled)),
            ("Runs", counts(&status.runs)),
            ("Tasks", counts(&status.tasks)),
            ("Datapacks", counts(&status.datapacks)),
            ("Releases", status.releases.to_string()),
            ("Active faults", status.active_faults.to_string()),
            ("Leases", status.leases.len().to_string()),
            ("Telemetry", telemetry(&status.ingest)),
        ]
    })?;
    if session.out.format == Format::Table && !status.ingest.records.is_empty() {
        session.out.write(&format!("\nRecords since {}:\n", status.ingest.since))?;
        session.out.table(
            &status.ingest.records,
            &[
                ("NAMESPACE", |part| part.namespace.clone()),
                ("SIGNAL", |part| part.signal.clone()),
                ("ACCEPTED", |part| part.accepted.to_string()),
                ("REFUSED", |part| refused(&part.refused)),
            ],
        )?;
    }
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

/// What is kept, and what stands in the way of it.
fn telemetry(ingest: &Ingest) -> String {
    let mut text = format!("{} MiB kept", ingest.stored_bytes >> 20);
    for (signal, codes) in &ingest.requests_refused {
        text.push_str(&format!("; requests for {signal} refused since {}: {}", ingest.since, refused(codes)));
    }
    if let Some(failure) = &ingest.failure {
        text.push_str(&format!("; {} MiB cannot be written: {failure}", ingest.backlog_bytes >> 20));
    }
    text
}

fn refused(codes: &BTreeMap<String, i64>) -> String {
    codes.iter().map(|(code, count)| format!("{count} {code}")).collect::<Vec<_>>().join(", ")
}

fn counts(counts: &BTreeMap<String, i32>) -> String {
    if counts.is_empty() {
        return "none".into();
    }
    counts.iter().map(|(state, count)| format!("{count} {state}")).collect::<Vec<_>>().join(", ")
}
