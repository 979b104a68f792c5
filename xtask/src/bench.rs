//! `cargo xtask bench [NAME…] [--json]`: every promised number, measured in this run against a peer or a bar.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::tools;

#[derive(clap::Args)]
pub struct Args {
    /// Which figures to measure; all but `build` when none is named.
    names: Vec<String>,
    /// One JSON line per result instead of a table.
    #[arg(long)]
    json: bool,
}

/// One measured figure. `ratio` above 1 means better than the peer.
struct Figure {
    name: &'static str,
    unit: &'static str,
    peer: &'static str,
    peer_figure: f64,
    samples: Vec<f64>,
    /// Whether a larger figure is better (a rate) or a smaller one (a time).
    rate: bool,
    command: String,
    beside: BTreeMap<String, Value>,
}

impl Figure {
    fn median(&self) -> f64 {
        let mut sorted = self.samples.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
    }

    fn ratio(&self) -> f64 {
        if self.rate { self.median() / self.peer_figure } else { self.peer_figure / self.median() }
    }

    fn json(&self) -> Value {
        let mut line = json!({
            "name": self.name, "figure": self.median(), "unit": self.unit, "peer": self.peer,
            "peer_figure": self.peer_figure, "ratio": self.ratio(), "samples": self.samples, "command": self.command,
        });
        for (key, value) in &self.beside {
            line[key] = value.clone();
        }
        line
    }
}

const NAMES: &[&str] = &["demo", "sim-ts", "cli-start", "build"];

pub fn run(args: &Args) -> Result<()> {
    let chosen: Vec<&str> = if args.names.is_empty() {
        NAMES.iter().copied().filter(|name| *name != "build").collect()
    } else {
        args.names.iter().map(String::as_str).collect()
    };
    if let Some(unknown) = chosen.iter().find(|name| !NAMES.contains(name)) {
        bail!("unknown figure `{unknown}`; there are {}", NAMES.join(", "));
    }
    let mut figures = Vec::new();
    for name in chosen {
        eprintln!("measuring {name}");
        figures.extend(match name {
            "demo" => demo()?,
            "sim-ts" => vec![sim_ts()?],
            "cli-start" => vec![cli_start()?],
            "build" => vec![build()?],
            other => bail!("`{other}` has no measurement"),
        });
    }
    print(&figures, args.json);
    Ok(())
}

fn print(figures: &[Figure], as_json: bool) {
    if as_json {
        figures.iter().for_each(|figure| println!("{}", figure.json()));
        return;
    }
    println!("{:<14} {:>12} {:<12} {:<10} {:>10} {:>8}  samples", "name", "figure", "unit", "peer", "peer's", "ratio");
    for figure in figures {
        let samples: Vec<String> = figure.samples.iter().map(|sample| format!("{sample:.2}")).collect();
        println!(
            "{:<14} {:>12.2} {:<12} {:<10} {:>10.2} {:>8.2}  {}",
            figure.name,
            figure.median(),
            figure.unit,
            figure.peer,
            figure.peer_figure,
            figure.ratio(),
            samples.join(" ")
        );
        for (key, value) in &figure.beside {
            println!("{:<14}   {key} = {value}", "");
        }
        println!("{:<14}   {}", "", figure.command);
    }
}

