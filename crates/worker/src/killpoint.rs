//! Named points at which a test makes the process kill itself, to prove that nothing is lost or done twice.
//!
//! A point's name is `<step>.<before|after>-<record|effect|witness|recover|release>`. Without the variable
//! `AEGIS_KILL_POINT` nothing happens. With it the process sends itself SIGKILL at that point, as a power cut would.

use std::sync::OnceLock;

/// Kills the process when `AEGIS_KILL_POINT` names this point.
pub fn reach(point: &str) {
    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| std::env::var("AEGIS_KILL_POINT").ok().filter(|name| !name.is_empty()));
    if chosen.as_deref() == Some(point) {
        let own = nix::unistd::Pid::this();
        nix::sys::signal::kill(own, nix::sys::signal::Signal::SIGKILL).expect("a process may kill itself");
    }
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
