//! Injections and their datapacks. A name or a number leads to one.

use std::fs::File;
use std::io;

use ::datapack::{Bytes, Finding, Pack, PublicFile};
use api::injection::{
    FileCheck, FileNode, FileTree, GroundTruth, Injection, InjectionDetail, InjectionQuery, InjectionSearch, Label,
    VerifyReport,
};
use api::{Page, Pagination};
use model::{DataTime, ErrorKind, InjectionId, PackState, Problem, Result, Truth};
use serde_json::Value;
use store::InjectionFilter;

use super::download::{Download, broken};
use super::{App, listed, stored_page};
use crate::extract;

/// What stands in the place of a fault's name in a run without one.
pub const CONTROL: &str = "none";

impl App {
    /// # Errors
    /// `state.unknown`, `page.out_of_range`, `system.unknown`.
    pub async fn injections(&self, query: &InjectionQuery) -> Result<Page<Injection>> {
        let page = api::PageQuery { page: query.page, size: query.size }.check()?;
        let filter = filter(query)?;
        self.injections_of(query, filter, page).await
    }

    /// Those of one project, by its name or number.
    ///
    /// # Errors
    /// `project.unknown`, and as for [`Self::injections`].
    pub async fn project_injections(&self, project: &str, query: &InjectionQuery) -> Result<Page<Injection>> {
        let project = Some(self.find_project(project).await?.id);
        let page = api::PageQuery { page: query.page, size: query.size }.check()?;
        let filter = InjectionFilter { project, ..filter(query)? };
        self.injections_of(query, filter, page).await
    }

    async fn injections_of(
        &self,
        query: &InjectionQuery,
        filter: InjectionFilter,
        page: api::PageQuery,
    ) -> Result<Page<Injection>> {
        let list = self.store().injections(&filter, stored_page(page)).await?;
        if list.total == 0 {
            self.require_known_system(query.category.as_deref()).await?;
        }
        Ok(listed(page, &list, injection))
    }

    /// Those of a project, or of all, that a search names.
    ///
    /// # Errors
    /// `project.unknown`, `state.unknown`, `page.out_of_range`.
    pub async fn search_injections(
        &self,
        project: Option<&str>,
        search: InjectionSearch,
    ) -> Result<Page<InjectionDetail>> {
        let page = api::PageQuery { page: search.page, size: search.size }.check()?;
        let project = match project {
            Some(text) => Some(self.find_project(text).await?.id),
            None => None,
        };
        let state = |code: i32| {
            PackState::from_code(code).ok_or_else(|| {
                Problem::new(ErrorKind::Invalid, "state.unknown", "unknown state")
                    .place("states")
                    .found(code.to_string())
                    .expected("0 to 6")
            })
        };
        let filter = InjectionFilter {
            project,
            name_part: search.name_pattern.filter(|part| !part.is_empty()),
            names: search.names.unwrap_or_default(),
            states: search.states.unwrap_or_default().into_iter().map(state).collect::<Result<_>>()?,
            labels: search.labels.unwrap_or_default().into_iter().map(|label| (label.key, label.value)).collect(),
            ..InjectionFilter::default()
        };
        let list = self.store().injections(&filter, stored_page(page)).await?;
        let items = list.items.iter().map(detail).collect::<Result<_>>()?;
        Ok(Page { items, pagination: Pagination::new(page, list.total) })
    }

    /// # Errors
    /// `datapack.unknown`.
    pub async fn injection(&self, name: &str) -> Result<InjectionDetail> {
        detail(&self.find_injection(name).await?)
    }

    /// # Errors
    /// `datapack.unknown`, `datapack.not_built`.
    pub async fn files(&self, name: &str) -> Result<FileTree> {
        let pack = self.pack(name).await?;
        let files = blocking(move || pack.files()).await?;
        Ok(FileTree { files: files.into_iter().map(node).collect() })
    }

    /// # Errors
    /// `datapack.unknown`, `datapack.not_built`, `datapack.file_unknown`.
    pub async fn file(&self, name: &str, path: &str) -> Result<Download> {
        let (pack, path) = (self.pack(name).await?, path.to_owned());
        let (bytes, path) = blocking(move || Ok((pack.file(&path)?, path))).await?;
        let file_name = path.rsplit('/').next().unwrap_or_default().to_owned();
        let content_type = content_type(&file_name);
        Ok(match bytes {
            Bytes::Memory(bytes) => {
                let length = Some(bytes.len() as u64);
                let send = move |sink: &mut dyn io::Write| sink.write_all(&bytes).map_err(|error| broken(&error));
                Download::new(content_type, file_name, length, send)
            }
            Bytes::File(path) => {
                let mut file = File::open(&path).map_err(|error| broken(&error))?;
                let length = file.metadata().map_err(|error| broken(&error))?.len();
                let send =
                    move |sink: &mut dyn io::Write| io::copy(&mut file, sink).map(drop).map_err(|error| broken(&error));
                Download::new(content_type, file_name, Some(length), send)
            }
        })
    }

    /// The datapack in the public layout.
    ///
    /// # Errors
    /// `datapack.unknown`, `datapack.not_built`.
    pub async fn archive(&self, name: &str) -> Result<Download> {
        let pack = self.pack(name).await?;
        let file_name = format!("{}.zip", pack.name());
        Ok(Download::new("application/zip", file_name, None, move |sink| pack.zip(sink)))
    }

    /// # Errors
    /// `datapack.unknown`, `datapack.not_built`.
    pub async fn verify(&self, name: &str) -> Result<VerifyReport> {
        let id = self.find_injection(name).await?.id;
        let pack = self.pack(name).await?;
        blocking(move || report(id, &pack)).await
    }

