//! The calls, one method each. Names or ids are accepted wherever a path names a thing.

use std::collections::BTreeMap;
use std::time::Duration;

use api::algorithm::{
    AddAlgorithmRequest, Algorithm, Execution, ExecutionDetail, ExecutionQuery, RankingUpload, TestAlgorithmRequest,
    UploadReply,
};
use api::auth::{Key, KeyRequest, NewKey, PasswordRequest, Profile, User};
use api::board::{Board, BoardQuery, ExportQuery};
use api::chart::{
    AttachRequest, Chart, ChartArchive, ChartReport, HelmConfig, HelmRequest, InstallReply, InstallRequest, Lookup,
    Release, UnusedArchive, VerifyRequest, VersionQuery,
};
use api::datapack::{Converted, Diagnosis, Diff, DiffQuery, ExportRequest, QueryRequest};
use api::dataset::{Dataset, DatasetReport, DatasetRequest, DownloadQuery, Manifest};
use api::evaluation::{CancelEvaluationReply, CompareQuery, Evaluation, EvaluationComparison, EvaluationRequest};
use api::fault::{Capability, Point, PointQuery};
use api::health::{Health, Lease, LeaseRequest, Ready, Status};
use api::injection::{FileQuery, FileTree, Injection, InjectionDetail, InjectionQuery, VerifyReport};
use api::kill_switch::{KillSwitch, KillSwitchRequest};
use api::otel::{OtelQuery, OtelReport, RenderQuery, Rendered};
use api::project::{ExecuteReply, ExecuteRequest, Project, ProjectRequest};
use api::run::{CancelReply, RetryReply, RetryRequest, Run, RunDetail, RunQuery, Why};
use api::seed::{
    ApplyReply, ApplyRequest, DriftReply, ExportReply, PlanReply, PlanRequest, Proof, RestartReply, SeedQuery,
    SeedRevision, SeedRevisionDetail, Watched,
};
use api::setting::{
    AdoptRequest, Change, ChangeQuery, Changes, DiscardRequest, Restored, RollbackRequest, SetRequest, Setting,
    SettingQuery, Tree,
};
use api::submit::{RunRequest, SubmitReply};
use api::system::{
    PedestalVersion, RegisterReport, RegisterRequest, RegistrableRequest, System, SystemDetail, UnregisterReport,
    UpdateRequest,
};
use api::task::{LogLine, Task, TaskDetail, TaskQuery};
use api::{Page, PageQuery, doctor};
use model::RunId;
use ureq::Body;
use ureq::http::Response;

use crate::failure::Result;
use crate::transport::{Client, segment};

/// Longest silence in the middle of a download.
const SILENCE: Duration = Duration::from_secs(60);

fn path(parts: &[&str]) -> String {
    let mut out = String::from(api::PREFIX);
    for part in parts {
        out.push('/');
        out.push_str(&segment(part));
    }
    out
}

/// The installation.
impl Client {
    pub fn health(&self) -> Result<Health> {
        self.get(&path(&["system", "health"]), &())
    }

    pub fn ready(&self) -> Result<Ready> {
        self.get(&path(&["system", "ready"]), &())
    }

    pub fn status(&self) -> Result<Status> {
        self.get(&path(&["status"]), &())
    }

    pub fn profile(&self) -> Result<Profile> {
        self.get(&path(&["auth", "profile"]), &())
    }

    pub fn keys(&self) -> Result<Vec<Key>> {
        self.get(&path(&["auth", "keys"]), &())
    }

    pub fn make_key(&self, request: &KeyRequest) -> Result<NewKey> {
        self.send("POST", &path(&["auth", "keys"]), request)
    }

    pub fn revoke_key(&self, key_id: &str) -> Result<Key> {
        self.delete(&path(&["auth", "keys", key_id]))
    }

    pub fn users(&self) -> Result<Vec<User>> {
        self.get(&path(&["auth", "users"]), &())
    }

    pub fn set_password(&self, name: &str, request: &PasswordRequest) -> Result<User> {
        self.send("PUT", &path(&["auth", "users", name, "password"]), request)
    }

    pub fn doctor(&self) -> Result<doctor::Report> {
        self.get(&path(&["doctor"]), &())
    }
}

