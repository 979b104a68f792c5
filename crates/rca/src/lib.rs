//! The detector and the built-in root-cause-analysis algorithms. Pure over the frames declared here.
//!
//! - [`frame`]: a datapack's open part in memory.
//! - [`detector`]: the one decision whether users were harmed.
//! - [`algorithm`]: the registry of ranked-answer producers, one file each.
//! - [`table`]: the metric table (service and metric by time) that many algorithms take.

pub mod algorithm;
pub mod detector;
pub mod frame;
pub mod table;

pub mod minimum;
pub mod statistics;
