//! The HTTP interface over a real socket, with embedded stores and the simulated cluster. No worker runs.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod access;
mod charts;
mod http;
mod needy;
mod project;
mod register;
mod small_inputs;
mod submit;
mod world;
