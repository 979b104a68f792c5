//! Tables of what is registered and configured: systems, containers, versions, charts, settings.

use super::Step;

const fn step(name: &'static str, sql: &'static str) -> Step {
    Step { name, sql, sqlite: None }
}

pub(super) const STEPS: &[Step] = &[
    step(
        "systems",
        "CREATE TABLE IF NOT EXISTS systems (
            id {serial},
            code VARCHAR(32) NOT NULL,
            display_name VARCHAR(128) NOT NULL,
            description TEXT NOT NULL,
            ns_pattern VARCHAR(255) NOT NULL,
            extract_pattern VARCHAR(255) NOT NULL,
            app_label_key VARCHAR(255) NOT NULL,
            slot_count INTEGER NOT NULL,
            enabled BOOLEAN NOT NULL,
            is_builtin BOOLEAN NOT NULL,
            seed_env VARCHAR(128) NOT NULL,
            seed_digest CHAR(64) NOT NULL,
            seed_place VARCHAR(512) NOT NULL,
            revision BIGINT NOT NULL,
            created_at BIGINT NOT NULL,
            updated_at BIGINT NOT NULL,
            CONSTRAINT systems_code UNIQUE (code),
            CONSTRAINT systems_slot_count CHECK (slot_count > 0)
        ){tail}",
    ),
    step(
        "containers",
        "CREATE TABLE IF NOT EXISTS containers (
            id {serial},
            kind INTEGER NOT NULL,
            name VARCHAR(128) NOT NULL,
            is_public BOOLEAN NOT NULL,
            created_at BIGINT NOT NULL,
            updated_at BIGINT NOT NULL,
            CONSTRAINT containers_name UNIQUE (kind, name),
            CONSTRAINT containers_kind CHECK (kind BETWEEN 0 AND 2)
        ){tail}",
    ),
    step(
        "containers of systems",
        "CREATE TABLE IF NOT EXISTS system_containers (
            system_id INTEGER NOT NULL,
            container_id INTEGER NOT NULL,
            PRIMARY KEY (system_id, container_id),
            FOREIGN KEY (system_id) REFERENCES systems (id),
            FOREIGN KEY (container_id) REFERENCES containers (id)
        ){tail}",
    ),
    step(
        "charts",
        "CREATE TABLE IF NOT EXISTS charts (
            id {serial},
            repository VARCHAR(512) NOT NULL,
            repository_name VARCHAR(128) NOT NULL,
            name VARCHAR(128) NOT NULL,
            version VARCHAR(64) NOT NULL,
            archive_digest CHAR(64) NULL,
            fetched_at BIGINT NULL,
            created_at BIGINT NOT NULL,
            CONSTRAINT charts_source UNIQUE (repository, name, version)
        ){tail}",
    ),
    step(
        "versions",
        "CREATE TABLE IF NOT EXISTS container_versions (
            id {serial},
            container_id INTEGER NOT NULL,
            name VARCHAR(64) NOT NULL,
            image_ref VARCHAR(512) NOT NULL,
            command TEXT NOT NULL,
            github_link VARCHAR(512) NOT NULL,
            chart_id INTEGER NULL,
            enabled BOOLEAN NOT NULL,
            current_digest CHAR(64) NOT NULL,
            created_at BIGINT NOT NULL,
            CONSTRAINT container_versions_name UNIQUE (container_id, name),
            FOREIGN KEY (container_id) REFERENCES containers (id),
            FOREIGN KEY (chart_id) REFERENCES charts (id)
        ){tail}",
    ),
    step(
        "overlays",
        "CREATE TABLE IF NOT EXISTS overlays (
            hash CHAR(64) NOT NULL PRIMARY KEY,
            name VARCHAR(255) NOT NULL,
            content LONGBLOB NOT NULL,
            created_at BIGINT NOT NULL
        ){tail}",
    ),
    step(
        "revisions",
        "CREATE TABLE IF NOT EXISTS version_revisions (
            id {serial},
            version_id INTEGER NOT NULL,
            digest CHAR(64) NOT NULL,
            env LONGTEXT NOT NULL,
            parameters LONGTEXT NOT NULL,
            overlay_hash CHAR(64) NULL,
            composed LONGTEXT NOT NULL,
            place VARCHAR(512) NOT NULL,
            created_at BIGINT NOT NULL,
            CONSTRAINT version_revisions_digest UNIQUE (version_id, digest),
            FOREIGN KEY (version_id) REFERENCES container_versions (id),
            FOREIGN KEY (overlay_hash) REFERENCES overlays (hash)
        ){tail}",
    ),
    step(
        "prerequisites",
        "CREATE TABLE IF NOT EXISTS prerequisites (
            id {serial},
            container_id INTEGER NOT NULL,
            kind VARCHAR(32) NOT NULL,
            name VARCHAR(128) NOT NULL,
            definition LONGTEXT NOT NULL,
            status VARCHAR(16) NOT NULL,
            created_at BIGINT NOT NULL,
            CONSTRAINT prerequisites_name UNIQUE (container_id, kind, name),
            FOREIGN KEY (container_id) REFERENCES containers (id)
        ){tail}",
    ),
    step(
        "telemetry contracts",
        "CREATE TABLE IF NOT EXISTS telemetry_contracts (
            system_id INTEGER NOT NULL PRIMARY KEY,
            contract LONGTEXT NOT NULL,
            updated_at BIGINT NOT NULL,
            FOREIGN KEY (system_id) REFERENCES systems (id)
        ){tail}",
    ),
    step(
        "declarations of settings",
        "CREATE TABLE IF NOT EXISTS setting_declarations (
            name VARCHAR(190) NOT NULL PRIMARY KEY,
            scope VARCHAR(16) NOT NULL,
            value_type VARCHAR(16) NOT NULL,
            default_value LONGTEXT NOT NULL,
            seed_value LONGTEXT NULL,
            constraints LONGTEXT NOT NULL,
            description TEXT NOT NULL,
            is_secret BOOLEAN NOT NULL,
            updated_at BIGINT NOT NULL
        ){tail}",
    ),
    step(
        "values of settings",
        "CREATE TABLE IF NOT EXISTS setting_values (
            name VARCHAR(190) NOT NULL PRIMARY KEY,
            content LONGTEXT NOT NULL,
            owner VARCHAR(16) NOT NULL,
            revision BIGINT NOT NULL,
            changed_by VARCHAR(128) NOT NULL,
            changed_at BIGINT NOT NULL,
            FOREIGN KEY (name) REFERENCES setting_declarations (name)
        ){tail}",
    ),
    step(
        "changes of settings",
        "CREATE TABLE IF NOT EXISTS setting_changes (
            revision BIGINT NOT NULL PRIMARY KEY,
            name VARCHAR(190) NOT NULL,
            content LONGTEXT NULL,
            previous LONGTEXT NULL,
            owner VARCHAR(16) NOT NULL,
            changed_by VARCHAR(128) NOT NULL,
            changed_at BIGINT NOT NULL
        ){tail}",
    ),
    step("changes of settings by name", "CREATE INDEX setting_changes_name ON setting_changes (name, revision)"),
    step(
        "counters",
        "CREATE TABLE IF NOT EXISTS counters (
            name VARCHAR(64) NOT NULL PRIMARY KEY,
            reached BIGINT NOT NULL
        ){tail}",
    ),
];
