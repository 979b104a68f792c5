//! Harness that only tests use: databases, our own programs, the shared folder, and the list of what could not be run.

mod database;
mod mariadb;
mod not_run;
pub mod process;
mod tool;
pub use database::{Database, databases};
pub use not_run::{not_run, shared};
pub use tool::{Tool, tool};
