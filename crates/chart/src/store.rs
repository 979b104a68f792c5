//! Where archives are kept: a folder with one file for each, named by its SHA-256. A file is complete or not there, and is
//! compared with its name whenever it is used.
//!
//! Everything else sees digests and bytes only, so that an object store can take the folder's place.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{ErrorKind as Io, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use model::{ErrorKind, Problem, Result};
use serde_json::Value;

use crate::archive::{Archive, digest};

/// Beginning of the names of files that are being written.
const UNFINISHED: &str = ".writing-";
/// No writer needs as long: what is older was left by one that died.
const ABANDONED: Duration = Duration::from_secs(3600);

/// How a kept archive stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// Its bytes are those that were kept; their number.
    Whole(u64),
    Gone,
    /// Other bytes stand in its place: their digest.
    Changed(String),
    Unreadable(String),
}

/// The kept archives.
#[derive(Debug)]
pub struct Charts {
    folder: PathBuf,
    /// What was compared already, with the time and length that the file had then.
    known: Mutex<HashMap<String, (SystemTime, u64)>>,
    /// The charts' own values, of what was read already.
    values: Mutex<HashMap<String, Arc<Value>>>,
}

impl Charts {
    /// The folder is made when something is kept. What a writer that died left in it is taken away.
    pub fn open(folder: PathBuf) -> Self {
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            listed => listed.and_then(Iterator::collect::<std::io::Result<Vec<_>>>).unwrap_or_else(|error| {
                tracing::warn!(
                    "unfinished archives stay, for they cannot be looked for: {}: {error}",
                    folder.display()
                );
                Vec::new()
            }),
        };
        for entry in entries.into_iter().filter(|entry| entry.file_name().to_string_lossy().starts_with(UNFINISHED)) {
            // One whose age cannot be told counts as new: its writer may be at work.
            let modified = entry.metadata().and_then(|about| about.modified()).ok();
            let age = modified.and_then(|at| at.elapsed().ok()).unwrap_or_default();
            if age > ABANDONED
                && let Err(error) = fs::remove_file(entry.path())
            {
                tracing::warn!("an unfinished archive stays for now: {}: {error}", entry.path().display());
            }
        }
        Self { folder, known: Mutex::default(), values: Mutex::default() }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the archive of a digest is.
    pub fn file(&self, digest: &str) -> PathBuf {
        self.folder.join(format!("{digest}.tgz"))
    }

    /// Checks an archive and keeps it for good; the same bytes are kept once.
    ///
    /// # Errors
    /// Those of [`Archive::read`]; `chart.not_kept`.
    pub fn keep(&self, bytes: &[u8]) -> Result<Archive> {
        let archive = Archive::read(bytes)?;
        let file = self.file(&archive.digest);
        if !matches!(self.compare(&archive.digest), Kept::Whole(_)) {
            self.write(&file, bytes).map_err(|error| {
                let full = matches!(error.kind(), Io::StorageFull | Io::QuotaExceeded);
                let kind = if full { ErrorKind::Unavailable } else { ErrorKind::Missing };
                Problem::new(kind, "chart.not_kept", "the chart's archive cannot be kept")
                    .place(file.display().to_string())
                    .found(error.to_string())
                    .expected("a folder that this user can write; `charts` in the configuration names it")
            })?;
        }
        Ok(archive)
    }

