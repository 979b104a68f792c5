//! Runs a detector or an algorithm in a child process with a time and a memory limit.
//!
//! The child's death is a result; ours is not its business. It is given the open part of one datapack and writes one
//! file; nothing else of the datapack is reachable through what it is told.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use model::{ErrorKind, Problem, Result};
use serde::{Deserialize, Serialize};
use tokio::process::Command;

/// Characters of a child's last words that are kept.
const LONGEST_WORDS: usize = 2000;

/// What a child may use.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Limits {
    pub seconds: u64,
    pub memory_mib: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { seconds: 300, memory_mib: 2048 }
    }
}

/// What a child is to do. It is passed as one JSON file, so that a run can be repeated by hand.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "snake_case")]
pub enum Order {
    Detect { pack: PathBuf, load_generators: Vec<String>, profile: serde_json::Value },
    Rank { pack: PathBuf, load_generators: Vec<String>, algorithm: String, seed: u64 },
}

/// What a child answers to [`Order::Rank`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ranking {
    /// Whom the algorithm could have named: the same list for all of them.
    pub candidates: Vec<String>,
    pub answers: Vec<model::Answer>,
}

/// How a child ended that did not answer.
#[derive(Debug)]
pub enum Death {
    TimedOut,
    /// Ended by a signal that somebody sent.
    Signal(i32),
    /// Asked for more memory than it may have.
    OutOfMemory,
    /// Ended by itself: the problem that it handed over, or what its last words amount to.
    Failed(Problem),
}

impl Death {
    /// Whether another try may end otherwise: the child was killed from outside, which says nothing about its work.
    pub const fn is_chance(&self) -> bool {
        matches!(self, Self::Signal(_))
    }

    /// The problem of `what`, in its own words and under its own code where it had some.
    pub fn problem(self, what: &str, limits: Limits) -> Problem {
        let problem = |code, text: &str| Problem::new(ErrorKind::Failed, code, text).place(what.to_owned());
        match self {
            Self::TimedOut => problem("algorithm.timed_out", "it did not end in time")
                .expected(format!("an answer within {} s", limits.seconds))
                .fix("give it more time: `algorithm_seconds` in the configuration"),
            Self::Signal(signal) => problem("algorithm.killed", "it was ended by a signal")
                .found(format!("signal {signal}, {STARTS} times"))
                .expected("that nobody ends it"),
            Self::OutOfMemory => problem("algorithm.out_of_memory", "it needs more memory than it may have")
                .expected(format!("an answer with at most {} MiB of memory", limits.memory_mib))
                .fix("give it more memory: `algorithm_memory_mib` in the configuration"),
            Self::Failed(own) => match &own.place {
                Some(_) => own,
                None => own.place(what.to_owned()),
            },
        }
    }
}

/// How often a child is started that is killed from outside.
pub const STARTS: u32 = 3;

/// What a program writes on standard error when it ends because an allocation was refused.
const REFUSED: &[&str] = &["memory allocation of", "Cannot allocate memory", "not enough memory", "os error 12"];

/// Where a child hands over why it failed: beside its answer.
pub fn problem_file(answer: &Path) -> PathBuf {
    answer.with_extension("problem.json")
}

/// The answer file's bytes and the seconds that it took, or how the child died.
pub type Ended = std::result::Result<(Vec<u8>, f64), Death>;

/// Runs `program exec ORDER OUT` in `folder`, which is made and removed here.
///
/// # Errors
/// Only what is our own fault or the machine's: a folder that cannot be written, a program that cannot be started.
pub async fn run(program: &Path, folder: &Path, order: &Order, limits: Limits) -> Result<Ended> {
    let unwritable = |error: std::io::Error| {
        Problem::new(ErrorKind::Unavailable, "exec.folder_unwritable", "the working folder of a child cannot be used")
            .place(folder.display().to_string())
            .cause(error)
    };
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(unwritable)?;
    }
    std::fs::create_dir_all(folder).map_err(unwritable)?;
    let order_file = folder.join("order.json");
    let answer_file = folder.join("answer.json");
    let text = serde_json::to_vec_pretty(order).map_err(|error| Problem::internal("exec.order", error.to_string()))?;
    std::fs::write(&order_file, text).map_err(unwritable)?;
    let ended = wait(program, &order_file, &answer_file, limits).await?;
    std::fs::remove_dir_all(folder).map_err(unwritable)?;
    Ok(ended)
}

async fn wait(program: &Path, order: &Path, answer: &Path, limits: Limits) -> Result<Ended> {
    let start = Instant::now();
    let child = Command::new(program)
        .arg("exec")
        .arg("--memory-mib")
        .arg(limits.memory_mib.to_string())
        .arg(order)
        .arg(answer)
        .env_remove("AEGIS_KILL_POINT")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| {
            Problem::new(ErrorKind::Missing, "exec.not_started", "the child program cannot be started")
                .place(program.display().to_string())
                .cause(error)
        })?;
    let Ok(ended) = tokio::time::timeout(Duration::from_secs(limits.seconds), child.wait_with_output()).await else {
        return Ok(Err(Death::TimedOut));
    };
    let output = ended.map_err(|error| Problem::internal("exec.wait", error.to_string()))?;
    if !output.status.success() {
        return Ok(Err(death(output, answer)));
    }
    match std::fs::read(answer) {
        Ok(bytes) => Ok(Ok((bytes, start.elapsed().as_secs_f64()))),
        Err(error) => Ok(Err(Death::Failed(
            Problem::new(ErrorKind::Failed, "algorithm.no_answer", "it ended well but left no answer").cause(error),
        ))),
    }
}

/// How a child died: what it handed over says most, then its last words, then how it ended.
fn death(output: std::process::Output, answer: &Path) -> Death {
    let handed_over = std::fs::read(problem_file(answer)).ok().and_then(|text| serde_json::from_slice(&text).ok());
    let words = String::from_utf8_lossy(&output.stderr);
    if let Some(problem) = handed_over {
        return Death::Failed(problem);
    }
    if REFUSED.iter().any(|refused| words.contains(refused)) {
        return Death::OutOfMemory;
    }
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&output.status) {
        return Death::Signal(signal);
    }
    let message: String = words.trim().chars().take(LONGEST_WORDS).collect();
    let code = output.status.code().map_or_else(|| "no exit code".to_owned(), |code| format!("exit code {code}"));
    Death::Failed(Problem::new(ErrorKind::Failed, "algorithm.failed", message).found(code))
}
