//! `cargo xtask demo`: builds Aegis, then runs its main job in one command.

use std::process::Command;

use anyhow::Result;

use crate::tools;

#[derive(clap::Args)]
pub struct Args {
    /// Passed on to `aegis demo`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub fn run(args: &Args) -> Result<()> {
    let binaries = tools::build_binaries()?;
    tools::run(
        Command::new(binaries.join("aegis"))
            .current_dir(tools::root())
            .args(["demo", "--seeds", "seeds"])
            .args(&args.rest),
    )
}
