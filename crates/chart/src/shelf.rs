//! Where the archives lie: files by name, in a folder or in a bucket. A file is complete or not there.

use std::fmt;
use std::fs::{self, File};
use std::io::{ErrorKind as Io, Result, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::bucket::Bucket;

/// Beginning of the names of files that are being written.
const UNFINISHED: &str = ".writing-";
/// No writer needs as long: what is older was left by one that died.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Where archives are kept.
#[derive(Debug, Clone)]
pub enum Place {
    /// It is made when something is kept.
    Folder(PathBuf),
    Bucket(Box<Bucket>),
}

impl From<PathBuf> for Place {
    fn from(folder: PathBuf) -> Self {
        Self::Folder(folder)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "{}", folder.display()),
            Self::Bucket(bucket) => write!(f, "{bucket}"),
        }
    }
}

/// What tells one state of a file from another without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct About {
    /// When it was written, or what the bucket calls this state of it.
    pub mark: String,
    pub size: u64,
}

/// One file of a listing.
pub(crate) struct Listed {
    pub name: String,
    pub size: u64,
    pub modified: SystemTime,
}

impl Place {
    /// As a file of it is shown.
    pub(crate) fn file(&self, name: &str) -> String {
        match self {
            Self::Folder(folder) => folder.join(name).display().to_string(),
            Self::Bucket(bucket) => format!("{bucket}/{name}"),
        }
    }

    /// # Errors
    /// `NotFound` when it is not there; so for reading.
    pub(crate) fn about(&self, name: &str) -> Result<About> {
        match self {
            Self::Folder(folder) => {
                let about = fs::metadata(folder.join(name))?;
                let mark = match about.modified()?.duration_since(SystemTime::UNIX_EPOCH) {
                    Ok(after) => after.as_nanos().to_string(),
                    Err(before) => format!("-{}", before.duration().as_nanos()),
                };
                Ok(About { mark, size: about.len() })
            }
            Self::Bucket(bucket) => bucket.about(name),
        }
    }

    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>> {
        match self {
            Self::Folder(folder) => fs::read(folder.join(name)),
            Self::Bucket(bucket) => bucket.read(name),
        }
    }

    /// Bytes and name are there for good before this returns.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let folder = match self {
            Self::Folder(folder) => folder,
            Self::Bucket(bucket) => return bucket.write(name, bytes),
        };
        fs::create_dir_all(folder)?;
        let mut new = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder)?;
        new.write_all(bytes)?;
        new.as_file().sync_all()?;
        new.persist(folder.join(name)).map_err(|error| error.error)?;
        File::open(folder)?.sync_all()
    }

    /// One that is gone already is no error.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        let folder = match self {
            Self::Folder(folder) => folder,
            Self::Bucket(bucket) => return bucket.remove(name),
        };
        match fs::remove_file(folder.join(name)) {
            Err(error) if error.kind() != Io::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Every file; none where there is no folder yet.
    pub(crate) fn list(&self) -> Result<Vec<Listed>> {
        let folder = match self {
            Self::Folder(folder) => folder,
            Self::Bucket(bucket) => return bucket.list(),
        };
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == Io::NotFound => return Ok(Vec::new()),
            listed => listed?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry?;
            // A name that is no text is none of ours.
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
            match entry.metadata() {
                Err(error) if error.kind() == Io::NotFound => {}
                about => {
                    let about = about?;
                    found.push(Listed { name, size: about.len(), modified: about.modified()? });
                }
            }
        }
        Ok(found)
    }

    /// Takes away what a writer that died left in a folder; a bucket has no half written files.
    pub(crate) fn tidy(&self) {
        let Self::Folder(folder) = self else { return };
        let listed = self.list().unwrap_or_else(|error| {
            let folder = folder.display();
            tracing::warn!("unfinished archives stay, for they cannot be looked for: {folder}: {error}");
            Vec::new()
        });
        for file in listed.into_iter().filter(|file| file.name.starts_with(UNFINISHED)) {
            // One from the future counts as new: its writer may be at work.
            if file.modified.elapsed().is_ok_and(|age| age > ABANDONED)
                && let Err(error) = fs::remove_file(folder.join(&file.name))
            {
                tracing::warn!("an unfinished archive stays for now: {}: {error}", self.file(&file.name));
            }
        }
    }
}
