//! `pack-build`: a datapack of a million spans from the embedded store, beside DuckDB, which reads, filters, sorts and writes the
//! same rows of the same column files in the same run.
//!
//! Ours also measures, searches for leaks, digests and syncs each file; DuckDB sorts by time alone.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::process::Scratch;
use super::query::lines;
use super::{BAR_RATIO, Better, Figure, median};
use crate::{provision, tools};

const REPEATS: &str = "5";

pub fn measure() -> Result<Vec<Figure>> {
    let python = provision::consumers().context("the peer is missing")?;
    let program = tools::build_example("sample", "build")?;
    let scratch = Scratch::new("pack-build")?;
    let script = tools::root().join("xtask/consumers/pack_build.py");
    let ours = lines(Command::new(program).arg(scratch.path()).arg(REPEATS))?;
    let [place, ours @ ..] = ours.as_slice() else { bail!("our program printed nothing") };
    let store = place["store"].as_str().context("our program did not say where the telemetry is")?;
    let mut peer = Command::new(python);
    peer.arg(script).arg(REPEATS).arg(store).arg(place["windows"].to_string()).arg(scratch.path().join("duckdb"));
    let theirs = lines(&mut peer)?;
    let (rows, other) = (&ours[0]["rows"], &theirs[0]["rows"]);
    if rows != other {
        bail!("the two did not write the same rows: {rows} and {other}");
    }
    let seconds = |lines: &[Value]| lines.iter().filter_map(|line| line["seconds"].as_f64()).collect::<Vec<f64>>();
    let peers = seconds(&theirs);
    Ok(vec![Figure {
        name: "pack-build".into(),
        unit: "s",
        peer: "duckdb",
        peer_figure: median(&peers),
        samples: seconds(ours),
        better: Better::Smaller,
        command: format!("sample/examples/build FOLDER {REPEATS}, and consumers/pack_build.py on its store"),
        beside: BTreeMap::from([
            (BAR_RATIO.to_owned(), json!(0.5)),
            ("duckdb_samples".to_owned(), json!(peers)),
            ("duckdb_version".to_owned(), theirs[0]["version"].clone()),
            ("rows".to_owned(), rows.clone()),
        ]),
    }])
}
