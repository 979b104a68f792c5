//! The table: one row per fault kind, in the order of the public ids.

use std::sync::LazyLock;

use model::{Problem, Result};

use crate::Capability;

mod database;
mod dns;
mod http;
mod jvm;
mod mutator;
mod network;
mod pod;
mod stress;
mod time;

static TABLE: LazyLock<Vec<Capability>> = LazyLock::new(|| {
    let families: [&[Capability]; 9] = [
        pod::ROWS,
        stress::ROWS,
        http::ROWS,
        dns::ROWS,
        time::ROWS,
        network::ROWS,
        jvm::ROWS,
        database::ROWS,
        mutator::ROWS,
    ];
    let mut rows = families.concat();
    rows.sort_by_key(|row| row.id);
    rows
});

/// Every fault kind, by id.
pub fn capabilities() -> &'static [Capability] {
    &TABLE
}

/// # Errors
/// `capability.unknown`, with the nearest name.
pub fn capability(name: &str) -> Result<&'static Capability> {
    if let Some(row) = capabilities().iter().find(|row| row.name == name) {
        return Ok(row);
    }
    let problem = Problem::unknown("capability.unknown", "capability", name, capabilities().iter().map(|row| row.name))
        .place("capability");
    Err(match capabilities().iter().find(|row| row.chaos_type.eq_ignore_ascii_case(name)) {
        Some(row) => problem.fix(format!("here it is called `{}`", row.name)),
        None => problem,
    })
}
