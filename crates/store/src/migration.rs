//! The schema's steps, in order. Forward only: a released step is never edited, a new one is appended.
//!
//! Each step is one DDL statement that both back ends accept and that may be repeated, because MariaDB commits DDL at
//! once. `{serial}` and `{tail}` stand for what the back ends spell differently.

mod access;
mod chart;
mod evaluation;
mod provenance;
mod registry;
mod seed;
mod settings;
mod work;

/// One step.
pub(crate) struct Step {
    pub name: &'static str,
    pub sql: &'static str,
    /// What SQLite takes in its place, where it has no such statement.
    pub sqlite: Option<&'static str>,
}

/// Every step; a step's number is its place in this list, from 1.
pub(crate) fn steps() -> impl ExactSizeIterator<Item = &'static Step> {
    static ALL: std::sync::LazyLock<Vec<&'static Step>> = std::sync::LazyLock::new(|| {
        let earlier = work::STEPS.iter().chain(registry::STEPS).chain(provenance::STEPS).chain(access::STEPS);
        earlier.chain(evaluation::STEPS).chain(seed::STEPS).chain(settings::STEPS).chain(chart::STEPS).collect()
    });
    ALL.iter().copied()
}
