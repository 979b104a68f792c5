//! Tables of the work itself: leases, runs, tasks, events and what they lead to.

use super::Step;

const fn step(name: &'static str, sql: &'static str) -> Step {
    Step { name, sql, sqlite: None }
}

pub(super) const STEPS: &[Step] = &[
    step(
        "projects",
        "CREATE TABLE IF NOT EXISTS projects (
            id {serial},
            name VARCHAR(128) NOT NULL,
            description TEXT NOT NULL,
            created_at BIGINT NOT NULL,
            CONSTRAINT projects_name UNIQUE (name)
        ){tail}",
    ),
    step(
        "incarnations",
        "CREATE TABLE IF NOT EXISTS incarnations (
            id CHAR(36) NOT NULL PRIMARY KEY,
            folder CHAR(36) NOT NULL,
            host VARCHAR(255) NOT NULL,
            pid BIGINT NOT NULL,
            role VARCHAR(32) NOT NULL,
            started_at BIGINT NOT NULL
        ){tail}",
    ),
    step(
        "leases",
        "CREATE TABLE IF NOT EXISTS leases (
            resource VARCHAR(190) NOT NULL PRIMARY KEY,
            owner CHAR(36) NULL,
            run_id CHAR(36) NULL,
            task_id CHAR(36) NULL,
            fence BIGINT NOT NULL,
            heartbeat BIGINT NOT NULL,
            ttl_us BIGINT NOT NULL,
            note VARCHAR(255) NOT NULL,
            acquired_at BIGINT NOT NULL,
            renewed_at BIGINT NOT NULL,
            CONSTRAINT leases_fence CHECK (fence > 0),
            CONSTRAINT leases_ttl CHECK (ttl_us > 0)
        ){tail}",
    ),
    step("leases by run", "CREATE INDEX leases_run ON leases (run_id)"),
    step("leases by owner", "CREATE INDEX leases_owner ON leases (owner)"),
    step(
        "switches",
        "CREATE TABLE IF NOT EXISTS switches (
            name VARCHAR(64) NOT NULL PRIMARY KEY,
            engaged BOOLEAN NOT NULL,
            reason VARCHAR(512) NOT NULL,
            changed_by VARCHAR(128) NOT NULL,
            changed_at BIGINT NOT NULL
        ){tail}",
    ),
    step(
        "idempotency keys",
        "CREATE TABLE IF NOT EXISTS idempotency_keys (
            name VARCHAR(190) NOT NULL PRIMARY KEY,
            fingerprint CHAR(64) NOT NULL,
            response LONGTEXT NOT NULL,
            created_at BIGINT NOT NULL
        ){tail}",
    ),
    step(
        "tokens",
        "CREATE TABLE IF NOT EXISTS tokens (
            id {serial},
            name VARCHAR(128) NOT NULL,
            hash CHAR(64) NOT NULL,
            role VARCHAR(32) NOT NULL,
            created_at BIGINT NOT NULL,
            expires_at BIGINT NULL,
            last_used_at BIGINT NULL,
            revoked_at BIGINT NULL,
            CONSTRAINT tokens_hash UNIQUE (hash)
        ){tail}",
    ),
    step(
        "groups",
        "CREATE TABLE IF NOT EXISTS run_groups (
            id CHAR(36) NOT NULL PRIMARY KEY,
            project_id INTEGER NOT NULL,
            created_at BIGINT NOT NULL,
            FOREIGN KEY (project_id) REFERENCES projects (id)
        ){tail}",
    ),
    step(
        "runs",
        "CREATE TABLE IF NOT EXISTS runs (
            id CHAR(36) NOT NULL PRIMARY KEY,
            group_id CHAR(36) NOT NULL,
            project_id INTEGER NOT NULL,
            system_code VARCHAR(32) NOT NULL,
            state INTEGER NOT NULL,
            verdict VARCHAR(32) NULL,
            reason VARCHAR(128) NULL,
            message TEXT NULL,
            namespace VARCHAR(64) NULL,
            slot INTEGER NULL,
            spec LONGTEXT NOT NULL,
            fault_type VARCHAR(512) NOT NULL,
            services VARCHAR(512) NOT NULL,
            seed BIGINT NOT NULL,
            control_of CHAR(36) NULL,
            injection_id INTEGER NULL,
            injection_name VARCHAR(128) NULL,
            last_event BIGINT NOT NULL,
            last_event_name VARCHAR(64) NOT NULL,
            leaf_num INTEGER NOT NULL,
            pause_requested BOOLEAN NOT NULL,
            cancel_requested BOOLEAN NOT NULL,
            retry_count INTEGER NOT NULL,
            revision BIGINT NOT NULL,
            created_at BIGINT NOT NULL,
            updated_at BIGINT NOT NULL,
            started_at BIGINT NULL,
            ended_at BIGINT NULL,
            CONSTRAINT runs_state CHECK (state BETWEEN 0 AND 4),
            FOREIGN KEY (group_id) REFERENCES run_groups (id),
            FOREIGN KEY (project_id) REFERENCES projects (id)
        ){tail}",
    ),
    step("runs by state", "CREATE INDEX runs_state_created ON runs (state, created_at)"),
    step("runs by group", "CREATE INDEX runs_group ON runs (group_id, created_at)"),
    step("runs by age", "CREATE INDEX runs_created ON runs (created_at)"),
    step(
        "tasks",
        "CREATE TABLE IF NOT EXISTS tasks (
            id CHAR(36) NOT NULL PRIMARY KEY,
            run_id CHAR(36) NOT NULL,
            parent_id CHAR(36) NULL,
            kind INTEGER NOT NULL,
            algorithm VARCHAR(128) NULL,
            step INTEGER NOT NULL,
            state INTEGER NOT NULL,
            payload LONGTEXT NOT NULL,
            progress LONGTEXT NULL,
            attempt INTEGER NOT NULL,
            failures INTEGER NOT NULL,
            max_failures INTEGER NOT NULL,
            due_at BIGINT NULL,
            wait LONGTEXT NULL,
            error LONGTEXT NULL,
            owner CHAR(36) NULL,
            fence BIGINT NOT NULL,
            created_at BIGINT NOT NULL,
            updated_at BIGINT NOT NULL,
            started_at BIGINT NULL,
            ended_at BIGINT NULL,
            CONSTRAINT tasks_step UNIQUE (run_id, step),
            CONSTRAINT tasks_state CHECK (state BETWEEN -2 AND 3),
            CONSTRAINT tasks_owner CHECK ((state = 2) = (owner IS NOT NULL)),
            CONSTRAINT tasks_due CHECK ((state IN (0, 1)) = (due_at IS NOT NULL)),
            FOREIGN KEY (run_id) REFERENCES runs (id)
        ){tail}",
    ),
    step("tasks that are due", "CREATE INDEX tasks_due_at ON tasks (due_at, step)"),
    step("tasks by state", "CREATE INDEX tasks_state_created ON tasks (state, created_at)"),
    step("tasks by age", "CREATE INDEX tasks_created ON tasks (created_at)"),
    step(
        "injections",
        "CREATE TABLE IF NOT EXISTS injections (
            id {serial},
            name VARCHAR(128) NOT NULL,
            run_id CHAR(36) NOT NULL,
            system_code VARCHAR(32) NOT NULL,
            namespace VARCHAR(64) NULL,
            fault_type INTEGER NOT NULL,
            fault_name VARCHAR(512) NOT NULL,
            services VARCHAR(512) NOT NULL,
            state INTEGER NOT NULL,
            faults LONGTEXT NOT NULL,
            truth LONGTEXT NOT NULL,
            display_config LONGTEXT NOT NULL,
            labels LONGTEXT NOT NULL,
            pre_duration INTEGER NOT NULL,
            seed BIGINT NOT NULL,
            origin_ns BIGINT NOT NULL,
            normal_start_ns BIGINT NULL,
            abnormal_start_ns BIGINT NULL,
            abnormal_end_ns BIGINT NULL,
            verdict VARCHAR(32) NULL,
            exposed BOOLEAN NULL,
            visible BOOLEAN NULL,
            witness LONGTEXT NULL,
            recovery LONGTEXT NULL,
            difficulty LONGTEXT NULL,
            pack_path VARCHAR(1024) NULL,
            pack_digest CHAR(64) NULL,
            revision BIGINT NOT NULL,
            created_at BIGINT NOT NULL,
            updated_at BIGINT NOT NULL,
            CONSTRAINT injections_name UNIQUE (name),
            CONSTRAINT injections_run UNIQUE (run_id),
            CONSTRAINT injections_state CHECK (state BETWEEN 0 AND 6),
            CONSTRAINT injections_windows CHECK (normal_start_ns < abnormal_start_ns AND abnormal_start_ns < abnormal_end_ns),
            FOREIGN KEY (run_id) REFERENCES runs (id)
        ){tail}",
    ),
    step("injections by state", "CREATE INDEX injections_state_id ON injections (state, id)"),
    step(
        "executions",
        "CREATE TABLE IF NOT EXISTS executions (
            id {serial},
            algorithm VARCHAR(128) NOT NULL,
            algorithm_version VARCHAR(64) NOT NULL,
            role VARCHAR(16) NOT NULL,
            injection_id INTEGER NOT NULL,
            run_id CHAR(36) NOT NULL,
            task_id CHAR(36) NOT NULL,
            state INTEGER NOT NULL,
            duration_s DOUBLE PRECISION NOT NULL,
            seed BIGINT NOT NULL,
            candidates LONGTEXT NULL,
            reason VARCHAR(128) NULL,
            message TEXT NULL,
            created_at BIGINT NOT NULL,
            updated_at BIGINT NOT NULL,
            CONSTRAINT executions_task UNIQUE (task_id),
            CONSTRAINT executions_state CHECK (state BETWEEN 0 AND 2),
            FOREIGN KEY (injection_id) REFERENCES injections (id),
            FOREIGN KEY (run_id) REFERENCES runs (id),
            FOREIGN KEY (task_id) REFERENCES tasks (id)
        ){tail}",
    ),
    step("executions by datapack", "CREATE INDEX executions_injection ON executions (injection_id, algorithm)"),
    step(
        "answers",
        "CREATE TABLE IF NOT EXISTS answers (
            execution_id INTEGER NOT NULL,
            line INTEGER NOT NULL,
            level VARCHAR(16) NOT NULL,
            name VARCHAR(1024) NOT NULL,
            position INTEGER NOT NULL,
            score DOUBLE PRECISION NULL,
            PRIMARY KEY (execution_id, line),
            FOREIGN KEY (execution_id) REFERENCES executions (id)
        ){tail}",
    ),
    step(
        "detector rows",
        "CREATE TABLE IF NOT EXISTS detector_rows (
            execution_id INTEGER NOT NULL,
            line INTEGER NOT NULL,
            span_name VARCHAR(1024) NOT NULL,
            issues LONGTEXT NOT NULL,
            figures LONGTEXT NOT NULL,
            PRIMARY KEY (execution_id, line),
            FOREIGN KEY (execution_id) REFERENCES executions (id)
        ){tail}",
    ),
    step(
        "evaluations",
        "CREATE TABLE IF NOT EXISTS evaluations (
            id {serial},
            project_id INTEGER NOT NULL,
            name VARCHAR(128) NOT NULL,
            definition LONGTEXT NOT NULL,
            result LONGTEXT NOT NULL,
            created_at BIGINT NOT NULL,
            FOREIGN KEY (project_id) REFERENCES projects (id)
        ){tail}",
    ),
    step(
        "events",
        "CREATE TABLE IF NOT EXISTS events (
            run_id CHAR(36) NOT NULL,
            number BIGINT NOT NULL,
            happened_at BIGINT NOT NULL,
            name VARCHAR(64) NOT NULL,
            task_id CHAR(36) NULL,
            task_kind INTEGER NULL,
            message TEXT NOT NULL,
            payload LONGTEXT NULL,
            PRIMARY KEY (run_id, number),
            FOREIGN KEY (run_id) REFERENCES runs (id)
        ){tail}",
    ),
    step(
        "task logs",
        "CREATE TABLE IF NOT EXISTS task_logs (
            id {big_serial},
            run_id CHAR(36) NOT NULL,
            task_id CHAR(36) NOT NULL,
            logged_at BIGINT NOT NULL,
            level VARCHAR(16) NOT NULL,
            line LONGTEXT NOT NULL,
            FOREIGN KEY (task_id) REFERENCES tasks (id)
        ){tail}",
    ),
    step("task logs by task", "CREATE INDEX task_logs_task ON task_logs (task_id, id)"),
    step(
        "data sets",
        "CREATE TABLE IF NOT EXISTS datasets (
            id {serial},
            name VARCHAR(128) NOT NULL,
            version VARCHAR(64) NOT NULL,
            description TEXT NOT NULL,
            created_at BIGINT NOT NULL,
            CONSTRAINT datasets_name UNIQUE (name, version)
        ){tail}",
    ),
    step(
        "members of data sets",
        "CREATE TABLE IF NOT EXISTS dataset_members (
            dataset_id INTEGER NOT NULL,
            injection_id INTEGER NOT NULL,
            PRIMARY KEY (dataset_id, injection_id),
            FOREIGN KEY (dataset_id) REFERENCES datasets (id),
            FOREIGN KEY (injection_id) REFERENCES injections (id)
        ){tail}",
    ),
];
