//! Datapacks as a user meets them: built from batches, refused for a reason, published once, verified, read back.

#![expect(clippy::unwrap_used, reason = "a test's helper fails with the test")]

mod bad;
mod build;
mod csv;
mod leaks;
mod rcaeval;
mod read;
mod refuse;
mod report;
mod synthetic;
