//! The arguments that every command takes, and the tree of commands.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::commands::{
    algorithm, auth, board, datapack, dataset, doctor, evaluation, execution, fault, inject, kill_switch, lease, otel,
    pedestal, point, run, seed, settings, system, task,
};
use crate::duration::parse_positive;
use crate::output::Format;

/// Run and score root-cause-analysis benchmarks.
#[derive(Debug, Parser)]
#[command(
    name = "aegisctl",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Precedence: flag, environment, context of the config file, server of this machine, default.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Base URL of the server; by default the context's, else the one that runs on this machine
    #[arg(long, global = true, env = "AEGIS_SERVER", value_name = "URL", hide_env_values = true)]
    pub server: Option<String>,
    /// Bearer token
    #[arg(long, global = true, env = "AEGIS_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// Context of the config file to use instead of the current one
    #[arg(long, global = true, env = "AEGIS_CONTEXT", value_name = "NAME", hide_env_values = true)]
    pub context: Option<String>,
    /// Form of the data on standard output
    ///
    /// As JSON and YAML a list that has pages is an object with `items` and `pagination`, one page as well as all of them;
    /// every other list is an array. As NDJSON it is one item a line, and the page's place goes to standard error.
    #[arg(short, long, global = true, env = "AEGIS_OUTPUT", value_enum, value_name = "FORMAT", hide_env_values = true)]
    pub output: Option<Format>,
    /// Longest time that one request may take, in seconds
    #[arg(long, global = true, env = "AEGIS_TIMEOUT", value_name = "SECONDS", value_parser = parse_positive, hide_env_values = true)]
    pub request_timeout: Option<u64>,
    /// Trust the certificates of this PEM file as well
    #[arg(long, global = true, env = "AEGIS_CA_CERT", value_name = "FILE", hide_env_values = true)]
    pub ca_cert: Option<PathBuf>,
    /// Accept any certificate
    #[arg(long, global = true)]
    pub insecure_skip_tls_verify: bool,
    /// Say nothing but errors on standard error
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// No colours (as with the variable NO_COLOR)
    #[arg(long, global = true)]
    pub no_color: bool,
    /// Never ask; fail where an answer is needed
    #[arg(long, global = true, env = "AEGIS_NON_INTERACTIVE", value_parser = clap::builder::FalseyValueParser::new(), hide_env_values = true)]
    pub non_interactive: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Log in, and show who is logged in
    #[command(subcommand)]
    Auth(auth::Command),
    /// Benchmark systems and their five layers
    #[command(subcommand, visible_alias = "sys")]
    System(system::Command),
    /// The declared state of the installation: check, plan, apply, prove
    #[command(subcommand)]
    Seed(seed::Command),
    /// What a system's workload is installed with
    #[command(subcommand)]
    Pedestal(pedestal::Command),
    /// Runtime settings: live values, their history, and where they are published
    #[command(subcommand)]
    Settings(settings::Command),
    /// Submit runs
    #[command(subcommand)]
    Inject(inject::Command),
    /// Runs: one pass of the pipeline each
    #[command(subcommand, visible_alias = "trace")]
    Run(run::Command),
    /// Steps of runs
    #[command(subcommand)]
    Task(task::Command),
    /// Labelled telemetry of runs
    #[command(subcommand)]
    Datapack(datapack::Command),
    /// Detectors and root-cause-analysis methods
    #[command(subcommand)]
    Algorithm(algorithm::Command),
    /// Runs of one algorithm on one datapack
    #[command(subcommand)]
    Execution(execution::Command),
    /// Algorithms on datapacks, and how they compare
    #[command(subcommand, visible_alias = "eval")]
    Evaluation(evaluation::Command),
    /// Named, versioned, immutable sets of datapacks
    #[command(subcommand)]
    Dataset(dataset::Command),
    /// Faults that can be injected
    #[command(subcommand)]
    Fault(fault::Command),
    /// Where faults can be injected
    #[command(subcommand)]
    Point(point::Command),
    /// Stop every fault of the installation, and let none start
    #[command(subcommand)]
    KillSwitch(kill_switch::Command),
    /// The telemetry that arrives
    #[command(subcommand)]
    Otel(otel::Command),
    /// Scores of the algorithms
    Board(board::Arguments),
    /// What runs and processes hold
    #[command(subcommand)]
    Lease(lease::Command),
    /// What the installation is doing
    Status,
    /// Check the installation for known failures
    Doctor(doctor::Arguments),
    /// Print a completion script
    #[command(visible_alias = "completion")]
    Completions {
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Describe this program to other programs
    #[command(subcommand)]
    Schema(SchemaCommand),
}

#[derive(Debug, Subcommand)]
pub enum SchemaCommand {
    /// Print every command, argument and exit code
    Dump,
}

/// Which page of a list.
#[derive(Debug, Clone, Args)]
pub struct Paging {
    /// Page, from 1
    #[arg(long, value_name = "N")]
    pub page: Option<i32>,
    /// Items on a page, 1 to 100
    #[arg(long, value_name = "N", visible_alias = "limit")]
    pub size: Option<i32>,
    /// Every page, one after the other
    #[arg(long, conflicts_with_all = ["page", "size"])]
    pub all: bool,
}

/// Consent to an action that cannot be undone.
#[derive(Debug, Clone, Args)]
pub struct Consent {
    /// Do it without asking
    #[arg(short, long)]
    pub yes: bool,
}

/// A run's id from the command line, or the beginning of one. Which run that is, the server knows.
pub fn run_id(text: &str) -> Result<String, String> {
    let is_part = text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    if is_part && (4..=36).contains(&text.len()) {
        return Ok(text.to_owned());
    }
    Err("not the id of a run, nor its first 4 or more characters; `aegisctl run list` shows them".to_owned())
}

/// A number that JSON can carry: one that is none would arrive as "not given".
pub fn finite(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err(format!("`{text}` is no finite number")),
    }
}
