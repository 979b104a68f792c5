//! The HTTP contract: request and response types in the public envelope, and the stored specification of a run.
//!
//! Pure: no server, no client, no input or output. What the product calls a *run* is a *trace* on the wire; that
//! mapping lives in this crate alone. Times in responses are RFC 3339 text in UTC unless a field says otherwise.

pub mod algorithm;
pub mod answers;
pub mod auth;
pub mod board;
pub mod chart;
pub mod container;
pub mod datapack;
pub mod dataset;
pub mod doctor;
pub mod envelope;
pub mod evaluation;
pub mod event;
pub mod fault;
pub mod health;
pub mod injection;
pub mod kill_switch;
pub mod local;
pub mod otel;
pub mod project;
pub mod run;
pub mod seed;
pub mod setting;
pub mod spec;
pub mod submit;
pub mod system;
pub mod task;

pub use envelope::{Envelope, ErrorData, Page, PageQuery, Pagination};

/// Prefix of every route.
pub const PREFIX: &str = "/api/v2";

/// Header that carries a request's id in both directions.
pub const REQUEST_ID: &str = "x-request-id";

/// Header by which a repeated submission is recognised.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
