//! Makes datapacks of random faults at random points:
//! `cargo run -p sample --example packs -- FOLDER SEED COUNT SYSTEM…` writes COUNT packs of each system that the fault reached.
//!
//! The strength of each capability is that of its first row in `docs/exposed-points.md`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use model::{Problem, Result, SystemCode};
use sample::{Faults, Order, parameters};
use system::Catalog;

const TRIES: usize = 4;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, seed, count, codes @ ..] = arguments.as_slice() else {
        return Err(Problem::internal("packs.usage", "FOLDER SEED COUNT SYSTEM…"));
    };
    let number = |text: &String| text.parse::<usize>().expect("SEED and COUNT are numbers");
    let (seed, count) = (number(seed) as u64, number(count));
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..2).map(|_| scope.spawn(|| work(Path::new(folder), seed, count, codes, &next))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })
}

fn work(folder: &Path, seed: u64, count: usize, codes: &[String], next: &AtomicUsize) -> Result<()> {
    let list = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/exposed-points.md"))
        .expect("the list of points is part of the repository");
    let strengths = parameters(&list);
    let catalog = Catalog::builtin()?;
    let scratch: PathBuf = folder.with_extension("scratch");
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index >= count * codes.len() {
            return Ok(());
        }
        let (code, place) = (&codes[index % codes.len()], index / codes.len());
        let system = catalog.get(&SystemCode::parse(code)?)?;
        let mut faults = Faults::new(&system, seed * 1_000_003 + index as u64, |name| strengths.get(name).cloned())?;
        for _ in 0..TRIES {
            let (fault, seed) = faults.draw(place)?;
            let what = format!("{} on {}", fault.effect.name(), fault.service());
            let order =
                Order { system: &system, fault: Some(fault), seed, load: 20.0, window_s: 60, number: place as i32 + 1 };
            let scratch = scratch.join(index.to_string());
            let made = order.make(folder, &scratch);
            std::fs::remove_dir_all(&scratch).expect("the scratch folder can be removed");
            match made {
                Ok(made) if made.exposed => {
                    println!("{} {what}", made.folder.display());
                    break;
                }
                Ok(made) => std::fs::remove_dir_all(&made.folder).expect("the pack can be removed"),
                Err(problem) => eprintln!("{code} {what}: {problem}"),
            }
        }
    }
}
