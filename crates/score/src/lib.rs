//! How ranked answers become a board: ranking metrics, intervals, chance levels, paired tests. Pure and deterministic.
//!
//! What follows is the one written definition; the code implements it and nothing of it can be configured away.
#![doc = include_str!("../../../docs/scoring.md")]

mod board;
mod case;
mod compare;
mod estimate;
mod layout;
mod paired;
mod ranking;
pub mod render;

pub use board::{
    Board, Controls, EnvironmentBoard, Flip, Funnel, LevelView, Misses, RobustnessRow, Row, Slice, View, board,
};
pub use case::{Case, Difficulty, Environment, Options, Outcome, Rule};
pub use compare::Comparison;
pub use estimate::{Estimate, Estimates, Method, clopper_pearson};
pub use paired::{Paired, paired};
pub use ranking::{Metric, Scores, chance, score};
