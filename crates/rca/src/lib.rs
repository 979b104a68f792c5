//! The detector and the built-in root-cause-analysis algorithms. Pure over the frames declared here.

pub mod frame;
