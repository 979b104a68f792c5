//! The tables as SeaORM sees them. Nothing outside this crate does: operations take and give plain structs.
//!
//! Times are microseconds since the Unix epoch, ids of runs, tasks and groups are UUID text, states are the integers of
//! the wire contract, and whatever has no column of its own is JSON text.

macro_rules! entity {
    ($(#[$doc:meta])* $module:ident = $table:literal { $($(#[$attribute:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        pub(crate) mod $module {
            use sea_orm::entity::prelude::*;

            #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
            #[sea_orm(table_name = $table)]
            pub struct Model {
                $($(#[$attribute])* pub $field: $type,)*
            }

            #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
            pub enum Relation {}

            impl ActiveModelBehavior for ActiveModel {}
        }
    };
}

entity!(project = "projects" {
    #[sea_orm(primary_key)]
    id: i32,
    name: String,
    description: String,
    created_at: i64,
});

entity!(
    /// A process that owns leases.
    incarnation = "incarnations" {
    #[sea_orm(primary_key, auto_increment = false)]
    id: String,
    folder: String,
    host: String,
    pid: i64,
    role: String,
    started_at: i64,
});

entity!(
    /// One row per resource. `owner` is null while the resource is free; the row stays, so that its fence only grows.
    lease = "leases" {
    #[sea_orm(primary_key, auto_increment = false)]
    resource: String,
    owner: Option<String>,
    run_id: Option<String>,
    task_id: Option<String>,
    fence: i64,
    heartbeat: i64,
    ttl_us: i64,
    note: String,
    acquired_at: i64,
    renewed_at: i64,
});

entity!(
    /// Global switches, such as the kill switch.
    switch = "switches" {
    #[sea_orm(primary_key, auto_increment = false)]
    name: String,
    engaged: bool,
    reason: String,
    changed_by: String,
    changed_at: i64,
});

entity!(idempotency_key = "idempotency_keys" {
    #[sea_orm(primary_key, auto_increment = false)]
    name: String,
    fingerprint: String,
    response: String,
    created_at: i64,
});

entity!(token = "tokens" {
    #[sea_orm(primary_key)]
    id: i32,
    name: String,
    hash: String,
    role: String,
    created_at: i64,
    expires_at: Option<i64>,
    last_used_at: Option<i64>,
    revoked_at: Option<i64>,
    origin: String,
    session_at: Option<i64>,
});

entity!(user = "users" {
    #[sea_orm(primary_key)]
    id: i32,
    name: String,
    role: String,
    password_hash: String,
    created_at: i64,
    updated_at: i64,
});

entity!(api_key = "api_keys" {
    #[sea_orm(primary_key)]
    id: i32,
    key_id: String,
    name: String,
    role: String,
    sealed_secret: String,
    created_by: String,
    created_at: i64,
    expires_at: Option<i64>,
    last_used_at: Option<i64>,
    revoked_at: Option<i64>,
});

entity!(
    /// Words that signed calls used already.
    nonce = "nonces" {
    #[sea_orm(primary_key, auto_increment = false)]
    key_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    nonce: String,
    expires_at: i64,
});

entity!(
    /// What a program of others handed over for an execution.
    upload = "uploads" {
    #[sea_orm(primary_key, auto_increment = false)]
    execution_id: i32,
    findings: String,
    duration_s: f64,
    uploaded_at: i64,
});

entity!(run_group = "run_groups" {
    #[sea_orm(primary_key, auto_increment = false)]
    id: String,
    project_id: i32,
    created_at: i64,
});

entity!(run = "runs" {
    #[sea_orm(primary_key, auto_increment = false)]
    id: String,
    group_id: String,
    project_id: i32,
    system_code: String,
    state: i32,
    verdict: Option<String>,
    reason: Option<String>,
    message: Option<String>,
    namespace: Option<String>,
    slot: Option<i32>,
    spec: String,
    fault_type: String,
    services: String,
    seed: i64,
    control_of: Option<String>,
    origin_kind: String,
    injection_id: Option<i32>,
    injection_name: Option<String>,
    last_event: i64,
    last_event_name: String,
    leaf_num: i32,
    pause_requested: bool,
    cancel_requested: bool,
    retry_count: i32,
    revision: i64,
    created_at: i64,
    updated_at: i64,
    started_at: Option<i64>,
    ended_at: Option<i64>,
    ranks_only: bool,
});

entity!(
    /// `due_at` is set exactly while a worker may claim the task.
    task = "tasks" {
    #[sea_orm(primary_key, auto_increment = false)]
    id: String,
    run_id: String,
    parent_id: Option<String>,
    kind: i32,
    algorithm: Option<String>,
    step: i32,
    state: i32,
    payload: String,
    progress: Option<String>,
    attempt: i32,
    failures: i32,
    max_failures: i32,
    due_at: Option<i64>,
    wait: Option<String>,
    error: Option<String>,
    owner: Option<String>,
    fence: i64,
    created_at: i64,
    updated_at: i64,
    started_at: Option<i64>,
    ended_at: Option<i64>,
});

entity!(injection = "injections" {
    #[sea_orm(primary_key)]
    id: i32,
    name: String,
    run_id: String,
    system_code: String,
    namespace: Option<String>,
    fault_type: i32,
    fault_name: String,
    services: String,
    state: i32,
    faults: String,
    truth: String,
    display_config: String,
    labels: String,
    pre_duration: i32,
    seed: i64,
    origin_ns: i64,
    normal_start_ns: Option<i64>,
    abnormal_start_ns: Option<i64>,
    abnormal_end_ns: Option<i64>,
    verdict: Option<String>,
    exposed: Option<bool>,
    visible: Option<bool>,
    witness: Option<String>,
    recovery: Option<String>,
    difficulty: Option<String>,
    pack_path: Option<String>,
    pack_digest: Option<String>,
    revision: i64,
    created_at: i64,
    updated_at: i64,
});

entity!(execution = "executions" {
    #[sea_orm(primary_key)]
    id: i32,
    algorithm: String,
    algorithm_version: String,
    role: String,
    injection_id: i32,
    run_id: String,
    task_id: Option<String>,
    state: i32,
    duration_s: f64,
    seed: i64,
    candidates: Option<String>,
    reason: Option<String>,
    message: Option<String>,
    created_at: i64,
    updated_at: i64,
    superseded_at: Option<i64>,
    remote: bool,
    labels: Option<String>,
    evaluation_id: Option<i32>,
    peak_memory: Option<i64>,
    isolation: Option<String>,
    onset: String,
});

entity!(answer = "answers" {
    #[sea_orm(primary_key, auto_increment = false)]
    execution_id: i32,
    #[sea_orm(primary_key, auto_increment = false)]
    line: i32,
    level: String,
    name: String,
    position: i32,
    score: Option<f64>,
});

entity!(detector_row = "detector_rows" {
    #[sea_orm(primary_key, auto_increment = false)]
    execution_id: i32,
    #[sea_orm(primary_key, auto_increment = false)]
    line: i32,
    span_name: String,
    issues: String,
    figures: String,
});

entity!(evaluation = "evaluations" {
    #[sea_orm(primary_key)]
    id: i32,
    project_id: i32,
    name: String,
    definition: String,
    result: String,
    created_at: i64,
    reading_s: f64,
    ranking_s: f64,
    ended_at: Option<i64>,
    cancelled_at: Option<i64>,
    updated_at: i64,
});

entity!(
    /// Every datapack that an evaluation was asked about; `excluded` says why no algorithm runs on it.
    evaluation_pack = "evaluation_packs" {
    #[sea_orm(primary_key, auto_increment = false)]
    evaluation_id: i32,
    #[sea_orm(primary_key, auto_increment = false)]
    injection_id: i32,
    excluded: Option<String>,
});

entity!(
    /// One algorithm on one datapack. An execution that has not ended belongs to the process that leases the pack.
    evaluation_item = "evaluation_items" {
    #[sea_orm(primary_key, auto_increment = false)]
    evaluation_id: i32,
    #[sea_orm(primary_key, auto_increment = false)]
    injection_id: i32,
    #[sea_orm(primary_key, auto_increment = false)]
    algorithm: String,
    #[sea_orm(primary_key, auto_increment = false)]
    algorithm_version: String,
    #[sea_orm(primary_key, auto_increment = false)]
    onset: String,
    execution_id: Option<i32>,
    done: bool,
});

entity!(command = "commands" {
    #[sea_orm(primary_key)]
    id: i32,
    name: String,
    version: String,
    definition: String,
    digest: String,
    created_at: i64,
});

entity!(event = "events" {
    #[sea_orm(primary_key, auto_increment = false)]
    run_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    number: i64,
    happened_at: i64,
    name: String,
    task_id: Option<String>,
    task_kind: Option<i32>,
    message: String,
    payload: Option<String>,
});

entity!(task_log = "task_logs" {
    #[sea_orm(primary_key)]
    id: i64,
    run_id: String,
    task_id: String,
    logged_at: i64,
    level: String,
    line: String,
});

entity!(dataset = "datasets" {
    #[sea_orm(primary_key)]
    id: i32,
    name: String,
    version: String,
    description: String,
    created_at: i64,
    manifest: Option<String>,
    digest: Option<String>,
});

entity!(dataset_member = "dataset_members" {
    #[sea_orm(primary_key, auto_increment = false)]
    dataset_id: i32,
    #[sea_orm(primary_key, auto_increment = false)]
    injection_id: i32,
});

entity!(system = "systems" {
    #[sea_orm(primary_key)]
    id: i32,
    code: String,
    display_name: String,
    description: String,
    ns_pattern: String,
    extract_pattern: String,
    app_label_key: String,
    slot_count: i32,
    enabled: bool,
    is_builtin: bool,
    seed_env: String,
    seed_digest: String,
    seed_place: String,
    revision: i64,
    created_at: i64,
    updated_at: i64,
});

entity!(container = "containers" {
    #[sea_orm(primary_key)]
    id: i32,
    kind: i32,
    name: String,
    is_public: bool,
    created_at: i64,
    updated_at: i64,
});

entity!(system_container = "system_containers" {
    #[sea_orm(primary_key, auto_increment = false)]
    system_id: i32,
    #[sea_orm(primary_key, auto_increment = false)]
    container_id: i32,
});

entity!(
    /// What never changes under a version's name. What may change stands in its revisions.
    version = "container_versions" {
    #[sea_orm(primary_key)]
    id: i32,
    container_id: i32,
    name: String,
    image_ref: String,
    command: String,
    github_link: String,
    chart_id: Option<i32>,
    enabled: bool,
    current_digest: String,
    created_at: i64,
});

entity!(revision = "version_revisions" {
    #[sea_orm(primary_key)]
    id: i32,
    version_id: i32,
    digest: String,
    env: String,
    parameters: String,
    overlay_hash: Option<String>,
    composed: String,
    place: String,
    created_at: i64,
});

entity!(overlay = "overlays" {
    #[sea_orm(primary_key, auto_increment = false)]
    hash: String,
    name: String,
    content: Vec<u8>,
    created_at: i64,
});

entity!(chart = "charts" {
    #[sea_orm(primary_key)]
    id: i32,
    repository: String,
    repository_name: String,
    name: String,
    version: String,
    archive_digest: Option<String>,
    archive_source: Option<String>,
    fetched_at: Option<i64>,
    created_at: i64,
});

entity!(prerequisite = "prerequisites" {
    #[sea_orm(primary_key)]
    id: i32,
    container_id: i32,
    kind: String,
    name: String,
    definition: String,
    status: String,
    created_at: i64,
});

entity!(telemetry_contract = "telemetry_contracts" {
    #[sea_orm(primary_key, auto_increment = false)]
    system_id: i32,
    contract: String,
    updated_at: i64,
});

entity!(setting_declaration = "setting_declarations" {
    #[sea_orm(primary_key, auto_increment = false)]
    name: String,
    scope: String,
    value_type: String,
    default_value: String,
    seed_value: Option<String>,
    constraints: String,
    description: String,
    is_secret: bool,
    updated_at: i64,
});

entity!(setting_value = "setting_values" {
    #[sea_orm(primary_key, auto_increment = false)]
    name: String,
    content: String,
    owner: String,
    revision: i64,
    changed_by: String,
    changed_at: i64,
    source_revision: Option<i64>,
});

entity!(
    /// A change of settings that is being published beside the store: what to take back if it does not come to its end.
    setting_publication = "setting_publications" {
    #[sea_orm(primary_key, auto_increment = false)]
    id: String,
    owner: String,
    what: String,
    writes: String,
    started_at: i64,
});

entity!(
    /// What a process applies.
    setting_process = "setting_processes" {
    #[sea_orm(primary_key, auto_increment = false)]
    incarnation: String,
    host: String,
    pid: i64,
    role: String,
    revision: i64,
    source_revision: Option<i64>,
    problem: Option<String>,
    build: String,
    reported_at: i64,
});

entity!(installation = "installations" {
    #[sea_orm(primary_key, auto_increment = false)]
    number: i32,
    id: String,
    created_at: i64,
});

entity!(
    /// Every change of a live value; its revisions are what a watch resumes from.
    setting_change = "setting_changes" {
    #[sea_orm(primary_key, auto_increment = false)]
    revision: i64,
    name: String,
    content: Option<String>,
    previous: Option<String>,
    owner: String,
    changed_by: String,
    changed_at: i64,
});

entity!(counter = "counters" {
    #[sea_orm(primary_key, auto_increment = false)]
    name: String,
    reached: i64,
});

entity!(
    /// One application of a seed.
    seed_revision = "seed_revisions" {
    #[sea_orm(primary_key)]
    id: i32,
    env: String,
    system_code: Option<String>,
    digest: String,
    files: String,
    commit_id: Option<String>,
    dirty: bool,
    applied_by: String,
    state: String,
    consents: String,
    changes: String,
    change_count: i32,
    started_at: i64,
    ended_at: Option<i64>,
});

entity!(
    /// What the seed that was applied last says of one object.
    seed_object = "seed_objects" {
    #[sea_orm(primary_key, auto_increment = false)]
    kind: String,
    #[sea_orm(primary_key, auto_increment = false)]
    name: String,
    system_code: Option<String>,
    content: String,
    updated_at: i64,
});
