//! How long `aegisctl` takes to check a seed and to plan it against an installation, start and end of the process included.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::process::{Scratch, Server};
use super::{Better, Figure, median};
use crate::tools;

/// What both may take on the public seed.
const BAR_MS: f64 = 100.0;
const SAMPLES: usize = 15;

/// The public seed, from the folder that tests are given.
pub fn public_seed() -> Result<PathBuf> {
    let shared = std::env::var_os("AEGIS_SHARED").map_or_else(|| tools::root().join("../shared"), PathBuf::from);
    let folder = shared.join("seeds/public-prod");
    let folder = folder.canonicalize().with_context(|| format!("{}: the public seed", folder.display()))?;
    Ok(folder)
}

fn figure(name: &str, samples: Vec<f64>, command: &str) -> Figure {
    Figure {
        name: name.to_owned(),
        unit: "ms",
        peer: "bar",
        peer_figure: BAR_MS,
        samples,
        better: Better::Smaller,
        command: command.to_owned(),
        beside: BTreeMap::new(),
    }
}

/// Milliseconds of each of the runs after the first, which reads the program from the disk.
fn times(mut command: Command, exit: i32) -> Result<Vec<f64>> {
    let mut samples = Vec::new();
    for _ in 0..=SAMPLES {
        let start = Instant::now();
        let output = command.output()?;
        samples.push(start.elapsed().as_secs_f64() * 1000.0);
        if output.status.code() != Some(exit) {
            bail!("{command:?} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
        }
    }
    samples.remove(0);
    Ok(samples)
}

/// `aegisctl seed lint` on the public seed.
pub fn lint() -> Result<Vec<Figure>> {
    let binaries = tools::build_binaries()?;
    let mut command = Command::new(binaries.join("aegisctl"));
    command.args(["seed", "lint"]).arg(public_seed()?);
    Ok(vec![figure("seed-lint", times(command, 0)?, "aegisctl seed lint public-prod")])
}

/// `aegisctl seed plan` on the public seed with one change, against an installation that has applied it, on SQLite.
pub fn plan() -> Result<Vec<Figure>> {
    let binaries = tools::build_binaries()?;
    let scratch = Scratch::new("seed-plan")?;
    let samples = planned(&binaries, scratch.path(), &read(&public_seed()?)?)?;
    Ok(vec![figure("seed-plan", samples, "aegisctl seed plan public-prod (one default changed)")])
}

/// The same on seeds that are 1, 5 and 20 times as long: systems, containers and settings under other names.
pub fn scale() -> Result<Vec<Figure>> {
    let binaries = tools::build_binaries()?;
    let files = read(&public_seed()?)?;
    let mut medians = Vec::new();
    let mut figures = Vec::new();
    for times in [1, 5, 20] {
        let scratch = Scratch::new(&format!("seed-plan-{times}"))?;
        let samples = planned(&binaries, scratch.path(), &repeated(&files, times)?)?;
        medians.push(median(&samples));
        let command = format!("aegisctl seed plan, {times} times the public seed");
        let mut one = figure(&format!("seed-plan-{times}x"), samples, &command);
        // Linear growth of the shortest seed's time is what the longer ones are held against.
        one.peer_figure = medians[0] * f64::from(times);
        one.peer = "linear";
        one.beside = BTreeMap::from([(
            "milliseconds_a_times".to_owned(),
            json!(medians.last().copied().unwrap_or(0.0) / f64::from(times)),
        )]);
        figures.push(one);
    }
    Ok(figures)
}

fn read(folder: &Path) -> Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "yaml") {
            let name = path.file_name().context("a file has a name")?.to_string_lossy().into_owned();
            files.insert(name, fs::read_to_string(&path)?);
        }
    }
    Ok(files)
}

/// Applies a seed, changes one default, and plans that again and again.
fn planned(binaries: &Path, folder: &Path, files: &BTreeMap<String, String>) -> Result<Vec<f64>> {
    let seed = folder.join("seed");
    fs::create_dir_all(&seed)?;
    for (name, text) in files {
        fs::write(seed.join(name), text)?;
    }
    let server = Server::start(binaries, &folder.join("data"), &[], None)?;
    let mut apply = server.ctl(binaries, &["--request-timeout", "300", "seed", "apply", "--yes"])?;
    let applied = apply.arg(&seed).output()?;
    if !applied.status.success() {
        bail!("the seed cannot be applied: {}", String::from_utf8_lossy(&applied.stderr));
    }
    let data = seed.join("data.yaml");
    let text = fs::read_to_string(&data)?;
    fs::write(&data, text.replacen("default_value: '2400'", "default_value: '2401'", 1))?;
    let mut plan = server.ctl(binaries, &["seed", "plan"])?;
    plan.arg(&seed);
    times(plan, 5)
}

/// The seed with all of its containers and settings several times, each time under other names.
fn repeated(files: &BTreeMap<String, String>, times: u32) -> Result<BTreeMap<String, String>> {
    let data = files.get("data.yaml").context("a seed has a `data.yaml`")?;
    let mut sections: Vec<(String, String)> = Vec::new();
    for line in data.lines() {
        match sections.last_mut() {
            _ if !line.starts_with([' ', '#']) && line.ends_with(':') => {
                sections.push((line.to_owned(), String::new()))
            }
            Some((_, text)) => *text += &format!("{line}\n"),
            None => bail!("the seed does not start with a section"),
        }
    }
    let codes: Vec<&str> = data
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- key: injection.system.")?.strip_suffix(".count"))
        .collect();
    let mut whole = String::new();
    for (head, text) in &sections {
        whole += &format!("{head}\n{text}");
        let grows = matches!(head.as_str(), "containers:" | "dynamic_configs:");
        for number in (1..times).filter(|_| grows) {
            whole += &renamed(text, &codes, number);
        }
    }
    let mut all: BTreeMap<String, String> = BTreeMap::from([("data.yaml".to_owned(), whole)]);
    for (name, text) in files.iter().filter(|(name, _)| *name != "data.yaml") {
        let stem = name.trim_end_matches(".yaml");
        all.insert(name.clone(), text.clone());
        for number in 1..times {
            all.insert(format!("{stem}{}.yaml", suffix(number)), text.clone());
        }
    }
    Ok(all)
}

/// `c` with a number in letters: codes of systems end with no digit.
fn suffix(number: u32) -> String {
    let letter = |digit: u32| char::from(b'a' + u8::try_from(digit % 26).expect("below 26"));
    format!("-c{}{}", letter(number / 26), letter(number))
}

fn renamed(text: &str, codes: &[&str], number: u32) -> String {
    let suffix = suffix(number);
    let mut out = String::new();
    for line in text.lines() {
        let system = line.trim().strip_prefix("- key: injection.system.").and_then(|rest| rest.split_once('.'));
        let line = match system {
            Some((code, key)) => format!("  - key: injection.system.{code}{suffix}.{key}"),
            None if line.starts_with("  - key: ") => format!("{line}{suffix}"),
            None if line.starts_with("    name: ") => format!("{line}{suffix}"),
            None => codes.iter().fold(line.to_owned(), |line, code| {
                line.replace(&format!("^{code}\\d+$"), &format!("^{code}{suffix}\\d+$"))
                    .replace(&format!("^({code})("), &format!("^({code}{suffix})("))
            }),
        };
        out += &format!("{line}\n");
    }
    out
}
