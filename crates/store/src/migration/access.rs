//! Who may call, and what programs of others hand over: users, keys, scoped tokens, uploads.

use super::Step;

const fn step(name: &'static str, sql: &'static str) -> Step {
    Step { name, sql, sqlite: None }
}

pub(super) const STEPS: &[Step] = &[
    // Every token of before was the administrator's own, from its file.
    step("origin of tokens", "ALTER TABLE tokens ADD COLUMN origin VARCHAR(160) NOT NULL DEFAULT 'file'"),
    step("sessions of tokens", "ALTER TABLE tokens ADD COLUMN session_at BIGINT NULL"),
    step("tokens by origin", "CREATE INDEX tokens_origin ON tokens (origin)"),
    step(
        "users",
        "CREATE TABLE IF NOT EXISTS users (
            id {serial},
            name VARCHAR(128) NOT NULL,
            role VARCHAR(32) NOT NULL,
            password_hash VARCHAR(512) NOT NULL,
            created_at BIGINT NOT NULL,
            updated_at BIGINT NOT NULL,
            CONSTRAINT users_name UNIQUE (name)
        ){tail}",
    ),
    step(
        "API keys",
        "CREATE TABLE IF NOT EXISTS api_keys (
            id {serial},
            key_id VARCHAR(64) NOT NULL,
            name VARCHAR(128) NOT NULL,
            role VARCHAR(32) NOT NULL,
            sealed_secret VARCHAR(512) NOT NULL,
            created_by VARCHAR(128) NOT NULL,
            created_at BIGINT NOT NULL,
            expires_at BIGINT NULL,
            last_used_at BIGINT NULL,
            revoked_at BIGINT NULL,
            CONSTRAINT api_keys_key_id UNIQUE (key_id)
        ){tail}",
    ),
    step(
        "nonces",
        "CREATE TABLE IF NOT EXISTS nonces (
            key_id VARCHAR(64) NOT NULL,
            nonce VARCHAR(128) NOT NULL,
            expires_at BIGINT NOT NULL,
            PRIMARY KEY (key_id, nonce)
        ){tail}",
    ),
    step("nonces by end", "CREATE INDEX nonces_expires ON nonces (expires_at)"),
    step(
        "uploads",
        "CREATE TABLE IF NOT EXISTS uploads (
            execution_id INTEGER NOT NULL PRIMARY KEY,
            findings LONGTEXT NOT NULL,
            duration_s DOUBLE PRECISION NOT NULL,
            uploaded_at BIGINT NOT NULL,
            FOREIGN KEY (execution_id) REFERENCES executions (id)
        ){tail}",
    ),
    step("remote executions", "ALTER TABLE executions ADD COLUMN remote BOOLEAN NOT NULL DEFAULT FALSE"),
    step("labels of executions", "ALTER TABLE executions ADD COLUMN labels LONGTEXT NULL"),
    step("runs that only rank", "ALTER TABLE runs ADD COLUMN ranks_only BOOLEAN NOT NULL DEFAULT FALSE"),
];
