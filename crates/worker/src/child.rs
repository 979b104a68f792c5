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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Death {
    TimedOut,
    /// Ended by a signal: killed, or out of memory.
    Signal(i32),
    /// Ended by itself with a message on its standard error.
    Failed {
        code: i32,
        message: String,
    },
}

impl Death {
    pub fn problem(&self, what: &str, limits: Limits) -> Problem {
        let problem = |code, text: String| Problem::new(ErrorKind::Failed, code, text).place(what.to_owned());
        match self {
            Self::TimedOut => problem("algorithm.timed_out", "it did not end in time".into())
                .expected(format!("an answer within {} s", limits.seconds)),
            Self::Signal(signal) => problem("algorithm.killed", "it was ended by a signal".into())
                .found(format!("signal {signal}"))
                .expected(format!("an answer with at most {} MiB of memory", limits.memory_mib)),
            Self::Failed { code, message } => {
                problem("algorithm.failed", message.clone()).found(format!("exit code {code}"))
            }
        }
    }
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
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&output.status) {
        return Ok(Err(Death::Signal(signal)));
    }
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).trim().chars().take(2000).collect();
        return Ok(Err(Death::Failed { code: output.status.code().unwrap_or(-1), message }));
    }
    match std::fs::read(answer) {
        Ok(bytes) => Ok(Ok((bytes, start.elapsed().as_secs_f64()))),
        Err(error) => Ok(Err(Death::Failed { code: 0, message: format!("it ended well but left no answer: {error}") })),
    }
}
