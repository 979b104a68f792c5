//! `aegis sim …`: the simulated cluster by itself, without a server.

mod stream;

use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{DataTime, Result, SystemCode};
use serde_json::json;
use telemetry::{SignalStore, Stream};

#[derive(clap::Subcommand)]
pub enum Command {
    /// Simulate a system without a fault into a store on disk, and print how fast that was as JSON.
    Bench {
        /// Short code of the system.
        system: String,
        /// Journeys per second.
        #[arg(long, default_value_t = 50.0)]
        load: f64,
        /// Simulated seconds.
        #[arg(long, default_value_t = 240)]
        seconds: u64,
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Folder of the telemetry store; made if it is not there.
        #[arg(long)]
        data: PathBuf,
    },
    /// Send the telemetry of a simulated system to any OTLP receiver.
    Run(Box<stream::Args>),
}

pub fn run(command: Command) -> Result<()> {
    match command {
        Command::Bench { system, load, seconds, seed, data } => {
            let figures = bench(&system, load, Duration::from_secs(seconds), seed, &data)?;
            println!("{figures}");
            Ok(())
        }
        Command::Run(args) => stream::run(&args),
    }
}

/// Everything that a run's simulation does: events, OTLP requests, validation, sorting, compression, files on disk.
fn bench(system: &str, load: f64, duration: Duration, seed: u64, data: &Path) -> Result<serde_json::Value> {
    let code = SystemCode::parse(system)?;
    let system = system::Catalog::builtin()?.get(&code)?;
    let store = SignalStore::open(data)?;
    let origin = DataTime::from_seconds(1_767_603_600);
    let stream = Stream { namespace: format!("{code}0"), run: None };
    let started = std::time::Instant::now();
    let mut step = store.step(&stream, origin, origin + duration)?;
    let stats = sim::bench::run(&system, load, duration, origin, seed, &mut step)?;
    let written = step.commit()?;
    let wall = started.elapsed().as_secs_f64();
    let per_second = |count: u64| (count as f64 / wall).round();
    Ok(json!({
        "times_real_time": duration.as_secs_f64() / wall,
        "wall_s": wall,
        "journeys": stats.journeys,
        "spans_per_journey": stats.spans as f64 / stats.journeys as f64,
        "spans_per_s": per_second(stats.spans),
        "logs_per_s": per_second(stats.logs),
        "points_per_s": per_second(stats.points),
        "rows_on_disk": written.rows,
        "bytes_on_disk": written.bytes,
    }))
}
