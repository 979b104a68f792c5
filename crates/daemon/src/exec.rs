//! `aegis exec ORDER ANSWER`: what a child process does. It reads the open part of one datapack, computes one answer,
//! writes one file, and ends. Its memory limit is set by itself, before anything is read.

use std::path::Path;

use model::{ErrorKind, Problem, Result};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use worker::child::{Order, Ranking};

/// # Errors
/// Whatever keeps it from answering; it is handed over in a file beside the answer, and the caller prints it and ends with a
/// non-zero code.
pub fn run(order: &Path, answer: &Path, memory_mib: u64) -> Result<()> {
    let done = perform(order, answer, memory_mib);
    if let Err(problem) = &done {
        hand_over(problem, answer);
    }
    done
}

/// When even this fails, the parent has the words on standard error.
fn hand_over(problem: &Problem, answer: &Path) {
    let written = serde_json::to_vec(problem).map_err(std::io::Error::from);
    if let Err(error) = written.and_then(|text| std::fs::write(worker::child::problem_file(answer), text)) {
        eprintln!("the problem cannot be handed over: {error}");
    }
}

fn perform(order: &Path, answer: &Path, memory_mib: u64) -> Result<()> {
    die_with_parent()?;
    limit_memory(memory_mib)?;
    start_threads(memory_mib)?;
    let text = std::fs::read(order).map_err(|error| unreadable(order, &error.to_string()))?;
    let order: Order =
        serde_json::from_slice(&text).map_err(|error| unreadable(order, &format!("no order of ours: {error}")))?;
    let bytes = match order {
        Order::Detect { pack, load_generators, profile } => {
            let profile = serde_json::from_value(profile).map_err(|error| {
                Problem::internal("exec.profile", "the detector's profile cannot be read").cause(error)
            })?;
            let frames = datapack::load(&pack, &load_generators)?;
            serde_json::to_vec(&rca::detector::Detector::new(profile)?.judge(&frames))
        }
        Order::Rank { pack, load_generators, algorithm, seed } => {
            let frames = datapack::load(&pack, &load_generators)?;
            let answers = rca::algorithm::algorithm(&algorithm)?.rank(&frames, seed)?;
            serde_json::to_vec(&Ranking { candidates: frames.candidates, answers })
        }
    };
    let bytes = bytes.map_err(|error| Problem::internal("exec.answer", error.to_string()))?;
    std::fs::write(answer, bytes).map_err(|error| {
        Problem::new(ErrorKind::Unavailable, "exec.answer_unwritable", "the answer cannot be written")
            .place(answer.display().to_string())
            .cause(error)
    })
}

/// A daemon that is killed takes its children along: whoever comes after it starts them again, in the same folder.
fn die_with_parent() -> Result<()> {
    set_pdeathsig(Signal::SIGKILL).map_err(|error| {
        Problem::internal("exec.outlives_parent", "the child cannot be bound to its daemon").cause(error)
    })
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
fn start_threads(memory_mib: u64) -> Result<()> {
    rayon::ThreadPoolBuilder::new().build_global().map_err(|error| {
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
