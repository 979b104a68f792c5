//! Typed, blocking client of the HTTP interface. No asynchronous runtime: it must start in a few milliseconds.

mod calls;
mod failure;
pub mod local;
mod login;
mod transport;
mod watch;

pub use failure::{Class, Failure, Result};
pub use transport::{Client, Connection};
pub use ureq::Body;
pub use watch::{Frame, Watch};
