//! `algorithm`: detectors and root-cause-analysis methods, built in and brought along.

use std::collections::BTreeMap;

use api::algorithm::{AddAlgorithmRequest, Algorithm, Network, TestAlgorithmRequest};
use clap::{Args, Subcommand, ValueEnum};
use client::Failure;

use super::{Done, evaluation, execution};
use crate::duration::parse_positive;
use crate::error::Exit;
use crate::output::{Column, or_dash};
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List every version of every method, and whether it can run here
    #[command(visible_alias = "ls")]
    List,
    /// Show one version
    Show {
        /// NAME or NAME:VERSION
        name: String,
    },
    /// Add a command as an algorithm
    ///
    /// It is given the variables of the container contract (INPUT_PATH, OUTPUT_PATH, NORMAL_START, ABNORMAL_START, ...)
    /// and answers with `result.csv` or `result.json` in its output folder, or by HTTP. A version never changes.
    Add(Box<Add>),
    /// Run one algorithm on one datapack and show its answer
    Test {
        /// NAME or NAME:VERSION
        name: String,
        /// Datapack by name or number
        pack: String,
        #[command(flatten)]
        wait: evaluation::Patience,
    },
}

#[derive(Debug, Args)]
pub struct Add {
    /// NAME or NAME:VERSION; the version is 1 when none is given
    name: String,
    /// The program and its arguments, as a shell would split them
    #[arg(long, value_name = "CMD", required_unless_present = "image")]
    command: Option<String>,
    /// A container image
    #[arg(long, value_name = "REF", conflicts_with = "command")]
    image: Option<String>,
    /// A variable of its environment
    #[arg(long = "env", value_name = "KEY=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Longest time for one datapack; the server's own limit by default
    #[arg(long, value_name = "TIME", value_parser = parse_positive)]
    timeout: Option<u64>,
    /// Most memory of all its processes together; the server's own limit by default
    #[arg(long, value_name = "MIB")]
    memory: Option<u64>,
    /// What it may reach
    #[arg(long, value_enum, default_value_t = Reach::None)]
    network: Reach,
    /// Run it with every right of the server, where the machine cannot keep it apart; its results are marked
    #[arg(long)]
    no_isolation: bool,
}

/// What a command may reach.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Reach {
    /// Nothing
    None,
    /// This server, to hand over its answer
    Server,
    /// Everything that the server reaches
    All,
}

fn variable(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .ok_or_else(|| "not KEY=VALUE".to_owned())
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
    let client = session.client()?;
    match command {
        Command::List => session.out.items(&client.algorithms()?, COLUMNS)?,
        Command::Show { name } => show(session, &client.algorithm(&name)?)?,
        Command::Add(add) => show(session, &client.add_algorithm(&request(*add)?)?)?,
        Command::Test { name, pack, wait } => {
            let begun = client.test_algorithm(&name, &TestAlgorithmRequest { datapack: pack })?;
            let ended = evaluation::wait(session, begun.id.0, &wait)?;
            return execution::of_evaluation(session, ended.id.0);
        }
    }
    Ok(Exit::Success)
}

fn request(add: Add) -> Result<AddAlgorithmRequest, Failure> {
    let (name, version) = add.name.split_once(':').unwrap_or((&add.name, "1"));
    let command = match &add.command {
        None => Vec::new(),
        Some(text) => shlex::split(text).ok_or_else(|| {
            let problem = model::Problem::new(
                model::ErrorKind::Invalid,
                "algorithm.command_malformed",
                "the command cannot be split into words",
            );
            Failure::from(problem.place("--command").found(text.clone()).fix("close every quote"))
        })?,
    };
    Ok(AddAlgorithmRequest {
        name: name.to_owned(),
        version: version.to_owned(),
        command,
        image: add.image,
        env: add.env.into_iter().collect::<BTreeMap<_, _>>(),
        timeout_seconds: add.timeout,
        memory_mib: add.memory,
        network: match add.network {
            Reach::None => Network::None,
            Reach::Server => Network::Server,
            Reach::All => Network::All,
        },
        no_isolation: add.no_isolation,
    })
}

fn show(session: &Session, algorithm: &Algorithm) -> Result<(), Failure> {
    session.out.record(algorithm, || {
        let mut rows = vec![
            ("Algorithm", algorithm.name.clone()),
            ("Version", algorithm.version.clone()),
            ("Role", algorithm.role.clone()),
            ("Kind", algorithm.kind.clone()),
            ("Runnable", algorithm.reason.clone().map_or_else(|| "yes".into(), |reason| format!("no: {reason}"))),
            ("Summary", algorithm.summary.clone()),
            ("Source", or_dash(algorithm.source.as_ref())),
        ];
        if let Some(method) = &algorithm.method {
            rows.extend([
                ("Reads", method.input.join(", ")),
                ("Shapes", method.shapes.clone()),
                ("Units", method.units.clone()),
                ("Complexity", method.complexity.clone()),
                ("Deviations", if method.deviations.is_empty() { "-".into() } else { method.deviations.join("\n") }),
            ]);
        }
        if let Some(command) = &algorithm.command {
            let network = match command.network {
                Network::None => "none",
                Network::Server => "this server",
                Network::All => "all",
            };
            rows.extend([
                ("Time", format!("{} s", command.timeout_seconds)),
                ("Memory", format!("{} MiB", command.memory_mib)),
                ("Network", network.to_owned()),
                ("Isolation", if command.no_isolation { "none" } else { "namespaces" }.to_owned()),
            ]);
        }
        rows
    })
}
