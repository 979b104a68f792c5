//! Seeds that were applied: each application, and what the last one said of every object.

use super::Step;

const fn step(name: &'static str, sql: &'static str) -> Step {
    Step { name, sql, sqlite: None }
}

pub(super) const STEPS: &[Step] = &[
    step(
        "revisions of seeds",
        "CREATE TABLE IF NOT EXISTS seed_revisions (
            id {serial},
            env VARCHAR(128) NOT NULL,
            system_code VARCHAR(32) NULL,
            digest CHAR(64) NOT NULL,
            files LONGTEXT NOT NULL,
            commit_id VARCHAR(64) NULL,
            dirty BOOLEAN NOT NULL,
            applied_by VARCHAR(128) NOT NULL,
            state VARCHAR(16) NOT NULL,
            consents TEXT NOT NULL,
            changes LONGTEXT NOT NULL,
            change_count INTEGER NOT NULL,
            started_at BIGINT NOT NULL,
            ended_at BIGINT NULL
        ){tail}",
    ),
    step(
        "objects of seeds",
        "CREATE TABLE IF NOT EXISTS seed_objects (
            kind VARCHAR(32) NOT NULL,
            name VARCHAR(255) NOT NULL,
            system_code VARCHAR(32) NULL,
            content LONGTEXT NOT NULL,
            updated_at BIGINT NOT NULL,
            PRIMARY KEY (kind, name)
        ){tail}",
    ),
];
