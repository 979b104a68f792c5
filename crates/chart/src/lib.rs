//! Helm charts: archives kept by digest, the `helm` program that fetches and renders them, mirror rules, and what is
//! looked for in a rendered chart before it is installed.
//!
//! The only crate that starts `helm`. Nothing here knows of systems, slots or runs.

mod archive;
mod bucket;
mod check;
mod fetch;
mod helm;
mod index;
mod login;
mod mirror;
mod render;
mod shelf;
mod store;
mod tags;
mod unpack;

pub use archive::{Archive, LARGEST_ARCHIVE};
pub use bucket::{Bucket, BucketAccess};
pub use check::{Checked, Finding, Scene, Severity, check};
pub use fetch::{Fetched, fetch, look_up};
pub use helm::Helm;
pub use login::{Login, Logins, Secret};
pub use mirror::{ImageRule, Mirror, Mirrors};
pub use render::{Manifest, render};
pub use shelf::Place;
pub use store::{Charts, Kept};
