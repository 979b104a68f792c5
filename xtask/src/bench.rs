//! `cargo xtask bench [NAME…] [--json]`: every promised number, measured in this run against a peer or a bar.

mod algo;
mod build;
mod cli;
mod demo;
mod evaluate;
mod ingest;
mod pack_build;
mod process;
mod query;
mod rounds;
mod seed;
mod settings;
mod sim;

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::tools;

#[derive(clap::Args)]
pub struct Args {
    /// Which figures to measure; all but `build` when none is named.
    names: Vec<String>,
    /// One JSON line per result instead of a table.
    #[arg(long)]
    json: bool,
    /// Fail when a figure misses its bar.
    #[arg(long)]
    check: bool,
}

/// What a figure tells beside itself: the ratio that is promised. A figure whose peer is `bar` promises 1.
const BAR_RATIO: &str = "bar_ratio";

/// One measured figure.
struct Figure {
    name: String,
    unit: &'static str,
    /// What the figure is compared with: a program that was measured in the same run, or `bar`.
    peer: &'static str,
    peer_figure: f64,
    /// The single measurements; the figure is their median.
    samples: Vec<f64>,
    better: Better,
    /// What was run.
    command: String,
    /// What else was measured with it, as it is told.
    beside: BTreeMap<String, Value>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Better {
    /// A rate.
    Larger,
    /// A time or a size.
    Smaller,
}

impl Figure {
    fn figure(&self) -> f64 {
        median(&self.samples)
    }

    /// Above 1 means better than the peer.
    fn ratio(&self) -> f64 {
        match self.better {
            Better::Larger => self.figure() / self.peer_figure,
            Better::Smaller => self.peer_figure / self.figure(),
        }
    }

    /// The ratio that is promised; nothing when a peer is only told for comparison.
    fn bar(&self) -> Option<f64> {
        match self.peer {
            "bar" => Some(1.0),
            _ => self.beside.get(BAR_RATIO).and_then(Value::as_f64),
        }
    }

    fn misses_bar(&self) -> bool {
        self.bar().is_some_and(|bar| self.ratio() < bar)
    }

    fn json(&self) -> Value {
        let mut line = json!({
            "name": self.name, "figure": self.figure(), "unit": self.unit, "peer": self.peer,
            "peer_figure": self.peer_figure, "ratio": self.ratio(), "samples": self.samples, "command": self.command,
            "missed": self.misses_bar(),
        });
        for (key, value) in &self.beside {
            line[key] = value.clone();
        }
        line
    }

    fn row(&self) -> String {
        let samples: Vec<String> = self.samples.iter().map(|sample| number(*sample)).collect();
        let mut text = format!(
            "{:<14} {:>12} {:<12} {:<15} {:>10} {:>8.2}  {}\n",
            self.name,
            number(self.figure()),
            self.unit,
            self.peer,
            number(self.peer_figure),
            self.ratio(),
            samples.join(" ")
        );
        if let (true, Some(bar)) = (self.misses_bar(), self.bar()) {
            text += &format!("{:<14}   MISSED: the ratio is to be {bar:.2} at least\n", "");
        }
        for (key, value) in &self.beside {
            text += &format!("{:<14}   {key} = {value}\n", "");
        }
        text + &format!("{:<14}   {}", "", self.command)
    }
}

fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

fn number(value: f64) -> String {
    if value >= 1000.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// Something that can be measured: its name, and how.
struct Bench {
    name: String,
    measure: Box<dyn Fn() -> Result<Vec<Figure>>>,
}

fn all() -> Result<Vec<Bench>> {
    let bench =
        |name: &str, measure: fn() -> Result<Vec<Figure>>| Bench { name: name.into(), measure: Box::new(measure) };
    let mut benches = vec![bench("demo", demo::measure)];
    for code in tools::systems()? {
        let name = format!("sim-{code}");
        benches.push(Bench { name, measure: Box::new(move || sim::speed(&code)) });
    }
    for (name, ..) in algo::METHODS {
        benches.push(Bench { name: (*name).to_owned(), measure: Box::new(|| algo::measure(name)) });
    }
    benches.extend([
        bench("memory-sim", sim::memory),
        bench("ingest", || ingest::measure("ingest", "http")),
        bench("ingest-gzip", || ingest::measure("ingest-gzip", "http-gzip")),
        bench("ingest-grpc", || ingest::measure("ingest-grpc", "grpc")),
        bench("rounds", rounds::measure),
        bench("pack-build", pack_build::measure),
        bench("evaluate", evaluate::measure),
        bench("query", query::measure),
        bench("cli-start", cli::measure),
        bench("seed-lint", seed::lint),
        bench("seed-plan", seed::plan),
        bench("seed-plan-scale", seed::scale),
        bench("register", settings::register),
        bench("settings", settings::measure),
        bench("doctor", settings::doctor),
        bench("build", build::measure),
    ]);
    Ok(benches)
}

/// Prints each figure as soon as it is measured. What cannot be measured is told and fails the command at its end.
pub fn run(args: &Args) -> Result<()> {
    let benches = all()?;
    let known = || benches.iter().map(|bench| bench.name.as_str()).collect::<Vec<_>>();
    if let Some(unknown) = args.names.iter().find(|name| !known().contains(&name.as_str())) {
        bail!("unknown figure `{unknown}`; there are {}", known().join(", "));
    }
    let wanted = |bench: &&Bench| match args.names.as_slice() {
        [] => bench.name != "build",
        names => names.contains(&bench.name),
    };
    if !args.json {
        println!(
            "{:<14} {:>12} {:<12} {:<15} {:>10} {:>8}  samples",
            "name", "figure", "unit", "peer", "peer's", "ratio"
        );
    }
    let (mut missing, mut missed) = (Vec::new(), Vec::new());
    for bench in benches.iter().filter(wanted) {
        eprintln!("measuring {}", bench.name);
        match (bench.measure)() {
            Ok(figures) => {
                let line = |figure: &Figure| if args.json { figure.json().to_string() } else { figure.row() };
                figures.iter().for_each(|figure| println!("{}", line(figure)));
                missed.extend(figures.into_iter().filter(Figure::misses_bar).map(|figure| figure.name));
            }
            Err(error) => {
                eprintln!("not measured: {}: {error:#}", bench.name);
                missing.push(bench.name.as_str());
            }
        }
    }
    if !missing.is_empty() {
        bail!("not measured: {}", missing.join(", "));
    }
    if args.check && !missed.is_empty() {
        bail!("missed: {}", missed.join(", "));
    }
    Ok(())
}
