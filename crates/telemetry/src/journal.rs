//! The append-only file that holds acknowledged requests until they are in segments.
//!
//! After eight bytes of format, each record is: length of the body (u32), CRC-32 of kind and body (u32), kind (u8), body (the protobuf as
//! received); numbers little-endian. A record that is cut off or damaged ends the file: everything before it was acknowledged.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use model::Result;

use crate::Export;
use crate::disk::{failed, list};

const MAGIC: &[u8; 8] = b"aegisj01";
const HEAD: usize = 9;

/// A journal that is being written.
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
    length: u64,
    pub sequence: u64,
}

impl Journal {
    pub fn create(folder: &Path, sequence: u64) -> Result<Self> {
        let path = path(folder, sequence);
        let mut file = File::create_new(&path).map_err(failed(&path))?;
        file.write_all(MAGIC).map_err(failed(&path))?;
        Ok(Self { file, path, length: MAGIC.len() as u64, sequence })
    }

    /// Appends a request. When this returns, the bytes are in the file: they survive the death of the process, not a loss of power.
    pub fn append(&mut self, export: Export, body: &[u8]) -> Result<()> {
        let length = u32::try_from(body.len()).expect("requests are limited far below 4 GiB");
        let kind = export as u8;
        let mut head = [0; HEAD];
        head[..4].copy_from_slice(&length.to_le_bytes());
        head[4..8].copy_from_slice(&checksum(kind, body).to_le_bytes());
        head[8] = kind;
        let written = self.file.write_all(&head).and_then(|()| self.file.write_all(body));
        if let Err(error) = written {
            // What was written of it must not stand before the next record.
            use io::{Seek, SeekFrom};
            self.file.set_len(self.length).map_err(failed(&self.path))?;
            self.file.seek(SeekFrom::End(0)).map_err(failed(&self.path))?;
            return Err(failed(&self.path)(error));
        }
        self.length += (HEAD + body.len()) as u64;
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.length == MAGIC.len() as u64
    }
}

fn path(folder: &Path, sequence: u64) -> PathBuf {
    folder.join(format!("{sequence}.log"))
}

fn checksum(kind: u8, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[kind]);
    hasher.update(body);
    hasher.finalize()
}

/// The sequence numbers of the journals in a folder, ascending.
pub(crate) fn sequences(folder: &Path) -> Result<Vec<u64>> {
    let mut found: Vec<u64> = list(folder)?.iter().filter_map(|name| name.strip_suffix(".log")?.parse().ok()).collect();
    found.sort_unstable();
    Ok(found)
}

pub(crate) fn delete(folder: &Path, sequence: u64) -> Result<()> {
    let path = path(folder, sequence);
    fs::remove_file(&path).map_err(failed(&path))
}

/// The requests of a journal, in the order of their arrival.
pub(crate) struct Records {
    bytes: Vec<u8>,
    path: PathBuf,
}

impl Records {
    pub fn load(folder: &Path, sequence: u64) -> Result<Self> {
        let path = path(folder, sequence);
        Ok(Self { bytes: fs::read(&path).map_err(failed(&path))?, path })
    }

    /// Every whole record; says in the log how much of the file's end is not one.
    pub fn whole(&self) -> Vec<(Export, &[u8])> {
        let mut rest = self.bytes.strip_prefix(MAGIC).unwrap_or(&[]);
        let mut records = Vec::new();
        while let Some((record, length)) = first(rest) {
            records.push(record);
            rest = &rest[length..];
        }
        if !rest.is_empty() {
            tracing::warn!(journal = %self.path.display(), bytes = rest.len(), "cut off a record that was never acknowledged");
        }
        records
    }
}

/// The first record and its length in the file, unless it is cut off or damaged.
fn first(bytes: &[u8]) -> Option<((Export, &[u8]), usize)> {
    let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (length, sum, kind) = (number(0)? as usize, number(4)?, *bytes.get(8)?);
    let body = bytes.get(HEAD..)?.get(..length)?;
    let export = *Export::ALL.get(usize::from(kind))?;
    (checksum(kind, body) == sum).then_some(((export, body), HEAD + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cut_keeps_the_whole_records_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(folder.path(), 7).unwrap();
        journal.append(Export::Logs, b"first").unwrap();
        journal.append(Export::Traces, b"second one").unwrap();
        let file = path(folder.path(), 7);
        let whole = fs::read(&file).unwrap();
        for length in 0..=whole.len() {
            fs::write(&file, &whole[..length]).unwrap();
            let records = Records::load(folder.path(), 7).unwrap();
            let expect = if length == whole.len() { 2 } else { usize::from(length >= 8 + HEAD + 5) };
            assert_eq!(records.whole().len(), expect, "cut at {length}");
        }
        let mut damaged = whole.clone();
        *damaged.last_mut().unwrap() ^= 1;
        fs::write(&file, &damaged).unwrap();
        let records = Records::load(folder.path(), 7).unwrap();
        assert_eq!(records.whole(), [(Export::Logs, &b"first"[..])]);
        assert_eq!(sequences(folder.path()).unwrap(), [7]);
    }
}
