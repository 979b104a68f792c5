//! Files and folders: errors that say what to do, durable writes, and names that any namespace can have on disk.

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use model::{ErrorKind, Problem, Result, io_kind};
use uuid::Uuid;

use crate::column::corrupt;

/// Turns a failed operation on a file into a problem that names the place.
pub(crate) fn failed(place: &Path) -> impl FnOnce(io::Error) -> Problem + '_ {
    move |error| problem(place, error.kind(), error)
}

/// The same for an error that may have a failed file operation among its causes.
pub(crate) fn failed_within<E: Error + Send + Sync + 'static>(place: &Path) -> impl FnOnce(E) -> Problem + '_ {
    move |error| problem(place, io_kind(&error).unwrap_or(io::ErrorKind::Other), error)
}

/// The same for reading a segment: an error without a failed file operation means that the file's content is wrong.
pub(crate) fn unreadable<E: Error + Send + Sync + 'static>(place: &Path) -> impl FnOnce(E) -> Problem + '_ {
    move |error| {
        let mut next: Option<&(dyn Error + 'static)> = Some(&error);
        while let Some(cause) = next {
            match cause.downcast_ref::<io::Error>().map(io::Error::kind) {
                // What a decoder says of bytes that make no sense.
                None | Some(io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof | io::ErrorKind::Other) => {}
                Some(_) => return failed_within(place)(error),
            }
            next = cause.source();
        }
        corrupt(error.to_string())
            .place(place.display().to_string())
            .fix("the file was changed or damaged; what wrote it has to be repeated, a run with `run retry --from RestartPedestal`")
            .cause(error)
    }
}

/// The code of a file that was there when it was listed and is not any more.
pub(crate) const GONE: &str = "telemetry.file_gone";

fn problem(place: &Path, kind: io::ErrorKind, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Problem {
    use io::ErrorKind as Io;
    let cause = cause.into();
    let problem = match kind {
        Io::StorageFull | Io::QuotaExceeded => {
            Problem::new(ErrorKind::Unavailable, "telemetry.disk_full", "the disk of the signal store is full")
                .fix("free space there, or lower the retention")
        }
        Io::ReadOnlyFilesystem | Io::PermissionDenied => Problem::new(
            ErrorKind::Missing,
            "telemetry.folder_not_writable",
            "the folder of the signal store cannot be written",
        )
        .fix("choose a folder that this user may write"),
        Io::NotFound => Problem::internal(GONE, "a file of the signal store is gone"),
        _ => Problem::new(ErrorKind::Unavailable, "telemetry.disk_failed", "the signal store cannot use its files"),
    };
    problem.place(place.display().to_string()).found(cause.to_string()).cause(cause)
}

pub(crate) fn create_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(failed(path))
}

/// Writes a new file and waits until it is on disk.
pub(crate) fn write_durably(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = File::create(path).map_err(failed(path))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed(path))
}

/// Waits until the names in a folder are on disk.
pub(crate) fn sync_folder(path: &Path) -> Result<()> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(failed(path))
}

/// Takes a lock file for this process and thread; waits for another holder. Freed when the file is dropped, also by a kill.
pub(crate) fn lock(path: &Path) -> Result<File> {
    let file = File::options().create(true).truncate(false).write(true).open(path).map_err(failed(path))?;
    file.lock().map_err(failed(path))?;
    Ok(file)
}

/// The same without waiting: nothing when another holds it.
pub(crate) fn try_lock(path: &Path) -> Result<Option<File>> {
    let file = File::options().create(true).truncate(false).write(true).open(path).map_err(failed(path))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => Err(failed(path)(error)),
    }
}

/// Takes a folder for itself without waiting: nothing when another reads in it, or when it is gone.
pub(crate) fn try_lock_folder(path: &Path) -> Result<Option<File>> {
    let folder = match File::open(path) {
        Ok(folder) => folder,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(path)(error)),
    };
    match folder.try_lock() {
        Ok(()) => Ok(Some(folder)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => Err(failed(path)(error)),
    }
}

/// The names in a folder, sorted; none when there is no such folder.
pub(crate) fn list(path: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(path)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        if let Ok(name) = entry.map_err(failed(path))?.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// A folder name for a namespace. Two namespaces never share one; the name itself stands in the manifests inside.
pub(crate) fn folder_name(namespace: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if namespace.len() <= 63 && namespace.chars().all(plain) {
        return format!("n-{namespace}");
    }
    format!("x-{}", Uuid::new_v5(&Uuid::NAMESPACE_DNS, namespace.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_namespace_leaves_its_folder() {
        assert_eq!(folder_name("otel-demo1"), "n-otel-demo1");
        assert_eq!(folder_name(""), "n-");
        for odd in ["../..", "a/b", ".", "A", "ü", &"a".repeat(64)] {
            let name = folder_name(odd);
            assert!(name.starts_with("x-") && !name.contains('/') && !name.contains('.'), "{name}");
        }
        assert_ne!(folder_name("A"), folder_name("B"));
    }
}
