//! One suite for all back ends: every test runs on SQLite and on MariaDB.

#![expect(clippy::unwrap_used, reason = "what a test prepares fails by panicking, as the test itself does")]

mod access;
mod claims;
mod control;
mod evaluations;
mod leases;
mod migrations;
mod published;
mod registry;
mod results;
mod seeds;
mod settings;
mod stand;
mod submission;
