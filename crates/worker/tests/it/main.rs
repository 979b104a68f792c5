//! The worker against a cluster that does not always do what it is asked.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod batch;
mod distractors;
mod stand;
