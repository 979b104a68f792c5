//! `aegis exec ORDER ANSWER`: what a child process does. It reads the open part of one datapack, computes one answer,
//! writes one file, and ends. Its memory limit is set by itself, before anything is read.

mod memory;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use model::{Answer, DataTime, ErrorKind, Onset, Problem, Result};
use nix::sys::resource::{Resource, setrlimit};
use rca::frame::Pack;
use worker::child::{Line, Order, RankTask};

use crate::bond::die_with_parent;

#[derive(clap::Args)]
pub struct Args {
    #[arg(long)]
    memory_mib: u64,
    #[arg(long)]
    threads: Option<usize>,
    /// The process with which this one ends.
    #[arg(long)]
    parent: Option<u32>,
    order: PathBuf,
    answer: PathBuf,
}

/// # Errors
/// Whatever keeps it from answering; it is handed over in a file beside the answer, and the caller prints it and ends with a
/// non-zero code.
pub fn run(args: &Args) -> Result<()> {
    // A daemon that is killed takes its children along: whoever comes after it starts them again, in the same folder.
    die_with_parent(args.parent)?;
    let done = perform(&args.order, &args.answer, args.memory_mib, args.threads);
    if let Err(problem) = &done {
        hand_over(problem, &args.answer);
    }
    done
}

/// When even this fails, the parent has the words on standard error.
pub fn hand_over(problem: &Problem, answer: &Path) {
    let written = serde_json::to_vec(problem).map_err(std::io::Error::from);
    if let Err(error) = written.and_then(|text| std::fs::write(worker::child::problem_file(answer), text)) {
        eprintln!("the problem cannot be handed over: {error}");
    }
}

fn perform(order: &Path, answer: &Path, memory_mib: u64, threads: Option<usize>) -> Result<()> {
    limit_memory(memory_mib)?;
    start_threads(memory_mib, threads)?;
    let text = std::fs::read(order).map_err(|error| unreadable(order, &error.to_string()))?;
    let order: Order =
        serde_json::from_slice(&text).map_err(|error| unreadable(order, &format!("no order of ours: {error}")))?;
    match order {
        Order::Detect { pack, load_generators, profile } => {
            let profile = serde_json::from_value(profile).map_err(|error| {
                Problem::internal("exec.profile", "the detector's profile cannot be read").cause(error)
            })?;
            let frames = datapack::load(&pack, &load_generators)?;
            let conclusion = rca::detector::Detector::new(profile)?.judge(&frames);
            let bytes =
                serde_json::to_vec(&conclusion).map_err(|error| Problem::internal("exec.answer", error.to_string()))?;
            std::fs::write(answer, bytes).map_err(|error| unwritable(answer, error))
        }
        Order::Rank { pack, load_generators, tasks } => rank(&pack, &load_generators, &tasks, answer),
    }
}

/// Reads the pack once and runs the tasks one after the other; each line is in the file before the next task begins.
fn rank(pack: &Path, load_generators: &[String], tasks: &[RankTask], answer: &Path) -> Result<()> {
    let mut file = File::create(answer).map_err(|error| unwritable(answer, error))?;
    let mut say = |line: &Line| {
        let mut text = serde_json::to_vec(line).map_err(|error| Problem::internal("exec.answer", error.to_string()))?;
        text.push(b'\n');
        file.write_all(&text).map_err(|error| unwritable(answer, error))
    };
    let start = Instant::now();
    let frames = datapack::load(pack, load_generators)?;
    say(&Line::Read { seconds: start.elapsed().as_secs_f64(), candidates: frames.candidates.clone() })?;
    for (number, task) in tasks.iter().enumerate() {
        say(&Line::Start { task: number })?;
        memory::forget_peak();
        let start = Instant::now();
        let answers = one(&frames, task);
        let (seconds, peak_memory) = (start.elapsed().as_secs_f64(), memory::peak());
        say(&match answers {
            Ok(answers) => Line::Answer { task: number, seconds, peak_memory, answers },
            Err(problem) => Line::Refusal { task: number, seconds, peak_memory, problem },
        })?;
    }
    Ok(())
}

fn one(frames: &Pack, task: &RankTask) -> Result<Vec<Answer>> {
    let algorithm = rca::algorithm::algorithm(&task.algorithm)?;
    match onset(frames, task.onset)? {
        None => algorithm.rank(frames, task.seed),
        Some(onset) => algorithm.rank(&rca::onset::told(frames, onset), task.seed),
    }
}

/// What the algorithm is told instead of the true start. A shift never leaves a window empty.
fn onset(frames: &Pack, onset: Onset) -> Result<Option<DataTime>> {
    let windows = frames.windows;
    let shifted = |seconds: i64| DataTime(windows.abnormal_start.0 + seconds * 1_000_000_000);
    let told = match onset {
        Onset::Known => return Ok(None),
        Onset::Early => shifted(-Onset::SHIFT_SECONDS),
        Onset::Late => shifted(Onset::SHIFT_SECONDS),
        Onset::Detected => rca::onset::change_point(frames).ok_or_else(|| {
            Problem::new(ErrorKind::Failed, "detector.no_onset", "too few requests to see when anything changed")
        })?,
    };
    if windows.normal_start < told && told < windows.abnormal_end {
        return Ok(Some(told));
    }
    Err(Problem::new(
        ErrorKind::Failed,
        "algorithm.insufficient_data",
        "a window is shorter than the shift of its start",
    )
    .expected(format!("more than {} s on either side", Onset::SHIFT_SECONDS)))
}

fn unwritable(answer: &Path, error: std::io::Error) -> Problem {
    Problem::new(ErrorKind::Unavailable, "exec.answer_unwritable", "the answer cannot be written")
        .place(answer.display().to_string())
        .cause(error)
}

/// An allocation beyond the limit ends the process, and only this process.
fn limit_memory(memory_mib: u64) -> Result<()> {
    let bytes = memory_mib.saturating_mul(1024 * 1024);
    setrlimit(Resource::RLIMIT_AS, bytes, bytes).map_err(|error| {
        Problem::new(ErrorKind::Missing, "exec.no_memory_limit", "this machine does not let a memory limit be set")
            .cause(error)
    })
}

/// The threads are started before anything is read: under a tiny limit not even their stacks fit.
fn start_threads(memory_mib: u64, threads: Option<usize>) -> Result<()> {
    // Zero is as many as there are processors.
    rayon::ThreadPoolBuilder::new().num_threads(threads.unwrap_or(0)).build_global().map_err(|error| {
        Problem::new(ErrorKind::Failed, "algorithm.out_of_memory", "it needs more memory than it may have")
            .found(error.to_string())
            .expected(format!("at most {memory_mib} MiB"))
            .fix("give it more memory: `algorithm_memory_mib` in the configuration")
    })
}

fn unreadable(order: &Path, found: &str) -> Problem {
    Problem::new(ErrorKind::Invalid, "exec.order_unreadable", "the order cannot be read")
        .place(order.display().to_string())
        .found(found.to_owned())
}
