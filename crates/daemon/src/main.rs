//! `aegis`: the daemon and what belongs to it. Configuration and wiring; the work is done in the crates below.

// Before the others, which print by its macro.
#[macro_use]
mod output;

mod bench_query;
mod bench_send;
mod board_table;
mod bond;
mod config;
mod config_check;
mod confine;
mod contracts;
mod demo;
mod exec;
mod folder;
mod pack;
mod serve;
mod simulate;

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use model::{Problem, Result, printable};

use crate::config::Config;

#[derive(Parser)]
#[command(name = "aegis", version, about = "A control plane for benchmarking root-cause analysis")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start everything in one process: API, worker, store, telemetry, simulated cluster.
    Serve(ServeArgs),
    /// Run one whole benchmark round on this machine and print the scored board.
    Demo(demo::Args),
    /// Work with the configuration file.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Work with the simulated cluster directly.
    #[command(subcommand)]
    Sim(simulate::Command),
    /// Work with datapacks in a folder, without a server.
    #[command(subcommand)]
    Datapack(pack::Command),
    /// Write the generated contracts into a folder.
    #[command(hide = true)]
    Contracts { folder: PathBuf },
    /// Send a load of spans to an OTLP receiver and print what became of it as JSON.
    #[command(hide = true)]
    BenchSend(bench_send::Args),
    /// Measure a query over a folder of datapacks, and print what it took as JSON.
    #[command(hide = true)]
    BenchQuery(bench_query::Args),
    /// Be the child process of a detector or an algorithm.
    #[command(hide = true)]
    Exec(exec::Args),
    /// Answer one query: the order on standard input, the lines of the answer on standard output.
    #[command(hide = true)]
    Query,
    /// Run a command that somebody brought, kept apart from the rest of the machine.
    #[command(hide = true)]
    Confine(confine::Args),
}

#[derive(clap::Args)]
struct ServeArgs {
    /// Configuration file (TOML); flags win over it.
    #[arg(long)]
    config: Option<PathBuf>,
    /// Data folder.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Address of the HTTP API; port 0 takes a free one.
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Receive OTLP over gRPC here, for example 127.0.0.1:4317; port 0 takes a free one.
    #[arg(long)]
    otlp_grpc: Option<SocketAddr>,
    /// Receive OTLP over HTTP here, for example 127.0.0.1:4318; port 0 takes a free one.
    #[arg(long)]
    otlp_http: Option<SocketAddr>,
    /// State store: `sqlite:PATH` or `mysql://…`.
    #[arg(long)]
    store: Option<String>,
    /// Live settings: `sql` keeps them in the store alone, `etcd://HOST:PORT[/PREFIX]` publishes them.
    #[arg(long)]
    settings: Option<String>,
    /// Folder of systems that adds to and overrides the built-in ones.
    #[arg(long, value_name = "DIR")]
    systems: Option<PathBuf>,
    /// Tasks that run at once.
    #[arg(long)]
    workers: Option<usize>,
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Say what a configuration file sets and try each outside part of it, without changing anything.
    Check { file: PathBuf },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.command {
        Command::Confine(args) => confine::run(args),
        _ => run(cli.command).and_then(|()| output::finish()).map(|()| ExitCode::SUCCESS),
    };
    match done {
        Ok(code) => code,
        Err(problem) => {
            print_problem(&problem);
            ExitCode::from(problem.kind.exit_code())
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Serve(args) => serve::run(&args.resolve()?),
        Command::Demo(args) => demo(&args),
        Command::Config(ConfigCommand::Check { file }) => config_check::run(&Config::read(&file)?),
        Command::Sim(command) => simulate::run(command),
        Command::Datapack(command) => pack::run(command),
        Command::BenchQuery(args) => bench_query::run(&args),
        Command::BenchSend(args) => bench_send::run(&args),
        Command::Contracts { folder } => contracts::write(&folder),
        Command::Query => query::child::answer(),
        Command::Confine(args) => confine::run(&args).map(drop),
        Command::Exec(args) => exec::run(&args),
    }
}

fn demo(args: &demo::Args) -> Result<()> {
    let data = args.data();
    let config = Config { data: data.clone(), listen: SocketAddr::from(([127, 0, 0, 1], 0)), ..Config::default() };
    serve::during(&config, |connection| demo::round(args, connection, &data))
}

impl ServeArgs {
    fn resolve(self) -> Result<Config> {
        let mut config = self.config.as_deref().map_or_else(|| Ok(Config::default()), Config::read)?;
        if let Some(data) = self.data {
            config.data = data;
        }
        if let Some(listen) = self.listen {
            config.listen = listen;
        }
        if let Some(workers) = self.workers {
            config.workers = workers;
        }
        config.otlp_grpc = self.otlp_grpc.or(config.otlp_grpc);
        config.otlp_http = self.otlp_http.or(config.otlp_http);
        config.store = self.store.or(config.store);
        config.settings = self.settings.unwrap_or(config.settings);
        config.systems = self.systems.or(config.systems);
        config.check("the command line")?;
        Ok(config)
    }
}

fn print_problem(problem: &Problem) {
    let mut text = format!("error: {} [{}]\n", problem.message, problem.code);
    let mut tell = |label: &str, said: &dyn std::fmt::Display| text.push_str(&format!("  {label:<9} {said}\n"));
    for (label, said) in
        [("place", &problem.place), ("found", &problem.found), ("expected", &problem.expected), ("fix", &problem.fix)]
    {
        if let Some(said) = said {
            tell(label, said);
        }
    }
    let mut cause = std::error::Error::source(problem);
    while let Some(error) = cause {
        tell("because", &error);
        cause = error.source();
    }
    // There is nobody left to tell when standard error is closed.
    let _ = write!(std::io::stderr(), "{}", printable(&text));
}
