//! What every step has in common: what it is given, how it may end, and the order in which effects happen.
//!
//! Each outside effect goes record -> obligation -> effect -> witness -> recover -> verify -> release. A step may be
//! killed at any point and run again: names derive from the run's id, and progress that must not be lost is recorded
//! before the effect that it describes.

pub mod build_datapack;
pub mod collect_result;
pub mod fault_injection;
pub mod restart_pedestal;
pub mod run_algorithm;

use std::time::Duration;

use cluster::Fence;
use model::{ErrorKind, Problem, Result, RunId, Slot, TaskKind, Verdict, WallTime};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::Parts;
use crate::book::{Book, Injection, Run, Task};

/// What a step works with. The slot and its fence are there from the moment the run holds its slot.
pub struct Context<'a> {
    pub parts: &'a Parts,
    pub book: &'a Book,
    pub task: &'a Task,
    pub run: &'a Run,
}

/// How a step ends when nothing went wrong.
#[derive(Debug)]
pub enum Outcome {
    /// The step is done; these come next.
    Next(Vec<Next>),
    /// The step waits for something; no worker is held until then.
    Wait(Wait),
    /// The run ends here.
    End(End),
}

/// A task that follows. Its id derives from the run's id and the label, so that it is created once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    pub kind: TaskKind,
    pub label: String,
    pub payload: Payload,
}

/// What a task is told beyond its run's specification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Payload {
    /// Of RunAlgorithm: which one. Of CollectResult: `detector` or empty for the end of the run.
    #[serde(default)]
    pub algorithm: String,
}

/// What a task waits for, in the words that `run why` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Stable code, for example `slot.none_free`.
    pub code: String,
    pub message: String,
    /// Who holds what is waited for.
    pub holder: Option<String>,
    pub fix: Option<String>,
    pub until: WallTime,
}

impl Wait {
    pub fn new(code: &str, message: impl Into<String>, after: Duration) -> Self {
        Self { code: code.into(), message: message.into(), holder: None, fix: None, until: WallTime::now().plus(after) }
    }

    pub fn holder(mut self, holder: impl Into<String>) -> Self {
        self.holder = Some(holder.into());
        self
    }

    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

/// How a run ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    pub verdict: Verdict,
    /// In words, for people.
    pub reason: String,
}

impl Context<'_> {
    pub fn slot(&self) -> Result<Slot> {
        let number = self.run.slot.ok_or_else(|| Problem::internal("run.without_slot", "the run holds no slot yet"))?;
        Ok(Slot::new(self.run.spec.system.clone(), number))
    }

    pub fn fence(&self) -> Result<Fence> {
        let token = self.run.fence.ok_or_else(|| Problem::internal("run.without_slot", "the run holds no slot yet"))?;
        Ok(Fence { run: self.run.id, token })
    }

    /// What this task recorded before it was cut short, if anything.
    pub fn progress<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        let Some(text) = &self.task.progress else { return Ok(None) };
        serde_json::from_str(text).map(Some).map_err(|error| {
            Problem::internal("task.progress_unreadable", "a task's recorded progress cannot be read").cause(error)
        })
    }

    /// Records progress durably, before the effect that it describes.
    pub async fn record<T: Serialize + Sync>(&self, progress: &T) -> Result<()> {
        let text = serde_json::to_string(progress)
            .map_err(|error| Problem::internal("task.progress_unwritable", error.to_string()))?;
        self.book.record_progress(self.task, &text).await
    }

    /// Lets data time pass to `until`, or says when to ask again.
    ///
    /// # Errors
    /// `run.cancelled` when somebody asked for that; the caller's clean-up sees to what is still active.
    pub async fn run_until(&self, until: model::DataTime) -> Result<Option<Wait>> {
        self.still_wanted().await?;
        match self.parts.cluster.run_until(&self.fence()?, &self.slot()?, until).await? {
            cluster::Reach::Reached => Ok(None),
            cluster::Reach::Wake(at) => Ok(Some(Wait {
                code: "time.not_reached".into(),
                message: format!("the system's time has not reached {until}"),
                holder: None,
                fix: None,
                until: at,
            })),
        }
    }

    /// # Errors
    /// `run.cancelled`: the step stops here and whatever it made is taken back.
    pub async fn still_wanted(&self) -> Result<()> {
        if self.book.cancel_requested(self.run.id).await? {
            return Err(cancelled(self.run.id));
        }
        Ok(())
    }

    pub async fn injection(&self) -> Result<Injection> {
        self.book.injection(self.run.id).await
    }
}

/// The error with which a step stops when its run is cancelled.
pub fn cancelled(run: RunId) -> Problem {
    Problem::new(ErrorKind::Failed, "run.cancelled", "the run was cancelled").place(format!("run {run}"))
}

impl Next {
    pub fn new(kind: TaskKind, label: impl Into<String>) -> Self {
        Self { kind, label: label.into(), payload: Payload::default() }
    }

    pub fn algorithm(label: impl Into<String>, kind: TaskKind, algorithm: &str) -> Self {
        Self { kind, label: label.into(), payload: Payload { algorithm: algorithm.into() } }
    }
}
