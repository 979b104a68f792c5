//! An algorithm that somebody brought as a command, on one datapack.
//!
//! It is given the variables of the public container contract, the open part of the datapack, and a folder for its
//! answer. What it leaves there, or hands over by HTTP, is checked like the answer of a built-in algorithm; every way in
//! which it can fail is a result with a code of its own.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use api::algorithm::{CommandSpec, Network, RankedAnswer, ranked_answers};
use datapack::Pack;
use model::{Answer, ErrorKind, ExecutionId, InjectionId, Problem, Result, WallTime};
use store::{NewToken, Store};

use crate::Parts;
use crate::answer_file;
use crate::child::{empty_folder, handed_over, left, not_started, unwritable};
use crate::confine::{End, HOME, INPUT, NOT_STARTED, OUTPUT, Order, Report};
use crate::rank::{Ran, checked};

/// What the confining process may take beyond the command's own time.
const GRACE: Duration = Duration::from_secs(20);
/// Characters of a command's last words that are kept.
const LONGEST_WORDS: usize = 2000;
/// What a program says when it could not get memory.
const NO_MEMORY: &[&str] = &[
    "MemoryError",
    "bad_alloc",
    "Cannot allocate memory",
    "memory allocation of",
    "Out of Memory",
    "OutOfMemoryError",
    "out of memory",
];
/// How a result is marked of which nothing kept the command apart, and one that was kept apart.
pub const NONE: &str = "none";
pub const NAMESPACES: &str = "namespaces";

/// One command on one datapack.
pub struct Job<'a> {
    pub command: &'a CommandSpec,
    pub pack: &'a Pack,
    pub execution: ExecutionId,
    pub datapack: InjectionId,
    pub system: &'a str,
    pub algorithm: &'a str,
    /// Whom it may name.
    pub candidates: &'a [String],
}

/// The command behind a version of an algorithm; nothing when it is built in.
///
/// # Errors
/// `algorithm.gone` when it is neither.
pub async fn command(store: &Store, name: &str, version: &str) -> Result<Option<CommandSpec>> {
    if version == BUILTIN {
        return Ok(None);
    }
    let stored = store.command(name, version).await?.ok_or_else(|| {
        Problem::new(ErrorKind::Missing, "algorithm.gone", "this version of the algorithm is not here any more")
            .place(format!("{name}:{version}"))
    })?;
    serde_json::from_value(stored.definition)
        .map(Some)
        .map_err(|error| Problem::internal("algorithm.unreadable", "a stored command cannot be read").cause(error))
}

/// Version of what is part of the program.
pub const BUILTIN: &str = "builtin";

/// Runs the command; its end, and how it was kept apart.
///
/// # Errors
/// Only what is our own fault or the machine's.
pub async fn run(parts: &Parts, job: &Job<'_>) -> Result<(Ran, &'static str)> {
    let isolation = if job.command.no_isolation { NONE } else { NAMESPACES };
    let work = parts.scratch.join(format!("command-{}", job.execution));
    empty_folder(&work)?;
    let pass = Pass::open(parts, job).await?;
    let order = order(parts, job, &work, pass.as_ref())?;
    let ended = confined(&parts.program, &order).await;
    // Whatever happened, nobody may hand anything over from here on.
    let posted = match &pass {
        Some(pass) => pass.close(parts, job.execution).await?,
        None => None,
    };
    let ran = ended?.map(|report| {
        let answers = answers(&order, &report, posted).and_then(|answers| checked(answers, job.candidates));
        (report, answers)
    });
    // A folder that a command has closed to its owner stays until somebody removes it; the result counts all the same.
    if let Err(error) = std::fs::remove_dir_all(&work) {
        tracing::warn!(folder = %work.display(), "what a command left cannot be removed: {error}");
    }
    let place = |problem: Problem| if problem.place.is_some() { problem } else { problem.place(job.algorithm) };
    Ok((
        match ran {
            Ok((report, answers)) => {
                Ran { seconds: report.seconds, peak_memory: Some(report.peak_memory), answers: answers.map_err(place) }
            }
            Err(problem) => Ran { seconds: 0.0, peak_memory: None, answers: Err(place(problem)) },
        },
        isolation,
    ))
}

