//! The HTTP contract: request and response types in the public envelope, and the stored specification of a run.
//!
//! Pure: no server, no client, no input or output. What the product calls a *run* is a *trace* on the wire; that
//! mapping lives in this crate alone.

pub mod spec;
