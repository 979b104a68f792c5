//! `aegis datapack score`: imported datapacks on a board, without a server.
//!
//! Everything that is right for the runs of an installation is right here: child processes with limits, the same check of each
//! answer, the same code for the board. What an import cannot know (whether a fault was felt) is taken from its label and told.

mod subject;

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::board::Excluded;
use clap::value_parser;
use model::{ErrorKind, Onset, Problem, Result, counted};
use score::{Case, Environment, Outcome, Rule};
use server::scoring;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use worker::child::{Child, Limits, RankTask};

use self::subject::{Flagged, Subject};
use crate::{board_table, output};

#[derive(clap::Args)]
pub struct Args {
    /// Imported datapacks, or folders of them.
    #[arg(value_name = "FOLDER|PACK", required = true)]
    packs: Vec<PathBuf>,
    /// Built-in algorithms; all of them when none is named. The trivial baselines run in any case.
    #[arg(long, value_name = "NAME")]
    algorithm: Vec<String>,
    /// Which services of the ground truth count as a hit.
    #[arg(long, value_parser = Rule::ALL.map(Rule::as_str), default_value = Rule::Root.as_str())]
    rule: String,
    #[arg(long, value_parser = ["table", "md", "csv", "json", "svg", "png"], default_value = "table")]
    format: String,
    /// For algorithms that draw at random; each datapack has this and its number as a seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Longest time of an algorithm on a datapack, seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().seconds, value_parser = value_parser!(u64).range(1..))]
    seconds: u64,
    /// Most memory of an algorithm, MiB.
    #[arg(long, value_name = "MIB", default_value_t = Limits::default().memory_mib, value_parser = value_parser!(u64).range(1..))]
    memory: u64,
}

/// What became of one datapack.
struct Scored {
    case: Case,
    outcomes: Vec<Outcome>,
    flagged: Flagged,
    /// Why it is on no row although it has a label.
    damage: Option<Problem>,
}

/// How algorithms are run.
struct Runner {
    program: PathBuf,
    scratch: PathBuf,
    limits: Limits,
    seed: u64,
    algorithms: Vec<String>,
}

/// A datapack that cannot be read, or was changed, does not keep the others from their board; the first problem decides how
/// the command ends.
pub fn run(args: &Args) -> Result<()> {
    let rule = scoring::rule(Some(&args.rule))?;
    if args.format == "png" && std::io::stdout().is_terminal() {
        return Err(Problem::new(
            ErrorKind::Invalid,
            "usage.binary_to_terminal",
            "a picture is nothing for a terminal",
        )
        .fix("send it into a file: `> board.png`"));
    }
    let scratch = Scratch::new();
    let runner = Runner {
        program: std::env::current_exe()
            .map_err(|error| Problem::internal("exec.no_program", "this program cannot find itself").cause(error))?,
        scratch: scratch.0.clone(),
        limits: Limits { seconds: args.seconds, memory_mib: args.memory },
        seed: args.seed,
        algorithms: chosen(&args.algorithm)?,
    };
    let (mut scored, mut problems) = (Vec::new(), Vec::new());
    let folders = folders(&args.packs)?;
    let count = folders.len();
    for result in crate::serve::runtime()?.block_on(all(Arc::new(runner), folders))? {
        match result {
            Ok(one) => scored.push(one),
            Err(problem) => problems.push(problem),
        }
    }
    each_once(&scored)?;
    print(args, rule, &scored)?;
    problems.extend(scored.into_iter().filter_map(|one| one.damage));
    problems.iter().for_each(|problem| eprintln!("not scored: {problem}"));
    eprintln!("scored {} of {}", count - problems.len(), counted(count, "datapack"));
    problems.into_iter().next().map_or(Ok(()), Err)
}

/// # Errors
/// `algorithm.unknown`, `algorithm.repeated`.
fn chosen(named: &[String]) -> Result<Vec<String>> {
    let mut chosen: Vec<String> = Vec::new();
    for name in named {
        rca::algorithm::algorithm(name)?;
        if chosen.contains(name) {
            return Err(Problem::new(ErrorKind::Invalid, "algorithm.repeated", "an algorithm is asked for twice")
                .found(format!("`{name}`")));
        }
        chosen.push(name.clone());
    }
    if named.is_empty() {
        chosen.extend(rca::algorithm::algorithms().iter().map(|method| method.name().to_owned()));
    }
    let missing = rca::algorithm::controls().map(|method| method.name().to_owned());
    let missing: Vec<String> = missing.filter(|name| !chosen.contains(name)).collect();
    chosen.extend(missing);
    Ok(chosen)
}

/// The datapacks that are named, or are in a folder that is named; each once, by path.
///
/// # Errors
/// `score.no_pack`.
fn folders(named: &[PathBuf]) -> Result<BTreeSet<PathBuf>> {
    let unreadable = |path: &Path| {
        let place = path.display().to_string();
        move |error: std::io::Error| {
            Problem::new(ErrorKind::Missing, "score.folder_unreadable", "a folder cannot be read")
                .place(place)
                .cause(error)
        }
    };
    let is_pack = |path: &Path| path.join("sealed").is_dir();
    let mut found = BTreeSet::new();
    for path in named {
        let whole = std::fs::canonicalize(path).map_err(unreadable(path))?;
        if is_pack(&whole) {
            found.insert(whole);
            continue;
        }
        let before = found.len();
        for entry in std::fs::read_dir(&whole).map_err(unreadable(path))? {
            let inner = entry.map_err(unreadable(path))?.path();
            if is_pack(&inner) {
                found.insert(inner);
            }
        }
        if found.len() == before {
            return Err(Problem::new(ErrorKind::Invalid, "score.no_pack", "there is no datapack in the folder")
                .place(path.display().to_string())
                .fix("make some with `aegis datapack import CASES --format rcaeval --to FOLDER`"));
        }
    }
    Ok(found)
}

