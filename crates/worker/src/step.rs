//! What every step has in common: what it is given, how it may end, and the order in which effects happen.
//!
//! Each outside effect goes record -> obligation -> effect -> witness -> recover -> verify -> release. A step may be
//! killed at any point and run again: names derive from the run's id, and what must not be lost is recorded before the
//! effect that it describes.

pub mod build_datapack;
pub mod collect_result;
pub mod discharge;
pub mod fault_injection;
pub mod objects;
pub mod receipt;
pub mod restart_pedestal;
pub mod run_algorithm;

use std::time::Duration;

use api::spec::RunSpec;
use cluster::{Fence, Reach};
use model::{DataTime, ErrorKind, Problem, Result, RunId, Slot, WallTime};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use store::{Claim, Effects, Run, SlotGrant, Task, Wait};

use tokio::sync::watch;

use crate::Parts;

/// Longest stretch of data time that passes before a cancelled run is noticed.
const STRETCH: Duration = Duration::from_secs(60);

/// First and longest pause of a step that waits for what others hold.
const FIRST_LOOK: Duration = Duration::from_millis(500);
const LONGEST_LOOK: Duration = Duration::from_secs(16);

/// What a step works with.
pub struct Context<'a> {
    pub parts: &'a Parts,
    pub claim: &'a Claim,
    pub task: &'a Task,
    pub run: &'a Run,
    pub spec: &'a RunSpec,
    /// True once this process is to end.
    pub stop: &'a watch::Receiver<bool>,
}

/// The right to act on the run's slot.
#[derive(Debug, Clone)]
pub struct Hold {
    pub slot: Slot,
    pub fence: Fence,
}

/// How a step ends when nothing went wrong.
#[derive(Debug)]
pub enum Outcome {
    /// The step is done, and this is stored with it.
    Done(Box<Effects>),
    /// The step waits for something; no worker is held until then.
    Wait(Wait, WallTime),
}

/// How much of the wanted time has passed.
pub enum Passed {
    Some,
    All,
    Wait(Outcome),
}

impl Outcome {
    pub fn done(effects: Effects) -> Self {
        Self::Done(Box::new(effects))
    }

    /// Waits for leases that others hold. The one who waits longest is woken when one of them goes back; that it looks by itself,
    /// more and more seldom, is for what nobody tells of: a raised limit, a pool that grew.
    pub fn in_line(wait: Wait, before: Option<&Wait>) -> Self {
        let wait = wait.after(before);
        let pause = FIRST_LOOK.saturating_mul(1 << (wait.looks - 1).min(10)).min(LONGEST_LOOK);
        Self::wait(wait, pause)
    }

    /// Waits for `after` from now on.
    pub fn wait(wait: Wait, after: Duration) -> Self {
        Self::Wait(wait, WallTime::now().plus(after))
    }
}

impl Context<'_> {
    /// The run's slot under its present fence.
    ///
    /// # Errors
    /// `slot.lost` when the run does not hold it any more.
    pub async fn hold(&self) -> Result<Hold> {
        let slot = self.slot()?;
        match self.parts.store.acquire_slot(self.claim, std::slice::from_ref(&slot)).await? {
            SlotGrant::Got { slot, lease } => Ok(Hold { slot, fence: Fence { run: self.run.id, token: lease.fence } }),
            SlotGrant::Busy(held) => {
                Err(Problem::new(ErrorKind::Conflict, "slot.lost", "the run does not hold its slot any more")
                    .place(slot.namespace())
                    .found(held.first().map_or_else(String::new, |lease| lease.note.clone())))
            }
        }
    }

    /// The slot that the run holds or held.
    pub fn slot(&self) -> Result<Slot> {
        let number = self.run.slot.ok_or_else(|| Problem::internal("run.without_slot", "the run holds no slot yet"))?;
        Ok(Slot::new(self.spec.system.clone(), number))
    }

    /// The method that this task is about.
    pub fn algorithm(&self) -> Result<&str> {
        self.task
            .algorithm
            .as_deref()
            .ok_or_else(|| Problem::internal("task.without_algorithm", "a task that is about an algorithm names none"))
    }

    /// Puts the step back: whoever comes next takes it up where it stands.
    pub fn stopping(&self) -> Outcome {
        Outcome::wait(Wait::new("worker.stopping", "its process ends; the next one goes on with it"), Duration::ZERO)
    }

    /// Comes back once this process is to end.
    pub async fn told_to_stop(&self) {
        let mut stop = self.stop.clone();
        if stop.wait_for(|stop| *stop).await.is_err() {
            // Nobody is left who could tell it.
            std::future::pending::<()>().await;
        }
    }

    /// What this task recorded before it was cut short, if anything.
    pub fn progress<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        let Some(value) = &self.task.progress else { return Ok(None) };
        serde_json::from_value(value.clone()).map(Some).map_err(|error| {
            Problem::internal("task.progress_unreadable", "a task's recorded progress cannot be read").cause(error)
        })
    }

    /// Records durably, before the effect that it describes.
    pub async fn record(&self, progress: &impl Serialize, effects: Effects) -> Result<()> {
        let effects = Effects { progress: Some(to_value(progress)?), ..effects };
        self.parts.store.record(self.claim, effects).await
    }

    /// Lets data time pass to `until`, a minute at a time, or says when to ask again. In between it is asked whether the
    /// run is still wanted: nobody who cancels a run waits for the end of an hour's window.
    pub async fn run_until(&self, hold: &Hold, until: DataTime) -> Result<Option<Outcome>> {
        loop {
            match self.pass(hold, until).await? {
                Passed::Some => {}
                Passed::All => return Ok(None),
                Passed::Wait(outcome) => return Ok(Some(outcome)),
            }
        }
    }

    /// One stretch of [`Self::run_until`].
    pub async fn pass(&self, hold: &Hold, until: DataTime) -> Result<Passed> {
        if *self.stop.borrow() {
            return Ok(Passed::Wait(self.stopping()));
        }
        self.still_wanted().await?;
        let next = until.min(self.parts.cluster.now(&hold.slot).await? + STRETCH);
        match self.parts.cluster.run_until(&hold.fence, &hold.slot, next).await? {
            Reach::Reached if next == until => Ok(Passed::All),
            Reach::Reached => Ok(Passed::Some),
            Reach::Wake(at) => {
                let message = format!("the time of {} has not reached {until}", hold.slot);
                Ok(Passed::Wait(Outcome::Wait(Wait::new("time.not_reached", message), at)))
            }
        }
    }

    /// Asked before each outside effect.
    ///
    /// # Errors
    /// `fence.stale` when another worker has the task; `run.cancelled` when somebody asked for that.
    pub async fn still_wanted(&self) -> Result<()> {
        self.parts.store.check_claim(self.claim).await?;
        if self.parts.store.run(self.run.id).await?.cancel_requested {
            return Err(cancelled(self.run.id));
        }
        Ok(())
    }
}

/// The error with which a step stops when its run is cancelled.
pub fn cancelled(run: RunId) -> Problem {
    Problem::new(ErrorKind::Failed, "run.cancelled", "the run was cancelled").place(format!("run {run}"))
}

pub fn to_value(value: &impl Serialize) -> Result<Value> {
    serde_json::to_value(value).map_err(|error| Problem::internal("task.unwritable", error.to_string()))
}