/// Charts.
impl Client {
    /// Keeps an archive; it is nobody's yet.
    pub fn keep_chart(&self, archive: &[u8]) -> Result<ChartArchive> {
        self.upload(&path(&["charts"]), "application/gzip", archive)
    }

    /// Archives that nothing refers to.
    pub fn unused_charts(&self) -> Result<Vec<UnusedArchive>> {
        self.get(&path(&["charts", "unused"]), &())
    }

    /// Takes them away.
    pub fn prune_charts(&self) -> Result<Vec<UnusedArchive>> {
        self.delete(&path(&["charts", "unused"]))
    }

    pub fn charts(&self, system: &str) -> Result<Vec<Chart>> {
        self.get(&path(&["systems", system, "charts"]), &())
    }

    pub fn attach_chart(&self, system: &str, digest: &str) -> Result<Chart> {
        let request = AttachRequest { digest: digest.to_owned() };
        self.send("POST", &path(&["systems", system, "charts"]), &request)
    }

    pub fn verify_chart(&self, system: &str, request: &VerifyRequest) -> Result<ChartReport> {
        self.send_slow("POST", &path(&["systems", system, "charts", "verify"]), request)
    }

    pub fn install_chart(&self, system: &str, request: &InstallRequest) -> Result<InstallReply> {
        self.send_slow("POST", &path(&["systems", system, "charts", "install"]), request)
    }

    pub fn releases(&self, system: &str) -> Result<Vec<Release>> {
        self.get(&path(&["systems", system, "releases"]), &())
    }

    pub fn helm(&self, system: &str, version: Option<&str>) -> Result<HelmConfig> {
        self.get(&path(&["systems", system, "helm"]), &VersionQuery { version: version.map(str::to_owned) })
    }

    pub fn set_helm(&self, system: &str, request: &HelmRequest) -> Result<HelmConfig> {
        self.send("PUT", &path(&["systems", system, "helm"]), request)
    }
}

/// Systems and faults.
impl Client {
    pub fn systems(&self, query: PageQuery) -> Result<Page<System>> {
        self.get(&path(&["systems"]), &query)
    }

    pub fn system(&self, name: &str) -> Result<SystemDetail> {
        self.get(&path(&["systems", name]), &())
    }

    pub fn register(&self, request: &RegisterRequest) -> Result<RegisterReport> {
        self.send("POST", &path(&["systems", "register"]), request)
    }

    /// The systems that a seed declares, or without files those that the server knows.
    pub fn registrable(&self, files: &BTreeMap<String, String>) -> Result<Vec<String>> {
        let request = RegistrableRequest { files: files.clone() };
        self.send("POST", &path(&["systems", "registrable"]), &request)
    }

    pub fn set_enabled(&self, name: &str, enabled: bool) -> Result<System> {
        self.send("PUT", &path(&["systems", name]), &UpdateRequest { status: i32::from(enabled) })
    }

    pub fn unregister(&self, name: &str) -> Result<UnregisterReport> {
        self.delete(&path(&["systems", name]))
    }

    pub fn settings(&self, query: &SettingQuery) -> Result<Page<Setting>> {
        self.get(&path(&["settings"]), query)
    }

    pub fn setting(&self, key: &str) -> Result<Setting> {
        self.get(&path(&["settings", key]), &())
    }

    pub fn set_setting(&self, key: &str, request: &SetRequest) -> Result<Setting> {
        self.send("PUT", &path(&["settings", key]), request)
    }

    pub fn setting_history(&self, key: &str) -> Result<Vec<Change>> {
        self.get(&path(&["settings", key, "history"]), &())
    }

    pub fn roll_back_setting(&self, key: &str, revision: i64) -> Result<Setting> {
        self.send("POST", &path(&["settings", key, "rollback"]), &RollbackRequest { revision })
    }

    pub fn setting_changes(&self, query: &ChangeQuery) -> Result<Changes> {
        self.get(&path(&["settings", "changes"]), query)
    }

    pub fn settings_status(&self) -> Result<api::setting::Status> {
        self.get(&path(&["settings", "status"]), &())
    }

    pub fn settings_tree(&self) -> Result<Tree> {
        self.get(&path(&["settings", "tree"]), &())
    }

