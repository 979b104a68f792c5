//! Our variants of other programs' methods against those programs, on sample packs of all systems and families.
#![expect(clippy::unwrap_used, reason = "a test's helper fails like the test itself")]

mod rcaeval;
