//! Built-in algorithms on one datapack: as many as are wanted, the datapack read once, each with a result of its own.
//!
//! They run in one child process. When it dies, the algorithm that it was at is to blame; the others go on in a new one.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use model::{Answer, ErrorKind, Level, Problem, Result};

use crate::child::{Child, Death, Line, Order, RankTask, STARTS};

/// How one algorithm ended.
#[derive(Debug)]
pub struct Ran {
    pub seconds: f64,
    pub peak_memory: Option<u64>,
    pub answers: std::result::Result<Vec<Answer>, Problem>,
}

/// How all of them ended, in the order of the tasks.
#[derive(Debug)]
pub struct Ranked {
    pub reading_s: f64,
    /// Whom they could have named; empty when the datapack was never read.
    pub candidates: Vec<String>,
    pub ran: Vec<Ran>,
}

/// Runs the tasks on the open part of a datapack. Without any it only finds out who could be named.
///
/// # Errors
/// Only what is our own fault or the machine's.
pub async fn run(child: &Child<'_>, pack: &Path, load_generators: &[String], tasks: &[RankTask]) -> Result<Ranked> {
    let mut seen = Seen::default();
    let (mut starts, mut first) = (1, true);
    loop {
        let open: Vec<usize> = (0..tasks.len()).filter(|task| !seen.ran.contains_key(task)).collect();
        // Without any task the datapack is read all the same: who could be named is wanted.
        if open.is_empty() && !first {
            break;
        }
        first = false;
        let order = Order::Rank {
            pack: pack.to_owned(),
            load_generators: load_generators.to_vec(),
            tasks: open.iter().map(|&task| tasks[task].clone()).collect(),
        };
        let ended = child.run(&order).await?;
        let began = seen.take(&ended.bytes, &open)?;
        let death = match ended.death {
            // Whoever is killed from outside may end otherwise the next time.
            Some(death) if death.is_chance() && starts < STARTS => {
                tracing::warn!("a child was killed ({death:?}) and is started again");
                starts += 1;
                continue;
            }
            Some(death) => death,
            None if open.iter().all(|task| seen.ran.contains_key(task)) => break,
            None => Death::Failed(Problem::new(ErrorKind::Failed, "algorithm.no_answer", "it ended without an answer")),
        };
        starts = 1;
        seen.blame(death, began, &open, tasks, ended.seconds, child);
    }
    Ok(Ranked { reading_s: seen.reading_s, candidates: seen.candidates, ran: seen.ran.into_values().collect() })
}

#[derive(Default)]
struct Seen {
    reading_s: f64,
    candidates: Vec<String>,
    ran: BTreeMap<usize, Ran>,
}

impl Seen {
    /// Takes what a child wrote; the task that it had begun and not ended.
    ///
    /// # Errors
    /// `exec.answer` for a whole line that is none of ours.
    fn take(&mut self, bytes: &[u8], open: &[usize]) -> Result<Option<usize>> {
        let mut began = None;
        // The last line of a child that died may be cut: it has no end.
        for line in bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
            let line = serde_json::from_slice(line)
                .map_err(|error| Problem::internal("exec.answer", "a child's answer cannot be read").cause(error))?;
            match line {
                Line::Read { seconds, candidates } => {
                    self.reading_s += seconds;
                    self.candidates = candidates;
                }
                Line::Start { task } => began = open.get(task).copied(),
                Line::Answer { task, seconds, peak_memory, answers } => {
                    let answers = checked(answers, &self.candidates);
                    began = None;
                    self.end(open.get(task), Ran { seconds, peak_memory, answers });
                }
                Line::Refusal { task, seconds, peak_memory, problem } => {
                    began = None;
                    self.end(open.get(task), Ran { seconds, peak_memory, answers: Err(problem) });
                }
            }
        }
        Ok(began)
    }

    fn end(&mut self, task: Option<&usize>, ran: Ran) {
        if let Some(task) = task {
            self.ran.insert(*task, ran);
        }
    }

    /// A death is that of the task that had begun. Before the first one, while the datapack is read, it is that of all.
    fn blame(
        &mut self,
        death: Death,
        began: Option<usize>,
        open: &[usize],
        tasks: &[RankTask],
        seconds: f64,
        child: &Child<'_>,
    ) {
        let all: Vec<usize> = open.iter().copied().filter(|task| !self.ran.contains_key(task)).collect();
        let blamed = began.map_or(all, |task| vec![task]);
        let problem = death.problem("", child.limits);
        for task in blamed {
            let problem = copy(&problem).place(tasks[task].algorithm.clone());
            self.ran.insert(task, Ran { seconds, peak_memory: None, answers: Err(problem) });
        }
    }
}

/// The same problem, of another algorithm.
fn copy(problem: &Problem) -> Problem {
    let mut copy = Problem::new(problem.kind, "", problem.message.clone());
    copy.code.clone_from(&problem.code);
    (copy.found, copy.expected, copy.fix) = (problem.found.clone(), problem.expected.clone(), problem.fix.clone());
    copy
}

/// Ranks are exactly 1..n, nothing is named twice, and nobody is named who is no candidate.
///
/// # Errors
/// `algorithm.answer_empty`, `algorithm.answer_invalid`, `algorithm.named_twice`, `algorithm.unknown_service`.
pub fn checked(answers: Vec<Answer>, candidates: &[String]) -> Result<Vec<Answer>> {
    let refuse = |code, message: &str| Problem::new(ErrorKind::Failed, code, message);
    if answers.is_empty() {
        return Err(refuse("algorithm.answer_empty", "it names no suspect").expected("at least one"));
    }
    let mut seen = HashSet::new();
    for (answer, rank) in answers.iter().zip(1..) {
        if answer.rank != rank {
            return Err(refuse("algorithm.answer_invalid", "its ranks are not 1, 2, 3, ...")
                .found(format!("rank {} at place {rank}", answer.rank)));
        }
        if answer.name.is_empty() || answer.score.is_some_and(|score| !score.is_finite()) {
            return Err(refuse("algorithm.answer_invalid", "an answer has no name, or a score that is no number")
                .found(format!("place {rank}")));
        }
        if !seen.insert((answer.level, answer.name.as_str())) {
            return Err(refuse("algorithm.named_twice", "it names a suspect twice").found(format!("`{}`", answer.name)));
        }
        if answer.level == Level::Service && !candidates.contains(&answer.name) {
            let near = model::nearest(&answer.name, candidates.iter().map(String::as_str));
            let problem = refuse("algorithm.unknown_service", "it names a service that the datapack does not have")
                .found(format!("`{}`", answer.name));
            return Err(match near {
                Some(near) => problem.fix(format!("did it mean `{near}`?")),
                None => problem,
            });
        }
    }
    Ok(answers)
}
