//! Harness that only tests use: databases, our own programs, the shared folder, and the list of what could not be run.

mod certificates;
mod charts;
mod database;
mod etcd;
mod gate;
mod loopback;
mod mariadb;
mod not_run;
mod object_store;
pub mod process;
mod tool;
mod watched;
pub use certificates::{Certificates, HttpsFiles};
pub use charts::{ChartFiles, ChartRegistry, ChartRepository};
pub use database::{Database, databases};
pub use etcd::Etcd;
pub use gate::{Cut, Gate};
pub use mariadb::Client;
pub use not_run::{not_run, shared};
pub use object_store::ObjectStore;
pub use tool::{Tool, tool};
pub use watched::Paused;
