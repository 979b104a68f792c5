//! Evaluations as durable work, algorithms that people bring, and what makes a data set immutable.

use super::Step;

const fn step(name: &'static str, sql: &'static str) -> Step {
    Step { name, sql, sqlite: None }
}

pub(super) const STEPS: &[Step] = &[
    Step {
        name: "executions outside of a run",
        sql: "ALTER TABLE executions MODIFY task_id CHAR(36) NULL",
        // SQLite cannot drop NOT NULL from a column; its documentation gives this procedure for a change that leaves the
        // stored rows as they are. Writing the schema by hand does not count it up, so another process would go on with the
        // one that it knows; a table that comes and goes does.
        sqlite: Some(
            "PRAGMA writable_schema = ON;
            UPDATE sqlite_schema SET sql = replace(sql, 'task_id CHAR(36) NOT NULL', 'task_id CHAR(36) NULL')
                WHERE type = 'table' AND name = 'executions';
            PRAGMA writable_schema = RESET;
            CREATE TABLE schema_was_written (id INTEGER);
            DROP TABLE schema_was_written;",
        ),
    },
    step("evaluations of executions", "ALTER TABLE executions ADD COLUMN evaluation_id INTEGER NULL"),
    step("memory of executions", "ALTER TABLE executions ADD COLUMN peak_memory BIGINT NULL"),
    step("isolation of executions", "ALTER TABLE executions ADD COLUMN isolation VARCHAR(16) NULL"),
    step("onset of executions", "ALTER TABLE executions ADD COLUMN onset VARCHAR(16) NOT NULL DEFAULT 'known'"),
    step("executions by onset", "CREATE INDEX executions_onset ON executions (onset, injection_id)"),
    step("reading of evaluations", "ALTER TABLE evaluations ADD COLUMN reading_s DOUBLE PRECISION NOT NULL DEFAULT 0"),
    step("ranking of evaluations", "ALTER TABLE evaluations ADD COLUMN ranking_s DOUBLE PRECISION NOT NULL DEFAULT 0"),
    step("end of evaluations", "ALTER TABLE evaluations ADD COLUMN ended_at BIGINT NULL"),
    step("cancelled evaluations", "ALTER TABLE evaluations ADD COLUMN cancelled_at BIGINT NULL"),
    step("change of evaluations", "ALTER TABLE evaluations ADD COLUMN updated_at BIGINT NOT NULL DEFAULT 0"),
    step(
        "packs of evaluations",
        "CREATE TABLE IF NOT EXISTS evaluation_packs (
            evaluation_id INTEGER NOT NULL,
            injection_id INTEGER NOT NULL,
            excluded VARCHAR(64) NULL,
            PRIMARY KEY (evaluation_id, injection_id),
            FOREIGN KEY (evaluation_id) REFERENCES evaluations (id),
            FOREIGN KEY (injection_id) REFERENCES injections (id)
        ){tail}",
    ),
    step(
        "items of evaluations",
        "CREATE TABLE IF NOT EXISTS evaluation_items (
            evaluation_id INTEGER NOT NULL,
            injection_id INTEGER NOT NULL,
            algorithm VARCHAR(128) NOT NULL,
            algorithm_version VARCHAR(64) NOT NULL,
            onset VARCHAR(16) NOT NULL,
            execution_id INTEGER NULL,
            done BOOLEAN NOT NULL,
            PRIMARY KEY (evaluation_id, injection_id, algorithm, algorithm_version, onset),
            FOREIGN KEY (evaluation_id) REFERENCES evaluations (id),
            FOREIGN KEY (injection_id) REFERENCES injections (id),
            FOREIGN KEY (execution_id) REFERENCES executions (id)
        ){tail}",
    ),
    step("open items", "CREATE INDEX evaluation_items_open ON evaluation_items (done, evaluation_id, injection_id)"),
    step(
        "commands",
        "CREATE TABLE IF NOT EXISTS commands (
            id {serial},
            name VARCHAR(128) NOT NULL,
            version VARCHAR(64) NOT NULL,
            definition LONGTEXT NOT NULL,
            digest CHAR(64) NOT NULL,
            created_at BIGINT NOT NULL,
            CONSTRAINT commands_name UNIQUE (name, version)
        ){tail}",
    ),
    step("manifests of data sets", "ALTER TABLE datasets ADD COLUMN manifest LONGTEXT NULL"),
    step("digests of data sets", "ALTER TABLE datasets ADD COLUMN digest CHAR(64) NULL"),
];
