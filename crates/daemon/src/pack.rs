//! `aegis datapack …`: datapacks in a folder, without a server. Data of other benchmarks becomes packs here, and the
//! detector's frames and every built-in algorithm take them as they take any other.
//!
//! An imported pack is not in the store, and has a board of its own: one mean over it and the runs of an installation would
//! say nothing.

mod score;

use std::path::{Path, PathBuf};

use datapack::rcaeval::{Import, Imported, cases, import};
use datapack::{Pack, name};
use model::{ErrorKind, InjectionId, Problem, Result, Slot, SystemCode, counted};
use serde_json::json;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Turn cases of another benchmark into labelled datapacks; prints one JSON line for each.
    Import {
        /// A case, or a folder of cases.
        folder: PathBuf,
        /// Layout of the cases.
        #[arg(long, value_parser = ["rcaeval"])]
        format: String,
        /// Folder of datapacks to publish into.
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
        /// Short code of the system, the first part of the datapacks' names.
        #[arg(long, value_name = "CODE", default_value = "rcaeval")]
        system: String,
    },
    /// Rank the suspects of one datapack with a built-in algorithm; prints one JSON document.
    Rank {
        /// Folder of the datapack.
        pack: PathBuf,
        #[arg(long, value_name = "NAME")]
        algorithm: String,
        /// For algorithms that draw at random.
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Rank imported datapacks with the built-in algorithms and print the scored board.
    Score(score::Args),
    /// Look for what gives the answer away in the part of a datapack that algorithms see; prints one JSON line for each finding.
    Leaks {
        /// Folder of the datapack.
        pack: PathBuf,
        /// A word that may not stand there, besides those of fault tools and the names of the datapack's own faults.
        #[arg(long, value_name = "WORD")]
        forbid: Vec<String>,
    },
    /// Compare a datapack with its checksums.
    Verify {
        /// Folder of the datapack.
        pack: PathBuf,
    },
}

pub fn run(command: Command) -> Result<()> {
    match command {
        Command::Import { folder, format: _, to, system } => import_all(&folder, &to, &SystemCode::parse(&system)?),
        Command::Rank { pack, algorithm, seed } => rank(&pack, &algorithm, seed),
        Command::Score(args) => score::run(&args),
        Command::Leaks { pack, forbid } => leaks(&pack, forbid),
        Command::Verify { pack } => {
            let pack = Pack::open(&pack)?;
            pack.verify()?;
            println!("{}: as it was built", pack.name());
            Ok(())
        }
    }
}

/// A case that cannot be imported does not keep the others from it; the first problem decides how the command ends.
fn import_all(folder: &Path, to: &Path, system: &SystemCode) -> Result<()> {
    let cases = cases(folder)?;
    let mut failed: Vec<Problem> = Vec::new();
    let mut number = InjectionId(1);
    for case in &cases {
        while to.join(name(&Slot::new(system.clone(), 0), number)).exists() {
            number.0 += 1;
        }
        match import(case, &Import { system: system.clone(), number }, to) {
            Ok((_, report)) => println!("{}", line(&report)?),
            Err(problem) => {
                eprintln!("{}: {problem}", case.folder.display());
                failed.push(problem);
            }
        }
    }
    eprintln!("imported {} of {}", cases.len() - failed.len(), counted(cases.len(), "case"));
    failed.into_iter().next().map_or(Ok(()), Err)
}

fn line(report: &Imported) -> Result<String> {
    serde_json::to_string(report)
        .map_err(|error| Problem::internal("import.report_malformed", "the report cannot be printed").cause(error))
}

/// The linter that every datapack passed when it was built, once more on what is there now.
fn leaks(folder: &Path, mut forbidden: Vec<String>) -> Result<()> {
    let pack = Pack::open(folder)?;
    forbidden.extend(own_words(&pack)?);
    let findings = datapack::leak::lint(&pack.open_part(), &forbidden)?;
    for finding in &findings {
        println!("{}", json!(finding));
    }
    if findings.is_empty() {
        eprintln!("{}: nothing gives the answer away", pack.name());
        return Ok(());
    }
    Err(Problem::new(ErrorKind::Failed, "datapack.leak", "the open part gives the answer away")
        .place(folder.display().to_string())
        .found(counted(findings.len(), "finding"))
        .expected("nothing that names the fault or its tool"))
}

/// The names of a datapack's faults and its run. Another benchmark calls its faults by words that its metrics have as well.
fn own_words(pack: &Pack) -> Result<Vec<String>> {
    let provenance = &pack.manifest().provenance;
    if provenance.more.get("origin").is_some_and(|origin| origin == "imported") {
        return Ok(Vec::new());
    }
    let faults =
        provenance.faults.iter().map(|fault| Ok(fault::Resolved::from_value(fault)?.capability().name.to_owned()));
    let run = provenance.more.get("run").and_then(serde_json::Value::as_str).map(str::to_owned);
    faults.chain(run.map(Ok)).collect()
}

fn rank(folder: &Path, algorithm: &str, seed: u64) -> Result<()> {
    let pack = Pack::open(folder)?;
    pack.verify()?;
    let method = rca::algorithm::algorithm(algorithm)?;
    let frames = pack.load(&[])?;
    let answers = method.rank(&frames, seed)?;
    let truth = pack.truth()?;
    println!(
        "{:#}",
        json!({"pack": pack.name(), "algorithm": method.name(), "roots": truth.roots(), "answers": answers})
    );
    Ok(())
}
