//! The mechanisms that faults change, one file per family.
//!
//! To add a fault kind: give its typed effect a mechanism here, and say `simulated: true` in its row of the table.

mod http;
mod jvm;
mod network;
mod pod;
mod stress;

use fault::{Effect, Resolved, require_simulated};
use model::{ErrorKind, Problem};

use crate::effect::Mechanism;
use crate::world::World;

/// The mechanism of a resolved fault on the parts of this world.
///
/// # Errors
/// `fault.no_targets` when the selector matches nothing, `capability.not_simulated`, `fault.target_unknown`.
pub fn mechanism(world: &World, resolved: &Resolved) -> Result<Box<dyn Mechanism>, Problem> {
    let target = &resolved.target;
    match &resolved.effect {
        Effect::PodKill => Ok(Box::new(pod::Kill::new(world, target)?)),
        Effect::PodFailure => Ok(Box::new(pod::Failure::new(world, target)?)),
        Effect::CpuStress { load_pct, workers } => Ok(Box::new(stress::Cpu::new(world, target, *load_pct, *workers)?)),
        Effect::MemoryStress { size_mib, workers } => {
            Ok(Box::new(stress::Memory::new(world, target, *size_mib, *workers)?))
        }
        Effect::NetworkDelay { latency_ms, jitter_ms, correlation_pct } => {
            let condition = network::delay(*latency_ms, *jitter_ms, *correlation_pct);
            Ok(Box::new(network::OnLink::new(world, target, condition)?))
        }
        Effect::NetworkLoss { loss_pct, correlation_pct } => {
            let condition = network::loss(*loss_pct, *correlation_pct);
            Ok(Box::new(network::OnLink::new(world, target, condition)?))
        }
        Effect::HttpResponseReplaceCode { status_code } => {
            Ok(Box::new(http::OnAnswer::new(world, target, *status_code)?))
        }
        Effect::JvmMethodLatency { delay_ms } => Ok(Box::new(jvm::OnMethod::delay(world, target, *delay_ms)?)),
        Effect::JvmMethodException { exception } => Ok(Box::new(jvm::OnMethod::throw(world, target, exception)?)),
        other => {
            require_simulated(other.name())?;
            // The table and this list are kept in step by a test.
            Err(Problem::internal("capability.mechanism_missing", format!("`{}` has no mechanism", other.name())))
        }
    }
}

/// A target of another shape than the effect needs.
fn wrong_target(expected: &str) -> Problem {
    Problem::new(ErrorKind::Invalid, "fault.target_unknown", "the fault's target has the wrong shape")
        .expected(expected.to_owned())
}
