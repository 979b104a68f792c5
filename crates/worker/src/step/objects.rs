//! The cluster's objects as a run saw them and the harmless events of its windows, kept from the end of its fault until its datapack is published: the datapack can
//! be built, also a second time, when the system is long gone.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use cluster::Distractor;
use datapack::Pack;
use model::{ErrorKind, Problem, Result, RunId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Where the manifest of a datapack has the harmless events, among what it says of its provenance.
pub const DISTRACTORS: &str = "distractors";

/// What is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// As a Kubernetes client gives them.
    pub objects: Map<String, Value>,
    pub distractors: Vec<Distractor>,
}

fn path(folder: &Path, run: RunId) -> PathBuf {
    folder.join(format!("objects-{run}.json"))
}

/// Writes them in one step, replacing those of an earlier pass; on disk when this returns.
///
/// # Errors
/// `objects.unwritable`.
pub fn keep(folder: &Path, run: RunId, kept: &Kept) -> Result<()> {
    let (to, draft) = (path(folder, run), folder.join(format!("objects-{run}.draft")));
    let written = (|| {
        let mut file = File::create(&draft)?;
        file.write_all(&serde_json::to_vec(kept)?)?;
        file.sync_data()?;
        fs::rename(&draft, &to)?;
        File::open(folder)?.sync_all()
    })();
    written.map_err(|error| {
        let code = if error.kind() == io::ErrorKind::StorageFull { "data.full" } else { "objects.unwritable" };
        Problem::new(ErrorKind::Unavailable, code, "the cluster's objects cannot be kept for the datapack")
            .place(to.display().to_string())
            .found(error.to_string())
            .cause(error)
    })
}

/// What was kept; else what the datapack has that was published from it.
///
/// # Errors
/// `objects.absent` when there is none; `objects.damaged`.
pub fn read(folder: &Path, run: RunId, published: &Path) -> Result<Kept> {
    let kept = path(folder, run);
    if kept.exists() {
        return parse(&kept);
    }
    let objects = parse(&published.join("open/k8s.json"))?;
    let manifest = Pack::open(published)?.manifest().clone();
    let distractors = manifest.provenance.more.get(DISTRACTORS).cloned().unwrap_or_else(|| Value::Array(Vec::new()));
    let distractors = serde_json::from_value(distractors).map_err(|error| damaged(published).cause(error))?;
    Ok(Kept { objects, distractors })
}

const AGAIN: &str = "retry the run from RestartPedestal";

fn parse<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T> {
    let text = fs::read(path).map_err(|error| {
        let kind = if error.kind() == io::ErrorKind::NotFound { ErrorKind::NotFound } else { ErrorKind::Unavailable };
        Problem::new(kind, "objects.absent", "the cluster's objects of this run are not there any more")
            .place(path.display().to_string())
            .found(error.to_string())
            .fix(AGAIN)
    })?;
    serde_json::from_slice(&text).map_err(|error| damaged(path).cause(error))
}

fn damaged(path: &Path) -> Problem {
    Problem::internal("objects.damaged", "the cluster's objects of this run cannot be read")
        .place(path.display().to_string())
        .fix(AGAIN)
}

/// Drops them; there may be none any more.
///
/// # Errors
/// `objects.unwritable`.
pub fn forget(folder: &Path, run: RunId) -> Result<()> {
    match fs::remove_file(path(folder, run)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Problem::new(
            ErrorKind::Unavailable,
            "objects.unwritable",
            "the cluster's objects of a run cannot be removed",
        )
        .cause(error)),
        _ => Ok(()),
    }
}
