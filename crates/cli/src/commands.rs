//! One file per noun.

pub mod algorithm;
pub mod auth;
pub mod board;
pub mod chart;
pub mod datapack;
pub mod dataset;
pub mod doctor;
pub mod evaluation;
pub mod execution;
pub mod fault;
pub mod helm;
pub mod inject;
pub mod kill_switch;
pub mod lease;
pub mod lint;
pub mod otel;
pub mod pedestal;
pub mod point;
pub mod run;
pub mod seed;
pub mod settings;
pub mod status;
pub mod system;
pub mod task;

use clap::CommandFactory;
use client::Failure;

use crate::args::{Cli, Command, SchemaCommand};
use crate::error::Exit;
use crate::output::{Format, Output};
use crate::session::Session;

pub type Done = Result<Exit, Failure>;

/// The commands that need neither settings nor a server.
pub fn offline(command: &Command, format: Format) -> Option<Done> {
    let out = Output::new(format, true, false);
    match command {
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "aegisctl", &mut script);
            Some(out.write(&String::from_utf8_lossy(&script)).map(|()| Exit::Success))
        }
        Command::System(system::Command::Lint { folder }) => Some(lint::run(folder, &out)),
        Command::Seed(command) => seed::offline(command, &out),
        Command::Doctor(doctor::Arguments { command: Some(command), .. }) => Some(doctor::explain(command, &out)),
        Command::Schema(SchemaCommand::Dump) => Some(out.document(&crate::schema::document()).map(|()| Exit::Success)),
        _ => None,
    }
}

pub fn run(command: Command, session: &Session) -> Done {
    match command {
        Command::Auth(command) => auth::run(command, session),
        Command::Inject(inject::Command::Submit(arguments)) => inject::submit(*arguments, session),
        Command::Run(command) => run::run(command, session),
        Command::Task(command) => task::run(command, session),
        Command::Datapack(command) => datapack::run(command, session),
        Command::Algorithm(command) => algorithm::run(command, session),
        Command::Execution(command) => execution::run(command, session),
        Command::Evaluation(command) => evaluation::run(command, session),
        Command::Dataset(command) => dataset::run(command, session),
        Command::Fault(command) => fault::run(command, session),
        Command::Point(command) => point::run(command, session),
        Command::KillSwitch(command) => kill_switch::run(command, session),
        Command::Otel(command) => otel::run(command, session),
        Command::Board(arguments) => board::run(arguments, session),
        Command::Settings(command) => settings::run(command, session),
        Command::Status => status::run(session),
        Command::Lease(command) => lease::run(command, session),
        Command::Doctor(arguments) => doctor::run(&arguments, session),
        Command::System(system::Command::Lint { .. }) | Command::Completions { .. } | Command::Schema(_) => {
            offline(&command, session.out.format).expect("these commands are done without a session")
        }
        Command::System(command) => system::run(command, session),
        Command::Seed(command) => seed::run(command, session),
        Command::Pedestal(command) => pedestal::run(command, session),
    }
}
