//! Files and folders of packs: errors that say what to do, durable writes, digests.

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use model::{ErrorKind, Problem, Result, io_kind};
use sha2::{Digest, Sha256};

/// Turns a failed operation on a file into a problem that names the place.
pub(crate) fn failed(place: &Path) -> impl FnOnce(io::Error) -> Problem + '_ {
    move |error| problem(place, error.kind(), error)
}

/// The same for an error that may have a failed file operation among its causes.
pub(crate) fn failed_within<E: Error + Send + Sync + 'static>(place: &Path) -> impl FnOnce(E) -> Problem + '_ {
    move |error| problem(place, io_kind(&error).unwrap_or(io::ErrorKind::Other), error)
}

fn problem(place: &Path, kind: io::ErrorKind, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Problem {
    use io::ErrorKind as Io;
    let cause = cause.into();
    let problem = match kind {
        Io::StorageFull | Io::QuotaExceeded => {
            Problem::new(ErrorKind::Unavailable, "datapack.disk_full", "the disk of the datapacks is full")
                .fix("free space there, or remove packs that are no longer needed")
        }
        Io::ReadOnlyFilesystem | Io::PermissionDenied => Problem::new(
            ErrorKind::Missing,
            "datapack.folder_not_writable",
            "the folder of the datapacks cannot be used",
        )
        .fix("choose a folder that this user may read and write"),
        Io::NotFound => Problem::new(ErrorKind::NotFound, "datapack.file_missing", "a file of the datapack is missing")
            .fix("build the datapack again, or download it again"),
        _ => Problem::new(ErrorKind::Unavailable, "datapack.disk_failed", "the datapacks' files cannot be used"),
    };
    problem.place(place.display().to_string()).found(cause.to_string()).cause(cause)
}

/// A file of a pack that is there and cannot be understood.
pub(crate) fn corrupt(place: &Path, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Problem {
    let cause = cause.into();
    Problem::new(ErrorKind::Failed, "datapack.file_corrupt", "a file of the datapack cannot be read")
        .place(place.display().to_string())
        .found(cause.to_string())
        .fix("check the datapack with `datapack verify`, then build it again")
        .cause(cause)
}

pub(crate) fn create_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(failed(path))
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(failed(path))
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

/// The names in a folder, sorted by bytes.
pub(crate) fn list(path: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(failed(path))? {
        names.push(entry.map_err(failed(path))?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Size and digest of a file, in one pass of constant memory.
pub(crate) fn digest(path: &Path) -> Result<(u64, String)> {
    let mut file = File::open(path).map_err(failed(path))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer).map_err(failed(path))? {
            0 => return Ok((bytes, hex::encode(hash.finalize()))),
            read => {
                hash.update(&buffer[..read]);
                bytes += read as u64;
            }
        }
    }
}

/// A new file that is digested while it is written.
pub(crate) struct Digesting {
    file: File,
    hash: Sha256,
    bytes: u64,
}

impl Digesting {
    pub fn create(path: &Path) -> Result<Self> {
        Ok(Self { file: File::create(path).map_err(failed(path))?, hash: Sha256::new(), bytes: 0 })
    }

    /// Waits until the file is on disk; gives its size and digest.
    pub fn finish(self) -> io::Result<(u64, String)> {
        self.file.sync_all()?;
        Ok((self.bytes, hex::encode(self.hash.finalize())))
    }
}

impl Write for Digesting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
