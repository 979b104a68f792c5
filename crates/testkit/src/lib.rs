//! Harness that only tests use: databases, the shared folder, and the list of what could not be run.

mod not_run;
pub use not_run::{not_run, shared};
