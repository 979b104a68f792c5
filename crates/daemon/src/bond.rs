//! What ties a process to the one that started it: it is killed when that one dies, however that one dies.

use std::os::unix::process::parent_id;
use std::path::PathBuf;

use model::{Problem, Result};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;

/// Binds this process to its parent. The kernel only tells of deaths after it was asked to, so a parent that died before is
/// looked for: by its number, which whoever started this process has told. By hand there is none, and nothing to look for.
///
/// # Errors
/// `exec.outlives_parent` when it cannot be bound, `exec.parent_gone` when it is too late.
pub fn die_with_parent(parent: Option<u32>) -> Result<()> {
    set_pdeathsig(Signal::SIGKILL)
        .map_err(|error| Problem::internal("exec.outlives_parent", "it cannot be bound to its parent").cause(error))?;
    match parent {
        Some(parent) if !is_parent(parent) => {
            Err(Problem::internal("exec.parent_gone", "its parent has ended already")
                .found(format!("parent {} instead of {parent}", parent_id())))
        }
        _ => Ok(()),
    }
}

/// The first process of a pid namespace has a parent outside of it, which it sees as number 0; its `/proc` is still that of
/// the outside when it asks.
fn is_parent(parent: u32) -> bool {
    match parent_id() {
        0 => PathBuf::from(format!("/proc/{parent}")).exists(),
        actual => actual == parent,
    }
}
