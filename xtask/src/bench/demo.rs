//! The whole demo, after the build.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Instant;

use anyhow::Result;

use super::process::{Running, Scratch, resident_mib};
use super::{Better, Figure};
use crate::tools;

/// Seconds, and the peak of the resident memory of all its processes together.
pub fn measure() -> Result<Vec<Figure>> {
    let binaries = tools::build_binaries()?;
    let (mut seconds, mut memory) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let scratch = Scratch::new("demo")?;
        let mut command = Command::new(binaries.join("aegis"));
        command
            .current_dir(tools::root())
            .args(["demo", "--seeds", "seeds", "--data"])
            .arg(scratch.path().join("data"));
        let start = Instant::now();
        memory.push(Running::start(&mut command, &scratch.path().join("log"))?.peak(resident_mib)?);
        seconds.push(start.elapsed().as_secs_f64());
    }
    let figure = |name: &str, unit, bar, samples| Figure {
        name: name.into(),
        unit,
        peer: "bar",
        peer_figure: bar,
        samples,
        better: Better::Smaller,
        command: "aegis demo --seeds seeds --data DIR".into(),
        beside: BTreeMap::new(),
    };
    Ok(vec![figure("demo", "s", 60.0, seconds), figure("memory-demo", "MiB", 1024.0, memory)])
}
