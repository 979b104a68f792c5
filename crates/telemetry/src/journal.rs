//! The append-only file that holds acknowledged requests until they are in segments.
//!
//! After eight bytes of format, each record is a head and two bodies. The head: length of the request (u32), length of the bits (u32), CRC-32 of all
//! that follows (u32), kind (u8), arrival (i64, microseconds since the Unix epoch). Then one bit for each record of the request that was
//! refused, then the request (protobuf). Numbers are little-endian. A record that is cut off or damaged ends the file: everything before it
//! was acknowledged.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use model::{ErrorKind, Problem, Result, WallTime};

use crate::Export;
use crate::convert::Refused;
use crate::disk::{failed, list};

const MAGIC: &[u8; 8] = b"aegisj02";
const HEAD: usize = 21;

/// A request as the journal has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub export: Export,
    pub arrived: WallTime,
    pub refused: Refused,
    pub body: &'a [u8],
}

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
        if let Err(error) = file.write_all(MAGIC) {
            // An empty file would only be in the way of the next attempt.
            let _ = fs::remove_file(&path);
            return Err(failed(&path)(error));
        }
        Ok(Self { file, path, length: MAGIC.len() as u64, sequence })
    }

    /// Appends a request. When this returns, the bytes are in the file: they survive the death of the process, not a loss of power.
    pub fn append(&mut self, record: &Record<'_>) -> Result<()> {
        let size = |bytes: &[u8]| u32::try_from(bytes.len()).expect("requests are limited far below 4 GiB");
        let bits = &record.refused.0;
        let mut head = Vec::with_capacity(HEAD + bits.len());
        head.extend_from_slice(&size(record.body).to_le_bytes());
        head.extend_from_slice(&size(bits).to_le_bytes());
        head.extend_from_slice(&[0; 4]);
        head.push(record.export as u8);
        head.extend_from_slice(&record.arrived.0.to_le_bytes());
        head.extend_from_slice(bits);
        let sum = checksum(&head[12..], record.body);
        head[8..12].copy_from_slice(&sum.to_le_bytes());
        let written = self.file.write_all(&head).and_then(|()| self.file.write_all(record.body));
        if let Err(error) = written {
            // What was written of it must not stand before the next record.
            self.file.set_len(self.length).map_err(failed(&self.path))?;
            self.file.seek(SeekFrom::End(0)).map_err(failed(&self.path))?;
            return Err(failed(&self.path)(error));
        }
        self.length += (head.len() + record.body.len()) as u64;
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.length == MAGIC.len() as u64
    }
}

fn path(folder: &Path, sequence: u64) -> PathBuf {
    folder.join(format!("{sequence}.log"))
}

fn checksum(head: &[u8], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(body);
    hasher.finalize()
}

/// The sequence numbers of the journals in a folder, ascending.
pub(crate) fn sequences(folder: &Path) -> Result<Vec<u64>> {
    let mut found: Vec<u64> = list(folder)?.iter().filter_map(|name| name.strip_suffix(".log")?.parse().ok()).collect();
    found.sort_unstable();
    Ok(found)
}

/// Bytes of a journal.
pub(crate) fn length(folder: &Path, sequence: u64) -> Result<u64> {
    let path = path(folder, sequence);
    Ok(fs::metadata(&path).map_err(failed(&path))?.len())
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
    /// # Errors
    /// `telemetry.journal_format_unknown` when another version wrote it, and those of the disk.
    pub fn load(folder: &Path, sequence: u64) -> Result<Self> {
        let path = path(folder, sequence);
        let bytes = fs::read(&path).map_err(failed(&path))?;
        let begun = &bytes[..bytes.len().min(MAGIC.len())];
        if !MAGIC.starts_with(begun) {
            let message = "a journal was written in another format";
            return Err(Problem::new(ErrorKind::Conflict, "telemetry.journal_format_unknown", message)
                .place(path.display().to_string())
                .found(format!("`{}`", begun.escape_ascii()))
                .expected(format!("`{}`", MAGIC.escape_ascii()))
                .fix("let the version of Aegis that wrote it open the folder once"));
        }
        Ok(Self { bytes, path })
    }

    /// Every whole record; says in the log how much of the file's end is not one.
    pub fn whole(&self) -> Vec<Record<'_>> {
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
fn first(bytes: &[u8]) -> Option<(Record<'_>, usize)> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let number = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
    let (length, bits, sum) = (number(0)? as usize, number(4)? as usize, number(8)?);
    let (refused, rest) = rest.split_at_checked(bits)?;
    let body = rest.get(..length)?;
    if checksum(&bytes[12..HEAD + bits], body) != sum {
        return None;
    }
    let export = *Export::ALL.get(usize::from(head[12]))?;
    let arrived = WallTime(i64::from_le_bytes(head[13..HEAD].try_into().ok()?));
    Some((Record { export, arrived, refused: Refused(refused.to_vec()), body }, HEAD + bits + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cut_keeps_the_whole_records_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(folder.path(), 7).unwrap();
        let record =
            |export, bits: &[u8], body| Record { export, arrived: WallTime(17), refused: Refused(bits.to_vec()), body };
        let (one, two) = (record(Export::Logs, &[], b"first"), record(Export::Traces, &[4, 1], b"second one"));
        journal.append(&one).unwrap();
        journal.append(&two).unwrap();
        let file = path(folder.path(), 7);
        let whole = fs::read(&file).unwrap();
        for length in 0..=whole.len() {
            fs::write(&file, &whole[..length]).unwrap();
            let records = Records::load(folder.path(), 7).unwrap();
            let expect = if length == whole.len() { 2 } else { usize::from(length >= 8 + HEAD + 5) };
            assert_eq!(records.whole(), [one.clone(), two.clone()][..expect], "cut at {length}");
        }
        let mut damaged = whole.clone();
        *damaged.last_mut().unwrap() ^= 1;
        fs::write(&file, &damaged).unwrap();
        assert_eq!(Records::load(folder.path(), 7).unwrap().whole(), [one]);
        assert_eq!(sequences(folder.path()).unwrap(), [7]);
        fs::write(&file, b"aegisj01 and more").unwrap();
        assert_eq!(Records::load(folder.path(), 7).err().unwrap().code, "telemetry.journal_format_unknown");
    }
}
