//! A published datapack: what is in it, whether it is intact, and its public form.
//!
//! ```text
//! <name>/sha256sum.txt            covers everything that was built
//! <name>/open/                    all that an algorithm sees: twelve parquet files, env.json, k8s.json, injection.json
//! <name>/sealed/manifest.json     content and provenance
//! <name>/sealed/injection.json    the public injection object, with the ground truth
//! <name>/sealed/truth.json        the ground truth with roles
//! <name>/sealed/conclusion.csv    what the detector said; attached later, covered by no checksum
//! <name>/sealed/converted/        the flat layout of the public algorithms; attached when asked for, covered by no checksum
//! ```
//! The public form is one flat folder: the open part, with the sealed `injection.json` in the place of the open one, the
//! manifest, the conclusion and the flat layout when there are, and a `sha256sum.txt` of just that.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use model::{ErrorKind, Problem, Result, Truth, Window};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::archive::zip_all;
use crate::check::check_columns;
use crate::conclusion::{self, ConclusionRow};
use crate::disk::{corrupt, create_folder, digest, failed, list, read, sync_folder, write_durably};
use crate::manifest::{Checksums, FORMAT, Manifest, check_truth};
use crate::schema::Signal;
use crate::{INJECTION_FILE, load};

mod verify;

pub use verify::Finding;

pub(crate) const OPEN: &str = "open";
pub(crate) const SEALED: &str = "sealed";
pub(crate) const SUMS_FILE: &str = "sha256sum.txt";
pub(crate) const MANIFEST_FILE: &str = "manifest.json";
pub(crate) const TRUTH_FILE: &str = "truth.json";
pub(crate) const CONCLUSION_FILE: &str = "conclusion.csv";
pub(crate) const CONVERTED: &str = "converted";

/// What others put beside a pack's files; no part of what was built.
pub(crate) const ATTACHMENTS: [&str; 2] = [CONVERTED, CONCLUSION_FILE];

/// One file of the public form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PublicFile {
    pub name: String,
    pub bytes: u64,
    pub sha256: String,
    /// Of a parquet file.
    pub rows: Option<u64>,
}

/// Where the bytes of a public file are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bytes {
    /// A whole file on disk.
    File(PathBuf),
    Memory(Vec<u8>),
}

/// A pack in its folder.
#[derive(Debug, Clone)]
pub struct Pack {
    folder: PathBuf,
    manifest: Manifest,
    sums: Checksums,
    /// The digest that was recorded elsewhere when the pack was published.
    recorded: Option<String>,
}

impl Pack {
    /// Reads the manifest and the checksums; [`Pack::verify`] reads the rest.
    ///
    /// # Errors
    /// `datapack.not_found`, `datapack.format_unknown`, `datapack.file_corrupt`.
    pub fn open(folder: &Path) -> Result<Self> {
        if !folder.is_dir() {
            return Err(Problem::new(ErrorKind::NotFound, "datapack.not_found", "there is no such datapack")
                .place(folder.display().to_string()));
        }
        let path = folder.join(SEALED).join(MANIFEST_FILE);
        let value: Value = parse(&path)?;
        let format = value.get("format").and_then(Value::as_u64);
        if format != Some(u64::from(FORMAT)) {
            let message = "the datapack was written in another format";
            return Err(Problem::new(ErrorKind::Conflict, "datapack.format_unknown", message)
                .place(path.display().to_string())
                .found(format.map_or_else(|| "no format".into(), |number| format!("format {number}")))
                .expected(format!("format {FORMAT}"))
                .fix("use the version of Aegis that wrote it"));
        }
        let manifest = serde_json::from_value(value).map_err(|error| corrupt(&path, error))?;
        let path = folder.join(SUMS_FILE);
        let text = String::from_utf8(read(&path)?).map_err(|error| corrupt(&path, error))?;
        Ok(Self { folder: folder.to_path_buf(), manifest, sums: Checksums::parse(&path, &text)?, recorded: None })
    }

    /// The same pack, which must have this [digest](Pack::digest): whoever changes a file and its checksum is found too.
    #[must_use]
    pub fn recorded(self, digest: Option<String>) -> Self {
        Self { recorded: digest, ..self }
    }