    pub fn adopt_settings(&self, revision: i64) -> Result<api::setting::Status> {
        self.send("POST", &path(&["settings", "adopt"]), &AdoptRequest { revision })
    }

    pub fn restore_settings(&self) -> Result<Restored> {
        self.send("POST", &path(&["settings", "restore"]), &())
    }

    pub fn discard_settings(&self, path_there: &str) -> Result<Restored> {
        self.send("POST", &path(&["settings", "discard"]), &DiscardRequest { path: path_there.to_owned() })
    }

    pub fn release_lease(&self, resource: &str) -> Result<Lease> {
        self.send("POST", &path(&["leases", "release"]), &LeaseRequest { resource: resource.to_owned() })
    }

    pub fn points(&self, system: &str, query: &PointQuery) -> Result<Page<Point>> {
        self.get(&path(&["systems", system, "points"]), query)
    }

    pub fn point(&self, id: &str) -> Result<Point> {
        self.get(&path(&["points", id]), &())
    }

    pub fn kill_switch(&self) -> Result<KillSwitch> {
        self.get(&path(&["kill-switch"]), &())
    }

    pub fn set_kill_switch(&self, request: &KillSwitchRequest) -> Result<KillSwitch> {
        self.send("PUT", &path(&["kill-switch"]), request)
    }

    /// What the system's telemetry lacks.
    pub fn otel_check(&self, system: &str, query: &OtelQuery) -> Result<OtelReport> {
        self.get(&path(&["systems", system, "otel"]), query)
    }

    /// The system's collector.
    pub fn otel_render(&self, system: &str, query: &RenderQuery) -> Result<Rendered> {
        self.get(&path(&["systems", system, "otel", "collector"]), query)
    }

    pub fn capabilities(&self) -> Result<Vec<Capability>> {
        self.get(&path(&["capabilities"]), &())
    }

    pub fn capability(&self, name: &str) -> Result<Capability> {
        self.get(&path(&["capabilities", name]), &())
    }
}

/// Runs and their tasks.
impl Client {
    pub fn submit(&self, request: &RunRequest, idempotency_key: Option<&str>) -> Result<SubmitReply> {
        let headers: Vec<(&str, &str)> = idempotency_key.map(|key| (api::IDEMPOTENCY_KEY, key)).into_iter().collect();
        self.send_with_headers("POST", &path(&["runs"]), request, &headers)
    }

    pub fn runs(&self, query: &RunQuery) -> Result<Page<Run>> {
        self.get(&path(&["traces"]), query)
    }

    /// The run of an id, or of the beginning of one; a whole id is not looked up.
    pub fn find_run(&self, text: &str) -> Result<RunId> {
        match text.parse() {
            Ok(id) => Ok(id),
            Err(_) => Ok(self.get::<RunDetail>(&path(&["traces", text]), &())?.run.id),
        }
    }

    pub fn run(&self, id: RunId) -> Result<RunDetail> {
        self.get(&path(&["traces", &id.to_string()]), &())
    }

    pub fn why(&self, id: RunId) -> Result<Why> {
        self.get(&path(&["traces", &id.to_string(), "why"]), &())
    }

    pub fn cancel(&self, id: RunId) -> Result<CancelReply> {
        self.send("POST", &path(&["traces", &id.to_string(), "cancel"]), &serde_json::json!({}))
    }

    pub fn retry(&self, id: RunId, request: &RetryRequest) -> Result<RetryReply> {
        self.send("POST", &path(&["traces", &id.to_string(), "retry"]), request)
    }

    pub fn tasks(&self, query: &TaskQuery) -> Result<Page<Task>> {
        self.get(&path(&["tasks"]), query)
    }

    pub fn task(&self, id: &str) -> Result<TaskDetail> {
        self.get(&path(&["tasks", id]), &())
    }

    pub fn task_logs(&self, id: &str) -> Result<Vec<LogLine>> {
        self.get(&path(&["tasks", id, "logs"]), &())
    }
}

/// Datapacks, algorithms and scores.
impl Client {
    pub fn injections(&self, query: &InjectionQuery) -> Result<Page<Injection>> {
        self.get(&path(&["injections"]), query)
    }

    pub fn injection(&self, name: &str) -> Result<InjectionDetail> {
        self.get(&path(&["injections", name]), &())
    }

