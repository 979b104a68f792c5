//! `system`: registering benchmark systems in all five layers, and looking at them.

mod reseed;

use std::path::PathBuf;

use api::system::{Layer, LayerStatus, RegisterReport, RegisterRequest, System, SystemDetail};
use clap::Subcommand;
use client::Failure;
use model::counted;

use super::Done;
use super::seed::source::Source;
use crate::args::{Consent, Paging};
use crate::error::{Exit, line};
use crate::output::{Column, Format};
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the registered systems
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        paging: Paging,
    },
    /// Show one system: its five layers, and what a run would install
    Show {
        /// Short code
        name: String,
        /// Print the composed values with the origin of each leaf
        #[arg(long)]
        values: bool,
    },
    /// Register systems: all five layers, or none
    ///
    /// Without a seed a system is declared by what the server knows about it: the eight built-in systems, and those of its
    /// systems folder.
    Register {
        /// Folder of environments, folder of one environment, or its data.yaml
        #[arg(long, value_name = "PATH")]
        from_seed: Option<PathBuf>,
        /// As this revision of an applied seed declares it; `seed history` lists them
        #[arg(long, value_name = "N", conflicts_with_all = ["from_seed", "all"])]
        seed_revision: Option<i32>,
        /// Environment folder below the seed; may be left out when there is only one
        #[arg(long, value_name = "NAME", requires = "from_seed")]
        env: Option<String>,
        /// Short code of the system; may be repeated
        #[arg(long, value_name = "CODE", required_unless_present = "all", conflicts_with = "all")]
        name: Vec<String>,
        /// Every system of the seed, or every system that the server knows
        #[arg(long)]
        all: bool,
        /// Replace a registration that is there
        #[arg(long)]
        force: bool,
        /// Show what would be written and write nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Bring a registered system to its seed; without --apply only say what that would do
    Reseed(reseed::Arguments),
    /// Check a folder with a system's data, or a folder of such folders; needs no server
    Lint { folder: PathBuf },
    /// Remove a system from all five layers; finished runs and their datapacks stay
    Unregister {
        /// Short code
        #[arg(value_name = "CODE", required_unless_present = "name")]
        code: Option<String>,
        /// Short code, as `register` takes it
        #[arg(long, value_name = "CODE", conflicts_with = "code")]
        name: Option<String>,
        #[command(flatten)]
        consent: Consent,
    },
    /// Allow runs on a system
    Enable {
        /// Short code
        name: String,
    },
    /// Allow no new runs on a system; those that are on their way go on
    Disable {
        /// Short code
        name: String,
        #[command(flatten)]
        consent: Consent,
    },
}

const COLUMNS: &[Column<System>] = &[
    ("NAME", |s| s.name.clone()),
    ("DISPLAY", |s| s.display_name.clone()),
    ("STATUS", |s| s.status.clone()),
    ("BUILTIN", |s| s.is_builtin.to_string()),
    ("COUNT", |s| s.count.to_string()),
    ("NS-PATTERN", |s| s.ns_pattern.clone()),
    ("REGISTRY", |s| state_of(s, Layer::Registry)),
    ("CONFIG", |s| state_of(s, Layer::Config)),
    ("DATABASE", |s| state_of(s, Layer::Database)),
    ("CHART", |s| state_of(s, Layer::Chart)),
    ("TELEMETRY", |s| state_of(s, Layer::Telemetry)),
];

const LAYERS: &[Column<LayerStatus>] = &[
    ("LAYER", |l| l.layer.to_string()),
    ("STATE", |l| l.state.to_string()),
    ("OBSERVED", |l| l.observed.clone()),
    ("READ FROM", |l| l.source.clone()),
    ("FIX", |l| l.fix.clone().unwrap_or_else(|| "-".to_owned())),
];

pub fn run(command: Command, session: &Session) -> Done {
    match command {
        Command::List { paging } => {
            let client = session.client()?;
            session.out.pages(&paging, COLUMNS, |query| client.systems(query))?;
        }
        Command::Show { name, values } => show(session, &session.client()?.system(&name)?, values)?,
        Command::Register { from_seed, seed_revision, env, name, all, force, dry_run } => {
            let (env, files) = match from_seed {
                Some(seed) => {
                    let Source { env, files, .. } = Source::read(&seed, env.as_deref())?;
                    (env, files)
                }
                None => Default::default(),
            };
            let names = if all { session.client()?.registrable(&files)? } else { name };
            let requests = names.into_iter().map(|name| RegisterRequest {
                name,
                env: env.clone(),
                files: files.clone(),
                seed_revision,
                force,
                dry_run,
            });
            return register(session, requests.collect());
        }
        Command::Reseed(arguments) => return reseed::run(&arguments, session),
        Command::Lint { folder } => return super::lint::run(&folder, &session.out),
        Command::Unregister { code, name, consent } => {
            let name = code.or(name).expect("one of both is required");
            session.confirm(&consent, &format!("unregister `{name}`"))?;
            let report = session.client()?.unregister(&name)?;
            session.out.record(&report, || {
                let removed = report.removed.iter().map(|(layer, count)| format!("{count} in {layer}"));
                vec![
                    ("Unregistered", report.name.clone()),
                    ("Removed", removed.collect::<Vec<_>>().join(", ")),
                    ("Kept", report.kept.join(", ")),
                ]
            })?;
        }
        Command::Enable { name } => set_enabled(session, &name, true)?,
        Command::Disable { name, consent } => {
            session.confirm(&consent, &format!("disable `{name}`"))?;
            set_enabled(session, &name, false)?;
        }
    }
    Ok(Exit::Success)
}

