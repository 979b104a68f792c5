//! Packs as one zip archive, each in its public form in a folder of its own. The same packs give the same bytes.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use model::{Problem, Result};
use zip::write::{SimpleFileOptions, StreamWriter};
use zip::{CompressionMethod, DateTime, ZipWriter};

use crate::disk::failed;
use crate::pack::{Bytes, Pack};

/// Writes the packs, after the further files that are given by name.
pub fn zip_all(packs: &[Pack], more: &[(&str, &[u8])], sink: impl Write) -> Result<()> {
    let mut zip = ZipWriter::new_stream(sink);
    for (name, bytes) in more {
        zip.start_file(*name, options(false, bytes.len() as u64)).map_err(wrong)?;
        zip.write_all(bytes).map_err(failed(Path::new("archive")))?;
    }
    for pack in packs {
        add(&mut zip, pack)?;
    }
    zip.finish().map_err(wrong)?;
    Ok(())
}

fn add<W: Write>(zip: &mut ZipWriter<StreamWriter<W>>, pack: &Pack) -> Result<()> {
    for file in pack.files()? {
        zip.start_file(format!("{}/{}", pack.name(), file.name), options(file.rows.is_some(), file.bytes))
            .map_err(wrong)?;
        match pack.file(&file.name)? {
            Bytes::File(path) => {
                let mut file = File::open(&path).map_err(failed(&path))?;
                io::copy(&mut file, zip).map_err(failed(&path))?;
            }
            Bytes::Memory(bytes) => zip.write_all(&bytes).map_err(failed(Path::new("archive")))?,
        }
    }
    Ok(())
}

/// Parquet is compressed already.
fn options(stored: bool, bytes: u64) -> SimpleFileOptions {
    SimpleFileOptions::default()
        .compression_method(if stored { CompressionMethod::Stored } else { CompressionMethod::Deflated })
        .last_modified_time(DateTime::default())
        .unix_permissions(0o644)
        .large_file(bytes >= u64::from(u32::MAX))
}

fn wrong(error: zip::result::ZipError) -> Problem {
    match error {
        zip::result::ZipError::Io(error) => failed(Path::new("archive"))(error),
        error => Problem::internal("datapack.archive_failed", "the archive cannot be written").cause(error),
    }
}
