//! The mechanisms that faults change, one file per family.
//!
//! To add a fault kind: give its typed effect a mechanism here and its contract in the table.

mod database;
mod dns;
mod heap;
mod http;
mod jvm;
mod network;
mod pod;
mod stress;
mod time;

use fault::{Effect, Resolved};
use model::{ErrorKind, Problem};

use crate::effect::Mechanism;
use crate::world::World;

/// The mechanism of a resolved fault on the parts of this world.
///
/// # Errors
/// `fault.no_targets` when the selector matches nothing, `fault.target_unknown`.
pub fn mechanism(world: &World, resolved: &Resolved) -> Result<Box<dyn Mechanism>, Problem> {
    let (target, effect) = (&resolved.target, &resolved.effect);
    Ok(match effect {
        Effect::PodKill => Box::new(pod::Kill::new(world, target)?),
        Effect::PodFailure => Box::new(pod::Failure::new(world, target)?),
        Effect::ContainerKill => Box::new(pod::Restart::new(world, target)?),
        Effect::CpuStress { load_pct, workers } => Box::new(stress::Cpu::beside(world, target, *load_pct, *workers)?),
        Effect::MemoryStress { size_mib, workers } => {
            Box::new(stress::Memory::new(world, target, *size_mib, *workers)?)
        }
        Effect::TimeSkew { offset_s } => Box::new(time::Skew::new(world, target, *offset_s)?),
        Effect::JvmGc => Box::new(heap::Collect::new(world, target)?),
        Effect::JvmCpuStress { cpu_count } => Box::new(stress::Cpu::inside(world, target, *cpu_count)?),
        Effect::JvmMemoryStress { memory_type } => Box::new(heap::Fill::new(world, target, memory_type)?),
        _ => return of_family(world, resolved),
    })
}

/// Families whose kinds differ only in what they change at the same place.
fn of_family(world: &World, Resolved { target, effect, .. }: &Resolved) -> Result<Box<dyn Mechanism>, Problem> {
    if let Some(made) = http::OnMessage::new(world, target, effect)? {
        return Ok(Box::new(made));
    }
    if let Some(made) = network::OnLink::new(world, target, effect)? {
        return Ok(Box::new(made));
    }
    if let Some(made) = dns::OnName::new(world, target, effect)? {
        return Ok(Box::new(made));
    }
    if let Some(made) = jvm::OnMethod::new(world, target, effect)? {
        return Ok(Box::new(made));
    }
    if let Some(made) = database::OnStatement::new(world, target, effect)? {
        return Ok(Box::new(made));
    }
    // A test starts every kind of the table.
    Err(Problem::internal("capability.mechanism_missing", format!("`{}` has no mechanism", effect.name())))
}

/// A target of another shape than the effect needs.
fn wrong_target(expected: &str) -> Problem {
    Problem::new(ErrorKind::Invalid, "fault.target_unknown", "the fault's target has the wrong shape")
        .expected(expected.to_owned())
}
