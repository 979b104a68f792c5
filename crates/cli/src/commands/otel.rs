//! `otel`: whether what arrives is what datapacks and their readers need.

use api::otel::{NamespaceReport, OtelFinding, OtelQuery, OtelReport};
use clap::Subcommand;
use client::Failure;

use super::Done;
use crate::args::run_id;
use crate::error::Exit;
use crate::output::{Column, Format};
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check the stored telemetry of a system: which required attribute is missing, on what share of records, since when
    ///
    /// Ends with exit code 5 when something is missing.
    Check {
        /// Short code
        system: String,
        /// Only this namespace; by default every namespace of the system, and the records that name none
        #[arg(long, value_name = "NAME")]
        namespace: Option<String>,
        /// Only the records of this simulated run, by its id or the beginning of it; by default those from the network, and each
        /// namespace's latest run
        #[arg(long, value_name = "ID", value_parser = run_id)]
        run: Option<String>,
    },
}

const FINDINGS: &[Column<OtelFinding>] = &[
    ("NAMESPACE", |f| named(&f.namespace)),
    ("SIGNAL", |f| f.signal.clone()),
    ("MISSING", |f| f.missing.clone()),
    ("SHARE", |f| if f.records == 0 { "-".into() } else { percent(f.share) }),
    ("SINCE", |f| f.since.clone().unwrap_or_else(|| "-".into())),
    ("SERVICES", services),
    ("FIX", |f| f.fix.clone()),
];

const NAMESPACES: &[Column<NamespaceReport>] = &[
    ("NAMESPACE", |n| named(&n.namespace)),
    ("FROM", |n| n.run.map_or_else(|| "network".into(), |run| format!("run {run}"))),
    ("RECORDS", |n| n.signals.iter().map(|s| format!("{} {}", s.records, s.signal)).collect::<Vec<_>>().join(", ")),
];

pub fn run(command: Command, session: &Session) -> Done {
    let Command::Check { system, namespace, run } = command;
    let report = session.client()?.otel_check(&system, &OtelQuery { namespace, run })?;
    print(&report, session)?;
    Ok(if report.ok { Exit::Success } else { Exit::WorkflowFailed })
}

fn print(report: &OtelReport, session: &Session) -> Result<(), Failure> {
    match session.out.format {
        Format::Table => {}
        Format::Ndjson => return session.out.lines(&report.findings),
        Format::Json | Format::Yaml => return session.out.document(report),
    }
    session.out.table(&report.namespaces, NAMESPACES)?;
    if report.ok {
        return session.out.write("\nEvery record carries what it must.\n");
    }
    session.out.write("\n")?;
    session.out.table(&report.findings, FINDINGS)
}

fn named(namespace: &str) -> String {
    if namespace.is_empty() { "(none)".into() } else { namespace.to_owned() }
}

fn services(finding: &OtelFinding) -> String {
    let one = |service: &api::otel::OtelService| {
        let name = if service.service.is_empty() { "(none)" } else { &service.service };
        format!("{name} {} since {}", percent(service.share_since), service.since)
    };
    finding.services.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// A share with enough digits that what is not nothing does not look like it.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.1 { format!("{percent:.1e} %") } else { format!("{percent:.1} %") }
}