    pub fn name(&self) -> &str {
        &self.manifest.provenance.name
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder that may be shown to an algorithm, read-only.
    pub fn open_part(&self) -> PathBuf {
        self.folder.join(OPEN)
    }

    /// Every file that was built, as it is stored: `open/env.json`.
    pub fn built(&self) -> impl Iterator<Item = &str> {
        self.sums.0.keys().map(String::as_str)
    }

    /// The digest of `sha256sum.txt`: stored elsewhere, it also guards the checksums themselves.
    pub fn digest(&self) -> String {
        crate::disk::sha256(self.sums.to_string().as_bytes())
    }

    /// The ground truth with roles.
    ///
    /// # Errors
    /// `datapack.file_missing`, `datapack.file_corrupt`, `datapack.truth_service_twice`.
    pub fn truth(&self) -> Result<Truth> {
        let path = self.folder.join(SEALED).join(TRUTH_FILE);
        let truth = parse(&path)?;
        check_truth(&truth).map_err(|problem| problem.place(path.display().to_string()))?;
        Ok(truth)
    }

    /// The public injection object.
    pub fn injection(&self) -> Result<Map<String, Value>> {
        parse(&self.folder.join(SEALED).join(INJECTION_FILE))
    }

    /// The open part as frames. `load_generators` are left out of the candidates, besides the public names of one.
    pub fn load(&self, load_generators: &[String]) -> Result<rca::frame::Pack> {
        load::load(&self.open_part(), load_generators)
    }

    /// Calls `work` with every batch of one file, whose columns are the format's.
    ///
    /// # Errors
    /// `datapack.file_missing`, `datapack.file_corrupt`, `datapack.column_missing`, `datapack.column_type`.
    pub(crate) fn batches(
        &self,
        window: Window,
        signal: Signal,
        mut work: impl FnMut(&RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let path = self.open_part().join(signal.file(window));
        check_columns(&path, signal)?;
        let file = File::open(&path).map_err(failed(&path))?;
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).and_then(|builder| builder.build());
        for batch in reader.map_err(|error| corrupt(&path, error))? {
            work(&batch.map_err(|error| corrupt(&path, error))?)?;
        }
        Ok(())
    }

    /// The files of the public form, by name.
    pub fn files(&self) -> Result<Vec<PublicFile>> {
        let mut files = self.stored_files()?;
        let sums = self.public_sums(&files);
        files.push(PublicFile {
            name: SUMS_FILE.to_owned(),
            bytes: sums.len() as u64,
            sha256: crate::disk::sha256(sums.as_bytes()),
            rows: None,
        });
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(files)
    }

    /// The bytes of one public file. Only names that [`Pack::files`] lists lead anywhere.
    ///
    /// # Errors
    /// `datapack.file_unknown`.
    pub fn file(&self, name: &str) -> Result<Bytes> {
        if name == SUMS_FILE {
            return Ok(Bytes::Memory(self.public_sums(&self.stored_files()?).into_bytes()));
        }
        let files = self.stored_files()?;
        if !files.iter().any(|file| file.name == name) {
            let known = files.iter().map(|file| file.name.as_str()).chain([SUMS_FILE]);
            return Err(Problem::unknown("datapack.file_unknown", "file", name, known));
        }
        Ok(Bytes::File(self.folder.join(stored_name(name))))
    }

    /// Copies the public form into a new folder, or one that is empty.
    ///
    /// # Errors
    /// `datapack.destination_not_empty`.
    pub fn public_view(&self, folder: &Path) -> Result<()> {
        create_folder(folder)?;
        if !list(folder)?.is_empty() {
            let message = "the destination has files already";
            return Err(Problem::new(ErrorKind::Conflict, "datapack.destination_not_empty", message)
                .place(folder.display().to_string())
                .fix("choose another folder"));
        }
        for file in self.files()? {
            let to = folder.join(&file.name);
            create_folder(to.parent().unwrap_or(folder))?;
            match self.file(&file.name)? {
                Bytes::File(from) => fs::copy(&from, &to).map(|_| ()).map_err(failed(&from))?,
                Bytes::Memory(bytes) => fs::write(&to, bytes).map_err(failed(&to))?,
            }
        }
        Ok(())
    }

    /// Writes the public form as an archive with one folder of the pack's name. The same pack gives the same bytes.
    pub fn zip(&self, sink: impl Write) -> Result<()> {
        zip_all(std::slice::from_ref(self), &[], sink)
    }

    /// Attaches what the detector said; replaces an earlier one at once.
    ///
    /// # Errors
    /// `datapack.conclusion_malformed` when a number is not finite or a row names no endpoint.
    pub fn attach_conclusion(&self, rows: &[ConclusionRow]) -> Result<()> {
        let text = conclusion::write(rows)?;
        let sealed = self.folder.join(SEALED);
        let (new, to) =
            (sealed.join(format!(".{CONCLUSION_FILE}.{}", uuid::Uuid::new_v4())), sealed.join(CONCLUSION_FILE));
        write_durably(&new, &text)?;
        fs::rename(&new, &to).map_err(failed(&to))?;
        sync_folder(&sealed)
    }

    /// What the detector said, if it was attached.
    pub fn conclusion(&self) -> Result<Option<Vec<ConclusionRow>>> {
        let path = self.folder.join(SEALED).join(CONCLUSION_FILE);
        if !path.exists() {
            return Ok(None);
        }
        conclusion::read(&read(&path)?).map(Some).map_err(|error| corrupt(&path, error))
    }

    /// In what another pack differs from this one, ids and times of the build apart.
    pub(crate) fn differences(&self, other: &Self) -> Vec<String> {
        let truth = format!("{SEALED}/{TRUTH_FILE}");
        let counts = |name: &&String| name.starts_with(OPEN) || **name == truth;
        let mut names: Vec<&String> = self.sums.0.keys().chain(other.sums.0.keys()).filter(counts).collect();
        names.sort();
        names.dedup();
        let differs = |name: &&String| self.sums.0.get(*name) != other.sums.0.get(*name);
        let mut different: Vec<String> = names.into_iter().filter(differs).cloned().collect();
        if self.manifest.content != other.manifest.content {
            different.push("the manifest's content".to_owned());
        }
        different
    }

    /// Every public file that is on disk.
    fn stored_files(&self) -> Result<Vec<PublicFile>> {
        let rows: BTreeMap<&str, Option<u64>> =
            self.manifest.content.files.iter().map(|file| (file.name.as_str(), file.rows)).collect();
        let mut files = Vec::new();
        let built = rows.keys().copied().chain([INJECTION_FILE, MANIFEST_FILE]);
        for name in built {
            let stored = stored_name(name);
            let path = self.folder.join(&stored);
            let bytes = fs::metadata(&path).map_err(failed(&path))?.len();
            let sums = self.folder.join(SUMS_FILE);
            let sha256 = self.sums.0.get(&stored).cloned();
            let sha256 = sha256.ok_or_else(|| corrupt(&sums, format!("no line for `{stored}`")))?;
            files.push(PublicFile { name: name.to_owned(), bytes, sha256, rows: rows.get(name).copied().flatten() });
        }
        let path = self.folder.join(stored_name(CONCLUSION_FILE));
        if path.exists() {
            let (bytes, sha256) = digest(&path)?;
            files.push(PublicFile { name: CONCLUSION_FILE.to_owned(), bytes, sha256, rows: None });
        }
        let folder = self.folder.join(SEALED).join(CONVERTED);
        for file in if folder.exists() { list(&folder)? } else { Vec::new() } {
            let (bytes, sha256) = digest(&folder.join(&file))?;
            files.push(PublicFile { name: format!("{CONVERTED}/{file}"), bytes, sha256, rows: None });
        }
        Ok(files)
    }

    fn public_sums(&self, files: &[PublicFile]) -> String {
        Checksums(files.iter().map(|file| (file.name.clone(), file.sha256.clone())).collect()).to_string()
    }
}

/// Where a public file is stored.
fn stored_name(name: &str) -> String {
    let attached = name.strip_prefix(CONVERTED).is_some_and(|rest| rest.starts_with('/'));
    let sealed = attached || [INJECTION_FILE, MANIFEST_FILE, CONCLUSION_FILE].contains(&name);
    format!("{}/{name}", if sealed { SEALED } else { OPEN })
}

fn parse<T: DeserializeOwned>(path: &Path) -> Result<T> {
    serde_json::from_slice(&read(path)?).map_err(|error| corrupt(path, error))
}
