//! Measures the building of a datapack from the embedded store:
//! `cargo run -p sample --example build -- FOLDER REPEATS` records one run of a million spans and builds its pack REPEATS times.
//!
//! Prints lines of JSON: where the telemetry is and the bounds of the windows, then the seconds and the rows of each building.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

use datapack::Pack;
use model::{Problem, Result, SystemCode, Window};
use sample::{Faults, Order, parameters};
use serde_json::json;
use system::Catalog;

/// Journeys a second and seconds of a window that make a million spans of `ts`.
const LOAD: f64 = 100.0;
const WINDOW_S: u64 = 120;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, repeats] = arguments.as_slice() else {
        return Err(Problem::internal("build.usage", "FOLDER REPEATS"));
    };
    let repeats: usize = repeats.parse().expect("REPEATS is a number");
    let folder = Path::new(folder);
    let (store, packs) = (folder.join("store"), folder.join("packs"));
    let system = Catalog::builtin()?.get(&SystemCode::parse("ts")?)?;
    let list = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/exposed-points.md"))
        .expect("the list of points is part of the repository");
    let strengths = parameters(&list);
    let (fault, seed) = Faults::new(&system, 1, |name| strengths.get(name).cloned())?.draw(0)?;
    let recorded = Order { system: &system, fault: Some(fault), seed, load: LOAD, window_s: WINDOW_S, number: 1 }
        .record(&store)?;
    let windows: BTreeMap<&str, [i64; 2]> = Window::BOTH
        .into_iter()
        .map(|window| (window.as_str(), recorded.windows().bounds(window)))
        .map(|(window, (from, to))| (window, [from.0, to.0]))
        .collect();
    println!("{}", json!({ "store": store, "windows": windows }));
    for _ in 0..repeats {
        let begun = Instant::now();
        let pack = recorded.build(&packs)?;
        let seconds = begun.elapsed().as_secs_f64();
        let files = Pack::open(&pack)?.manifest().content.files.clone();
        let rows: BTreeMap<String, u64> = files.into_iter().filter_map(|file| Some((file.name, file.rows?))).collect();
        println!("{}", json!({ "seconds": seconds, "rows": rows }));
        fs::remove_dir_all(&pack).expect("the pack can be removed");
    }
    Ok(())
}
