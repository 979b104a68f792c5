//! `otel`: whether what arrives is what datapacks and their readers need, and the collector that makes it so.

use api::otel::{NamespaceReport, OtelFinding, OtelQuery, OtelReport, RenderQuery};
use clap::Subcommand;
use client::Failure;
use model::{ErrorKind, Problem};

use super::Done;
use crate::args::run_id;
use crate::error::Exit;
use crate::output::{Column, Format, yaml};
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
    /// Print the collector that makes a system's telemetry whole: what it runs as on Kubernetes, its configuration in it
    Render {
        /// Short code
        system: String,
        /// Send by OTLP over HTTP to this address; by default to the server of this machine
        #[arg(long, value_name = "URL", conflicts_with = "clickhouse")]
        otlp: Option<String>,
        /// Write into the database `otel` of the ClickHouse at this address
        #[arg(long, value_name = "URL")]
        clickhouse: Option<String>,
        /// Print the collector's configuration alone
        #[arg(long)]
        config: bool,
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
    let (system, namespace, run) = match command {
        Command::Check { system, namespace, run } => (system, namespace, run),
        Command::Render { system, otlp, clickhouse, config } => {
            return render(session, &system, otlp, clickhouse, config);
        }
    };
    let report = session.client()?.otel_check(&system, &OtelQuery { namespace, run })?;
    print(&report, session)?;
    Ok(if report.ok { Exit::Success } else { Exit::WorkflowFailed })
}

fn render(session: &Session, system: &str, otlp: Option<String>, clickhouse: Option<String>, config: bool) -> Done {
    let otlp = match (otlp, &clickhouse) {
        (None, None) => Some(own_receiver(session)?),
        (otlp, _) => otlp,
    };
    let rendered = session.client()?.otel_render(system, &RenderQuery { otlp, clickhouse })?;
    match session.out.format {
        Format::Json if config => session.out.document(&rendered.configuration)?,
        Format::Json => session.out.document(&rendered)?,
        Format::Ndjson => session.out.lines(&rendered.manifests)?,
        Format::Table | Format::Yaml if config => session.out.bytes(yaml(&rendered.configuration)?.as_bytes())?,
        Format::Table | Format::Yaml => {
            let parts = rendered.manifests.iter().map(yaml).collect::<Result<Vec<_>, _>>()?;
            session.out.bytes(parts.join("---\n").as_bytes())?;
        }
    }
    Ok(Exit::Success)
}

/// Where the server of this machine takes OTLP over HTTP.
fn own_receiver(session: &Session) -> Result<String, Failure> {
    let file = client::local::find()?;
    let Some(address) = file.and_then(|file| file.otlp_http) else {
        let message = "nothing says where the collector is to send to";
        return Err(Problem::new(ErrorKind::Missing, "otel.no_destination", message)
            .fix("name it with `--otlp URL` or `--clickhouse URL`, or start the server here with `--otlp-http`")
            .into());
    };
    session.out.say(format!("sends to the server of this machine, http://{address}"));
    Ok(format!("http://{address}"))
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
