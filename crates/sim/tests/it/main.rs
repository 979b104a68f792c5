//! The simulator as its users see it: queueing laws, faults at their mechanisms, and the cluster that survives.

mod cluster;
mod faults;
mod output;
mod probe;
mod queueing;
