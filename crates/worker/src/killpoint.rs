//! Named points at which a test makes the process kill itself, to prove that nothing is lost or done twice.
//!
//! A point's name is `<step>.<before|after>-<record|effect|witness|recover|release>`. Without the variable
//! `AEGIS_KILL_POINT` nothing happens. With it the process sends itself SIGKILL at that point, as a power cut would; `:2`
//! behind the name means the second time that the point is reached.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The point at which to die, and how often it may still be reached before.
struct Chosen {
    point: String,
    left: AtomicU32,
}

/// Kills the process when `AEGIS_KILL_POINT` names this point.
pub fn reach(point: &str) {
    static CHOSEN: OnceLock<Option<Chosen>> = OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| std::env::var("AEGIS_KILL_POINT").ok().as_deref().and_then(choose));
    if let Some(chosen) = chosen.as_ref().filter(|chosen| chosen.point == point)
        && chosen.left.fetch_sub(1, Ordering::Relaxed) == 1
    {
        let own = nix::unistd::Pid::this();
        nix::sys::signal::kill(own, nix::sys::signal::Signal::SIGKILL).expect("a process may kill itself");
    }
}

fn choose(text: &str) -> Option<Chosen> {
    let (point, times) = text.split_once(':').unwrap_or((text, "1"));
    let left = AtomicU32::new(times.parse().unwrap_or_else(|error| panic!("AEGIS_KILL_POINT={text}: {error}")));
    (!point.is_empty()).then(|| Chosen { point: point.to_owned(), left })
}

/// Every point, in the order in which a run reaches them.
pub const POINTS: &[&str] = &[
    "restart_pedestal.before-record",
    "restart_pedestal.after-record",
    "restart_pedestal.before-effect",
    "restart_pedestal.after-effect",
    "restart_pedestal.after-witness",
    "fault_injection.before-record",
    "fault_injection.after-record",
    "fault_injection.before-effect",
    "fault_injection.after-effect",
    "fault_injection.before-recover",
    "fault_injection.after-recover",
    "fault_injection.before-witness",
    "fault_injection.after-witness",
    "build_datapack.before-record",
    "build_datapack.before-effect",
    "build_datapack.after-effect",
    "build_datapack.before-release",
    "build_datapack.after-release",
    "run_algorithm.before-record",
    "run_algorithm.before-effect",
    "run_algorithm.after-effect",
    "collect_result.before-record",
    "collect_result.before-release",
    "collect_result.after-release",
];

/// Those of an evaluation, in their order.
pub const EVALUATION_POINTS: &[&str] = &["evaluation.before-record", "evaluation.after-record"];
