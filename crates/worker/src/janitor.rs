//! The janitor: discharges what ended runs still owe, and enforces the kill switch.
//!
//! Level-triggered: it reads what is there (faults on the cluster, slots held by ended runs) and what should be, and
//! repeats until both agree. It never assumes that an earlier round succeeded.

use cluster::FaultPhase;
use model::Result;

use crate::Parts;
use crate::book::{Book, Owed};

/// One round. Returns how many faults and slots it gave back.
///
/// # Errors
/// The first obligation that could not be discharged; the others are still tried.
pub async fn sweep(parts: &Parts, book: &Book) -> Result<Swept> {
    let mut swept = Swept::default();
    let mut first_error = None;
    for owed in book.owed().await? {
        match discharge(parts, book, &owed).await {
            Ok(faults) => {
                swept.faults += faults;
                swept.slots += 1;
            }
            Err(problem) => {
                tracing::warn!(run = %owed.run.id, "cannot give a slot back yet: {}", problem.chain());
                first_error = first_error.or(Some(problem));
            }
        }
    }
    first_error.map_or(Ok(swept), Err)
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Swept {
    pub faults: usize,
    pub slots: usize,
}

/// Removes every fault of an ended run from its slot, proves it, empties the namespace and releases the slot.
async fn discharge(parts: &Parts, book: &Book, owed: &Owed) -> Result<usize> {
    let mut removed = 0;
    for name in owed.fault_names() {
        let Some(seen) = parts.cluster.observe_fault(&owed.slot, &name).await? else { continue };
        if seen.phase != FaultPhase::Recovered {
            parts.cluster.remove_fault(&owed.fence, &owed.slot, &name).await?;
            removed += 1;
        }
    }
    parts.cluster.remove_namespace(&owed.fence, &owed.slot).await?;
    book.release_slot(&owed.run).await?;
    Ok(removed)
}
