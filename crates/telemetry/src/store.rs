//! The embedded signal store: what is in its folder, and how it is read, replaced, removed and expired.
//!
//! ```text
//! DIR/lock                                   held while the visible chunks change
//! DIR/format                                 the format version
//! DIR/runs/<run>/<namespace>/<chunk>/        manifest.json, traces-0.parquet, ...
//! DIR/live/<namespace>/<chunk>/              the same for what came from the network
//! DIR/journal/<sequence>.log                 acknowledged requests that are in no chunk yet
//! DIR/staging/<instance>/                    chunks that are being written
//! ```

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use arrow::array::RecordBatch;
use model::{DataTime, ErrorKind, Problem, Result, RunId, WallTime};
use uuid::Uuid;

use crate::chunk::{ChunkName, ChunkWriter, FORMAT, MANIFEST, Manifest};
use crate::convert::TimeBounds;
use crate::disk::{GONE, create_folder, failed, folder_name, list, lock, sync_folder, try_lock, write_durably};
use crate::ingest::{Ingest, Receiver};
use crate::limits::{Limits, Reserved};
use crate::rows::Rows;
use crate::segment::{self, Filter};
use crate::status::{Counters, Status};
use crate::step::StepWriter;
use crate::upkeep::reading;
use crate::{Query, Signal, Stream, table};

/// The limits of a store. [`Options::default`] is what the product uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The largest request from the network, bytes of protobuf after decompression.
    pub request_bytes: usize,
    /// Requests from the network that are in memory at one time, bytes; at least two of the largest ones have room.
    pub body_bytes: usize,
    pub limits: Limits,
    /// What any record's timestamp must be within, also that of a simulated one.
    pub times: TimeBounds,
    /// Rows of one signal held in memory before they are written to a segment, bytes.
    pub spill_bytes: usize,
    /// Received rows held in memory before they are written to segments, bytes.
    pub flush_bytes: usize,
    /// Received rows held in memory at most, bytes; beyond that senders wait, then are told to come back.
    pub queue_bytes: usize,
    /// Journals that could not be turned into segments, bytes; beyond that senders are told to come back.
    pub backlog_bytes: u64,
    /// How long received rows may wait before they are written to segments. A read in the same process does not wait for it.
    pub flush_age: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            request_bytes: 16 << 20,
            body_bytes: 64 << 20,
            limits: Limits::default(),
            times: TimeBounds::default(),
            spill_bytes: 24 << 20,
            flush_bytes: 32 << 20,
            queue_bytes: 64 << 20,
            backlog_bytes: 512 << 20,
            flush_age: Duration::from_secs(60),
        }
    }
}

/// How much a store holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    pub streams: u64,
    pub chunks: u64,
    pub rows: BTreeMap<Signal, u64>,
    /// Bytes of segments.
    pub bytes: u64,
}

/// A store in one folder. Clones share it; several processes may open the same folder.
#[derive(Clone)]
pub struct SignalStore {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    root: PathBuf,
    pub options: Options,
    staging: PathBuf,
    /// Held for the life of this instance: tells others that its staging folder is in use.
    _alive: File,
    staged: AtomicU64,
    /// Manifests never change and their folders are never named alike, so what was read once stays true.
    manifests: Mutex<HashMap<PathBuf, Arc<Manifest>>>,
    pub counters: Mutex<Counters>,
    /// Namespaces that the limit of distinct ones does not shut out.
    pub reserved: Mutex<Reserved>,
    pub receiver: Mutex<Weak<Receiver>>,
}

