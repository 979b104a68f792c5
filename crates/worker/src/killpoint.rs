//! The points of a run's steps and of an evaluation at which a test makes the process kill itself.
//!
//! A point's name is `<step>.<before|after>-<record|effect|witness|recover|release>`.

pub use store::killpoint::reach;

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
