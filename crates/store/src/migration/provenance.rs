//! Where results come from: the kind of cluster that a run ran on, and whether an execution's datapack is still there.

use super::Step;

const fn step(name: &'static str, sql: &'static str) -> Step {
    Step { name, sql, sqlite: None }
}

pub(super) const STEPS: &[Step] = &[
    step(
        "origin of runs",
        // Every run of before was simulated: there was no other cluster.
        "ALTER TABLE runs ADD COLUMN origin_kind VARCHAR(16) NOT NULL DEFAULT 'simulated'",
    ),
    step("runs by origin", "CREATE INDEX runs_origin ON runs (origin_kind, system_code)"),
    step("superseded executions", "ALTER TABLE executions ADD COLUMN superseded_at BIGINT NULL"),
];
