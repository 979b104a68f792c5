//! What keeps a store from growing for ever: chunks that arrived long ago are removed, and many small ones are merged.
//!
//! A chunk goes out of sight in one step. Streams that are being read are left for the next time: a reader holds a shared lock on the
//! stream's folder, and whoever deletes needs it alone.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{Result, WallTime};

use crate::chunk::ChunkName;
use crate::disk::{failed, try_lock_folder};
use crate::segment;
use crate::status::Kept;
use crate::store::{Inner, guard};
use crate::{Signal, SignalStore, Stream};

/// How long and how much a store keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Keep {
    /// Counted from arrival, not from the records' own times.
    pub age: Option<Duration>,
    /// Bytes of segments; the chunks that arrived first go first.
    pub bytes: Option<u64>,
}

/// A chunk below this size is small, bytes.
const SMALL: u64 = 8 << 20;

/// So many small chunks of a stream are merged into one.
const MANY: usize = 32;

/// What arrived further apart stays apart, so that the age of a merged chunk says something.
const APART: i64 = 3600 * 1_000_000;

impl SignalStore {
    /// Removes what is older or more than is kept, and merges small chunks of what came from the network.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn upkeep(&self, keep: Keep) -> Result<()> {
        if let Some(receiver) = self.receiver() {
            let merged = receiver.merge()?;
            guard(&self.inner.counters).kept.merged += merged;
        }
        let removed = self.inner.retain(keep)?;
        let kept = &mut guard(&self.inner.counters).kept;
        kept.expired_by_age += removed.expired_by_age;
        kept.expired_by_size += removed.expired_by_size;
        Ok(())
    }

    /// Removes the chunks that arrived before `older_than`; gives their number.
    pub fn expire(&self, older_than: WallTime) -> Result<u64> {
        let _changing = self.inner.change()?;
        let mut removed = 0;
        for chunk in self.inner.chunks_by_arrival()?.into_iter().take_while(|chunk| chunk.arrived < older_than) {
            removed += u64::from(self.inner.remove_unread(&chunk.path)?);
        }
        self.inner.remove_empty_streams()?;
        Ok(removed)
    }
}

/// A chunk that may be removed.
struct Candidate {
    arrived: WallTime,
    path: PathBuf,
    bytes: u64,
}

impl Inner {
    fn retain(&self, keep: Keep) -> Result<Kept> {
        let _changing = self.change()?;
        self.sweep()?;
        let chunks = self.chunks_by_arrival()?;
        let mut bytes: u64 = chunks.iter().map(|chunk| chunk.bytes).sum();
        let age = keep.age.map(|age| i64::try_from(age.as_micros()).unwrap_or(i64::MAX));
        let oldest = age.map(|age| WallTime(WallTime::now().0.saturating_sub(age)));
        let mut kept = Kept::default();
        for chunk in chunks {
            let old = oldest.is_some_and(|oldest| chunk.arrived < oldest);
            let much = keep.bytes.is_some_and(|limit| bytes > limit);
            if !old && !much {
                break;
            }
            if self.remove_unread(&chunk.path)? {
                bytes -= chunk.bytes;
                *(if old { &mut kept.expired_by_age } else { &mut kept.expired_by_size }) += 1;
            }
        }
        self.remove_empty_streams()?;
        Ok(kept)
    }

    /// The visible chunks of all streams, those that arrived first in front.
    fn chunks_by_arrival(&self) -> Result<Vec<Candidate>> {
        let mut chunks = Vec::new();
        for folder in self.stream_folders()? {
            for (_, path) in self.visible(&folder)? {
                let manifest = self.manifest(&path)?;
                let bytes = manifest.segments.iter().map(|segment| segment.bytes).sum();
                chunks.push(Candidate { arrived: manifest.arrived, path, bytes });
            }
        }
        chunks.sort_by(|a, b| (a.arrived, &a.path).cmp(&(b.arrived, &b.path)));
        Ok(chunks)
    }

    /// Removes a chunk unless its stream is being read. Says whether it did.
    fn remove_unread(&self, chunk: &Path) -> Result<bool> {
        let stream = chunk.parent().expect("a chunk is inside its stream's folder");
        match try_lock_folder(stream)? {
            Some(_alone) => self.delete(chunk).map(|()| true),
            None => Ok(false),
        }
    }

