//! The kept archives: one file for each, named by its SHA-256, and compared with that name whenever it is used.
//!
//! Everything else sees digests and bytes only.

use std::collections::HashMap;
use std::io::ErrorKind as Io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::{ErrorKind, Problem, Result};
use serde_json::Value;

use crate::archive::{Archive, digest};
use crate::shelf::{About, Place};

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
    place: Place,
    /// What was compared already, with the state that the file had then.
    known: Mutex<HashMap<String, About>>,
    /// The charts' own values, of what was read already.
    values: Mutex<HashMap<String, Arc<Value>>>,
}

impl Charts {
    /// What a writer that died left in a folder is taken away.
    pub fn open(place: impl Into<Place>) -> Self {
        let place = place.into();
        place.tidy();
        Self { place, known: Mutex::default(), values: Mutex::default() }
    }

    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Where the archive of a digest is.
    fn file(&self, digest: &str) -> String {
        self.place.file(&name(digest))
    }

    /// Checks an archive and keeps it for good; the same bytes are kept once.
    ///
    /// # Errors
    /// Those of [`Archive::read`]; `chart.not_kept`.
    pub fn keep(&self, bytes: &[u8]) -> Result<Archive> {
        let archive = Archive::read(bytes)?;
        if !matches!(self.compare(&archive.digest), Kept::Whole(_)) {
            self.place.write(&name(&archive.digest), bytes).map_err(|error| {
                let full = matches!(error.kind(), Io::StorageFull | Io::QuotaExceeded);
                let kind = if full { ErrorKind::Unavailable } else { ErrorKind::Missing };
                Problem::new(kind, "chart.not_kept", "the chart's archive cannot be kept")
                    .place(self.file(&archive.digest))
                    .found(error.to_string())
                    .expected("a place that this user can write; `charts` in the configuration names it")
            })?;
        }
        Ok(archive)
    }

    /// Digests and bytes of the archives that were kept at least that long ago, by digest.
    ///
    /// # Errors
    /// `chart.folder_unreadable`.
    pub fn kept_for(&self, at_least: Duration) -> Result<Vec<(String, u64)>> {
        let listed = self.place.list().map_err(|error| {
            Problem::new(ErrorKind::Missing, "chart.folder_unreadable", "what archives are kept cannot be read")
                .place(self.place.to_string())
                .found(error.to_string())
        })?;
        let mut found = Vec::new();
        for file in listed {
            let Some(digest) = file.name.strip_suffix(".tgz") else { continue };
            // One from the future was kept before the clock was set back; it counts as new, and nothing new goes.
            if file.modified.elapsed().is_ok_and(|age| age >= at_least) {
                found.push((digest.to_owned(), file.size));
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
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(digest);
        self.values.lock().unwrap_or_else(PoisonError::into_inner).remove(digest);
        self.place.remove(&name(digest)).map_err(|error| {
            Problem::new(ErrorKind::Missing, "chart.not_removed", "the chart's archive cannot be removed")
                .place(self.file(digest))
                .found(error.to_string())
        })
    }

    /// The bytes of an archive, after they were compared with its digest.
    ///
    /// # Errors
    /// `chart.archive_gone`, `chart.digest_differs`, `chart.archive_unreadable`.
    pub fn read(&self, wanted: &str) -> Result<Vec<u8>> {
        let bytes = match self.place.read(&name(wanted)) {
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
        // Asked without the lock: it may be a call to another machine.
        let about = self.place.about(&name(wanted));
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match about {
            Ok(about) if known().get(wanted) == Some(&about) => Kept::Whole(about.size),
            about => {
                let state = self.compare(wanted);
                match (&state, about) {
                    (Kept::Whole(_), Ok(about)) => known().insert(wanted.to_owned(), about),
                    _ => known().remove(wanted),
                };
                state
            }
        }
    }

    fn compare(&self, wanted: &str) -> Kept {
        match self.place.read(&name(wanted)) {
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
            .place(self.file(wanted))
            .found(found)
            .expected(format!("sha256:{wanted}"))
    }
}

fn name(digest: &str) -> String {
    format!("{digest}.tgz")
}