/// A poisoned lock guards counters and caches only, which stay usable after a panic elsewhere.
pub(crate) fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SignalStore {
    /// Opens or makes the store in `folder`, removes what an earlier process left half done, and recovers what it had acknowledged.
    ///
    /// # Errors
    /// `telemetry.format_unknown`, `telemetry.folder_not_writable`, `telemetry.disk_full`.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(folder, Options::default())
    }

    /// The same with other limits.
    pub fn open_with(folder: impl AsRef<Path>, options: Options) -> Result<Self> {
        let root = folder.as_ref().to_path_buf();
        create_folder(&root)?;
        let opening = lock(&root.join("lock"))?;
        check_format(&root)?;
        let staging = root.join("staging");
        for folder in [&staging, &root.join("journal"), &root.join("runs"), &root.join("live")] {
            create_folder(folder)?;
        }
        remove_abandoned(&staging)?;
        let instance = Uuid::new_v4().to_string();
        let alive = lock(&staging.join(format!("{instance}.alive")))?;
        let staging = staging.join(instance);
        create_folder(&staging)?;
        drop(opening);
        let inner = Inner {
            root,
            options,
            staging,
            _alive: alive,
            staged: AtomicU64::new(0),
            manifests: Mutex::default(),
            counters: Mutex::default(),
            reserved: Mutex::default(),
            receiver: Mutex::default(),
        };
        let store = Self { inner: Arc::new(inner) };
        crate::ingest::recover(&store.inner)?;
        Ok(store)
    }

    /// Says which namespaces always have room, in the place of those said before. Records of others are refused when their
    /// namespaces are more than [`Limits::namespaces`], whoever came first.
    pub fn reserve_namespaces(&self, names: impl IntoIterator<Item = String>) {
        *guard(&self.inner.reserved) = Reserved::new(names.into_iter().collect());
    }

    /// Begins the step `[from, to)` of a simulated run. Nothing of it is visible before it is committed; dropped, it leaves nothing.
    ///
    /// # Errors
    /// `step.window_empty`, `step.time_out_of_range`, and those of the disk.
    pub fn step(&self, stream: &Stream, from: DataTime, to: DataTime) -> Result<StepWriter> {
        StepWriter::begin(self.clone(), stream.clone(), from, to)
    }

    /// The entrance for records from the network. One process at a time has it.
    ///
    /// # Errors
    /// `telemetry.journal_in_use` when another process receives into this folder.
    pub fn ingest(&self) -> Result<Ingest> {
        Ingest::begin(self)
    }

    /// The rows of one signal of a namespace in `[from, to)`, in their total order, as batches of [`Signal::schema`].
    ///
    /// A row belongs to a namespace when its resource names it as `k8s.namespace.name` or as `service.namespace`. Events of Kubernetes
    /// are left out of logs. What this process has acknowledged is included.
    pub fn read(&self, query: &Query) -> Result<Vec<RecordBatch>> {
        Ok(self.scan(query)?.collect())
    }

    /// The same, one batch at a time: equal texts are held once until their batch is made.
    pub fn scan(&self, query: &Query) -> Result<Rows> {
        self.flush_received(query.run)?;
        settled(|| self.inner.load(query))
    }

    /// The streams that have at least one chunk, in order.
    pub fn streams(&self) -> Result<Vec<Stream>> {
        settled(|| {
            let mut streams = Vec::new();
            for folder in self.inner.stream_folders()? {
                if let Some((_, chunk)) = self.inner.visible(&folder)?.first() {
                    streams.push(self.inner.manifest(chunk)?.stream.clone());
                }
            }
            streams.sort();
            Ok(streams)
        })
    }

    /// Removes a stream. Says whether there was one.
    pub fn remove(&self, stream: &Stream) -> Result<bool> {
        self.flush_received(stream.run)?;
        let _changing = self.inner.change()?;
        let folder = self.inner.stream_folder(stream);
        let existed = folder.exists();
        if existed {
            self.inner.delete(&folder)?;
        }
        Ok(existed)
    }

    /// The latest timestamp of any signal of a namespace.
    pub fn freshness(&self, namespace: &str, run: Option<RunId>) -> Result<Option<DataTime>> {
        let receiver = if run.is_none() { self.receiver() } else { None };
        let received = receiver.and_then(|receiver| receiver.latest(namespace));
        settled(|| {
            let _held = self.inner.hold(run)?;
            let mut latest = received;
            for chunk in self.inner.chunks_of(run)? {
                let manifest = self.inner.manifest(&chunk)?;
                let extents = manifest.segments.iter().filter_map(|segment| segment.namespaces.get(namespace));
                latest = latest.max(extents.map(|extent| extent.last).max());
            }
            Ok(latest)
        })
    }

    pub fn stats(&self) -> Result<Stats> {
        settled(|| self.count())
    }

    fn count(&self) -> Result<Stats> {
        let mut stats = Stats::default();
        for folder in self.inner.stream_folders()? {
            let _held = reading(&folder)?;
            let chunks = self.inner.visible(&folder)?;
            stats.streams += u64::from(!chunks.is_empty());
            stats.chunks += chunks.len() as u64;
            for (_, chunk) in chunks {
                for segment in &self.inner.manifest(&chunk)?.segments {
                    *stats.rows.entry(segment.signal).or_default() += segment.rows;
                    stats.bytes += segment.bytes;
                }
            }
        }
        Ok(stats)
    }

    /// What this process has accepted and refused since it opened the store.
    pub fn status(&self) -> Status {
        let queue = self.receiver().map(|receiver| receiver.queue());
        guard(&self.inner.counters).status(queue)
    }

    /// Turns what this process has acknowledged into segments, when it can belong to streams of `run`.
    pub(crate) fn flush_received(&self, run: Option<RunId>) -> Result<()> {
        match self.receiver() {
            Some(receiver) if run.is_none() => receiver.flush(),
            _ => Ok(()),
        }
    }

    pub(crate) fn receiver(&self) -> Option<Arc<Receiver>> {
        guard(&self.inner.receiver).upgrade()
    }
}

