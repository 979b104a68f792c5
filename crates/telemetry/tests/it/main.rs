//! Behaviour of the signal store and of its receiver.

#![expect(clippy::unwrap_used, reason = "a test ends at the first thing that is not as expected")]

mod fixture;
mod ingest;
mod pressure;
mod reads;
mod steps;
mod transports;
mod wire;
