//! Harness that only tests use: databases, our own programs, the shared folder, and the list of what could not be run.

mod charts;
mod database;
mod etcd;
mod loopback;
mod mariadb;
mod not_run;
pub mod process;
mod tool;
mod watched;
pub use charts::{ChartFiles, ChartRegistry, ChartRepository};
pub use database::{Database, databases};
pub use etcd::Etcd;
pub use mariadb::Client;
pub use not_run::{not_run, shared};
pub use tool::{Tool, tool};
pub use watched::Paused;
