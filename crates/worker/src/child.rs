//! Runs a detector or an algorithm in a child process with a time and a memory limit.
//!
//! The child's death is a result; ours is not its business. It is given the open part of one datapack and writes one
//! file; nothing else of the datapack is reachable through what it is told.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use model::{Answer, ErrorKind, Onset, Problem, Result};
use serde::{Deserialize, Serialize};
use tokio::process::Command;

/// How often a child's progress is looked at.
const LOOK: Duration = Duration::from_millis(50);
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
    Detect {
        pack: PathBuf,
        load_generators: Vec<String>,
        profile: serde_json::Value,
    },
    /// The pack is read once for all tasks. The answer is one [`Line`] of JSON after the other.
    Rank {
        pack: PathBuf,
        load_generators: Vec<String>,
        tasks: Vec<RankTask>,
    },
}

/// One algorithm on the pack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankTask {
    pub algorithm: String,
    pub seed: u64,
    /// What it is told of the fault's start.
    pub onset: Onset,
}

/// What a child says while it ranks, as soon as it is so.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum Line {
    /// The pack is read. Whom an algorithm may name is the same for all of them.
    Read {
        seconds: f64,
        candidates: Vec<String>,
    },
    Start {
        task: usize,
    },
    Answer {
        task: usize,
        seconds: f64,
        peak_memory: Option<u64>,
        answers: Vec<Answer>,
    },
    Refusal {
        task: usize,
        seconds: f64,
        peak_memory: Option<u64>,
        problem: Problem,
    },
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

/// What a child left in its answer file, the seconds that it took, and how it died if it did.
#[derive(Debug)]
pub struct Ended {
    pub bytes: Vec<u8>,
    pub seconds: f64,
    pub death: Option<Death>,
}

/// A child that is to be started.
#[derive(Debug, Clone, Copy)]
pub struct Child<'a> {
    /// The program that is run as `PROGRAM exec …`.
    pub program: &'a Path,
    /// Made and removed here.
    pub folder: &'a Path,
    /// Threads that it computes with; all processors when absent.
    pub threads: Option<usize>,
    /// The time is that between two signs of progress: a child that ranks has it for each of its tasks.
    pub limits: Limits,
}

impl Child<'_> {
    /// Runs one order.
    ///
    /// # Errors
    /// Only what is our own fault or the machine's: a folder that cannot be written, a program that cannot be started.
    pub async fn run(&self, order: &Order) -> Result<Ended> {
        let unwritable = |error: std::io::Error| unwritable(self.folder, error);
        empty_folder(self.folder)?;
        let order_file = self.folder.join("order.json");
        let answer_file = self.folder.join("answer.json");
        let text =
            serde_json::to_vec_pretty(order).map_err(|error| Problem::internal("exec.order", error.to_string()))?;
        std::fs::write(&order_file, text).map_err(unwritable)?;
        let ended = self.wait(&order_file, &answer_file).await?;
        std::fs::remove_dir_all(self.folder).map_err(unwritable)?;
        Ok(ended)
    }

    async fn wait(&self, order: &Path, answer: &Path) -> Result<Ended> {
        let start = Instant::now();
        let mut command = Command::new(self.program);
        command.arg("exec").arg("--memory-mib").arg(self.limits.memory_mib.to_string());
        command.arg("--parent").arg(std::process::id().to_string());
        if let Some(threads) = self.threads {
            command.arg("--threads").arg(threads.to_string());
        }
        let child = command
            .arg(order)
            .arg(answer)
            .env_remove("AEGIS_KILL_POINT")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| not_started(self.program, error))?;
        let Some(ended) = progressing(child.wait_with_output(), answer, self.limits).await else {
            // What was answered before the time was over is kept.
            return partial(answer, start, Death::TimedOut);
        };
        let output = ended.map_err(|error| Problem::internal("exec.wait", error.to_string()))?;
        if !output.status.success() {
            return partial(answer, start, death(output, answer)?);
        }
        match left(answer)? {
            Some(bytes) => Ok(Ended { bytes, seconds: start.elapsed().as_secs_f64(), death: None }),
            None => partial(answer, start, Death::Failed(no_answer())),
        }
    }
}

