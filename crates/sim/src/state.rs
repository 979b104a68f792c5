//! What a slot of the simulated cluster holds on disk: enough to make the live simulation again from its origin.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use cluster::{FaultObject, JournalEntry, ReleaseSpec};
use model::{DataTime, ErrorKind, Problem, Slot, TruthEntry};
use serde::{Deserialize, Serialize};

/// Version of the folder's format.
pub const FORMAT: u32 = 1;

/// One slot. The file is replaced as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlotState {
    pub format: u32,
    pub slot: Slot,
    /// Highest fencing token seen.
    pub fence: i64,
    /// Counts every write.
    pub revision: u64,
    pub release: Option<Release>,
    /// The last effect on this slot. It is in the journal, or the next one to look puts it there.
    pub last_effect: Option<JournalEntry>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Release {
    pub spec: ReleaseSpec,
    pub installed_at: DataTime,
    /// Data time that has passed, with its telemetry handed over.
    pub committed: DataTime,
    pub faults: Vec<FaultRecord>,
    /// What happened, in order: replaying it gives the live simulation again.
    pub history: Vec<Moment>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FaultRecord {
    pub object: FaultObject,
    /// SHA-256 of the rendered object.
    pub manifest_digest: String,
    pub started_at: DataTime,
    pub ended_at: Option<DataTime>,
    pub pods: Vec<String>,
    pub truth: Vec<TruthEntry>,
}

/// One thing that the simulation went through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// Time passed up to here.
    Until(DataTime),
    /// The fault at this position started.
    Start(usize),
    End(usize),
}

impl SlotState {
    pub const fn new(slot: Slot) -> Self {
        Self { format: FORMAT, slot, fence: 0, revision: 0, release: None, last_effect: None }
    }

    /// # Errors
    /// `release.absent`.
    pub fn release(&self) -> Result<&Release, Problem> {
        self.release.as_ref().ok_or_else(|| absent(&self.slot))
    }

    /// # Errors
    /// `release.absent`.
    pub fn release_mut(&mut self) -> Result<&mut Release, Problem> {
        self.release.as_mut().ok_or_else(|| absent(&self.slot))
    }
}

fn absent(slot: &Slot) -> Problem {
    Problem::new(ErrorKind::NotFound, "release.absent", "nothing is installed in the slot")
        .place(format!("namespace {slot}"))
        .expected("a release")
        .fix("install the system first")
}

/// The files of one folder.
#[derive(Debug, Clone)]
pub struct Folder {
    root: PathBuf,
}

/// A lock over processes and threads, free again when dropped or when its process ends in any way.
#[derive(Debug)]
pub struct FileLock {
    _file: File,
}

impl Folder {
    /// Opens or makes the folder.
    ///
    /// # Errors
    /// `cluster.format_unknown`, `cluster.folder_unusable`.
    pub fn open(root: &Path) -> Result<Self, Problem> {
        let folder = Self { root: root.to_owned() };
        fs::create_dir_all(folder.slots()).map_err(|error| folder.unusable(error))?;
        let _guard = folder.lock()?;
        let marker = root.join("format");
        match fs::read_to_string(&marker) {
            Ok(text) if text.trim() == FORMAT.to_string() => {}
            Ok(text) => {
                return Err(Problem::new(
                    ErrorKind::Conflict,
                    "cluster.format_unknown",
                    "the folder has another format",
                )
                .place(marker.display().to_string())
                .found(format!("`{}`", text.trim()))
                .expected(format!("`{FORMAT}`"))
                .fix("use the program that wrote it, or another folder"));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                folder.replace(&marker, format!("{FORMAT}\n").as_bytes())?;
            }
            Err(error) => return Err(folder.unusable(error)),
        }
        Ok(folder)
    }

    /// The lock under which numbers of effects are given.
    pub fn lock(&self) -> Result<FileLock, Problem> {
        self.lock_file(&self.root.join("lock"))
    }

    /// The lock of one slot, held while it changes.
    pub fn lock_slot(&self, slot: &Slot) -> Result<FileLock, Problem> {
        self.lock_file(&self.slots().join(format!("{slot}.lock")))
    }

    fn lock_file(&self, path: &Path) -> Result<FileLock, Problem> {
        let open = File::options().create(true).truncate(false).write(true).open(path);
        let file = open.map_err(|error| self.unusable(error))?;
        file.lock().map_err(|error| self.unusable(error))?;
        Ok(FileLock { _file: file })
    }

    pub fn journal_path(&self) -> PathBuf {
        self.root.join("journal.ndjson")
    }

    fn slots(&self) -> PathBuf {
        self.root.join("slots")
    }

    fn slot_path(&self, namespace: &str) -> PathBuf {
        self.slots().join(format!("{namespace}.json"))
    }

    /// The slot's state, or an empty one.
    ///
    /// # Errors
    /// `cluster.folder_unusable`, `cluster.state_damaged`.
    pub fn read(&self, slot: &Slot) -> Result<SlotState, Problem> {
        Ok(self.read_file(&self.slot_path(&slot.namespace()))?.unwrap_or_else(|| SlotState::new(slot.clone())))
    }

    /// Every slot that was ever used, by name.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_all(&self) -> Result<Vec<SlotState>, Problem> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(self.slots()).map_err(|error| self.unusable(error))? {
            let path = entry.map_err(|error| self.unusable(error))?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                paths.push(path);
            }
        }
        paths.sort();
        let states = paths.iter().map(|path| self.read_file(path));
        states.filter_map(Result::transpose).collect()
    }

    fn read_file(&self, path: &Path) -> Result<Option<SlotState>, Problem> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.unusable(error)),
        };
        serde_json::from_slice(&bytes).map(Some).map_err(|error| {
            Problem::internal("cluster.state_damaged", "a slot's state cannot be read")
                .place(path.display().to_string())
                .found(error.to_string())
                .expected("the JSON that this program writes")
                .fix("restore the file from a backup, or remove it: the slot then counts as empty")
        })
    }

    /// Writes the slot's state in the place of the old one.
    ///
    /// # Errors
    /// `cluster.folder_unusable`.
    pub fn write(&self, state: &mut SlotState) -> Result<(), Problem> {
        state.revision += 1;
        let bytes = serde_json::to_vec(state).map_err(|error| {
            Problem::internal("cluster.state_unwritable", "a slot's state has no JSON form").cause(error)
        })?;
        self.replace(&self.slot_path(&state.slot.namespace()), &bytes)
    }

    /// Replaces a file whole: another name, to disk, then renamed, and the folder to disk.
    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), Problem> {
        let draft = path.with_extension("draft");
        let written = (|| {
            let mut file = File::create(&draft)?;
            file.write_all(bytes)?;
            file.sync_data()?;
            fs::rename(&draft, path)?;
            File::open(path.parent().unwrap_or(&self.root))?.sync_all()
        })();
        written.map_err(|error| self.unusable(error))
    }

    pub fn unusable(&self, error: io::Error) -> Problem {
        Problem::new(ErrorKind::Unavailable, "cluster.folder_unusable", "the simulated cluster's folder cannot be used")
            .place(self.root.display().to_string())
            .found(error.to_string())
            .expected("a folder that can be read and written")
            .fix("check the path, its owner and the free space")
            .cause(error)
    }
}
