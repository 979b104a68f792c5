//! `pedestal chart`: the archives that pedestals are installed from, and installing one by hand.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use api::chart::{Chart, CheckState, InstallReply, InstallRequest, Release, RenderCheck, UnusedArchive};
use clap::{Args, Subcommand};
use client::Client;
use model::{ErrorKind, Problem, counted};

use super::Done;
use crate::args::Consent;
use crate::error::Exit;
use crate::output::{Column, Format, or_dash};
use crate::session::{Session, read_file};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the charts of a pedestal's versions, with their archives
    List {
        /// Short code of the system
        code: String,
    },
    /// Hand over the archive of a chart that a system declares
    Push {
        /// Short code of the system
        #[arg(long, value_name = "CODE")]
        name: String,
        /// The archive, as `helm package` makes it
        #[arg(long, value_name = "FILE")]
        tgz: PathBuf,
    },
    /// Take away archives that no version and no release refers to, an hour and more after they were kept
    Prune {
        #[command(flatten)]
        consent: Consent,
    },
    /// Install a system's chart in a slot that nobody uses
    ///
    /// Without a source it is the chart that runs install. The chart is rendered and looked at before; what would come to grief
    /// is not installed.
    #[command(disable_version_flag = true)]
    Install(Install),
}

#[derive(Debug, Args)]
pub struct Install {
    /// Short code of the system
    code: String,
    /// An archive of this machine
    #[arg(long, value_name = "FILE", conflicts_with_all = ["repo", "chart", "version"])]
    tgz: Option<PathBuf>,
    /// Another chart repository: `https://…` or `oci://…`
    #[arg(long, value_name = "URL", requires_all = ["chart", "version"])]
    repo: Option<String>,
    /// Name of the chart there
    #[arg(long, value_name = "NAME", requires_all = ["repo", "version"])]
    chart: Option<String>,
    /// Its exact version
    #[arg(long, value_name = "VERSION", requires_all = ["repo", "chart"])]
    version: Option<String>,
    /// Number of the slot; by default the first one that nobody uses
    #[arg(long, value_name = "N")]
    slot: Option<i32>,
    /// Wait until the release is ready
    #[arg(long)]
    wait: bool,
    /// Longest time to wait, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1800, value_parser = crate::duration::parse_positive)]
    wait_timeout: u64,
    /// Install although the render check found errors
    #[arg(long)]
    despite_findings: bool,
}

const CHARTS: &[Column<Chart>] = &[
    ("PEDESTAL", |c| c.pedestal_version.clone()),
    ("USED", |c| if c.used { "by runs" } else { "-" }.to_owned()),
    ("CHART", |c| format!("{} {}", c.name, c.version)),
    ("ARCHIVE", |c| c.state.as_str().to_owned()),
    ("DIGEST", |c| c.digest.as_ref().map_or("-".to_owned(), |digest| digest.chars().take(12).collect())),
    ("BYTES", |c| or_dash(c.size.as_ref())),
    ("SOURCE", |c| or_dash(c.source.as_ref())),
    ("REPOSITORY", |c| c.repo_url.clone()),
];

const UNUSED: &[Column<UnusedArchive>] = &[("DIGEST", |a| a.digest.clone()), ("BYTES", |a| a.size.to_string())];

const RELEASES: &[Column<Release>] = &[
    ("NAMESPACE", |r| r.namespace.clone()),
    ("CHART", |r| format!("{} {}", r.chart, r.chart_version)),
    ("ARCHIVE", |r| {
        r.chart_digest.as_ref().map_or("not fetched".to_owned(), |digest| digest.chars().take(12).collect())
    }),
    ("VALUES", |r| r.values_digest.chars().take(12).collect()),
    ("READY", |r| if r.ready { "yes".to_owned() } else { r.waiting_for.clone().unwrap_or_else(|| "no".to_owned()) }),
];

