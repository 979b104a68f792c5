//! `datapack export`: datapacks in the layouts of other programs.

use std::fs;
use std::path::PathBuf;

use api::datapack::ExportRequest;
use clap::Args;
use client::{Client, Failure};
use model::{ErrorKind, Problem, counted};
use serde_json::json;

use crate::session::Session;

#[derive(Debug, Args)]
pub struct Arguments {
    /// Names or numbers of datapacks
    #[arg(value_name = "PACK", required = true)]
    packs: Vec<String>,
    /// `rcaeval`: a folder `<system>/<service>_<fault>/<pack>` each; `csv`: a folder of CSV files each
    #[arg(long, value_name = "FORMAT")]
    format: String,
    /// Folder to write into; made if it is not there
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
}

/// Files that are there already are not replaced.
pub fn run(arguments: Arguments, session: &Session, client: &Client) -> Result<(), Failure> {
    let request = ExportRequest { packs: arguments.packs, format: arguments.format };
    let body = client.export(&request)?.into_body();
    let not_written = |error: std::io::Error| -> Failure {
        Problem::new(ErrorKind::Missing, "export.not_written", "the export cannot be written, or was cut short")
            .place(arguments.to.display().to_string())
            .found(error.to_string())
            .into()
    };
    fs::create_dir_all(&arguments.to).map_err(not_written)?;
    let mut archive = tar::Archive::new(body.into_with_config().limit(u64::MAX).reader());
    archive.set_preserve_mtime(false);
    archive.set_overwrite(false);
    let (mut files, mut bytes) = (0, 0);
    for entry in archive.entries().map_err(not_written)? {
        let mut entry = entry.map_err(not_written)?;
        if entry.header().entry_type().is_file() {
            files += 1;
            bytes += entry.size();
        }
        // Never leaves the folder: an entry that would is not unpacked.
        if !entry.unpack_in(&arguments.to).map_err(not_written)? {
            let path = entry.path().map(|path| path.display().to_string()).unwrap_or_default();
            return Err(Problem::internal("download.path_unsafe", "the server named a file outside the folder")
                .found(format!("`{path}`"))
                .into());
        }
    }
    let answer = json!({"path": arguments.to, "packs": request.packs.len(), "files": files, "size": bytes});
    session.out.record(&answer, || {
        vec![
            ("Path", arguments.to.display().to_string()),
            ("Packs", request.packs.len().to_string()),
            ("Files", files.to_string()),
            ("Bytes", bytes.to_string()),
        ]
    })?;
    session.out.say(format!("exported {}", counted(request.packs.len(), "datapack")));
    Ok(())
}
