//! `aegis datapack …`: datapacks in a folder, without a server. Data of other benchmarks becomes packs here, and the
//! detector's frames and every built-in algorithm take them as they take any other.
//!
//! An imported pack is not in the store, and has a board of its own: one mean over it and the runs of an installation would
//! say nothing.

mod score;

use std::path::{Path, PathBuf};

use datapack::csv_import::{csv_cases, import_csv, system_of};
use datapack::rcaeval::{self, Import, Imported};
use datapack::{Pack, name};
use model::{ErrorKind, InjectionId, Problem, Result, Slot, SystemCode, counted};
use serde_json::json;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Turn cases of another benchmark, or exported datapacks, into labelled datapacks; prints one JSON line for each.
    Import {
        /// A case, or a folder of cases.
        folder: PathBuf,
        /// Layout of the cases.
        #[arg(long)]
        format: Layout,
        /// Folder of datapacks to publish into.
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
        /// Short code of the system, the first part of the datapacks' names; `rcaeval`, or the system that was exported, by
        /// default.
        #[arg(long, value_name = "CODE")]
        system: Option<String>,
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
        Command::Import { folder, format, to, system } => {
            import_all(&folder, format, &to, system.as_deref().map(SystemCode::parse).transpose()?.as_ref())
        }
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

/// A layout that can be imported.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum Layout {
    /// Cases of RCAEval.
    Rcaeval,
    /// Datapacks that were exported as CSV.
    Csv,
}

/// One thing to import.
enum Source {
    Case(rcaeval::Case),
    Csv(PathBuf),
}

impl Source {
    fn all(folder: &Path, layout: Layout) -> Result<Vec<Self>> {
        Ok(match layout {
            Layout::Rcaeval => rcaeval::cases(folder)?.into_iter().map(Self::Case).collect(),
            Layout::Csv => csv_cases(folder)?.into_iter().map(Self::Csv).collect(),
        })
    }

    fn folder(&self) -> &Path {
        match self {
            Self::Case(case) => &case.folder,
            Self::Csv(folder) => folder,
        }
    }

    /// Under the first number that is free in the folder.
    fn import(&self, system: Option<&SystemCode>, to: &Path) -> Result<Imported> {
        let system = match (system, self) {
            (Some(system), _) => system.clone(),
            (None, Self::Case(_)) => SystemCode::parse("rcaeval")?,
            (None, Self::Csv(folder)) => system_of(folder)?,
        };
        let slot = Slot::new(system.clone(), 0);
        let free = (1..).map(InjectionId).find(|number| !to.join(name(&slot, *number)).exists());
        let import = Import { system, number: free.expect("no folder has as many datapacks as there are numbers") };
        let (_, report) = match self {
            Self::Case(case) => rcaeval::import(case, &import, to)?,
            Self::Csv(folder) => import_csv(folder, &import, to)?,
        };
        Ok(report)
    }
}

/// A case that cannot be imported does not keep the others from it; the first problem decides how the command ends.
fn import_all(folder: &Path, layout: Layout, to: &Path, system: Option<&SystemCode>) -> Result<()> {
    let sources = Source::all(folder, layout)?;
    let mut failed: Vec<Problem> = Vec::new();
    for source in &sources {
        match source.import(system, to) {
            Ok(report) => println!("{}", line(&report)?),
            Err(problem) => {
                eprintln!("{}: {problem}", source.folder().display());
                failed.push(problem);
            }
        }
    }
    eprintln!("imported {} of {}", sources.len() - failed.len(), counted(sources.len(), "case"));
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
