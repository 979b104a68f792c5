//! An evaluation of every registered algorithm on two hundred datapacks.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::process::{Scratch, Server, children_cpu_seconds, cpu_seconds, resident_mib};
use super::{Better, Figure};
use crate::tools;

/// Datapacks, and in how many submissions they are made.
const PACKS: i64 = 200;
const BATCH: &str = "50";
/// Seconds that an evaluation may take that reads each datapack once: a second of a core for each.
const SECONDS_BAR: f64 = 200.0;
const MIB_BAR: f64 = 1024.0;
/// A fault that every user feels, in windows that every algorithm takes, under a low load.
const FAULT: [&str; 14] = [
    "--system",
    "ts",
    "--service",
    "ts-travel-service",
    "--capability",
    "network_delay",
    "--target",
    "target_service=ts-basic-service",
    "--param",
    "latency_ms=2000",
    "--load",
    "10",
    "--repeat",
    BATCH,
];
const TICK: Duration = Duration::from_millis(50);
const LIMIT: Duration = Duration::from_secs(3 * 3600);

/// Seconds, and the peak of the resident memory of the server with its children.
pub fn measure() -> Result<Vec<Figure>> {
    let binaries = tools::build_binaries()?;
    let scratch = Scratch::new("evaluate")?;
    let server = Server::start(&binaries, &scratch.path().join("data"), &[], None)?;
    make_packs(&server, &binaries)?;
    let (mut seconds, mut memory, mut beside) = (Vec::new(), Vec::new(), BTreeMap::new());
    for _ in 0..3 {
        let (took, peak, told) = evaluate(&server, &binaries)?;
        seconds.push(took);
        memory.push(peak);
        beside = told;
    }
    server.process.stop()?;
    let figure = |name: &str, unit, bar, samples, beside| Figure {
        name: name.into(),
        unit,
        peer: "bar",
        peer_figure: bar,
        samples,
        better: Better::Smaller,
        command: "aegisctl evaluation create --always".into(),
        beside,
    };
    Ok(vec![
        figure("evaluate", "s", SECONDS_BAR, seconds, beside),
        figure("memory-evaluate", "MiB", MIB_BAR, memory, BTreeMap::new()),
    ])
}

/// Runs that end with a datapack and without any algorithm.
fn make_packs(server: &Server, binaries: &Path) -> Result<()> {
    server.ask(binaries, &["system", "register", "--from-seed", "seeds", "--env", "demo", "--name", "ts"])?;
    server.ask(binaries, &["system", "enable", "ts"])?;
    let submissions = PACKS / BATCH.parse::<i64>()?;
    for number in 0..submissions {
        let seed = (1000 * (number + 1)).to_string();
        server.ask(binaries, &[&["inject", "submit"][..], &FAULT, &["--seed", &seed]].concat())?;
    }
    let deadline = Instant::now() + LIMIT;
    loop {
        let ended = |state: &str| -> Result<i64> {
            let list = server.ask(binaries, &["run", "list", "--state", state, "--size", "1"])?;
            list["pagination"]["total"].as_i64().context("a list tells no total")
        };
        let (completed, failed) = (ended("Completed")?, ended("Failed")?);
        if failed > 0 {
            bail!("{failed} runs failed");
        }
        if completed == PACKS {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("{completed} of {PACKS} runs have ended within {} s", LIMIT.as_secs());
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Seconds, the peak in MiB, and what is told beside them.
fn evaluate(server: &Server, binaries: &Path) -> Result<(f64, f64, BTreeMap<String, Value>)> {
    let pid = server.process.id();
    // The server reads and compares checksums, its children rank.
    let used = || -> Result<f64> { Ok(cpu_seconds(pid)? + children_cpu_seconds(pid)?) };
    let (start, before) = (Instant::now(), used()?);
    let begun = server.ask(binaries, &["evaluation", "create", "--always"])?;
    let id = begun["id"].clone();
    let (mut peak, mut asked): (f64, _) = (0.0, Instant::now());
    let ended = loop {
        peak = peak.max(resident_mib(pid));
        if asked.elapsed() > Duration::from_millis(500) {
            asked = Instant::now();
            let list = server.ask(binaries, &["evaluation", "list", "--size", "1"])?;
            let newest = list["items"][0].clone();
            if newest["id"] == id && newest["state"] != "Running" {
                break newest;
            }
        }
        if start.elapsed() > LIMIT {
            bail!("the evaluation has not ended within {} s", LIMIT.as_secs());
        }
        std::thread::sleep(TICK);
    };
    let took = start.elapsed().as_secs_f64();
    let cores = (used()? - before) / took;
    let of = |key: &str| ended[key].as_f64().with_context(|| format!("the evaluation tells no {key}"));
    let (reading, ranking) = (of("reading_seconds")?, of("ranking_seconds")?);
    let told = BTreeMap::from([
        ("executions".to_owned(), ended["executions"].clone()),
        ("failed".to_owned(), ended["failed"].clone()),
        ("algorithms".to_owned(), ended["algorithm_name"].clone()),
        ("share_of_reading".to_owned(), json!((100.0 * reading / (reading + ranking)).round() / 100.0)),
        ("cores_busy".to_owned(), json!((100.0 * cores).round() / 100.0)),
        ("cores".to_owned(), json!(std::thread::available_parallelism()?.get())),
    ]);
    Ok((took, peak, told))
}
