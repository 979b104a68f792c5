//! Graphs learned from columns of numbers, and walks on them: what the graph methods share.

pub mod bocpd;
pub mod granger;
pub mod orient;
pub mod pagerank;
pub mod regress;
pub mod skeleton;

pub use orient::Mixed;