    /// By number, else by name.
    pub(super) async fn find_injection(&self, name: &str) -> Result<store::Injection> {
        match name.parse() {
            Ok(number) => self.store().injection(InjectionId(number)).await,
            Err(_) => self.store().injection_named(name).await,
        }
    }

    pub(super) async fn pack(&self, name: &str) -> Result<Pack> {
        let stored = self.find_injection(name).await?;
        let Some(folder) = stored.pack_path else {
            return Err(Problem::new(ErrorKind::NotFound, "datapack.not_built", "the datapack has not been built")
                .place(stored.name)
                .found(format!("state {}", stored.state))
                .fix(format!("ask `aegisctl run why {}`", stored.run)));
        };
        let folder = self.packs().join(folder);
        blocking(move || Ok(Pack::open(&folder)?.recorded(stored.pack_digest))).await
    }
}

/// Reads files on a thread that may wait for the disk.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Problem::internal("server.panicked", "reading a datapack failed").cause(error))?
}

fn report(id: InjectionId, pack: &Pack) -> Result<VerifyReport> {
    let ok = |path: String| FileCheck { path, state: "ok".into(), detail: None };
    let mut files: Vec<FileCheck> = pack.built().map(|name| ok(shown(name))).collect();
    let findings = pack.findings()?;
    for finding in &findings {
        let check = check(finding);
        match files.iter_mut().find(|known| known.path == check.path) {
            Some(known) => *known = check,
            None => files.push(check),
        }
    }
    let rows = pack.manifest().content.files.iter().filter_map(|file| Some((file.name.clone(), file.rows?))).collect();
    Ok(VerifyReport { id, name: pack.name().to_owned(), ok: findings.is_empty(), files, rows })
}

/// What an algorithm sees has its own name, the rest the folder before it.
fn shown(stored: &str) -> String {
    stored.strip_prefix("open/").unwrap_or(stored).to_owned()
}

fn check(Finding { file, problem }: &Finding) -> FileCheck {
    let state = match problem.code.as_ref() {
        "datapack.checksum_mismatch" | "datapack.checksums_replaced" => "changed",
        "datapack.file_missing" => "missing",
        "datapack.file_unexpected" => "unexpected",
        _ => "unreadable",
    };
    FileCheck { path: shown(file), state: state.into(), detail: Some(problem.to_string()) }
}

fn node(file: PublicFile) -> FileNode {
    FileNode { path: file.name.clone(), name: file.name, size: in_words(file.bytes), bytes: file.bytes, children: None }
}

#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
fn in_words(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

fn content_type(file_name: &str) -> &'static str {
    match file_name.rsplit('.').next() {
        Some("json") => "application/json",
        Some("csv") => "text/csv; charset=utf-8",
        Some("txt") => "text/plain; charset=utf-8",
        Some("parquet") => "application/vnd.apache.parquet",
        _ => "application/octet-stream",
    }
}

pub fn list(value: Option<&Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(items)) => items.clone(),
        Some(Value::Null) | None => Vec::new(),
        Some(other) => vec![other.clone()],
    }
}

pub fn ground_truth(truth: &Truth) -> Result<Vec<GroundTruth>> {
    let public = ::datapack::public_ground_truth(truth);
    serde_json::from_value(public)
        .map_err(|error| Problem::internal("truth.malformed", "a ground truth has no public form").cause(error))
}

fn filter(query: &InjectionQuery) -> Result<InjectionFilter> {
    Ok(InjectionFilter {
        state: extract::state(query.state.as_deref(), PackState::ALL, PackState::as_str, PackState::code)?,
        system: query.category.clone(),
        ..InjectionFilter::default()
    })
}

fn detail(stored: &store::Injection) -> Result<InjectionDetail> {
    Ok(InjectionDetail {
        injection: injection(stored),
        display_config: stored.display_config.clone(),
        engine_config: list(Some(&stored.faults)),
        roots: stored.truth.roots().into_iter().map(str::to_owned).collect(),
        ground_truth: ground_truth(&stored.truth)?,
        groundtruth_source: "auto".into(),
        witness: list(stored.witness.as_ref()),
        recovery: stored.recovery.clone(),
    })
}

/// A stored injection in the words of the wire.
fn injection(stored: &store::Injection) -> Injection {
    let windows = stored.windows;
    Injection {
        id: stored.id,
        name: stored.name.clone(),
        source: "injection".into(),
        fault_type: public_fault(&stored.fault_name),
        category: stored.system.to_string(),
        state: stored.state,
        status: "enabled".into(),
        pre_duration: stored.pre_duration,
        start_time: windows.map(|windows| text(windows.abnormal_start)),
        end_time: windows.map(|windows| text(windows.abnormal_end)),
        labels: labels(&stored.labels),
        created_at: stored.created_at.to_string(),
        updated_at: stored.updated_at.to_string(),
        trace_id: stored.run,
        namespace: stored.namespace.clone(),
        verdict: stored.verdict,
        // A control has no fault that could be felt.
        exposed: stored.exposed.filter(|_| stored.fault_name != CONTROL),
        visible: stored.visible,
    }
}

fn public_fault(name: &str) -> String {
    if name.contains('+') { "hybrid".into() } else { name.to_owned() }
}

fn text(at: DataTime) -> String {
    at.to_string()
}

/// Stored labels in the words of the wire.
pub fn labels(labels: &Value) -> Vec<Label> {
    let pairs = labels.as_object().into_iter().flatten();
    pairs
        .map(|(key, value)| Label {
            key: key.clone(),
            value: value.as_str().map_or_else(|| value.to_string(), str::to_owned),
        })
        .collect()
}
