//! `cargo xtask codegen`: writes `contracts/` from the code and `docs/pictures/` from the simulation. A test fails when one of them
//! is stale.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::tools;

pub fn run() -> Result<()> {
    let binaries = tools::build_binaries()?;
    let contracts = tools::root().join("contracts");
    fs::create_dir_all(&contracts)?;
    tools::run(Command::new(binaries.join("aegis")).arg("contracts").arg(&contracts))?;
    let dump = Command::new(binaries.join("aegisctl")).args(["schema", "dump"]).output().context("aegisctl")?;
    if !dump.status.success() {
        bail!("aegisctl schema dump ended with {}: {}", dump.status, String::from_utf8_lossy(&dump.stderr));
    }
    fs::write(contracts.join("cli.json"), dump.stdout)?;
    println!("contracts are written to {}", contracts.display());
    let mut draw = tools::cargo();
    draw.args(["test", "--quiet", "--package", "sim", "--test", "it", "--", "emergent", "storms"]);
    tools::run(draw.env("UPDATE_PICTURES", "1"))?;
    println!("pictures are drawn in {}", tools::root().join("docs").join("pictures").display());
    Ok(())
}