pub fn run(command: Command, session: &Session) -> Done {
    let client = session.client()?;
    match command {
        Command::List { code } => session.out.items(&client.charts(&code)?, CHARTS)?,
        Command::Push { name, tgz } => {
            let kept = client.keep_chart(&archive(&tgz)?)?;
            let chart = client.attach_chart(&name, &kept.digest)?;
            session.out.items(&[chart], CHARTS)?;
        }
        Command::Prune { consent } => {
            let unused = client.unused_charts()?;
            if !unused.is_empty() {
                let bytes: i64 = unused.iter().map(|archive| archive.size).sum();
                session.confirm(&consent, &format!("take {} away, {bytes} bytes", counted(unused.len(), "archive")))?;
            }
            session.out.items(&client.prune_charts()?, UNUSED)?;
        }
        Command::Install(arguments) => return install(&arguments, &client, session),
    }
    Ok(Exit::Success)
}

fn archive(file: &Path) -> Result<Vec<u8>, client::Failure> {
    let bytes = read_file(file, "chart.unreadable")?;
    if bytes.len() > api::chart::LARGEST_ARCHIVE {
        return Err(Problem::new(ErrorKind::Invalid, "chart.archive_too_large", "the chart's archive is too large")
            .place(file.display().to_string())
            .found(format!("{} bytes", bytes.len()))
            .expected(format!("at most {} bytes", api::chart::LARGEST_ARCHIVE))
            .into());
    }
    Ok(bytes)
}

fn install(arguments: &Install, client: &Client, session: &Session) -> Done {
    let digest = match &arguments.tgz {
        Some(file) => Some(client.keep_chart(&archive(file)?)?.digest),
        None => None,
    };
    let request = InstallRequest {
        slot: arguments.slot,
        digest,
        repo: arguments.repo.clone(),
        chart: arguments.chart.clone(),
        version: arguments.version.clone(),
        despite_findings: arguments.despite_findings,
    };
    let mut reply = client.install_chart(&arguments.code, &request)?;
    for step in &reply.steps {
        session.out.say(step);
    }
    tell(&reply.check, session);
    if arguments.wait {
        reply.release = ready(&reply, client, arguments)?;
    }
    match session.out.format {
        Format::Table => session.out.table(&[reply.release], RELEASES)?,
        Format::Ndjson => session.out.lines(&[reply])?,
        Format::Json | Format::Yaml => session.out.document(&reply)?,
    }
    Ok(Exit::Success)
}

/// Asks until the release is ready, another one stands in its place, or the time is up.
fn ready(reply: &InstallReply, client: &Client, arguments: &Install) -> Result<Release, client::Failure> {
    const PAUSE: Duration = Duration::from_secs(1);
    let (started, limit) = (Instant::now(), Duration::from_secs(arguments.wait_timeout));
    let mut seen = reply.release.clone();
    while !seen.ready {
        if started.elapsed() > limit {
            return Err(Problem::new(ErrorKind::Timeout, "release.not_ready", "the release is not ready yet")
                .place(seen.namespace.clone())
                .found(seen.waiting_for.clone().unwrap_or_else(|| "nothing is said of what it waits for".to_owned()))
                .expected(format!("ready within {} s", limit.as_secs()))
                .into());
        }
        std::thread::sleep(PAUSE);
        let same = |release: &Release| {
            release.namespace == seen.namespace && release.installed_at == reply.release.installed_at
        };
        seen = client.releases(&arguments.code)?.into_iter().find(same).ok_or_else(|| {
            Problem::new(ErrorKind::Conflict, "release.replaced", "somebody else installed in the slot meanwhile")
                .place(seen.namespace.clone())
        })?;
    }
    Ok(seen)
}

/// What was found, on standard error.
pub fn tell(check: &RenderCheck, session: &Session) {
    for finding in &check.findings {
        let fix = finding.fix.as_ref().map_or_else(String::new, |fix| format!("; {fix}"));
        session.out.say(format!(
            "{}: {}: {}, found {}{fix} [{}]",
            finding.severity, finding.place, finding.message, finding.found, finding.code
        ));
    }
    for skipped in &check.skipped {
        session.out.say(format!("not judged: {skipped}"));
    }
    if let (CheckState::NotChecked, Some(reason)) = (check.state, &check.reason) {
        session.out.say(format!("not checked: {reason}"));
    }
}