/// What `look` sees when nothing it looks at goes away meanwhile. A chunk may be replaced between listing and reading; the next listing
/// has its successor.
pub(crate) fn settled<T>(look: impl Fn() -> Result<T>) -> Result<T> {
    let mut tries = 0;
    loop {
        match look() {
            Err(problem) if problem.code == GONE && tries < 8 => tries += 1,
            other => return other,
        }
    }
}

fn check_format(root: &Path) -> Result<()> {
    let path = root.join("format");
    match fs::read_to_string(&path) {
        Ok(text) if text.trim() == FORMAT.to_string() => Ok(()),
        Ok(text) => {
            let message = "the signal store was written in another format";
            Err(Problem::new(ErrorKind::Conflict, "telemetry.format_unknown", message)
                .place(path.display().to_string())
                .found(format!("`{}`", text.trim()))
                .expected(format!("`{FORMAT}`"))
                .fix("use the version of Aegis that wrote it, or another folder"))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            write_durably(&path, format!("{FORMAT}\n").as_bytes())
        }
        Err(error) => Err(failed(&path)(error)),
    }
}

/// Removes the staging folders of instances that are gone.
fn remove_abandoned(staging: &Path) -> Result<()> {
    for name in list(staging)? {
        let Some(instance) = name.strip_suffix(".alive") else { continue };
        let alive = staging.join(&name);
        if try_lock(&alive)?.is_none() {
            continue;
        }
        let folder = staging.join(instance);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(failed(&folder))?;
        }
        fs::remove_file(&alive).map_err(failed(&alive))?;
    }
    Ok(())
}

impl Inner {
    pub fn journal_folder(&self) -> PathBuf {
        self.root.join("journal")
    }

    /// Held while the visible chunks of any stream change, by any process.
    pub fn change(&self) -> Result<File> {
        lock(&self.root.join("lock"))
    }

    /// A path in this instance's staging folder that was not used before.
    fn stage(&self) -> PathBuf {
        self.staging.join(self.staged.fetch_add(1, Ordering::Relaxed).to_string())
    }

    pub fn chunk_writer(&self) -> Result<ChunkWriter> {
        ChunkWriter::new(self.stage(), self.options.spill_bytes)
    }

    fn base(&self, run: Option<RunId>) -> PathBuf {
        match run {
            Some(run) => self.root.join("runs").join(run.to_string()),
            None => self.root.join("live"),
        }
    }

    fn stream_folder(&self, stream: &Stream) -> PathBuf {
        self.base(stream.run).join(folder_name(&stream.namespace))
    }

    pub fn stream_folders(&self) -> Result<Vec<PathBuf>> {
        let runs = self.root.join("runs");
        let mut bases = vec![self.base(None)];
        bases.extend(list(&runs)?.iter().map(|run| runs.join(run)));
        let mut folders = Vec::new();
        for base in bases {
            folders.extend(list(&base)?.iter().map(|name| base.join(name)));
        }
        Ok(folders)
    }

    /// The folders of what came from the network.
    pub fn live_folders(&self) -> Result<Vec<PathBuf>> {
        let base = self.base(None);
        Ok(list(&base)?.iter().map(|name| base.join(name)).collect())
    }

    /// The chunks of a stream's folder, hidden ones too.
    pub fn chunks(&self, folder: &Path) -> Result<Vec<ChunkName>> {
        Ok(list(folder)?.iter().filter_map(|name| ChunkName::parse(name)).collect())
    }

    /// The chunks of a stream's folder that no later one hides.
    pub fn visible(&self, folder: &Path) -> Result<Vec<(ChunkName, PathBuf)>> {
        let all = self.chunks(folder)?;
        let hiders: Vec<_> = all.iter().filter(|name| !matches!(name, ChunkName::Journal { .. })).collect();
        let shown = all.iter().filter(|name| !hiders.iter().any(|other| name.hidden_by(other)));
        Ok(shown.map(|&name| (name, folder.join(name.to_string()))).collect())
    }

