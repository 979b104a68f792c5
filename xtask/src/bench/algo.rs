//! `algo-*`: the variants `@rcaeval` beside RCAEval, on the same files and with the same ranking, in the same run.
//!
//! Both sides report the seconds inside of the method's call; reading the file counts on neither. The peer is asked as
//! often as ours, in one process, so that its imports and its warm-up count on neither side either.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::process::Scratch;
use super::{BAR_RATIO, Better, Figure, median};
use crate::{provision, tools};

/// Times that the peer is asked.
const ASKED: usize = 3;

/// The figures: their name, the program's method, the folder that it takes, and how many times faster ours has to be.
pub const METHODS: &[(&str, &str, &str, f64)] = &[
    ("algo-nsigma", "nsigma", "wide", 20.0),
    ("algo-baro", "baro", "wide", 20.0),
    ("algo-tracerca", "tracerca", "spans", 20.0),
    ("algo-microrank", "microrank", "spans", 20.0),
    ("algo-pc-pagerank", "pc_pagerank", "small", 10.0),
    ("algo-granger-pagerank", "granger_pagerank", "small", 10.0),
];

pub fn measure(name: &str) -> Result<Vec<Figure>> {
    let (name, method, table, bar) = *METHODS.iter().find(|(known, ..)| *known == name).context("no such figure")?;
    let python = provision::rcaeval()?;
    tools::run(tools::cargo().args(["build", "--package", "rca", "--example", "rcaeval"]))?;
    let program = tools::target_dir()?.join("debug/examples/rcaeval");
    let scratch = Scratch::new(name)?;
    tools::run(Command::new(&program).arg("make").arg(scratch.path()))?;
    let folder = scratch.path().join(table);
    let ours = answer(Command::new(&program).arg(method).arg(&folder))?;
    let ours = ours.first().context("our program printed nothing")?;

    let script = tools::root().join("xtask/rcaeval/peer.py");
    let folders: Vec<&Path> = vec![&folder; ASKED];
    let theirs = answer(Command::new(python).arg(script).arg(method).args(folders))?;
    let mut peer = Vec::new();
    for line in &theirs {
        if let Some(reason) = line["failed"].as_str() {
            bail!("the peer fell back to the order of its columns, or failed: {reason}");
        }
        same_ranking(ours, &line["ranks"])?;
        peer.push(line["seconds"].as_f64().context("the peer told no seconds")?);
    }
    let samples: Vec<f64> = ours["seconds"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
    let ranked = theirs.first().and_then(|line| line["ranks"].as_array()).map_or(0, Vec::len);
    let milliseconds = |seconds: &[f64]| seconds.iter().map(|seconds| seconds * 1000.0).collect::<Vec<_>>();
    Ok(vec![Figure {
        name: name.into(),
        unit: "ms",
        peer: "rcaeval 1.8.1",
        peer_figure: median(&milliseconds(&peer)),
        samples: milliseconds(&samples),
        better: Better::Smaller,
        command: format!("rcaeval {method} {table}"),
        beside: BTreeMap::from([
            (BAR_RATIO.to_owned(), json!(bar)),
            ("peer_samples_ms".to_owned(), json!(milliseconds(&peer))),
            ("same_ranking".to_owned(), json!(ranked)),
        ]),
    }])
}

fn answer(command: &mut Command) -> Result<Vec<Value>> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout)?.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// Each name of the peer's stands in the group of equal scores that covers its rank.
fn same_ranking(ours: &Value, theirs: &Value) -> Result<()> {
    let groups = ours["groups"].as_array().context("our program ranked nothing")?;
    let places = groups.iter().flat_map(|group| {
        let size = group.as_array().map_or(0, Vec::len);
        std::iter::repeat_n(group, size)
    });
    let theirs = theirs.as_array().context("the peer ranked nothing")?;
    if ours["answered"].as_u64() != Some(theirs.len() as u64) {
        bail!("{} ranks of ours, {} of the peer's", ours["answered"], theirs.len());
    }
    for (rank, (name, group)) in theirs.iter().zip(places).enumerate() {
        if !group.as_array().is_some_and(|group| group.contains(name)) {
            bail!("the rankings differ at rank {}: {name} is not among {group}", rank + 1);
        }
    }
    Ok(())
}