/// The right to hand over this one answer.
struct Pass {
    number: i32,
    token: String,
}

impl Pass {
    async fn open(parts: &Parts, job: &Job<'_>) -> Result<Option<Self>> {
        if job.command.network == Network::None || parts.server.is_none() {
            return Ok(None);
        }
        let until = WallTime::now().plus(Duration::from_secs(job.command.timeout_seconds) + GRACE);
        let (number, token) = parts.store.issue_token(&NewToken::of_execution(job.execution, until)).await?;
        Ok(Some(Self { number, token }))
    }

    /// Ends the right; what was handed over.
    async fn close(&self, parts: &Parts, execution: ExecutionId) -> Result<Option<Vec<Answer>>> {
        parts.store.revoke_token(self.number).await?;
        Ok(parts.store.upload_of(execution).await?.map(|upload| upload.findings.answers))
    }
}

fn order(parts: &Parts, job: &Job<'_>, work: &Path, pass: Option<&Pass>) -> Result<Order> {
    let output = work.join("output");
    empty_folder(&output)?;
    let command = job.command;
    let name = job.pack.name();
    let mut input = job.pack.open_part();
    if command.no_isolation {
        // Nothing keeps it from writing: it is given a copy.
        let copy = work.join("input").join(name);
        copy_folder(&input, &copy)?;
        input = copy;
    }
    let (seen_input, seen_output, home) = if command.no_isolation {
        (input.display().to_string(), output.display().to_string(), output.display().to_string())
    } else {
        (format!("{INPUT}/{name}"), OUTPUT.to_owned(), HOME.to_owned())
    };
    let windows = &job.pack.manifest().content.windows;
    let seconds = |time: model::DataTime| (time.0 / 1_000_000_000).to_string();
    let mut env = command.env.clone();
    let mut set = |key: &str, value: String| drop(env.insert(key.to_owned(), value));
    set("TIMEZONE", "UTC".to_owned());
    set("TIMESTAMP", WallTime::now().seconds().to_string());
    set("NORMAL_START", seconds(windows.normal_start));
    set("NORMAL_END", seconds(windows.abnormal_start));
    set("ABNORMAL_START", seconds(windows.abnormal_start));
    set("ABNORMAL_END", seconds(windows.abnormal_end));
    set("WORKSPACE", home.clone());
    set("INPUT_PATH", seen_input);
    set("OUTPUT_PATH", seen_output);
    set("DATAPACK_ID", job.datapack.to_string());
    set("EXECUTION_ID", job.execution.to_string());
    set("BENCHMARK_SYSTEM", job.system.to_owned());
    set("ALGORITHM", job.algorithm.to_owned());
    set("HOME", home);
    set("LANG", "C.UTF-8".to_owned());
    set("TZ", "UTC".to_owned());
    set("PATH", std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".to_owned()));
    if let (Some(pass), Some(server)) = (pass, &parts.server) {
        set("RCABENCH_BASE_URL", format!("http://{server}"));
        set("RCABENCH_TOKEN", pass.token.clone());
    }
    Ok(Order {
        command: command.command.clone(),
        env,
        input,
        datapack: name.to_owned(),
        output,
        work: work.to_owned(),
        seconds: command.timeout_seconds,
        memory_mib: command.memory_mib,
        network: command.network,
        server: parts.server.clone(),
        no_isolation: command.no_isolation,
    })
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    let wrong = |error| unwritable(to, error);
    std::fs::create_dir_all(to).map_err(wrong)?;
    for entry in std::fs::read_dir(from).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        std::fs::copy(entry.path(), to.join(entry.file_name())).map_err(wrong)?;
    }
    Ok(())
}

