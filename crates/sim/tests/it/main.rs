//! The simulator as its users see it: queueing laws, faults at their mechanisms, and the cluster that survives.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;
mod emergent;
mod exposure;
mod faults;
mod mechanisms;
mod output;
mod picture;
mod probe;
mod queueing;
mod storms;
mod systems;
mod telemetry;
mod tiny;