/// As many datapacks at once as there are processors, in the order of their names.
async fn all(runner: Arc<Runner>, folders: BTreeSet<PathBuf>) -> Result<Vec<Result<Scored>>> {
    let width = std::thread::available_parallelism().map_or(1, usize::from);
    let (free, mut running) = (Arc::new(Semaphore::new(width)), JoinSet::new());
    for (index, folder) in folders.into_iter().enumerate() {
        let (runner, free) = (Arc::clone(&runner), Arc::clone(&free));
        running.spawn(async move {
            let _turn = free.acquire_owned().await.expect("nobody closes it");
            (index, one(&runner, &folder, index).await)
        });
    }
    let mut ended = BTreeMap::new();
    while let Some(done) = running.join_next().await {
        let (index, scored) =
            done.map_err(|error| Problem::internal("score.panicked", "a datapack cannot be scored").cause(error))?;
        ended.insert(index, scored);
    }
    Ok(ended.into_values().collect())
}

async fn one(runner: &Runner, folder: &Path, index: usize) -> Result<Scored> {
    let subject = Subject::open(folder)?;
    let scratch = runner.scratch.join(index.to_string());
    // One thread each: the datapacks are spread over the processors.
    let child = Child { program: &runner.program, folder: &scratch, threads: Some(1), limits: runner.limits };
    if let Err(problem) = subject.pack.verify() {
        let mut case = subject.case(&Flagged::default(), 0)?;
        case.valid = false;
        let damage = Some(problem.place(format!("datapack {}", subject.pack.name())));
        return Ok(Scored { case, outcomes: Vec::new(), flagged: Flagged::default(), damage });
    }
    let flagged = subject.flagged(&child).await?;
    let seed = runner.seed.wrapping_add(subject.number);
    let task = |name: &String| RankTask { algorithm: name.clone(), seed, onset: Onset::Known };
    // A control is there for the detector; nothing in it could be named rightly.
    let tasks: Vec<RankTask> =
        if subject.is_control() { Vec::new() } else { runner.algorithms.iter().map(task).collect() };
    let ranked = worker::rank::run(&child, &subject.pack.open_part(), &[], &tasks).await?;
    let outcomes = tasks.iter().zip(ranked.ran).map(|(task, ran)| Outcome {
        algorithm: task.algorithm.clone(),
        pack: subject.pack.name().to_owned(),
        reason: ran.answers.as_ref().err().map(|problem| problem.code.to_string()),
        answers: ran.answers.ok(),
        seconds: ran.seconds,
        peak_memory: ran.peak_memory,
        onset: Onset::Known,
        unconfined: false,
    });
    let outcomes = outcomes.collect();
    Ok(Scored { case: subject.case(&flagged, ranked.candidates.len())?, outcomes, flagged, damage: None })
}

/// Two datapacks of one name would be taken for one.
///
/// # Errors
/// `score.pack_twice`.
fn each_once(scored: &[Scored]) -> Result<()> {
    let mut seen = BTreeSet::new();
    let Some(twice) = scored.iter().find(|one| !seen.insert(one.case.pack.as_str())) else { return Ok(()) };
    Err(Problem::new(ErrorKind::Invalid, "score.pack_twice", "two datapacks have one name")
        .found(format!("`{}`", twice.case.pack))
        .fix("import each set with a code of its own: `aegis datapack import … --system CODE`"))
}

fn print(args: &Args, rule: Rule, scored: &[Scored]) -> Result<()> {
    let cases: Vec<Case> = scored.iter().map(|one| one.case.clone()).collect();
    let outcomes: Vec<Outcome> = scored.iter().flat_map(|one| one.outcomes.clone()).collect();
    let mut board = score::board(&cases, &outcomes, &scoring::options(rule));
    let Some(position) = board.environments.iter().position(|board| board.environment == Environment::Imported) else {
        // Nothing of what was named could be read, which is told.
        return Ok(());
    };
    let board = &mut board.environments[position];
    board.notes.extend(subject::note(scored.iter().map(|one| &one.flagged)));
    let mut public = scoring::public(board, rule);
    let damaged = scored.iter().filter(|one| one.damage.is_some()).count();
    if damaged > 0 {
        let packs = i32::try_from(damaged).unwrap_or(i32::MAX);
        public.excluded.push(Excluded { reason: "damaged".to_owned(), packs });
    }
    let content = match args.format.as_str() {
        "table" => board_table::lines(&public).iter().map(|line| format!("{line}\n")).collect::<String>().into_bytes(),
        "json" => {
            let mut text = serde_json::to_vec_pretty(&public)
                .map_err(|error| Problem::internal("board.unwritable", error.to_string()))?;
            text.push(b'\n');
            text
        }
        other => scoring::document(board, rule, other)?.content,
    };
    output::bytes(&content);
    Ok(())
}

/// The working folder of the children, gone with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("aegis-score-{}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            eprintln!("{} cannot be removed: {error}", self.0.display());
        }
    }
}