fn set_enabled(session: &Session, name: &str, enabled: bool) -> std::result::Result<(), Failure> {
    let system = session.client()?.set_enabled(name, enabled)?;
    session.out.record(&system, || vec![("System", system.name.clone()), ("Status", system.status.clone())])
}

fn state_of(system: &System, layer: Layer) -> String {
    let found = system.layers.iter().find(|status| status.layer == layer);
    found.map_or_else(|| "-".to_owned(), |status| status.state.to_string())
}

fn show(session: &Session, detail: &SystemDetail, values: bool) -> std::result::Result<(), Failure> {
    session.out.record(detail, || fields(detail))?;
    if session.out.format != Format::Table {
        return Ok(());
    }
    session.out.write("\n")?;
    session.out.table(&detail.system.layers, LAYERS)?;
    if let Some(pedestal) = detail.pedestal.as_ref().filter(|_| values) {
        session.out.write("\n")?;
        session.out.table(
            &pedestal.origins,
            &[
                ("KEY", |origin| origin.key.clone()),
                ("VALUE", |origin| origin.value.to_string()),
                ("ORIGIN", |origin| origin.origin.clone()),
            ],
        )?;
    }
    Ok(())
}

fn fields(detail: &SystemDetail) -> Vec<(&'static str, String)> {
    let system = &detail.system;
    let mut fields = vec![
        ("Name", system.name.clone()),
        ("Display name", system.display_name.clone()),
        ("Status", system.status.clone()),
        ("Built in", system.is_builtin.to_string()),
        ("Slots", format!("{} of {}", system.count, system.ns_pattern)),
        ("Services", detail.services.len().to_string()),
    ];
    if let Some(pedestal) = &detail.pedestal {
        let Some(short) = pedestal.values_digest.get(..12) else { return fields };
        fields.push(("Pedestal", format!("{} (revision {})", pedestal.version, pedestal.revision)));
        fields
            .push(("Chart", format!("{} {} from {}", pedestal.chart_name, pedestal.chart_version, pedestal.repo_url)));
        fields.push(("Values", format!("{}, digest {short}", counted(pedestal.origins.len(), "value"))));
    }
    if let Some(seed) = &detail.seed {
        fields.push(("Seed", format!("{}, applied {}", seed.env, seed.applied_at)));
    }
    fields
}

/// Registers one after the other: a failure of one leaves the others alone.
fn register(session: &Session, requests: Vec<RegisterRequest>) -> Done {
    let client = session.client()?;
    let only = requests.len() == 1;
    let (mut reports, mut first_failure): (Vec<RegisterReport>, Option<Failure>) = (Vec::new(), None);
    for request in &requests {
        match client.register(request) {
            Ok(report) => reports.push(report),
            Err(failure) => {
                if !only {
                    session.out.say(format!("{}: {}", request.name, line(&failure)));
                }
                first_failure.get_or_insert(failure);
            }
        }
    }
    for report in &reports {
        print_report(session, report)?;
    }
    match first_failure {
        None => Ok(Exit::Success),
        Some(failure) if reports.is_empty() => Err(failure),
        Some(_) => Ok(Exit::WorkflowFailed),
    }
}

fn print_report(session: &Session, report: &RegisterReport) -> std::result::Result<(), Failure> {
    for warning in &report.warnings {
        session.out.say(format!("warning: {warning}"));
    }
    if session.out.format != Format::Table {
        return session.out.document(report);
    }
    let verb = if report.dry_run { "Would register" } else { "Registered" };
    session.out.write(&format!("{verb} {}: {}\n", report.name, counted(report.writes.len(), "value")))?;
    if report.dry_run {
        return session.out.table(
            &report.writes,
            &[
                ("LAYER", |write| write.layer.to_string()),
                ("CHANGE", |write| write.change.clone()),
                ("KEY", |write| write.key.clone()),
                ("VALUE", |write| write.value.clone()),
            ],
        );
    }
    session.out.table(&report.layers, LAYERS)
}
