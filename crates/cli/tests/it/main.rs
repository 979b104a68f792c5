//! `aegisctl` as a spawned program against a canned server.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod canned;
mod contract;
mod exits;
mod runs;