/// Runs the confining process to its end: its report, or why the command was never started.
async fn confined(program: &Path, order: &Order) -> Result<std::result::Result<Report, Problem>> {
    let file = order.work.join("order.json");
    let text = serde_json::to_vec_pretty(order).map_err(|error| Problem::internal("exec.order", error.to_string()))?;
    std::fs::write(&file, text).map_err(|error| unwritable(&order.work, error))?;
    let child = tokio::process::Command::new(program)
        .args(["confine", "--parent"])
        .arg(std::process::id().to_string())
        .arg(&file)
        .env_remove("AEGIS_KILL_POINT")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| not_started(program, error))?;
    let limit = Duration::from_secs(order.seconds) + GRACE;
    let Ok(output) = tokio::time::timeout(limit, child.wait_with_output()).await else {
        return Ok(Err(timed_out(order)));
    };
    let output = output.map_err(|error| Problem::internal("exec.wait", error.to_string()))?;
    if let Some(text) = left(&order.report())? {
        return serde_json::from_slice(&text)
            .map(Ok)
            .map_err(|error| Problem::internal("exec.report", "the report of a command cannot be read").cause(error));
    }
    if let Some(problem) = handed_over(&order.report())? {
        return Ok(Err(problem));
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Ok(Err(Problem::new(ErrorKind::Failed, "algorithm.killed", "the process that keeps the command apart was ended")
        .found(format!("{}; {}", output.status, words.trim()))))
}

fn timed_out(order: &Order) -> Problem {
    Problem::new(ErrorKind::Failed, "algorithm.timed_out", "it did not end in time")
        .expected(format!("an end within {} s", order.seconds))
        .fix("give it more time: `--timeout` in a new version of the algorithm")
}

/// What it answered: the file that it left, or what it handed over, or why there is none.
fn answers(order: &Order, report: &Report, posted: Option<Vec<Answer>>) -> Result<Vec<Answer>> {
    let failed = |code, message: &str| Problem::new(ErrorKind::Failed, code, message);
    let words = last_words(&order.stderr())?;
    match report.end {
        End::Exited { code: 0 } => {}
        End::TimedOut => return Err(timed_out(order)),
        End::OutOfMemory => return Err(out_of_memory(order)),
        End::Exited { .. } if NO_MEMORY.iter().any(|said| words.contains(said)) => return Err(out_of_memory(order)),
        // A program may end with 127 as well, as a shell does when a command in it is missing.
        End::Exited { code: 127 } if words.starts_with(NOT_STARTED) => {
            return Err(failed("algorithm.not_started", "the program is not there where it runs, or cannot be run")
                .found(words.trim_start_matches(NOT_STARTED))
                .expected("a program on the server's PATH, or an absolute path"));
        }
        End::Exited { code } => {
            return Err(
                failed("algorithm.failed", "it ended with an error").found(format!("exit code {code}; {words}"))
            );
        }
        End::Killed { signal } => {
            return Err(failed("algorithm.crashed", "it crashed").found(format!("signal {signal}; {words}")));
        }
    }
    if let Some(posted) = posted {
        let given = |answer: Answer| RankedAnswer {
            level: answer.level,
            result: answer.name,
            rank: i32::try_from(answer.rank).unwrap_or(i32::MAX),
            confidence: answer.score,
        };
        return ranked_answers(posted.into_iter().map(given).collect());
    }
    answer_file::read(&order.output)
}

fn out_of_memory(order: &Order) -> Problem {
    Problem::new(ErrorKind::Failed, "algorithm.out_of_memory", "it needs more memory than it may have")
        .expected(format!("an answer with at most {} MiB of memory", order.memory_mib))
        .fix("give it more memory: `--memory` in a new version of the algorithm")
}

/// The end of what it wrote on standard error.
fn last_words(path: &Path) -> Result<String> {
    let bytes = left(path)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim();
    let skip = text.chars().count().saturating_sub(LONGEST_WORDS);
    Ok(text.chars().skip(skip).collect())
}
