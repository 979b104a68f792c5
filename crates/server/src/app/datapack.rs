//! What is right and wrong with datapacks, in what two differ, their flat layout, and their export into others.

use std::path::{Path, PathBuf};

use ::datapack::Pack;
use ::datapack::diagnose::{self, diagnose};
use ::datapack::diff::{self, diff};
use api::datapack::{
    CellDiff, ClockSkew, Converted, Diagnosis, Diff, DiffQuery, DocumentDiff, ExportRequest, FileState, TableDiff,
};
use model::{ErrorKind, Problem, Result};

use super::App;
use super::download::{Download, broken};
use super::injection::blocking;

impl App {
    /// # Errors
    /// `datapack.unknown`, `datapack.disk_failed`.
    pub async fn diagnose(&self, name: &str) -> Result<Diagnosis> {
        let stored = self.find_injection(name).await?;
        // What is not published has no folder, and no folder is what the diagnosis starts from.
        let folder = self.packs().join(stored.pack_path.as_deref().unwrap_or(&stored.name));
        let (state, recorded) = (stored.state, stored.pack_digest);
        let found = blocking(move || diagnose(&folder, state, recorded)).await?;
        let quality = found.quality.map(serde_json::to_value).transpose().map_err(|error| {
            Problem::internal("datapack.report_malformed", "a quality report cannot be written").cause(error)
        })?;
        Ok(Diagnosis {
            injection_id: stored.id,
            injection_name: stored.name,
            state,
            health: found.health.as_str().to_owned(),
            missing_files: found.missing_files,
            empty_parquets: found.empty_parquets,
            unexpected_extras: found.unexpected_extras,
            parquets: found.parquets.into_iter().map(file_state).collect(),
            json: found.json.into_iter().map(file_state).collect(),
            quality,
            clock_skew: found.clock_skew.into_iter().map(clock_skew).collect(),
            notes: found.notes,
        })
    }

    /// # Errors
    /// `datapack.unknown`, `datapack.not_built`, `datapack.file_missing`, `datapack.file_corrupt`.
    pub async fn diff(&self, query: &DiffQuery) -> Result<Diff> {
        let (left, right) = (self.pack(&query.left).await?, self.pack(&query.right).await?);
        Ok(told(blocking(move || diff(&left, &right)).await?))
    }

    /// # Errors
    /// `datapack.unknown`, `datapack.not_built`, `datapack.checksum_mismatch`, and about its files as the query says them.
    pub async fn convert(&self, name: &str) -> Result<Converted> {
        let pack = self.as_built(name).await?;
        let name = pack.name().to_owned();
        let files = blocking(move || pack.convert()).await?;
        Ok(Converted { name, files: files.into_iter().map(|file| format!("converted/{file}")).collect() })
    }
}

impl App {
    /// A datapack that is as it was built: what is made of it passes nothing on that was damaged since.
    async fn as_built(&self, name: &str) -> Result<Pack> {
        let pack = self.pack(name).await?;
        blocking(move || pack.verify().map(|()| pack)).await
    }

    /// The datapacks in another layout, each made in a temporary folder when its turn comes. All are looked at before the
    /// first one is sent, so a damaged one is told instead of half an archive.
    ///
    /// # Errors
    /// `export.nothing_named`, `export.format_unsupported`, `export.format_unknown`, `datapack.unknown`, `datapack.not_built`,
    /// `datapack.checksum_mismatch`, `datapack.checksums_replaced`, `datapack.file_missing`, `datapack.file_unexpected`.
    pub async fn export(&self, request: &ExportRequest) -> Result<Download> {
        let layout = layout(&request.format)?;
        if request.packs.is_empty() {
            return Err(Problem::new(ErrorKind::Invalid, "export.nothing_named", "no datapack is named")
                .expected("names or numbers of datapacks"));
        }
        let mut packs = Vec::with_capacity(request.packs.len());
        for name in &request.packs {
            packs.push(self.as_built(name).await?);
        }
        let scratch = self.scratch()?;
        Ok(Download::new("application/x-tar", "export.tar".into(), None, move |sink| {
            let mut archive = tar::Builder::new(sink);
            archive.mode(tar::HeaderMode::Deterministic);
            for pack in &packs {
                let folder =
                    tempfile::Builder::new().prefix("export-").tempdir_in(&scratch).map_err(|error| broken(&error))?;
                layout(pack, folder.path())?;
                archive.append_dir_all(".", folder.path()).map_err(|error| broken(&error))?;
            }
            archive.finish().map_err(|error| broken(&error))
        }))
    }

    /// A folder for what is only needed for a moment.
    pub(super) fn scratch(&self) -> Result<PathBuf> {
        let folder = self.data().join(SCRATCH);
        std::fs::create_dir_all(&folder).map_err(|error| no_scratch(&folder, &error))?;
        Ok(folder)
    }
}

/// Writes one pack into a folder.
type Layout = fn(&Pack, &Path) -> Result<()>;

fn layout(format: &str) -> Result<Layout> {
    const KNOWN: [&str; 2] = ["rcaeval", "csv"];
    match format {
        "rcaeval" => Ok(|pack, to| pack.export_rcaeval(to).map(drop)),
        "csv" => Ok(|pack, to| pack.export_csv(to)),
        "openrca" => Err(Problem::new(ErrorKind::Invalid, "export.format_unsupported", "this layout is not supported")
            .found("`openrca`")
            .expected(KNOWN.join(" or "))),
        other => {
            let mut problem = Problem::unknown("export.format_unknown", "format", other, KNOWN);
            problem.kind = ErrorKind::Invalid;
            Err(problem)
        }
    }
}

fn file_state(file: diagnose::FileState) -> FileState {
    let diagnose::FileState { name, present, rows, size, code, problem } = file;
    FileState { name, present, rows, size, code, problem }
}

fn clock_skew(skew: diagnose::Skew) -> ClockSkew {
    let diagnose::Skew { service, calls, early, worst_ns } = skew;
    ClockSkew { service, calls, early, worst_ns }
}

fn told(found: diff::Diff) -> Diff {
    let cell = |diff::Cell { row, column, attribute, left, right }| CellDiff { row, column, attribute, left, right };
    let table = |diff::TableDiff { file, columns, rows, first }| TableDiff {
        file,
        columns,
        rows: rows.to_vec(),
        first: first.map(cell),
    };
    let document = |diff::DocumentDiff { file, at, left, right }| DocumentDiff { file, at, left, right };
    Diff {
        same: found.same,
        equal: found.equal,
        tables: found.tables.into_iter().map(table).collect(),
        documents: found.documents.into_iter().map(document).collect(),
    }
}

/// Within the data folder.
const SCRATCH: &str = "tmp";

/// Removes what an earlier life left there.
///
/// # Errors
/// `server.no_scratch`.
pub(super) fn forget_scratch(data: &Path) -> Result<()> {
    let folder = data.join(SCRATCH);
    match std::fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(no_scratch(&folder, &error)),
        _ => Ok(()),
    }
}

fn no_scratch(folder: &Path, error: &std::io::Error) -> Problem {
    Problem::new(ErrorKind::Missing, "server.no_scratch", "the folder for temporary files cannot be made anew")
        .place(folder.display().to_string())
        .found(error.to_string())
}
