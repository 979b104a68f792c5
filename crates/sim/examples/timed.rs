//! Times a run of `ts`: `cargo run -p sim --example timed -- [journeys per second] [seconds] [folder of a signal store]`.
//!
//! Without a folder, telemetry is encoded in thought only: its size is added up.

use std::time::{Duration, Instant};

use model::{DataTime, SystemCode};
use telemetry::{SignalStore, Stream};

fn main() -> model::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: f64| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    let (load, duration) = (number(0, 50.0), Duration::from_secs_f64(number(1, 240.0)));
    let system = system::Catalog::builtin()?.get(&SystemCode::parse("ts")?)?;
    let origin = DataTime::from_seconds(1_790_000_000);
    let started = Instant::now();
    let stats = match arguments.get(2) {
        None => {
            let mut sink = sim::bench::Weigh::default();
            let stats = sim::bench::run(&system, load, duration, origin, 1, &mut sink)?;
            println!("{} bytes", sink.bytes);
            stats
        }
        Some(folder) => {
            let store = SignalStore::open(folder)?;
            let mut step = store.step(&Stream { namespace: "ts0".to_owned(), run: None }, origin, origin + duration)?;
            let stats = sim::bench::run(&system, load, duration, origin, 1, &mut step)?;
            println!("{} bytes on disk", step.commit()?.bytes);
            stats
        }
    };
    let whole = started.elapsed().as_secs_f64();
    println!("{stats:#?}");
    println!(
        "{:.1} spans a journey, {:.0} times real time with everything",
        stats.spans as f64 / stats.journeys as f64,
        duration.as_secs_f64() / whole
    );
    Ok(())
}
