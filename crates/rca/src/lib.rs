//! The detector and the built-in root-cause-analysis algorithms. Pure over the frames declared here.
//!
//! - [`frame`]: a datapack's open part in memory.
//! - [`detector`]: the one decision whether users were harmed.
//! - [`algorithm`]: the registry of ranked-answer producers, one file each.
//! - [`causal`]: graphs learned from columns, and walks on them.
//! - [`table`]: the metric table (service and metric by time) that many algorithms take.
//! - [`wide`]: that table with the golden signals of the spans, in the layout of RCAEval.
//! - [`rcaeval`]: the methods of that program as it has them, quirks included.

pub mod algorithm;
pub mod causal;
pub mod detector;
pub mod frame;
pub mod rcaeval;
pub mod table;
pub mod wide;

pub mod minimum;
pub mod onset;
pub mod statistics;
