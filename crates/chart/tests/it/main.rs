//! Charts against the real `helm`: archives, fetching, rendering and what is found in what was rendered.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod archives;
mod bucket;
mod fetching;
mod logins;
mod rendering;

use std::path::PathBuf;
use std::time::Duration;

use chart::Helm;
use testkit::{Tool, tool};

/// Both generations of Helm that are there, with their programs.
pub fn helms(test: &str) -> Vec<(Helm, PathBuf)> {
    let programs = [Tool::Helm3, Tool::Helm4].into_iter().filter_map(|generation| tool(test, generation));
    programs.map(|program| (Helm::find(Some(&program), Duration::from_secs(60)).unwrap(), program)).collect()
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().unwrap().block_on(future)
}
