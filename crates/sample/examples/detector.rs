//! How often the detector errs: `cargo run -p sample --example detector -- SEED COUNT SYSTEM…` makes COUNT controls without a
//! fault and COUNT datapacks whose fault was felt on each system, lets the detector judge them, and prints a table.
//!
//! The strength of each capability is that of its first row in `docs/exposed-points.md`; points are drawn evenly over services.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use datapack::Pack;
use model::{Problem, Result, SystemCode, Verdict};
use rca::detector::Detector;
use sample::{Faults, Order, parameters};
use score::clopper_pearson;
use system::Catalog;
use worker::profile::detector_of;

/// Draws of a point until one is felt.
const TRIES: usize = 4;
const CONFIDENCE: f64 = 0.95;
const WINDOW_S: u64 = 60;
const LOAD: f64 = 20.0;

/// Verdicts by system, and whether there was a fault.
type Tally = BTreeMap<(String, bool), BTreeMap<String, usize>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [seed, count, codes @ ..] = arguments.as_slice() else {
        return Err(Problem::internal("detector.usage", "SEED COUNT SYSTEM…"));
    };
    let number = |text: &String| text.parse::<usize>().expect("SEED and COUNT are numbers");
    let (seed, count) = (number(seed) as u64, number(count));
    let (next, tally) = (AtomicUsize::new(0), Mutex::new(Tally::new()));
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    std::thread::scope(|scope| {
        let work = || work(folder.path(), seed, count, codes, &next, &tally);
        let workers: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })?;
    print(&tally.into_inner().expect("no worker panicked"), codes);
    Ok(())
}

fn work(
    folder: &Path,
    seed: u64,
    count: usize,
    codes: &[String],
    next: &AtomicUsize,
    tally: &Mutex<Tally>,
) -> Result<()> {
    let list = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/exposed-points.md"))
        .expect("the list of points is part of the repository");
    let strengths = parameters(&list);
    let catalog = Catalog::builtin()?;
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let (code, place) = (&codes[index % codes.len()], index / codes.len());
        if place >= 2 * count {
            return Ok(());
        }
        let system = catalog.get(&SystemCode::parse(code)?)?;
        let mut faults = Faults::new(&system, seed * 1_000_003 + index as u64, |name| strengths.get(name).cloned())?;
        let (detector, faulty) = (Detector::new(detector_of(&system.registration))?, place % 2 == 1);
        let generator = system.registration.entrance.load_generator.clone();
        for _ in 0..TRIES {
            let (fault, seed) = faults.draw(place / 2)?;
            let fault = Some(fault).filter(|_| faulty);
            let number = i32::try_from(index + 1).expect("there are few datapacks");
            let order = Order { system: &system, fault, seed, load: LOAD, window_s: WINDOW_S, number };
            let scratch = folder.join(format!("scratch-{index}"));
            let made = order.make(&folder.join("packs"), &scratch)?;
            std::fs::remove_dir_all(&scratch).expect("the scratch folder can be removed");
            let frames = Pack::open(&made.folder)?.load(std::slice::from_ref(&generator))?;
            std::fs::remove_dir_all(&made.folder).expect("the datapack can be removed");
            if made.exposed == faulty {
                let verdict = detector.judge(&frames).verdict.to_string();
                let mut tally = tally.lock().expect("no worker panicked");
                *tally.entry((code.clone(), faulty)).or_default().entry(verdict).or_default() += 1;
                break;
            }
        }
    }
}

fn print(tally: &Tally, codes: &[String]) {
    println!(
        "| system | controls | flagged: false alarms | felt faults | not flagged: misses |\n|---|---|---|---|---|"
    );
    let cells = |codes: &[String], faulty: bool| {
        let found = codes.iter().filter_map(|code| tally.get(&(code.clone(), faulty)));
        let (mut all, mut flagged) = (0, 0);
        for verdicts in found {
            all += verdicts.values().sum::<usize>();
            flagged += verdicts.get(Verdict::Anomaly.as_str()).copied().unwrap_or(0);
        }
        let errors = if faulty { all - flagged } else { flagged };
        let (low, high) = clopper_pearson(errors as f64, all as f64, CONFIDENCE);
        format!("{all} | {errors}: {:.3} [{low:.3}, {high:.3}]", errors as f64 / all as f64)
    };
    let line = |name: &str, codes: &[String]| println!("| {name} | {} | {} |", cells(codes, false), cells(codes, true));
    codes.iter().for_each(|code| line(code, std::slice::from_ref(code)));
    line("all", codes);
    for ((code, faulty), verdicts) in tally {
        eprintln!("{code} {}: {verdicts:?}", if *faulty { "with a fault" } else { "controls" });
    }
}
