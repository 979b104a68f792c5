//! How long `aegisctl` takes from its start to its end.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, bail};

use super::process::{Scratch, Server};
use super::{Better, Figure};
use crate::tools;

const COMMANDS: [&[&str]; 2] = [&["--help"], &["system", "list"]];

/// The slower of two commands against a local server, milliseconds.
pub fn measure() -> Result<Vec<Figure>> {
    let binaries = tools::build_binaries()?;
    let scratch = Scratch::new("cli-start")?;
    let server = Server::start(&binaries, &scratch.path().join("data"), &[], None)?;
    let mut samples = Vec::new();
    for _ in 0..22 {
        let times =
            COMMANDS.map(|arguments| server.ctl(&binaries, arguments).and_then(|mut command| time(&mut command)));
        let mut slower: f64 = 0.0;
        for time in times {
            slower = slower.max(time?);
        }
        samples.push(slower);
    }
    // The first of each reads the programs from the disk.
    samples.remove(0);
    Ok(vec![Figure {
        name: "cli-start".into(),
        unit: "ms",
        peer: "bar",
        peer_figure: 20.0,
        samples,
        better: Better::Smaller,
        command: "aegisctl --help; aegisctl system list".into(),
        beside: BTreeMap::new(),
    }])
}

fn time(command: &mut Command) -> Result<f64> {
    let start = Instant::now();
    let output = command.output()?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(start.elapsed().as_secs_f64() * 1000.0)
}
