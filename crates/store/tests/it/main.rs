//! One suite for all back ends: every test runs on SQLite and on MariaDB.

mod claims;
mod control;
mod leases;
mod migrations;
mod registry;
mod results;
mod settings;
mod stand;
mod submission;
