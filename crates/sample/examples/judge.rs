//! Runs built-in algorithms over the packs of a folder and prints the board of their answers:
//! `cargo run -p sample --example judge -- DATA/packs [ALGORITHM…]`.
//!
//! A development tool: the packs of the example `packs` have been reached by their fault, so each counts; what the detector
//! says of them is not asked. The scores are those of every board.

use std::path::{Path, PathBuf};
use std::time::Instant;

use datapack::Pack;
use model::{Onset, Problem, Result, SystemCode};
use rayon::prelude::*;
use rca::algorithm::{Algorithm, algorithms};
use score::{Case, Difficulty, Environment, Options, Outcome, Rule, board, render};
use system::Catalog;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().expect("name the folder of packs"));
    let wanted: Vec<String> = arguments.collect();
    let chosen: Vec<&dyn Algorithm> = algorithms()
        .iter()
        .copied()
        .filter(|one| match wanted.is_empty() {
            true => !one.name().contains('@'),
            false => wanted.iter().any(|name| name == one.name()),
        })
        .collect();
    let mut packs: Vec<PathBuf> =
        std::fs::read_dir(&folder).expect("the folder can be read").flatten().map(|entry| entry.path()).collect();
    packs.retain(|path| path.join("sealed").is_dir());
    packs.sort();
    let judged: Vec<(Case, Vec<Outcome>)> = packs.par_iter().map(|path| judge(path, &chosen)).collect::<Result<_>>()?;
    let (cases, outcomes): (Vec<Case>, Vec<Vec<Outcome>>) = judged.into_iter().unzip();
    let named = |wanted: fn(&dyn Algorithm) -> bool| {
        chosen.iter().filter(|one| wanted(**one)).map(|one| one.name().to_owned()).collect()
    };
    let options = Options {
        rule: Rule::Root,
        in_house: named(|one| one.about().in_house),
        baselines: named(|one| one.about().control),
        ..Options::default()
    };
    let mut board = board(&cases, &outcomes.concat(), &options);
    for environment in &mut board.environments {
        // The detector was not asked.
        environment.misses = None;
        println!("{}", render::markdown(environment, board.rule));
    }
    Ok(())
}

fn judge(path: &Path, chosen: &[&dyn Algorithm]) -> Result<(Case, Vec<Outcome>)> {
    let pack = Pack::open(path)?;
    let (truth, injection) = (pack.truth()?, pack.injection()?);
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let system = name.rsplit_once('-').map_or(name.as_str(), |(system, _)| system).to_owned();
    let fault = injection.get("fault_type").and_then(|fault| fault.as_str()).ok_or_else(|| {
        Problem::internal("judge.no_fault", "the injection of a pack names no fault").place(path.display().to_string())
    })?;
    let generator = Catalog::builtin()?.get(&SystemCode::parse(&system)?)?.registration.entrance.load_generator.clone();
    let frames = pack.load(&[generator])?;
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let case = Case {
        pack: name.clone(),
        system,
        family: fault::capability(fault)?.family.as_str().to_owned(),
        point: format!("{fault}: {}", truth.roots().join("+")),
        environment: Environment::Simulated,
        seed: None,
        completed: true,
        exposed: true,
        valid: true,
        detected: true,
        truth_roots: owned(truth.roots()),
        truth_public: owned(truth.public()),
        truth_levels: Default::default(),
        candidates: frames.candidates.len(),
        difficulty: Difficulty::default(),
    };
    let outcome = |algorithm: &&dyn Algorithm| {
        let started = Instant::now();
        let ranked = algorithm.rank(&frames, 7);
        let reason = ranked.as_ref().err().map(|problem| problem.code.to_string());
        Outcome {
            algorithm: algorithm.name().to_owned(),
            pack: name.clone(),
            answers: ranked.ok(),
            reason,
            seconds: started.elapsed().as_secs_f64(),
            peak_memory: None,
            onset: Onset::Known,
            unconfined: false,
        }
    };
    Ok((case, chosen.iter().map(outcome).collect()))
}