/// A folder of this run's own, removed by the caller's end.
fn scratch(name: &str) -> Result<PathBuf> {
    let folder = tools::target_dir()?.join("bench").join(format!("{name}-{}", std::process::id()));
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// The whole demo, after the build: seconds and peak resident memory of its largest process.
fn demo() -> Result<Vec<Figure>> {
    let binaries = tools::build_binaries()?;
    let (mut seconds, mut memory) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let folder = scratch("demo")?;
        let start = Instant::now();
        let mut child = Command::new(binaries.join("aegis"))
            .current_dir(tools::root())
            .args(["demo", "--seeds", "seeds", "--data"])
            .arg(&folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let peak = watch_memory(&mut child)?;
        seconds.push(start.elapsed().as_secs_f64());
        memory.push(peak);
        fs::remove_dir_all(&folder)?;
    }
    let command = "aegis demo --seeds seeds --data DIR".to_owned();
    let figure = |name, unit, bar, samples| Figure {
        name,
        unit,
        peer: "bar",
        peer_figure: bar,
        samples,
        rate: false,
        command: command.clone(),
        beside: BTreeMap::new(),
    };
    Ok(vec![figure("demo", "s", 60.0, seconds), figure("demo-memory", "MiB", 1024.0, memory)])
}

/// Largest sum of resident memory over a process and its children, MiB, sampled every 20 ms until it ends.
fn watch_memory(child: &mut std::process::Child) -> Result<f64> {
    let mut peak: f64 = 0.0;
    loop {
        if let Some(status) = child.try_wait()? {
            if !status.success() {
                bail!("the demo ended with {status}");
            }
            return Ok(peak);
        }
        peak = peak.max(resident_mib(child.id()));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Resident memory of a process and its children; zero for one that has just ended.
fn resident_mib(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let own = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok())
        .map_or(0.0, |kib| kib / 1024.0);
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = tasks.flat_map(|task| {
        let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()
    });
    own + children.map(resident_mib).sum::<f64>()
}

/// Simulation of `ts`, all signals written, pinned to one core: times real time.
fn sim_ts() -> Result<Figure> {
    let binaries = tools::build_binaries()?;
    let folder = scratch("sim-ts")?;
    let arguments = ["sim", "bench", "ts", "--load", "50", "--seconds", "240", "--data"];
    let mut samples = Vec::new();
    let mut beside = BTreeMap::new();
    for index in 0..3 {
        let output = pinned(&binaries.join("aegis")).args(arguments).arg(folder.join(index.to_string())).output()?;
        if !output.status.success() {
            bail!("the simulation failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        let stats: Value = serde_json::from_slice(&output.stdout).context("the simulation's figures are not JSON")?;
        samples.push(stats["times_real_time"].as_f64().context("no times_real_time in the figures")?);
        let spans = stats["spans_per_journey"].as_f64().context("no spans_per_journey in the figures")?;
        if spans < 30.0 {
            bail!("only {spans:.1} spans a journey: the figure does not count below 30");
        }
        beside = stats.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect();
    }
    fs::remove_dir_all(&folder)?;
    beside.remove("times_real_time");
    Ok(Figure {
        name: "sim-ts",
        unit: "x real time",
        peer: "bar",
        peer_figure: 20.0,
        samples,
        rate: true,
        command: format!("taskset -c 0 aegis {} DIR", arguments.join(" ")),
        beside,
    })
}

/// A command that runs on one core only.
fn pinned(program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).arg(program);
    command
}

/// The slower of `aegisctl --help` and `aegisctl system list` against a local server, whole process.
fn cli_start() -> Result<Figure> {
    let binaries = tools::build_binaries()?;
    let folder = scratch("cli-start")?;
    let mut server = Command::new(binaries.join("aegis"))
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(&folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let result = time_commands(&binaries, &folder);
    server.kill()?;
    server.wait()?;
    fs::remove_dir_all(&folder)?;
    let samples = result?;
    Ok(Figure {
        name: "cli-start",
        unit: "ms",
        peer: "bar",
        peer_figure: 20.0,
        samples,
        rate: false,
        command: "aegisctl --help; aegisctl system list".into(),
        beside: BTreeMap::new(),
    })
}

fn time_commands(binaries: &Path, data: &Path) -> Result<Vec<f64>> {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !data.join("server.json").is_file() {
        if Instant::now() > deadline {
            bail!("the server did not write server.json within 20 s");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let server: Value = serde_json::from_str(&fs::read_to_string(data.join("server.json"))?)?;
    let address = server["address"].as_str().context("server.json names no address")?.to_owned();
    let token_file = server["token_file"].as_str().context("server.json names no token_file")?;
    let token = fs::read_to_string(token_file)?.trim().to_owned();
    let once = |arguments: &[&str]| -> Result<f64> {
        let start = Instant::now();
        let output = Command::new(binaries.join("aegisctl"))
            .args(arguments)
            .envs([("AEGIS_SERVER", address.as_str()), ("AEGIS_TOKEN", token.as_str())])
            .output()?;
        if !output.status.success() {
            bail!("aegisctl {arguments:?} failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(start.elapsed().as_secs_f64() * 1000.0)
    };
    once(&["--help"])?;
    once(&["system", "list"])?;
    (0..21).map(|_| Ok(once(&["--help"])?.max(once(&["system", "list"])?))).collect()
}

/// A cold build of everything into an empty target folder: seconds, one sample.
fn build() -> Result<Figure> {
    let folder = scratch("build")?;
    let start = Instant::now();
    tools::run(tools::cargo().args(["build", "--workspace"]).env("CARGO_TARGET_DIR", &folder))?;
    let seconds = start.elapsed().as_secs_f64();
    fs::remove_dir_all(&folder)?;
    Ok(Figure {
        name: "build",
        unit: "s",
        peer: "bar",
        peer_figure: 1200.0,
        samples: vec![seconds],
        rate: false,
        command: "CARGO_TARGET_DIR=EMPTY cargo build --workspace".into(),
        beside: BTreeMap::new(),
    })
}
