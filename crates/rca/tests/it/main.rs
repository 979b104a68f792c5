//! The detector and the algorithms on small packs made by hand.
#![expect(clippy::unwrap_used, reason = "a test's helper fails like the test itself")]

mod algorithms;
mod detector;
mod packs;
mod properties;
mod variants;
