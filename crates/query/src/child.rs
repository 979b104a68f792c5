//! A query in a process of its own: whatever it does to its memory or its stack, the server goes on.
//!
//! The child is asked on its standard input and answers on its standard output in the lines of [`Answer::write`]; a query
//! that is refused is one line, `{"refused": …}`. It ends when its standard input does, so it does not outlive who asks:
//! who drops the [`Leash`] ends it.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use model::{ErrorKind, Problem, Result};
use nix::sys::resource::{Resource, setrlimit};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::answer::{Answer, Limits, STACK, not_sent, threads};
use crate::complaint::memory_exhausted;
use crate::table::PackFolder;

/// What a child is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    pub sql: String,
    /// Folder of the packs.
    pub root: PathBuf,
    pub packs: Vec<PackFolder>,
    pub limits: Limits,
}

/// What a child is told.
#[derive(Serialize, Deserialize)]
struct Order {
    question: Question,
    scratch: PathBuf,
}

/// What a program says on standard error when an allocation is refused, and when its stack is at its end.
const REFUSED: &[&str] = &["memory allocation of", "capacity overflow", "Cannot allocate memory", "os error 12"];
const TOO_DEEP: &str = "has overflowed its stack";

/// A child's end is told in that many bytes of its last words.
const LAST_WORDS: u64 = 16 * 1024;

/// A child that computes the first rows of an answer.
pub struct Asking {
    // Dropped in this order: the child is gone before its scratch folder is.
    child: Child,
    lines: BufReader<ChildStdout>,
    limits: Limits,
    scratch: TempDir,
}

/// Dropped, it ends the child at once, whatever another thread waits for.
pub struct Leash(#[expect(dead_code, reason = "the child notices that it is closed")] ChildStdin);

/// Starts `program` with `arguments`, which calls [`answer`]. `scratch` is a folder for what does not fit into memory.
///
/// # Errors
/// `query.not_started`, `query.no_scratch`.
pub fn ask(program: &Path, arguments: &[&str], question: Question, scratch: &Path) -> Result<(Asking, Leash)> {
    let limits = question.limits;
    let scratch = tempfile::Builder::new().prefix("query-").tempdir_in(scratch).map_err(|error| {
        Problem::new(ErrorKind::Missing, "query.no_scratch", "there is no folder for what does not fit into memory")
            .place(scratch.display().to_string())
            .found(error.to_string())
    })?;
    let order = Order { question, scratch: scratch.path().to_owned() };
    let (child, lines, leash) = Child::start(program, arguments, &order)?;
    Ok((Asking { child, lines: BufReader::new(lines), limits, scratch }, leash))
}

impl Asking {
    /// Waits for the first rows.
    ///
    /// # Errors
    /// Those of [`Answer::begin`], `query.too_deep`.
    pub fn first(mut self) -> Result<Asked> {
        let mut columns = String::new();
        let read = self.lines.read_line(&mut columns);
        if read.is_err() || !columns.ends_with('\n') {
            return Err(self.child.death(&self.limits));
        }
        if let Ok(Value::Object(mut line)) = serde_json::from_str(&columns)
            && let Some(refused) = line.remove("refused")
        {
            return Err(serde_json::from_value(refused).unwrap_or_else(|error| unclear(&error)));
        }
        Ok(Asked { child: self.child, lines: self.lines, columns, limits: self.limits, _scratch: self.scratch })
    }
}

/// A question whose first rows a child has computed.
pub struct Asked {
    // As above.
    child: Child,
    lines: BufReader<ChildStdout>,
    columns: String,
    limits: Limits,
    _scratch: TempDir,
}

impl Asked {
    /// Passes the lines on. A child that died in the middle is the last line: `{"error": …}`.
    ///
    /// # Errors
    /// `query.not_sent` when the sink does not take it.
    pub fn write(mut self, sink: &mut dyn Write) -> Result<()> {
        let mut send = |line: &[u8]| sink.write_all(line).map_err(|error| not_sent(&error));
        send(self.columns.as_bytes())?;
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = self.lines.read_until(b'\n', &mut line);
            if read.is_err() || line.last() != Some(&b'\n') {
                let death = self.child.death(&self.limits);
                return send(format!("{}\n", json!({ "error": death })).as_bytes());
            }
            send(&line)?;
            if line.first() != Some(&b'[') {
                return Ok(());
            }
        }
    }
}

