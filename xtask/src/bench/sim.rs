//! The simulation by itself: how fast it is, and how much memory it takes.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::process::{Running, Scratch, peak_mib, pinned};
use super::{Better, Figure, median};
use crate::tools;

/// One run: 50 journeys/s, and a normal and an abnormal window of 120 s.
const LOAD: &str = "50";
const SECONDS: u32 = 240;

/// Below this many spans a journey, a figure for `ts` does not count.
const TS_SPANS: f64 = 30.0;

/// A system's simulation with all its signals written, sorted and compressed, on one core.
pub fn speed(code: &str) -> Result<Vec<Figure>> {
    let binaries = tools::build_binaries()?;
    let scratch = Scratch::new(&format!("sim-{code}"))?;
    let mut samples = Vec::new();
    let mut beside: BTreeMap<String, Value> = BTreeMap::new();
    for index in 0..3 {
        let mut command = pinned(0, &binaries.join("aegis"));
        let output = command.args(arguments(code, SECONDS)).arg(scratch.path().join(index.to_string())).output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        if error.contains("[system.no_simulation_data]") {
            bail!("no simulation data");
        }
        if !output.status.success() {
            bail!("the simulation failed: {error}");
        }
        let stats: Value = serde_json::from_slice(&output.stdout).context("the simulation's figures are not JSON")?;
        let stats = stats.as_object().context("the simulation's figures are no object")?;
        let of = |key: &str| stats.get(key).and_then(Value::as_f64).with_context(|| format!("no {key} in the figures"));
        if code == "ts" && of("spans_per_journey")? < TS_SPANS {
            bail!("only {:.1} spans a journey: the figure does not count below {TS_SPANS}", of("spans_per_journey")?);
        }
        for what in ["spans_per_s", "logs_per_s", "points_per_s", "bytes_on_disk"] {
            of(what)?;
        }
        samples.push(of("times_real_time")?);
        beside.extend(
            stats.iter().filter(|(key, _)| *key != "times_real_time").map(|(key, value)| (key.clone(), value.clone())),
        );
    }
    Ok(vec![Figure {
        name: format!("sim-{code}"),
        unit: "x real time",
        peer: "bar",
        peer_figure: 50.0,
        samples,
        better: Better::Larger,
        command: format!("taskset -c 0 aegis {} DIR", arguments(code, SECONDS).join(" ")),
        beside,
    }])
}

/// The peak of the resident memory of one simulation of `ts`; beside it the same at twice the length, which shows whether it is flat.
pub fn memory() -> Result<Vec<Figure>> {
    let binaries = tools::build_binaries()?;
    let samples = peaks(&binaries, SECONDS)?;
    let twice = peaks(&binaries, 2 * SECONDS)?;
    let growth = median(&twice) / median(&samples);
    let beside = [("mib_at_twice_the_length", json!(twice)), ("times_at_twice_the_length", json!(growth))];
    Ok(vec![Figure {
        name: "memory-sim".into(),
        unit: "MiB",
        peer: "bar",
        peer_figure: 200.0,
        samples,
        better: Better::Smaller,
        command: format!("aegis {} DIR", arguments("ts", SECONDS).join(" ")),
        beside: beside.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
    }])
}

fn peaks(binaries: &Path, seconds: u32) -> Result<Vec<f64>> {
    (0..3)
        .map(|_| {
            let scratch = Scratch::new("memory-sim")?;
            let mut command = std::process::Command::new(binaries.join("aegis"));
            command.args(arguments("ts", seconds)).arg(scratch.path().join("data"));
            Running::start(&mut command, &scratch.path().join("log"))?.peak(peak_mib)
        })
        .collect()
}

fn arguments(code: &str, seconds: u32) -> Vec<String> {
    let seconds = seconds.to_string();
    ["sim", "bench", code, "--load", LOAD, "--seconds", &seconds, "--data"].map(str::to_owned).to_vec()
}