    pub fn files(&self, name: &str) -> Result<FileTree> {
        self.get(&path(&["injections", name, "files"]), &())
    }

    /// One file of a datapack, to be read as a stream.
    pub fn file(&self, name: &str, file: &str) -> Result<Response<Body>> {
        self.stream(&path(&["injections", name, "files", "download"]), &FileQuery { path: file.to_owned() }, SILENCE)
    }

    /// The whole datapack as a zip archive in the public layout, to be read as a stream.
    pub fn archive(&self, name: &str) -> Result<Response<Body>> {
        self.stream(&path(&["injections", name, "download"]), &(), SILENCE)
    }

    pub fn verify(&self, name: &str) -> Result<VerifyReport> {
        self.send("POST", &path(&["injections", name, "verify"]), &serde_json::json!({}))
    }

    pub fn diagnose(&self, name: &str) -> Result<Diagnosis> {
        self.get(&path(&["injections", name, "diagnose"]), &())
    }

    pub fn diff(&self, query: &DiffQuery) -> Result<Diff> {
        self.get(&path(&["injections", "diff"]), query)
    }

    pub fn convert(&self, name: &str) -> Result<Converted> {
        self.send("POST", &path(&["injections", name, "convert"]), &serde_json::json!({}))
    }

    /// Datapacks in another layout as a tar archive, to be read as a stream.
    pub fn export(&self, request: &ExportRequest) -> Result<Response<Body>> {
        self.stream_answer(&path(&["injections", "export"]), request, SILENCE)
    }

    /// The answer to a query, to be read line by line. `longest` is how long the first line may take.
    pub fn query(&self, request: &QueryRequest, longest: Duration) -> Result<Response<Body>> {
        self.stream_answer(&path(&["injections", "query"]), request, longest)
    }

    pub fn algorithms(&self) -> Result<Vec<Algorithm>> {
        self.get(&path(&["algorithms"]), &())
    }

    pub fn executions(&self, query: &ExecutionQuery) -> Result<Page<Execution>> {
        self.get(&path(&["executions"]), query)
    }

    pub fn execution(&self, id: i32) -> Result<ExecutionDetail> {
        self.get(&path(&["executions", &id.to_string()]), &())
    }

    /// Runs algorithms on datapacks that are there already, or opens executions whose answers are uploaded.
    pub fn execute(&self, request: &ExecuteRequest, idempotency_key: Option<&str>) -> Result<ExecuteReply> {
        let headers: Vec<(&str, &str)> = idempotency_key.map(|key| (api::IDEMPOTENCY_KEY, key)).into_iter().collect();
        self.send_with_headers("POST", &path(&["executions", "execute"]), request, &headers)
    }

    /// Hands over the answer of an execution whose method runs elsewhere.
    pub fn upload_ranking(&self, id: i32, upload: &RankingUpload) -> Result<UploadReply> {
        self.send("POST", &path(&["executions", &id.to_string(), "granularity_results"]), upload)
    }

    pub fn projects(&self, query: PageQuery) -> Result<Page<Project>> {
        self.get(&path(&["projects"]), &query)
    }

    pub fn add_project(&self, request: &ProjectRequest) -> Result<Project> {
        self.send("POST", &path(&["projects"]), request)
    }

    pub fn board(&self, query: &BoardQuery) -> Result<Board> {
        self.get(&path(&["board"]), query)
    }

    /// The board as a document, to be read as a stream.
    pub fn board_document(&self, query: &ExportQuery) -> Result<Response<Body>> {
        self.stream(&path(&["board", "export"]), query, SILENCE)
    }

    pub fn algorithm(&self, name: &str) -> Result<Algorithm> {
        self.get(&path(&["algorithms", name]), &())
    }

    pub fn add_algorithm(&self, request: &AddAlgorithmRequest) -> Result<Algorithm> {
        self.send("POST", &path(&["algorithms"]), request)
    }

    pub fn test_algorithm(&self, name: &str, request: &TestAlgorithmRequest) -> Result<Evaluation> {
        self.send("POST", &path(&["algorithms", name, "test"]), request)
    }
}

/// Evaluations and data sets.
impl Client {
    pub fn evaluations(&self, query: PageQuery) -> Result<Page<Evaluation>> {
        self.get(&path(&["evaluations"]), &query)
    }

