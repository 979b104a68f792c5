//! Runs every built-in algorithm over the packs of a folder and prints how often it is right, by system:
//! `cargo run -p sample --example judge -- DATA/packs [ALGORITHM…]`.
//!
//! A development tool: packs that the fault did not reach are judged as well, equal scores stand as they are ranked, and
//! there are no intervals. The board is where algorithms are compared.

use std::collections::BTreeMap;
use std::path::PathBuf;

use datapack::Pack;
use model::{Result, SystemCode};
use rayon::prelude::*;
use rca::algorithm::{Algorithm, algorithms};
use system::Catalog;

/// Hits at rank 1, at rank 3, at rank 5, the sum of reciprocal ranks, packs, seconds.
type Tally = [f64; 6];

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().expect("name the folder of packs"));
    let wanted: Vec<String> = arguments.collect();
    let chosen: Vec<&dyn Algorithm> = algorithms()
        .iter()
        .copied()
        .filter(|one| wanted.is_empty() || wanted.iter().any(|name| name == one.name()))
        .collect();
    let mut packs: Vec<PathBuf> =
        std::fs::read_dir(&folder).expect("the folder can be read").flatten().map(|entry| entry.path()).collect();
    packs.retain(|path| path.join("sealed").is_dir());
    packs.sort();
    let judged: Vec<Result<(String, Vec<Tally>)>> = packs.par_iter().map(|path| judge(path, &chosen)).collect();
    let mut systems: BTreeMap<String, Vec<Tally>> = BTreeMap::new();
    for one in judged {
        let (system, tallies) = one?;
        for name in [system, "all".to_owned()] {
            let sums = systems.entry(name).or_insert_with(|| vec![Tally::default(); chosen.len()]);
            for (sum, tally) in sums.iter_mut().zip(&tallies) {
                sum.iter_mut().zip(tally).for_each(|(sum, value)| *sum += value);
            }
        }
    }
    for (system, tallies) in systems {
        println!("{system}: {} packs", tallies.first().map_or(0.0, |tally| tally[4]));
        for (algorithm, [one, three, five, reciprocal, packs, seconds]) in chosen.iter().zip(tallies) {
            println!(
                "  {:<28} AC@1 {:.3}  AC@3 {:.3}  AC@5 {:.3}  MRR {:.3}  {:.3} s a pack",
                algorithm.name(),
                one / packs,
                three / packs,
                five / packs,
                reciprocal / packs,
                seconds / packs
            );
        }
    }
    Ok(())
}

fn judge(path: &std::path::Path, chosen: &[&dyn Algorithm]) -> Result<(String, Vec<Tally>)> {
    let pack = Pack::open(path)?;
    let truth = pack.truth()?;
    let roots = truth.roots();
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let system = name.rsplit_once('-').map_or(name, |(system, _)| system).to_owned();
    let load_generator =
        Catalog::builtin()?.get(&SystemCode::parse(&system)?)?.registration.entrance.load_generator.clone();
    let frames = pack.load(&[load_generator])?;
    let tally = |algorithm: &&dyn Algorithm| {
        let started = std::time::Instant::now();
        let answers = algorithm.rank(&frames, 7).unwrap_or_default();
        let seconds = started.elapsed().as_secs_f64();
        let rank = answers.iter().find(|answer| roots.contains(&answer.name.as_str())).map(|answer| answer.rank);
        if std::env::var_os("VERBOSE").is_some() {
            let first: Vec<&str> = answers.iter().take(3).map(|answer| answer.name.as_str()).collect();
            println!("{name} {} rank {rank:?} of {} truth {roots:?} first {first:?}", algorithm.name(), answers.len());
        }
        let hit = |most: u32| f64::from(u8::from(rank.is_some_and(|rank| rank <= most)));
        [hit(1), hit(3), hit(5), rank.map_or(0.0, |rank| 1.0 / f64::from(rank)), 1.0, seconds]
    };
    Ok((system, chosen.iter().map(tally).collect()))
}
