//! Whether a pack is as it was built: its files against the checksums, and these against the digest that was recorded.

use std::collections::BTreeSet;

use model::{ErrorKind, Problem, Result, counted};
use rayon::prelude::*;

use super::{ATTACHMENTS, OPEN, Pack, SEALED, SUMS_FILE};
use crate::disk::{digest, list};

/// A stored file that is not what was built.
#[derive(Debug)]
pub struct Finding {
    /// Within the pack's folder: `open/env.json`.
    pub file: String,
    /// `datapack.checksum_mismatch`, `datapack.checksums_replaced`, `datapack.file_missing` or
    /// `datapack.file_unexpected`; else why it cannot be read.
    pub problem: Problem,
}

impl Pack {
    /// Reads everything that was built and compares it with the checksums, and these with the recorded digest.
    /// Attachments are not looked at.
    ///
    /// # Errors
    /// The first of [`Pack::findings`], with the number of the others.
    pub fn verify(&self) -> Result<()> {
        let mut findings = self.findings()?.into_iter();
        let Some(Finding { mut problem, .. }) = findings.next() else { return Ok(()) };
        match findings.len() {
            0 => Err(problem),
            others => {
                problem.message = format!("{} (and {} more)", problem.message, counted(others, "finding"));
                Err(problem)
            }
        }
    }

    /// Everything that is not as it was built: the checksums themselves first, then the files by name.
    ///
    /// # Errors
    /// `datapack.disk_failed`, `datapack.folder_not_writable` when the folder cannot be looked at.
    pub fn findings(&self) -> Result<Vec<Finding>> {
        let mut findings = Vec::from_iter(self.replaced());
        for part in [OPEN, SEALED] {
            findings.extend(self.unexpected(part)?);
        }
        let built = self.manifest.content.files.iter().map(|file| format!("{OPEN}/{}", file.name));
        let names: BTreeSet<String> = self.sums.0.keys().cloned().chain(built).collect();
        let names = Vec::from_iter(names);
        let looked: Vec<Option<Problem>> = names.par_iter().map(|name| self.verify_file(name).err()).collect();
        for (name, problem) in names.into_iter().zip(looked) {
            match problem {
                Some(problem) if problem.kind.retryable() => return Err(problem),
                Some(problem) => findings.push(Finding { file: name, problem }),
                None => {}
            }
        }
        Ok(findings)
    }

    /// The checksums agree with the files after a forgery, and not with what was recorded.
    pub(crate) fn replaced(&self) -> Option<Finding> {
        let (recorded, found) = (self.recorded.as_ref()?, self.digest());
        let message = "the checksums are not those that were recorded when the datapack was built";
        (*recorded != found).then(|| Finding {
            file: SUMS_FILE.to_owned(),
            problem: Problem::new(ErrorKind::Failed, "datapack.checksums_replaced", message)
                .place(SUMS_FILE)
                .found(found)
                .expected(recorded.clone())
                .fix("build the datapack again, or restore its folder from a backup"),
        })
    }

    fn unexpected(&self, part: &str) -> Result<Vec<Finding>> {
        let folder = self.folder.join(part);
        let names = if folder.is_dir() { list(&folder)? } else { Vec::new() };
        let strange = |name: &String| {
            let known = self.sums.0.contains_key(&format!("{part}/{name}"));
            !known && !name.starts_with('.') && !ATTACHMENTS.contains(&name.as_str())
        };
        let told = |name: String| {
            let file = format!("{part}/{name}");
            let message = "the datapack has a file that was not built";
            let problem = Problem::new(ErrorKind::Failed, "datapack.file_unexpected", message)
                .place(file.clone())
                .fix("remove the file");
            Finding { file, problem }
        };
        Ok(names.into_iter().filter(strange).map(told).collect())
    }

    /// Compares one stored file with its checksum, and this with the manifest.
    ///
    /// # Errors
    /// `datapack.checksum_mismatch`, `datapack.file_missing`.
    pub(crate) fn verify_file(&self, stored: &str) -> Result<()> {
        let sum = self.sums.0.get(stored).map_or("no checksum", String::as_str);
        let (_, found) = digest(&self.folder.join(stored))?;
        if found != sum {
            return Err(mismatch(stored, &found, sum));
        }
        let name = stored.strip_prefix(OPEN).and_then(|rest| rest.strip_prefix('/'));
        match self.manifest.content.files.iter().find(|file| Some(file.name.as_str()) == name) {
            Some(file) if file.sha256 != sum => Err(mismatch(stored, sum, &file.sha256)),
            _ => Ok(()),
        }
    }
}

fn mismatch(place: &str, found: &str, expected: &str) -> Problem {
    Problem::new(ErrorKind::Failed, "datapack.checksum_mismatch", "a file of the datapack was changed")
        .place(place)
        .found(found)
        .expected(expected)
        .fix("build the datapack again, or download it again")
}
