//! What is right and wrong with a pack, in data and in words: the files that are there, what was measured when it was
//! built, and clocks that disagree.

use std::path::Path;

use model::{PackState, Problem, Result, Window};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::check::{check_columns, file_size};
use crate::disk::{corrupt, list, read};
use crate::pack::{ATTACHMENTS, Finding, MANIFEST_FILE, OPEN, Pack, SEALED, TRUTH_FILE};
use crate::quality::Quality;
use crate::schema::{Signal, files};
use crate::skew;
mod words;

pub use crate::skew::Skew;
use crate::{ENV_FILE, INJECTION_FILE, K8S_FILE};

/// The verdict on a pack, from its state and its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// Its run has not built it.
    NotBuilt,
    /// It says that it is built and has no files, or the other way round.
    StateInconsistent,
    /// Files are missing, cannot be read, or are not what was built.
    Incomplete,
    /// A required signal has no rows.
    EmptyParquets,
    Healthy,
}

impl Health {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotBuilt => "not_built",
            Self::StateInconsistent => "state_inconsistent",
            Self::Incomplete => "incomplete",
            Self::EmptyParquets => "empty_parquets",
            Self::Healthy => "healthy",
        }
    }
}

/// A file that a pack has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    pub name: String,
    pub present: bool,
    /// Of a parquet file that can be read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rows: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub size: Option<u64>,
    /// Stable code of what is wrong with it: `datapack.checksum_mismatch`, `datapack.column_type`, ...
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<String>,
    /// The same in words.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub problem: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    pub health: Health,
    pub missing_files: Vec<String>,
    /// Required signals without rows.
    pub empty_parquets: Vec<String>,
    pub unexpected_extras: Vec<String>,
    pub parquets: Vec<FileState>,
    pub json: Vec<FileState>,
    /// What was measured when the pack was built; absent when the files are not those any more.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub quality: Option<Quality>,
    /// Services whose clock disagrees with their callers', worst first.
    pub clock_skew: Vec<Skew>,
    /// The same in sentences.
    pub notes: Vec<String>,
}

impl Diagnosis {
    /// A verdict on a folder in which nothing can be looked at.
    fn bare(health: Health, note: String) -> Self {
        Self {
            health,
            missing_files: Vec::new(),
            empty_parquets: Vec::new(),
            unexpected_extras: Vec::new(),
            parquets: Vec::new(),
            json: Vec::new(),
            quality: None,
            clock_skew: Vec::new(),
            notes: vec![note],
        }
    }
}

/// Diagnoses what stands in `folder`, which may not exist; `recorded` is the digest that was recorded of it.
///
/// # Errors
/// `datapack.disk_failed` when the folder cannot be read.
pub fn diagnose(folder: &Path, state: PackState, recorded: Option<String>) -> Result<Diagnosis> {
    let built = state.code() >= PackState::BuildSuccess.code();
    if !folder.is_dir() {
        return Ok(match built {
            true => Diagnosis::bare(
                Health::StateInconsistent,
                format!("the state says {state}, but the datapack has no folder"),
            ),
            false => Diagnosis::bare(Health::NotBuilt, format!("the datapack is not built: its state is {state}")),
        });
    }
    match Pack::open(folder) {
        Ok(pack) => files_of(&pack.recorded(recorded), state, built),
        Err(problem) if problem.kind.retryable() => Err(problem),
        // Without its manifest and its checksums there is nothing that the other files could be compared with.
        Err(problem) => {
            let health = if built { Health::Incomplete } else { Health::StateInconsistent };
            let problem = within(problem, folder, "");
            Ok(Diagnosis::bare(health, format!("the datapack cannot be looked at: {problem}")))
        }
    }
}