/// The process. Dropped, it is ended.
struct Child(std::process::Child);

impl Child {
    fn start(program: &Path, arguments: &[&str], order: &Order) -> Result<(Self, ChildStdout, Leash)> {
        let not_started = |error: std::io::Error| {
            Problem::new(ErrorKind::Missing, "query.not_started", "the program of the query cannot be started")
                .place(program.display().to_string())
                .cause(error)
        };
        let mut child = Command::new(program)
            .args(arguments)
            // Each further arena of the allocator takes address space, which is limited.
            .env("MALLOC_ARENA_MAX", "2")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map(Self)
            .map_err(not_started)?;
        let lines = child.0.stdout.take().expect("standard output is a pipe");
        let mut order = serde_json::to_vec(order)
            .map_err(|error| Problem::internal("query.order", "the query cannot be handed over").cause(error))?;
        order.push(b'\n');
        // A child that is gone already is noticed when its answer is read.
        let mut leash = child.0.stdin.take().expect("standard input is a pipe");
        drop(leash.write_all(&order));
        Ok((child, lines, Leash(leash)))
    }

    /// Why there is no answer.
    fn death(&mut self, limits: &Limits) -> Problem {
        // It has closed its output; whatever still runs in it is of no use.
        drop(self.0.kill());
        let mut words = Vec::new();
        if let Some(errors) = self.0.stderr.take() {
            drop(errors.take(LAST_WORDS).read_to_end(&mut words));
        }
        let words = String::from_utf8_lossy(&words);
        let last = words.lines().find(|line| !line.trim().is_empty()).unwrap_or("no last words").to_owned();
        if words.contains(TOO_DEEP) {
            return Problem::new(ErrorKind::Invalid, "query.too_deep", "the query nests too deep").found(last);
        }
        if REFUSED.iter().any(|refused| words.contains(refused)) {
            return memory_exhausted(limits, last);
        }
        let status = self.0.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        Problem::internal("query.died", "the process of the query ended without an answer")
            .found(format!("{status}: {last}"))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// What the child does: takes its order from standard input, limits its memory, answers on standard output.
///
/// # Errors
/// What keeps it from answering at all; a refused query is an answer.
pub fn answer() -> Result<()> {
    let mut text = String::new();
    let unreadable = |found: String| Problem::internal("query.order", "the order cannot be read").found(found);
    std::io::stdin().read_line(&mut text).map_err(|error| unreadable(error.to_string()))?;
    let Order { question, scratch } = serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
    limit_memory(question.limits.memory)?;
    std::thread::spawn(|| {
        // Who asked holds the other end; when it is closed nobody waits for the answer.
        drop(std::io::stdin().read_line(&mut String::new()));
        std::process::exit(1);
    });
    let Question { sql, root, packs, limits } = question;
    let mut sink = std::io::BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    let told = match Answer::begin(&sql, &root, packs, limits, &scratch) {
        Ok(answer) => answer.write(&mut sink),
        Err(problem) => writeln!(sink, "{}", json!({ "refused": problem })).map_err(|error| not_sent(&error)),
    };
    told.and_then(|()| sink.flush().map_err(|error| not_sent(&error)))?;
    // Threads that still compute are not waited for.
    std::process::exit(0);
}

/// An allocation beyond the limit ends the process. What the operators count is half of it: decoded pages and batches on
/// their way are counted by nobody. Stacks take address space and hardly any memory.
fn limit_memory(memory: usize) -> Result<()> {
    const PROGRAM: usize = 512 << 20;
    let stacks = STACK * (threads() + 2);
    let bytes = (2 * memory + PROGRAM + stacks) as u64;
    setrlimit(Resource::RLIMIT_AS, bytes, bytes).map_err(|error| {
        Problem::new(ErrorKind::Missing, "query.no_memory_limit", "this machine does not let a memory limit be set")
            .cause(error)
    })
}

fn unclear(error: &serde_json::Error) -> Problem {
    Problem::internal("query.order", "the refusal of a query cannot be read").found(error.to_string())
}
