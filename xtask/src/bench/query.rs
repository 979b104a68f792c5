//! `datapack query` over two hundred packs, beside DuckDB on the same files in the same run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::process::{Scratch, Server};
use super::{BAR_RATIO, Better, Figure, median};
use crate::{provision, tools};

const PACKS: usize = 200;
/// Runs that are simulated; the packs are links to their files.
const RUNS: usize = 4;
const REPEATS: &str = "7";
const SQL: &str = "SELECT ServiceName, count(*) FROM traces GROUP BY ServiceName ORDER BY ServiceName";

/// Seconds of one query, without starting a program; the peer is measured in the same way.
pub fn measure() -> Result<Vec<Figure>> {
    let python = provision::consumers().context("the peer is missing")?;
    let binaries = tools::build_binaries()?;
    let scratch = Scratch::new("query")?;
    let packs = packs(&binaries, scratch.path())?;
    let script = tools::root().join("xtask/consumers/query.py");
    let ours = || {
        let mut command = Command::new(binaries.join("aegis"));
        lines(command.args(["bench-query", "--repeats", REPEATS, SQL]).arg(&packs))
    };
    let theirs = || lines(Command::new(&python).arg(&script).arg(REPEATS).arg(&packs));
    // Once for the page cache, then in turn.
    ours()?;
    theirs()?;
    let (mine, peer) = (ours()?, theirs()?);
    let (first, other) = (&mine[0]["rows"], &peer[0]["rows"]);
    if first != other {
        bail!("the two do not answer the same: {first} and {other}");
    }
    let seconds =
        |lines: &[Value]| lines.iter().filter_map(|line| line["seconds"].as_f64()).map(|s| s * 1000.0).collect();
    let (samples, peers): (Vec<f64>, Vec<f64>) = (seconds(&mine), seconds(&peer));
    Ok(vec![Figure {
        name: "query".into(),
        unit: "ms",
        peer: "duckdb",
        peer_figure: median(&peers),
        samples,
        better: Better::Smaller,
        command: format!(
            "aegis bench-query --repeats {REPEATS} '{SQL}' PACKS, and the same by DuckDB; {PACKS} packs, which are links to \
             the files of {RUNS} runs"
        ),
        beside: BTreeMap::from([
            (BAR_RATIO.to_owned(), json!(1.0 / 1.5)),
            ("duckdb_samples".to_owned(), json!(peers)),
            ("duckdb_version".to_owned(), peer[0]["version"].clone()),
            ("spans".to_owned(), json!(spans(first))),
        ]),
    }])
}

fn spans(rows: &Value) -> u64 {
    rows.as_array().into_iter().flatten().filter_map(|row| row[1].as_u64()).sum()
}

/// The lines of JSON that a program prints.
pub fn lines(command: &mut Command) -> Result<Vec<Value>> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8(output.stdout)?;
    text.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
}

/// A folder of packs: a few runs on `ts`, and links to their files under further names.
fn packs(binaries: &Path, scratch: &Path) -> Result<std::path::PathBuf> {
    let data = scratch.join("data");
    let server = Server::start(binaries, &data, &[], None)?;
    let seeds = tools::root().join("seeds");
    let seeds = seeds.to_str().context("the project's folder has no name in UTF-8")?;
    server.ask(binaries, &["system", "register", "--from-seed", seeds, "--env", "demo", "--name", "ts"])?;
    server.ask(binaries, &["system", "enable", "ts"])?;
    let repeat = RUNS.to_string();
    server.ask(
        binaries,
        &["inject", "submit", "--system", "ts", "--no-fault", "--seed", "1", "--repeat", &repeat, "--wait"],
    )?;
    server.process.stop()?;
    let folder = scratch.join("packs");
    for number in 0..PACKS {
        let from = data.join(format!("packs/ts-{:06}/open", number % RUNS + 1));
        let to = folder.join(format!("ts-{:06}/open", number + 1));
        fs::create_dir_all(&to)?;
        for entry in fs::read_dir(&from).with_context(|| from.display().to_string())? {
            let entry = entry?;
            fs::hard_link(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(folder)
}