fn files_of(pack: &Pack, state: PackState, built: bool) -> Result<Diagnosis> {
    let tables: Vec<(Window, Signal)> = files().collect();
    let parquets: Vec<FileState> =
        tables.into_par_iter().map(|(window, signal)| parquet_state(pack, window, signal)).collect();
    let mut json: Vec<FileState> = DOCUMENTS.iter().map(|(part, name)| json_state(pack, part, name)).collect();
    json.extend(pack.replaced().map(|Finding { file, problem }| {
        let code = Some(problem.code.clone().into_owned());
        FileState { name: file, present: true, rows: None, size: None, code, problem: Some(problem.to_string()) }
    }));
    let all = || parquets.iter().chain(&json);
    let missing_files: Vec<String> = all().filter(|file| !file.present).map(|file| file.name.clone()).collect();
    let required = &pack.manifest().content.profile.required;
    let empty = files().zip(&parquets).filter(|((_, signal), file)| file.rows == Some(0) && required.contains(signal));
    let empty_parquets: Vec<String> = empty.map(|(_, file)| file.name.clone()).collect();
    let intact = missing_files.is_empty() && all().all(|file| file.problem.is_none());
    let health = match (built, intact, empty_parquets.is_empty()) {
        (false, ..) => Health::StateInconsistent,
        (true, false, _) => Health::Incomplete,
        (true, true, false) => Health::EmptyParquets,
        (true, true, true) => Health::Healthy,
    };
    let mut diagnosis = Diagnosis {
        health,
        missing_files,
        empty_parquets,
        unexpected_extras: extras(pack.folder())?,
        parquets,
        json,
        quality: intact.then(|| pack.manifest().content.quality.clone()),
        clock_skew: if intact { skew::measure(&pack.open_part())? } else { Vec::new() },
        notes: Vec::new(),
    };
    diagnosis.notes = words::notes(&diagnosis, state, &pack.manifest().content.windows);
    Ok(diagnosis)
}

/// The documents of a pack. The public form has no sealed ones of these names but `manifest.json`.
const DOCUMENTS: [(&str, &str); 6] = [
    (OPEN, ENV_FILE),
    (OPEN, K8S_FILE),
    (OPEN, INJECTION_FILE),
    (SEALED, INJECTION_FILE),
    (SEALED, MANIFEST_FILE),
    (SEALED, TRUTH_FILE),
];

fn parquet_state(pack: &Pack, window: Window, signal: Signal) -> FileState {
    let name = signal.file(window);
    let stored = format!("{OPEN}/{name}");
    state(pack, name, &stored, |path| check_columns(path, signal).map(Some))
}

fn json_state(pack: &Pack, part: &str, name: &str) -> FileState {
    let stored = format!("{part}/{name}");
    let shown = if part == OPEN { name.to_owned() } else { stored.clone() };
    state(pack, shown, &stored, |path| {
        serde_json::from_slice::<Value>(&read(path)?).map_err(|error| corrupt(path, error))?;
        if name == TRUTH_FILE { pack.truth().map(|_| None) } else { Ok(None) }
    })
}

/// Whether a file is there, is what it should be, and is what was built, in this order: the first says most.
fn state(pack: &Pack, name: String, stored: &str, look: impl FnOnce(&Path) -> Result<Option<u64>>) -> FileState {
    let path = pack.folder().join(stored);
    let Ok(size) = file_size(&path) else {
        return FileState { name, present: false, rows: None, size: None, code: None, problem: None };
    };
    let found = look(&path).and_then(|rows| pack.verify_file(stored).map(|()| rows));
    let (rows, problem) = match found {
        Ok(rows) => (rows, None),
        Err(problem) => (None, Some(within(problem, &path, stored))),
    };
    let code = problem.as_ref().map(|problem| problem.code.clone().into_owned());
    FileState { name, present: true, rows, size: Some(size), code, problem: problem.map(|problem| problem.to_string()) }
}

/// The problem with the place in the file alone: whoever reads of it knows the file and need not know where it is stored.
fn within(mut problem: Problem, path: &Path, stored: &str) -> Problem {
    let place = problem.place.take().unwrap_or_default();
    let place =
        place.strip_prefix(&path.display().to_string()).or_else(|| place.strip_prefix(stored)).unwrap_or(&place);
    let place = place.trim_start_matches(": ").trim_start_matches('/');
    if place.is_empty() { problem } else { problem.place(place) }
}

/// Files that no pack has.
fn extras(folder: &Path) -> Result<Vec<String>> {
    let mut known: Vec<String> = files().map(|(window, signal)| signal.file(window)).collect();
    known.extend([ENV_FILE, K8S_FILE, INJECTION_FILE].map(str::to_owned));
    let sealed = [MANIFEST_FILE, TRUTH_FILE, INJECTION_FILE];
    let mut extras = Vec::new();
    for name in list(&folder.join(OPEN))? {
        if !known.contains(&name) {
            extras.push(format!("{OPEN}/{name}"));
        }
    }
    for name in list(&folder.join(SEALED))? {
        if !sealed.contains(&name.as_str()) && !ATTACHMENTS.contains(&name.as_str()) {
            extras.push(format!("{SEALED}/{name}"));
        }
    }
    Ok(extras)
}
