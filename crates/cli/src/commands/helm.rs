//! `pedestal helm`: what a version of a pedestal is installed with, changing it, and whether its chart is in order.

use std::collections::BTreeMap;

use api::chart::{ChartFinding, CheckState, HelmConfig, HelmParameter, HelmRequest, VerifyRequest};
use clap::{Args, Subcommand};
use model::{ErrorKind, Problem};
use serde_json::Value;

use super::Done;
use crate::error::Exit;
use crate::output::{Column, Format};
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print chart and values of a version, each value with its owner
    #[command(disable_version_flag = true)]
    Get {
        /// Short code of the system
        code: String,
        /// Version of the pedestal; by default the one that runs install
        #[arg(long, value_name = "VERSION")]
        version: Option<String>,
    },
    /// Set values of a version, as a new revision of it; a seed never takes them away unseen
    #[command(disable_version_flag = true)]
    Set(Set),
    /// Fetch a version's chart, compare it with its digest, render it and look for what would come to grief
    #[command(disable_version_flag = true)]
    Verify {
        /// Short code of the system
        code: String,
        /// Version of the pedestal; by default the one that runs install
        #[arg(long, value_name = "VERSION")]
        version: Option<String>,
    },
}

#[derive(Debug, Args)]
pub struct Set {
    /// Short code of the system
    code: String,
    /// Version of the pedestal; by default the one that runs install
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// A value of the declared type of its key, and a text where none is declared; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
    /// A value of any type, as JSON; may be repeated
    #[arg(long, value_name = "KEY=JSON", value_parser = json_pair)]
    set_json: Vec<(String, Value)>,
    /// Set nothing under this key, so that overlay and chart decide; may be repeated
    #[arg(long, value_name = "KEY")]
    unset: Vec<String>,
    /// The version's chart; another one needs another version
    #[arg(long, value_name = "NAME")]
    chart_name: Option<String>,
    /// The chart's version; another one needs another version of the pedestal
    #[arg(long, value_name = "VERSION")]
    chart_version: Option<String>,
    /// The chart's repository; another one needs another version
    #[arg(long, value_name = "URL")]
    repo_url: Option<String>,
    /// Name of the repository; another one needs another version
    #[arg(long, value_name = "NAME")]
    repo_name: Option<String>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

fn json_pair(text: &str) -> Result<(String, Value), String> {
    let (key, value) = pair(text)?;
    match serde_json::from_str(&value) {
        Ok(Value::Null) => Err("null sets nothing; use `--unset KEY`".to_owned()),
        Ok(value) => Ok((key, value)),
        Err(error) => Err(format!("not JSON: {error}")),
    }
}

const PARAMETERS: &[Column<HelmParameter>] = &[
    ("KEY", |p| p.key.clone()),
    ("VALUE", |p| p.value.as_ref().map_or("-".to_owned(), Value::to_string)),
    ("TYPE", |p| p.kind.clone()),
    ("OWNER", |p| p.owner.clone()),
];

const FINDINGS: &[Column<ChartFinding>] = &[
    ("SEVERITY", |f| f.severity.clone()),
    ("CODE", |f| f.code.clone()),
    ("PLACE", |f| f.place.clone()),
    ("FOUND", |f| f.found.clone()),
    ("EXPECTED", |f| f.expected.clone().unwrap_or_default()),
    ("FIX", |f| f.fix.clone().unwrap_or_default()),
];

pub fn run(command: Command, session: &Session) -> Done {
    let client = session.client()?;
    match command {
        Command::Get { code, version } => show(&client.helm(&code, version.as_deref())?, session),
        Command::Set(arguments) => {
            let code = arguments.code.clone();
            show(&client.set_helm(&code, &request(arguments)?)?, session)
        }
        Command::Verify { code, version } => verify(&code, version, session),
    }
}

fn request(arguments: Set) -> Result<HelmRequest, Problem> {
    let texts = arguments.set.into_iter().map(|(key, value)| (key, Value::String(value)));
    let set: Vec<(String, Value)> = texts.chain(arguments.set_json).collect();
    let mut keys: Vec<&String> = set.iter().map(|(key, _)| key).chain(&arguments.unset).collect();
    keys.sort();
    if let Some(twice) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Problem::new(ErrorKind::Invalid, "usage.key_repeated", "a key is set or unset twice")
            .found(format!("`{}`", twice[0])));
    }
    Ok(HelmRequest {
        version: arguments.version,
        set,
        unset: arguments.unset,
        chart_name: arguments.chart_name,
        chart_version: arguments.chart_version,
        repo_url: arguments.repo_url,
        repo_name: arguments.repo_name,
    })
}

fn show(config: &HelmConfig, session: &Session) -> Done {
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    session.out.record(config, || {
        vec![
            ("system", config.system.clone()),
            ("version", config.pedestal_version.clone()),
            ("chart", format!("{} {}", config.chart_name, config.chart_version)),
            ("repository", format!("{} {}", config.repo_name, config.repo_url)),
            ("archive", text(&config.chart_digest)),
            ("revision", config.revision.clone()),
            ("overlay", text(&config.overlay)),
        ]
    })?;
    if session.out.format == Format::Table && !config.parameters.is_empty() {
        session.out.table(&config.parameters, PARAMETERS)?;
    }
    Ok(Exit::Success)
}

fn verify(code: &str, version: Option<String>, session: &Session) -> Done {
    let report = session.client()?.verify_chart(code, &VerifyRequest { version })?;
    for step in &report.steps {
        session.out.say(step);
    }
    session.out.record(&report, || {
        let (chart, check) = (&report.chart, &report.check);
        let reason = check.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
        vec![
            ("chart", format!("{} {}", chart.name, chart.version)),
            ("archive", chart.state.as_str().to_owned()),
            ("digest", chart.digest.as_ref().map_or("-".to_owned(), |digest| format!("sha256:{digest}"))),
            ("source", chart.source.clone().unwrap_or_else(|| "-".to_owned())),
            ("check", format!("{}{reason}", check.state.as_str())),
            ("helm", check.helm.clone().unwrap_or_else(|| "-".to_owned())),
        ]
    })?;
    if session.out.format == Format::Table {
        let findings: Vec<ChartFinding> = report.problem.iter().chain(&report.check.findings).cloned().collect();
        if !findings.is_empty() {
            session.out.table(&findings, FINDINGS)?;
        }
        let set: BTreeMap<&String, &String> = findings.iter().flat_map(|finding| &finding.set).collect();
        if !set.is_empty() {
            let words: String = set.iter().map(|(key, value)| format!(" --set '{key}={value}'")).collect();
            session.out.say(format!("values that put it right: aegisctl pedestal helm set {code}{words}"));
        }
        for skipped in &report.check.skipped {
            session.out.say(format!("not judged: {skipped}"));
        }
    }
    let good = report.problem.is_none() && matches!(report.check.state, CheckState::Ok | CheckState::Warnings);
    Ok(if good { Exit::Success } else { Exit::Missing })
}