    /// Bytes and name reach the disk before anybody is told that they are there.
    fn write(&self, file: &Path, bytes: &[u8]) -> std::io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let mut new = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&self.folder)?;
        new.write_all(bytes)?;
        new.as_file().sync_all()?;
        new.persist(file).map_err(|error| error.error)?;
        File::open(&self.folder)?.sync_all()
    }

    /// Digests and bytes of the archives that were kept at least that long ago, by digest.
    ///
    /// # Errors
    /// `chart.folder_unreadable`.
    pub fn kept_for(&self, at_least: Duration) -> Result<Vec<(String, u64)>> {
        let unreadable = |error: std::io::Error| {
            Problem::new(ErrorKind::Missing, "chart.folder_unreadable", "the folder of the archives cannot be read")
                .place(self.folder.display().to_string())
                .found(error.to_string())
        };
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == Io::NotFound => return Ok(Vec::new()),
            listed => listed.map_err(unreadable)?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name();
            let Some(digest) = name.to_str().and_then(|name| name.strip_suffix(".tgz")) else { continue };
            let about = match entry.metadata() {
                Err(error) if error.kind() == Io::NotFound => continue,
                about => about.map_err(unreadable)?,
            };
            let modified = about.modified().map_err(unreadable)?;
            // One from the future was kept before the clock was set back; it counts as new, and nothing new goes.
            if modified.elapsed().is_ok_and(|age| age >= at_least) {
                found.push((digest.to_owned(), about.len()));
            }
        }
        found.sort();
        Ok(found)
    }

    /// Takes an archive away; one that is gone already is no error.
    ///
    /// # Errors
    /// `chart.not_removed`.
    pub fn remove(&self, digest: &str) -> Result<()> {
        let file = self.file(digest);
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(digest);
        self.values.lock().unwrap_or_else(PoisonError::into_inner).remove(digest);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != Io::NotFound => {
                Err(Problem::new(ErrorKind::Missing, "chart.not_removed", "the chart's archive cannot be removed")
                    .place(file.display().to_string())
                    .found(error.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// The bytes of an archive, after they were compared with its digest.
    ///
    /// # Errors
    /// `chart.archive_gone`, `chart.digest_differs`, `chart.archive_unreadable`.
    pub fn read(&self, wanted: &str) -> Result<Vec<u8>> {
        let bytes = match fs::read(self.file(wanted)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == Io::NotFound => return Err(self.problem(wanted, &Kept::Gone)),
            Err(error) => return Err(self.problem(wanted, &Kept::Unreadable(error.to_string()))),
        };
        let found = digest(&bytes);
        if found == wanted { Ok(bytes) } else { Err(self.problem(wanted, &Kept::Changed(found))) }
    }

    /// The own values of a chart, as [`Archive::values`].
    ///
    /// # Errors
    /// As [`Charts::read`].
    pub fn values(&self, wanted: &str) -> Result<Arc<Value>> {
        let known = |values: &Mutex<HashMap<String, Arc<Value>>>| {
            values.lock().unwrap_or_else(PoisonError::into_inner).get(wanted).cloned()
        };
        if let (Kept::Whole(_), Some(values)) = (self.state(wanted), known(&self.values)) {
            return Ok(values);
        }
        let values = Arc::new(Archive::read(&self.read(wanted)?)?.values);
        self.values.lock().unwrap_or_else(PoisonError::into_inner).insert(wanted.to_owned(), Arc::clone(&values));
        Ok(values)
    }

    /// How an archive stands. One that was whole is not read again while its file's time and length stay.
    pub fn state(&self, wanted: &str) -> Kept {
        let about = fs::metadata(self.file(wanted)).and_then(|about| Ok((about.modified()?, about.len())));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match about {
            Ok(about) if known.get(wanted) == Some(&about) => Kept::Whole(about.1),
            about => {
                let state = self.compare(wanted);
                match (&state, about) {
                    (Kept::Whole(_), Ok(about)) => known.insert(wanted.to_owned(), about),
                    _ => known.remove(wanted),
                };
                state
            }
        }
    }

    fn compare(&self, wanted: &str) -> Kept {
        match fs::read(self.file(wanted)) {
            Ok(bytes) => {
                let found = digest(&bytes);
                if found == wanted { Kept::Whole(bytes.len() as u64) } else { Kept::Changed(found) }
            }
            Err(error) if error.kind() == Io::NotFound => Kept::Gone,
            Err(error) => Kept::Unreadable(error.to_string()),
        }
    }

    /// What is wrong with an archive that is not whole.
    pub fn problem(&self, wanted: &str, state: &Kept) -> Problem {
        let (code, message, found) = match state {
            Kept::Whole(_) => {
                ("chart.archive_unreadable", "the chart's archive changed while it was looked at", "".into())
            }
            Kept::Gone => {
                ("chart.archive_gone", "the chart's archive is gone from where it was kept", "no file".into())
            }
            Kept::Changed(found) => {
                ("chart.digest_differs", "the kept chart is not the one that was fetched", format!("sha256:{found}"))
            }
            Kept::Unreadable(why) => ("chart.archive_unreadable", "the kept chart cannot be read", why.clone()),
        };
        Problem::new(ErrorKind::Missing, code, message)
            .place(self.file(wanted).display().to_string())
            .found(found)
            .expected(format!("sha256:{wanted}"))
    }
}
