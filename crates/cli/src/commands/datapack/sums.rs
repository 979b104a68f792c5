//! Whether a download is what was built: each file against the `sha256sum.txt` that came with it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use client::Failure;
use model::{ErrorKind, Problem};
use sha2::{Digest, Sha256};
use zip::ZipArchive;
use zip::result::ZipError;

/// The file with the checksums of all others.
pub const FILE: &str = "sha256sum.txt";

/// What may be added to a datapack after it was built, and has no checksum.
fn is_attachment(name: &str) -> bool {
    name == "conclusion.csv" || name.starts_with("converted/")
}

/// Compares the digests of what arrived, by name, with the text of `sha256sum.txt`.
///
/// # Errors
/// `download.checksums_missing`, `download.checksum_mismatch`, `download.file_missing`, `download.file_unexpected`.
pub fn check(pack: &str, digests: &BTreeMap<String, String>, sums: Option<&str>) -> Result<(), Failure> {
    let sums = sums.ok_or_else(|| {
        refused(pack, "download.checksums_missing", "the download has no checksums, so it cannot be trusted")
            .place(FILE)
            .expected(format!("a file `{FILE}`"))
    })?;
    let mut listed = BTreeMap::new();
    for line in sums.lines() {
        let (sum, name) = line.split_once("  ").unwrap_or((line, ""));
        if sum.len() != 64 || name.is_empty() {
            return Err(refused(pack, "download.checksums_missing", "the download's checksums cannot be read")
                .place(FILE)
                .found(format!("the line `{line}`"))
                .expected("a SHA-256, two spaces and a name")
                .into());
        }
        listed.insert(name, sum);
    }
    for (name, sum) in &listed {
        let Some(found) = digests.get(*name) else {
            return Err(refused(pack, "download.file_missing", "a file of the datapack did not arrive")
                .place(*name)
                .into());
        };
        if found != sum {
            return Err(refused(pack, "download.checksum_mismatch", "a file is not what was built")
                .place(*name)
                .found(format!("SHA-256 {found}"))
                .expected(format!("SHA-256 {sum}"))
                .into());
        }
    }
    let stranger = digests
        .keys()
        .find(|name| name.as_str() != FILE && !is_attachment(name) && !listed.contains_key(name.as_str()));
    match stranger {
        Some(name) => Err(refused(pack, "download.file_unexpected", "the download has a file without a checksum")
            .place(name.as_str())
            .into()),
        None => Ok(()),
    }
}

/// Compares every file in an archive with the checksums in it.
///
/// # Errors
/// As [`check`]; `download.archive_broken` when it is no archive or a part of it cannot be read.
pub fn check_archive(pack: &str, path: &Path) -> Result<(), Failure> {
    let broken = |error: ZipError| {
        refused(pack, "download.archive_broken", "the download is no archive that can be read").found(error.to_string())
    };
    let file = File::open(path).map_err(|error| broken(error.into()))?;
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(broken)?;
    let (mut digests, mut sums) = (BTreeMap::new(), None);
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(broken)?;
        if entry.is_dir() {
            continue;
        }
        // Everything is in one folder of the datapack's name.
        let whole = entry.name().map_err(broken)?.into_owned();
        let name = whole.split_once('/').map_or(whole.as_str(), |(_, name)| name).to_owned();
        if name == FILE {
            let mut text = String::new();
            entry.read_to_string(&mut text).map_err(|error| broken(error.into()))?;
            sums = Some(text);
            continue;
        }
        digests.insert(name, digest(&mut entry).map_err(|error| broken(error.into()))?);
    }
    check(pack, &digests, sums.as_deref())
}

fn digest(reader: &mut impl Read) -> io::Result<String> {
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 64 * 1024]);
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(hex::encode(hash.finalize())),
            read => hash.update(&buffer[..read]),
        }
    }
}

fn refused(pack: &str, code: &'static str, message: &str) -> Problem {
    Problem::new(ErrorKind::Failed, code, message).fix(format!(
        "nothing was kept: download it again; `aegisctl datapack verify {pack}` says whether the server's own copy is damaged"
    ))
}