    pub fn create_evaluation(&self, request: &EvaluationRequest) -> Result<Evaluation> {
        self.send("POST", &path(&["evaluations"]), request)
    }

    pub fn evaluation(&self, id: i32) -> Result<Evaluation> {
        self.get(&path(&["evaluations", &id.to_string()]), &())
    }

    pub fn cancel_evaluation(&self, id: i32) -> Result<CancelEvaluationReply> {
        self.send("POST", &path(&["evaluations", &id.to_string(), "cancel"]), &serde_json::json!({}))
    }

    pub fn compare_evaluations(&self, query: &CompareQuery) -> Result<EvaluationComparison> {
        self.get(&path(&["evaluations", "compare"]), query)
    }

    pub fn datasets(&self, query: PageQuery) -> Result<Page<Dataset>> {
        self.get(&path(&["datasets"]), &query)
    }

    pub fn create_dataset(&self, request: &DatasetRequest) -> Result<Dataset> {
        self.send("POST", &path(&["datasets"]), request)
    }

    pub fn dataset(&self, name: &str) -> Result<Dataset> {
        self.get(&path(&["datasets", name]), &())
    }

    pub fn manifest(&self, name: &str) -> Result<Manifest> {
        self.get(&path(&["datasets", name, "manifest"]), &())
    }

    pub fn verify_dataset(&self, name: &str) -> Result<DatasetReport> {
        self.send("POST", &path(&["datasets", name, "verify"]), &serde_json::json!({}))
    }

    /// A version as a zip archive, to be read as a stream.
    pub fn dataset_archive(&self, name: &str, query: &DownloadQuery) -> Result<Response<Body>> {
        self.stream(&path(&["datasets", name, "download"]), query, SILENCE)
    }
}

/// Pedestals.
impl Client {
    /// In the order in which runs prefer them.
    pub fn pedestal_versions(&self, system: &str) -> Result<Vec<PedestalVersion>> {
        self.get(&path(&["systems", system, "versions"]), &())
    }

    /// Retires a version, or takes it back into use.
    pub fn set_pedestal_version(&self, system: &str, version: &str, enabled: bool) -> Result<Vec<PedestalVersion>> {
        let request = UpdateRequest { status: i32::from(enabled) };
        self.send("PUT", &path(&["systems", system, "versions", version]), &request)
    }
}

/// Seeds.
impl Client {
    /// Compares a seed with the installation. Nothing is written.
    pub fn seed_plan(&self, request: &PlanRequest) -> Result<PlanReply> {
        self.send("POST", &path(&["seeds", "plan"]), request)
    }

    /// Asks repositories, each for some seconds at most.
    pub fn seed_charts(&self, request: &PlanRequest) -> Result<Vec<Lookup>> {
        self.send_slow("POST", &path(&["seeds", "charts"]), request)
    }

    pub fn seed_apply(&self, request: &ApplyRequest) -> Result<ApplyReply> {
        self.send("POST", &path(&["seeds", "apply"]), request)
    }

    /// Newest first.
    pub fn seed_history(&self) -> Result<Vec<SeedRevision>> {
        self.get(&path(&["seeds", "revisions"]), &())
    }

    pub fn seed_revision(&self, number: i32) -> Result<SeedRevisionDetail> {
        self.get(&path(&["seeds", "revisions", &number.to_string()]), &())
    }

    pub fn seed_drift(&self, query: &SeedQuery) -> Result<DriftReply> {
        self.get(&path(&["seeds", "drift"]), query)
    }

    /// What the watched folder would still change.
    pub fn seed_watched(&self) -> Result<Watched> {
        self.get(&path(&["seeds", "watched"]), &())
    }

    pub fn seed_proof(&self, query: &SeedQuery) -> Result<Proof> {
        self.get(&path(&["seeds", "proof"]), query)
    }

    /// Removes releases that hold old values and that no run holds.
    pub fn seed_restart_slots(&self, query: &SeedQuery) -> Result<RestartReply> {
        self.send("POST", &path(&["seeds", "restart-slots"]), query)
    }

    pub fn seed_export(&self) -> Result<ExportReply> {
        self.send("POST", &path(&["seeds", "export"]), &())
    }
}
