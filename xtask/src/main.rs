//! Developer commands: `cargo xtask demo | test | tools | bench | codegen | tidy`.

mod bench;
mod codegen;
mod demo;
mod provision;
mod test;
mod tidy;
mod tools;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Developer commands of Aegis")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build Aegis and run one whole benchmark round on this machine.
    Demo(demo::Args),
    /// Run every test, after setting up what the tests need.
    Test(test::Args),
    /// Make the programs of others that the tests need, and print the variables that tell where they are.
    Tools,
    /// Measure, as ratios against a peer or a bar.
    Bench(bench::Args),
    /// Write the generated contracts anew.
    Codegen,
    /// Check the structure: who may use whom, a head on every source file.
    Tidy,
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Demo(args) => demo::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Tools => provision::run(),
        Command::Bench(args) => bench::run(&args),
        Command::Codegen => codegen::run(),
        Command::Tidy => tidy::run(),
    }
}
