//! The cluster's objects as a run saw them, kept from the end of its fault until its datapack is published: the datapack can
//! be built, also a second time, when the system is long gone.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use model::{ErrorKind, Problem, Result, RunId};
use serde_json::{Map, Value};

fn path(folder: &Path, run: RunId) -> PathBuf {
    folder.join(format!("objects-{run}.json"))
}

/// Writes them in one step, replacing those of an earlier pass; on disk when this returns.
///
/// # Errors
/// `objects.unwritable`.
pub fn keep(folder: &Path, run: RunId, objects: &Value) -> Result<()> {
    let (to, draft) = (path(folder, run), folder.join(format!("objects-{run}.draft")));
    let written = (|| {
        let mut file = File::create(&draft)?;
        file.write_all(objects.to_string().as_bytes())?;
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

/// Those that were kept; else those of the datapack that was published from them.
///
/// # Errors
/// `objects.absent` when there are none; `objects.damaged`.
pub fn read(folder: &Path, run: RunId, published: &Path) -> Result<Map<String, Value>> {
    let kept = path(folder, run);
    let path = if kept.exists() { kept } else { published.join("open/k8s.json") };
    let again = "retry the run from RestartPedestal";
    let text = fs::read(&path).map_err(|error| {
        let kind = if error.kind() == io::ErrorKind::NotFound { ErrorKind::NotFound } else { ErrorKind::Unavailable };
        Problem::new(kind, "objects.absent", "the cluster's objects of this run are not there any more")
            .place(path.display().to_string())
            .found(error.to_string())
            .fix(again)
    })?;
    serde_json::from_slice(&text).map_err(|error| {
        Problem::internal("objects.damaged", "the cluster's objects of this run cannot be read")
            .place(path.display().to_string())
            .fix(again)
            .cause(error)
    })
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