/// A child's end, unless it shows no progress for its time: then nothing, and it is killed by being dropped.
async fn progressing<T>(end: impl Future<Output = T>, answer: &Path, limits: Limits) -> Option<T> {
    let mut end = std::pin::pin!(end);
    let (mut length, mut since) = (0, Instant::now());
    loop {
        tokio::select! {
            ended = &mut end => return Some(ended),
            () = tokio::time::sleep(LOOK) => {}
        }
        let now = std::fs::metadata(answer).map_or(0, |file| file.len());
        if now != length {
            (length, since) = (now, Instant::now());
        }
        if since.elapsed() >= Duration::from_secs(limits.seconds) {
            return None;
        }
    }
}

/// What there is of a child that died: often nothing.
fn partial(answer: &Path, start: Instant, death: Death) -> Result<Ended> {
    let bytes = left(answer)?.unwrap_or_default();
    Ok(Ended { bytes, seconds: start.elapsed().as_secs_f64(), death: Some(death) })
}

/// A file that a child may have left, or not.
///
/// # Errors
/// `exec.answer_unreadable` when it is there and cannot be read.
pub fn left(file: &Path) -> Result<Option<Vec<u8>>> {
    match std::fs::read(file) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            Err(Problem::new(ErrorKind::Unavailable, "exec.answer_unreadable", "what a child left cannot be read")
                .place(file.display().to_string())
                .cause(error))
        }
    }
}

/// The problem that a child handed over beside its answer, if it did.
///
/// # Errors
/// `exec.answer_unreadable` when it is there and is none.
pub fn handed_over(answer: &Path) -> Result<Option<Problem>> {
    let file = problem_file(answer);
    let Some(text) = left(&file)? else { return Ok(None) };
    serde_json::from_slice(&text).map(Some).map_err(|error| {
        Problem::internal("exec.answer_unreadable", "what a child left cannot be read")
            .place(file.display().to_string())
            .cause(error)
    })
}

fn no_answer() -> Problem {
    Problem::new(ErrorKind::Failed, "algorithm.no_answer", "it ended well but left no answer")
}

/// Makes a working folder, empty.
pub fn empty_folder(folder: &Path) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(|error| unwritable(folder, error))?;
    }
    std::fs::create_dir_all(folder).map_err(|error| unwritable(folder, error))
}

pub fn unwritable(folder: &Path, error: std::io::Error) -> Problem {
    Problem::new(ErrorKind::Unavailable, "exec.folder_unwritable", "the working folder of a child cannot be used")
        .place(folder.display().to_string())
        .cause(error)
}

pub fn not_started(program: &Path, error: std::io::Error) -> Problem {
    Problem::new(ErrorKind::Missing, "exec.not_started", "the child program cannot be started")
        .place(program.display().to_string())
        .cause(error)
}

/// How a child died: what it handed over says most, then its last words, then how it ended.
fn death(output: std::process::Output, answer: &Path) -> Result<Death> {
    let words = String::from_utf8_lossy(&output.stderr);
    let refused = REFUSED.iter().any(|refused| words.contains(refused));
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    // Whoever is killed while it hands a problem over leaves a part of one.
    let handed_over = if signal.is_none() { handed_over(answer)? } else { None };
    Ok(match (handed_over, signal) {
        (Some(problem), _) => Death::Failed(problem),
        (None, _) if refused => Death::OutOfMemory,
        (None, Some(signal)) => Death::Signal(signal),
        (None, None) => Death::Failed(last_words(&words, output.status.code())),
    })
}

fn last_words(words: &str, code: Option<i32>) -> Problem {
    let message: String = words.trim().chars().take(LONGEST_WORDS).collect();
    let code = code.map_or_else(|| "no exit code".to_owned(), |code| format!("exit code {code}"));
    Problem::new(ErrorKind::Failed, "algorithm.failed", message).found(code)
}
