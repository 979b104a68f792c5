//! The data folder: one folder, one daemon. Held by a file lock for as long as the process lives.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind as IoKind, Write};
use std::path::{Path, PathBuf};

use model::{ErrorKind, Problem, Result};

/// A data folder that this process holds.
#[derive(Debug)]
pub struct DataFolder {
    path: PathBuf,
    _lock: File,
}

impl DataFolder {
    /// Makes the folder if it is not there, and takes its lock.
    ///
    /// # Errors
    /// `data.locked` when another process holds it, `data.read_only`, `data.full` and `data.unusable` when it cannot be
    /// written. Nothing is left behind in any of these cases.
    pub fn take(path: &Path) -> Result<Self> {
        std::fs::create_dir_all(path).map_err(|error| unusable(path, error))?;
        let path = path.canonicalize().map_err(|error| unusable(path, error))?;
        let file = path.join("lock");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&file)
            .map_err(|error| unusable(&path, error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(locked(&path, &file)),
            Err(TryLockError::Error(error)) => return Err(unusable(&path, error)),
        }
        let held = Self { path, _lock: lock };
        held.prove_writable()?;
        held.write_owner(&file)?;
        Ok(held)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Which data folder this is, wherever it is moved to: drawn when it is first used.
    pub fn identity(&self) -> Result<uuid::Uuid> {
        let path = self.path.join("id");
        match std::fs::read_to_string(&path) {
            Ok(text) => text.trim().parse().map_err(|error: uuid::Error| {
                Problem::new(ErrorKind::Invalid, "data.identity_malformed", "the data folder's identity cannot be read")
                    .place(path.display().to_string())
                    .found(error.to_string())
            }),
            Err(error) if error.kind() == IoKind::NotFound => {
                let identity = uuid::Uuid::new_v4();
                let new = self.path.join("id.new");
                let stored = std::fs::write(&new, format!("{identity}\n")).and_then(|()| std::fs::rename(&new, &path));
                stored.map_err(|error| unusable(&self.path, error))?;
                Ok(identity)
            }
            Err(error) => Err(unusable(&self.path, error)),
        }
    }

    /// A folder inside, made if it is not there.
    pub fn inner(&self, name: &str) -> Result<PathBuf> {
        let inner = self.path.join(name);
        std::fs::create_dir_all(&inner).map_err(|error| unusable(&inner, error))?;
        Ok(inner)
    }

    /// A full disk lets a file be made but not be filled, so a block is written, not only a name.
    fn prove_writable(&self) -> Result<()> {
        let probe = self.path.join(".probe");
        let written = File::create(&probe).and_then(|mut file| {
            file.write_all(&[0_u8; 256 * 1024])?;
            file.sync_all()
        });
        let removed = std::fs::remove_file(&probe);
        written.map_err(|error| unusable(&self.path, error))?;
        removed.map_err(|error| unusable(&self.path, error))
    }

    fn write_owner(&self, file: &Path) -> Result<()> {
        std::fs::write(file, format!("{}\n", std::process::id())).map_err(|error| unusable(&self.path, error))
    }
}

/// Takes the lock of a database file that lies outside of the data folder: one file, one daemon, as for the folder.
///
/// # Errors
/// `data.locked` when another daemon uses the file, `data.unusable` when the lock cannot be made.
pub fn lock_database(database: &Path) -> Result<File> {
    let mut file = database.as_os_str().to_owned();
    file.push(".lock");
    let file = PathBuf::from(file);
    let mut options = OpenOptions::new();
    let lock = options.create(true).truncate(false).read(true).write(true).open(&file);
    let mut lock = lock.map_err(|error| unusable(database, error))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(locked(database, &file)),
        Err(TryLockError::Error(error)) => return Err(unusable(database, error)),
    }
    let written = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
    written.map_err(|error| unusable(database, error))?;
    Ok(lock)
}

fn locked(path: &Path, file: &Path) -> Problem {
    let owner = std::fs::read_to_string(file).unwrap_or_default();
    let found = match owner.trim() {
        "" => "a lock held by another process".to_owned(),
        pid => format!("a lock held by process {pid}"),
    };
    Problem::new(ErrorKind::Conflict, "data.locked", "the data folder is in use by another daemon")
        .place(path.display().to_string())
        .found(found)
        .expected("one daemon for one data folder")
        .fix("stop the other one, or choose another folder with `--data`")
}

fn unusable(path: &Path, error: std::io::Error) -> Problem {
    let (kind, code, message, fix) = match error.kind() {
        IoKind::ReadOnlyFilesystem | IoKind::PermissionDenied => (
            ErrorKind::Missing,
            "data.read_only",
            "the data folder cannot be written",
            "choose a folder that this user may write, with `--data`",
        ),
        IoKind::StorageFull | IoKind::QuotaExceeded => (
            ErrorKind::Unavailable,
            "data.full",
            "the disk of the data folder is full",
            "free some space, or choose a folder on another disk with `--data`",
        ),
        _ => {
            (ErrorKind::Missing, "data.unusable", "the data folder cannot be used", "choose another one with `--data`")
        }
    };
    Problem::new(kind, code, message).place(path.display().to_string()).found(error.to_string()).fix(fix).cause(error)
}
