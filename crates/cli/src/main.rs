//! `aegisctl`: the operator's command line. Data goes to standard output, talk to standard error.

mod args;
mod commands;
mod config;
mod duration;
mod error;
mod output;
mod schema;
mod session;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Cli;
use crate::output::Format;
use crate::session::Session;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(refusal) => return error::usage(&refusal, Format::guess(std::env::args())),
    };
    let asked = cli.global.output.unwrap_or_default();
    let (done, format) = match commands::offline(&cli.command, asked) {
        Some(done) => (done, asked),
        None => match Session::new(&cli.global) {
            Ok(session) => (commands::run(cli.command, &session), session.out.format),
            Err(failure) => (Err(failure), asked),
        },
    };
    match done {
        Ok(exit) => exit.into(),
        Err(failure) => error::report(&failure, format),
    }
}
