//! A cold build of everything.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Result;

use super::process::Scratch;
use super::{Better, Figure};
use crate::tools;

/// Seconds into an empty target folder; one sample.
pub fn measure() -> Result<Vec<Figure>> {
    let scratch = Scratch::new("build")?;
    let start = Instant::now();
    tools::run(tools::cargo().args(["build", "--workspace"]).env("CARGO_TARGET_DIR", scratch.path()))?;
    Ok(vec![Figure {
        name: "build".into(),
        unit: "s",
        peer: "bar",
        peer_figure: 1200.0,
        samples: vec![start.elapsed().as_secs_f64()],
        better: Better::Smaller,
        command: "CARGO_TARGET_DIR=EMPTY cargo build --workspace".into(),
        beside: BTreeMap::new(),
    }])
}
