//! Times a run of `ts` by itself: `cargo run -p sim --example timed -- [journeys per second] [seconds]`.

use std::time::Duration;

use model::{DataTime, SystemCode};

fn main() -> model::Result<()> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<f64>().unwrap_or(50.0));
    let (load, seconds) = (arguments.next().unwrap_or(50.0), arguments.next().unwrap_or(240.0));
    let system = system::Catalog::builtin()?.get(&SystemCode::parse("ts")?)?;
    let mut sink = sim::bench::Weigh::default();
    let origin = DataTime::from_seconds(1_790_000_000);
    let stats = sim::bench::run(&system, load, Duration::from_secs_f64(seconds), origin, 1, &mut sink)?;
    println!(
        "{stats:#?}\nbytes {} speed {:.0} spans per journey {:.1}",
        sink.bytes,
        stats.speed(),
        stats.spans as f64 / stats.journeys as f64
    );
    Ok(())
}
