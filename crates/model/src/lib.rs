//! The words of the product: typed ids, names, clocks, states with their legal transitions, and the one error form.
//!
//! Pure: no input or output, no clock, no randomness. Every other crate may use this one; it uses none of ours.

mod answer;
mod clock;
mod id;
mod name;
mod onset;
mod printable;
mod problem;
mod state;
mod truth;
mod verdict;
mod window;

pub use answer::{Answer, Level};
pub use clock::{DataTime, WallTime, rfc3339};
pub use id::{
    ContainerId, DatasetId, EvaluationId, ExecutionId, GroupId, InjectionId, ProjectId, RunId, SystemId, TaskId,
    VersionId,
};
pub use name::{Slot, SystemCode};
pub use onset::Onset;
pub use printable::printable;
pub use problem::{ErrorKind, Problem, Result, counted, io_kind, nearest};
pub use state::{ExecutionState, IllegalTransition, PackState, RunState, TaskKind, TaskState};
pub use truth::{Role, Truth, TruthEntry};
pub use verdict::Verdict;
pub use window::{Window, Windows};
