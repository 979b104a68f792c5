//! Which faults cannot act together.

use model::{ErrorKind, Problem, Result};

use crate::{Capability, Effect, Mechanism, Resolved};

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
    if one.capability().acts_on == Mechanism::Process {
        return ended(&one.effect, other.capability());
    }
    if one.target == other.target { same_target(&one.effect, &other.effect) } else { None }
}

/// What is left to feel another fault when the process of the service is ended or stopped.
fn ended(effect: &Effect, other: &Capability) -> Option<&'static str> {
    match (effect, other.acts_on) {
        (_, Mechanism::Process) => Some("a process is ended or stopped by one fault at a time"),
        (Effect::PodFailure, _) => Some("a process that is stopped for the whole window cannot feel another fault"),
        (Effect::PodKill, _) => Some("a pod that is deleted takes everything along that was changed in it"),
        // What is changed in the pod's network outlives its containers.
        (_, Mechanism::Link | Mechanism::Message) => None,
        _ => Some("a process that is killed takes everything along that was changed in it"),
    }
}

/// Two kinds on the very same target of which one hides the other.
fn same_target(one: &Effect, other: &Effect) -> Option<&'static str> {
    use Effect as E;
    match (one, other) {
        (E::NetworkPartition, _) => Some("nothing passes a partitioned link"),
        (E::HttpRequestAbort, effect) if changes_answer(effect) => Some("a request that is cut off has no answer"),
        (E::HttpResponseAbort, E::HttpResponseReplaceBody { .. })
        | (E::HttpResponseAbort, E::HttpResponsePatchBody { .. })
        | (E::HttpResponseAbort, E::HttpResponseReplaceCode { .. }) => {
            Some("an answer that is cut off cannot be changed")
        }
        (E::HttpRequestAbort, E::HttpRequestReplacePath { .. } | E::HttpRequestReplaceMethod { .. }) => {
            Some("a request that is cut off asks for nothing")
        }
        (E::HttpRequestReplacePath { .. }, E::HttpRequestReplaceMethod { .. }) => {
            Some("the second change would be matched with a request that has been changed")
        }
        (E::HttpResponseReplaceBody { .. }, E::HttpResponsePatchBody { .. }) => {
            Some("a body that was replaced has nothing left to patch")
        }
        (E::DnsError, E::DnsRandom) => Some("a name is answered in one way at a time"),
        (E::JvmMethodException { .. }, E::JvmMethodReturn { .. } | E::JvmRuntimeMutator { .. }) => {
            Some("a method that throws gives no result")
        }
        (E::JvmMethodReturn { .. }, E::JvmRuntimeMutator { .. }) => {
            Some("a method that returns at once runs none of its code")
        }
        _ => None,
    }
}

const fn changes_answer(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::HttpResponseAbort
            | Effect::HttpResponseDelay { .. }
            | Effect::HttpResponseReplaceBody { .. }
            | Effect::HttpResponsePatchBody { .. }
            | Effect::HttpResponseReplaceCode { .. }
    )
}