    pub fn chunks_of(&self, run: Option<RunId>) -> Result<Vec<PathBuf>> {
        let base = self.base(run);
        let mut chunks = Vec::new();
        for name in list(&base)? {
            chunks.extend(self.visible(&base.join(name))?.into_iter().map(|(_, path)| path));
        }
        Ok(chunks)
    }

    pub fn manifest(&self, chunk: &Path) -> Result<Arc<Manifest>> {
        if let Some(known) = guard(&self.manifests).get(chunk) {
            return Ok(known.clone());
        }
        let path = chunk.join(MANIFEST);
        let text = fs::read(&path).map_err(failed(&path))?;
        let manifest: Manifest = serde_json::from_slice(&text).map_err(|error| {
            Problem::internal("telemetry.manifest_corrupt", "a manifest of the signal store cannot be read")
                .place(path.display().to_string())
                .cause(error)
        })?;
        let manifest = Arc::new(manifest);
        guard(&self.manifests).insert(chunk.to_path_buf(), manifest.clone());
        Ok(manifest)
    }

    /// Nothing of what is listed from here on is expired or merged away before this is dropped.
    pub fn hold(&self, run: Option<RunId>) -> Result<Vec<File>> {
        let base = self.base(run);
        list(&base)?.iter().map(|name| reading(&base.join(name))).collect()
    }

    fn load(&self, query: &Query) -> Result<Rows> {
        let mut rows = table::empty(query.signal);
        let mut filter = Filter::new(query);
        let _held = self.hold(query.run)?;
        for chunk in self.chunks_of(query.run)? {
            for segment in self.manifest(&chunk)?.segments.iter().filter(|segment| segment.may_have(query)) {
                segment::read(&chunk.join(&segment.file), &mut filter, &mut *rows)?;
            }
        }
        Ok(Rows::new(query.signal, rows))
    }

    /// Moves a chunk or stream out of sight, then deletes it.
    pub fn delete(&self, folder: &Path) -> Result<()> {
        let out_of_sight = self.stage();
        fs::rename(folder, &out_of_sight).map_err(failed(folder))?;
        guard(&self.manifests).retain(|chunk, _| !chunk.starts_with(folder));
        fs::remove_dir_all(&out_of_sight).map_err(failed(&out_of_sight))
    }

    /// Makes a sealed step visible in the place of those that it overlaps.
    ///
    /// # Errors
    /// `step.overlaps_earlier` when a step that began before this one reaches into it.
    pub fn place_step(&self, chunk: ChunkWriter, stream: &Stream, from: DataTime, to: DataTime) -> Result<()> {
        let _changing = self.change()?;
        let folder = self.open_stream(stream)?;
        let present = self.visible(&folder)?;
        let mut last = 0;
        for (name, _) in &present {
            let ChunkName::Step { from: start, to: end, generation } = *name else { continue };
            last = last.max(generation);
            if start < from && from < end {
                return Err(Problem::new(
                    ErrorKind::Conflict,
                    "step.overlaps_earlier",
                    "a step begins inside an earlier one, so its records would be there twice",
                )
                .found(format!("a step from {from} after one from {start} to {end}"))
                .expected(format!("a step from {start}, or from {end} on")));
            }
        }
        // The clock makes the number one that was never used, also after the stream was removed.
        let now = u64::try_from(WallTime::now().0).unwrap_or(0);
        let name = ChunkName::Step { from, to, generation: now.max(last + 1) };
        chunk.place(&folder.join(name.to_string()))?;
        for (_, path) in present.iter().filter(|(older, _)| older.hidden_by(&name)) {
            self.delete(path)?;
        }
        Ok(())
    }

    /// Makes a sealed chunk of a journal visible, unless an interrupted flush had done so already.
    pub fn place_received(&self, chunk: ChunkWriter, stream: &Stream, sequence: u64) -> Result<()> {
        let _changing = self.change()?;
        let target = self.open_stream(stream)?.join(ChunkName::Journal { sequence }.to_string());
        if target.exists() { Ok(()) } else { chunk.place(&target) }
    }

    fn open_stream(&self, stream: &Stream) -> Result<PathBuf> {
        let folder = self.stream_folder(stream);
        if !folder.exists() {
            create_folder(&folder)?;
            let mut above = folder.ancestors().skip(1).take_while(|path| path.starts_with(&self.root));
            above.try_for_each(sync_folder)?;
        }
        Ok(folder)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.staging) {
            tracing::warn!(folder = %self.staging.display(), %error, "a staging folder stays behind");
        }
        // When it stays, the next one to open the store removes it.
        let _ = fs::remove_file(self.staging.with_extension("alive"));
    }
}