    fn remove_empty_streams(&self) -> Result<()> {
        for folder in self.stream_folders()? {
            // Fails when chunks are left, which is right.
            let _ = fs::remove_dir(&folder);
        }
        Ok(())
    }

    /// Removes chunks that a merged one has taken the place of.
    fn sweep(&self) -> Result<()> {
        for folder in self.live_folders()? {
            let shown: Vec<PathBuf> = self.visible(&folder)?.into_iter().map(|(_, path)| path).collect();
            let all = self.chunks(&folder)?.into_iter().map(|name| folder.join(name.to_string()));
            for hidden in all.filter(|path| !shown.contains(path)) {
                self.remove_unread(&hidden)?;
            }
        }
        Ok(())
    }

    /// Merges small chunks of what came from the network with numbers up to `until`; gives how many went into larger ones.
    ///
    /// No journal with such a number may be there any more: its chunk would be hidden as soon as it is written.
    pub fn merge(&self, until: u64) -> Result<u64> {
        let mut merged = 0;
        for folder in self.live_folders()? {
            while let Some(group) = self.mergeable(&folder, until)? {
                merged += group.len() as u64;
                self.merge_group(&folder, &group)?;
            }
        }
        Ok(merged)
    }

    /// The first neighbouring small chunks of a stream that are many enough.
    fn mergeable(&self, folder: &Path, until: u64) -> Result<Option<Vec<(ChunkName, PathBuf)>>> {
        let mut chunks = self.visible(folder)?;
        chunks.sort_by_key(|(name, _)| name.sequences());
        let mut group: Vec<(ChunkName, PathBuf)> = Vec::new();
        let (mut first, mut total) = (WallTime(0), 0);
        for (name, path) in chunks {
            let Some((_, last)) = name.sequences() else { continue };
            let manifest = self.manifest(&path)?;
            let bytes: u64 = manifest.segments.iter().map(|segment| segment.bytes).sum();
            let near = group.is_empty() || manifest.arrived.0 - first.0 <= APART;
            if bytes >= SMALL || last > until || !near {
                if group.len() >= MANY {
                    break;
                }
                group.clear();
            }
            if bytes < SMALL && last <= until {
                if group.is_empty() {
                    (first, total) = (manifest.arrived, 0);
                }
                total += bytes;
                group.push((name, path));
                if group.len() >= MANY && total >= SMALL {
                    break;
                }
            }
        }
        Ok((group.len() >= MANY).then_some(group))
    }

    fn merge_group(&self, folder: &Path, group: &[(ChunkName, PathBuf)]) -> Result<()> {
        let mut chunk = self.chunk_writer()?;
        let mut stream = Stream { namespace: String::new(), run: None };
        let mut arrived = WallTime(0);
        for (_, path) in group {
            let manifest = self.manifest(path)?;
            stream = manifest.stream.clone();
            arrived = arrived.max(manifest.arrived);
            for segment in &manifest.segments {
                segment::read_all(&path.join(&segment.file), chunk.tables.get_mut(segment.signal))?;
            }
            chunk.spill(&Signal::ALL)?;
        }
        chunk.seal_as_of(&stream, arrived)?;
        let sequences = group.iter().filter_map(|(name, _)| name.sequences());
        let first = sequences.clone().map(|(first, _)| first).min().expect("a group has chunks");
        let last = sequences.map(|(_, last)| last).max().expect("a group has chunks");
        let _changing = self.change()?;
        // Someone may have removed the stream meanwhile; then there is nothing to take the place of.
        if group.iter().all(|(_, path)| path.exists()) {
            chunk.place(&folder.join(ChunkName::Merged { first, last }.to_string()))?;
            self.sweep()?;
        }
        Ok(())
    }
}

/// Held while a stream is read.
pub(crate) fn reading(folder: &Path) -> Result<File> {
    let held = File::open(folder).map_err(failed(folder))?;
    held.lock_shared().map_err(failed(folder))?;
    Ok(held)
}
