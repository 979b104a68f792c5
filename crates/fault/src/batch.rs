//! Which faults cannot act together.

use model::{ErrorKind, Problem, Result};

use crate::{Capability, Effect, Mechanism, Requirement, Resolved, Target};

/// Checks the faults of one run against each other.
///
/// # Errors
/// `batch.contradiction` when one fault would undo, hide or forbid another; `batch.mixed_systems`.
pub fn check_batch(faults: &[Resolved]) -> Result<()> {
    for (second_at, second) in faults.iter().enumerate() {
        for (first_at, first) in faults[..second_at].iter().enumerate() {
            if first.system != second.system {
                return Err(Problem::new(ErrorKind::Invalid, "batch.mixed_systems", "one run has one system")
                    .place(format!("faults[{second_at}]"))
                    .found(format!("`{}` beside `{}`", second.system, first.system)));
            }
            if let Some(reason) = contradiction(first, second).or_else(|| contradiction(second, first)) {
                return Err(Problem::new(ErrorKind::Invalid, "batch.contradiction", reason)
                    .place(format!("faults[{first_at}] and faults[{second_at}]"))
                    .found(format!(
                        "{} on {} and {} on {}",
                        first.effect.name(),
                        first.target,
                        second.effect.name(),
                        second.target
                    ))
                    .fix("submit them as separate runs, or choose another target for one of them"));
            }
        }
    }
    Ok(())
}

/// Why `one` leaves no room for `other`.
fn contradiction(one: &Resolved, other: &Resolved) -> Option<&'static str> {
    if one.point == other.point {
        return Some("the same fault is asked for twice");
    }
    if one.service() != other.service() {
        return None;
    }
    let (row, other_row) = (one.capability(), other.capability());
    if row.acts_on == Mechanism::Process {
        return Some("a process that is ended or stopped cannot feel another fault");
    }
    let agent = |row: &Capability| row.requires.contains(&Requirement::AgentAttach);
    if agent(row) && agent(other_row) {
        return Some("a Java virtual machine carries one agent at a time");
    }
    if row.family == other_row.family && one.target == other.target {
        return same_target(one);
    }
    None
}

/// Two kinds of one family on the very same target.
fn same_target(one: &Resolved) -> Option<&'static str> {
    match (&one.target, &one.effect) {
        (Target::Link { .. }, Effect::NetworkPartition) => Some("nothing passes a partitioned link"),
        (Target::Http { .. }, Effect::HttpRequestAbort | Effect::HttpResponseAbort) => {
            Some("a message that is cut off cannot be changed")
        }
        (Target::Dns { .. }, _) => Some("a name is answered in one way at a time"),
        _ => None,
    }
}
