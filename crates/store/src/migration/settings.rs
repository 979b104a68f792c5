//! Live values that are published beside the store, and what each process applies of them.

use super::Step;

const fn step(name: &'static str, sql: &'static str) -> Step {
    Step { name, sql, sqlite: None }
}

pub(super) const STEPS: &[Step] = &[
    step("published values of settings", "ALTER TABLE setting_values ADD COLUMN source_revision BIGINT NULL"),
    step(
        "publications of settings",
        "CREATE TABLE IF NOT EXISTS setting_publications (
            id CHAR(36) NOT NULL PRIMARY KEY,
            owner CHAR(36) NOT NULL,
            what VARCHAR(255) NOT NULL,
            writes LONGTEXT NOT NULL,
            started_at BIGINT NOT NULL
        ){tail}",
    ),
    step(
        "processes that apply settings",
        "CREATE TABLE IF NOT EXISTS setting_processes (
            incarnation CHAR(36) NOT NULL PRIMARY KEY,
            host VARCHAR(255) NOT NULL,
            pid BIGINT NOT NULL,
            role VARCHAR(32) NOT NULL,
            revision BIGINT NOT NULL,
            source_revision BIGINT NULL,
            problem LONGTEXT NULL,
            reported_at BIGINT NOT NULL
        ){tail}",
    ),
    step(
        "installation",
        "CREATE TABLE IF NOT EXISTS installations (
            number INTEGER NOT NULL PRIMARY KEY,
            id CHAR(36) NOT NULL,
            created_at BIGINT NOT NULL
        ){tail}",
    ),
    step("builds of processes", "ALTER TABLE setting_processes ADD COLUMN build VARCHAR(64) NOT NULL DEFAULT ''"),
];
