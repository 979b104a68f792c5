//! A chunk: the segments that became visible together, in a folder with a manifest.
//!
//! It is written in a staging folder and renamed into place, so it is there whole or not at all.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use model::{DataTime, Result, WallTime};
use serde::{Deserialize, Serialize};

use crate::disk::{failed, sync_folder, write_durably};
use crate::segment::{self, Segment};
use crate::table::Tables;
use crate::{Signal, Stream};

/// The format of a store's folder, its manifests and segments.
pub(crate) const FORMAT: u32 = 2;
pub(crate) const MANIFEST: &str = "manifest.json";

/// What a chunk consists of.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub format: u32,
    pub stream: Stream,
    /// When it became visible.
    pub arrived: WallTime,
    pub segments: Vec<Segment>,
}

/// The folder name of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChunkName {
    /// A simulated step `[from, to)`; a later generation hides what it overlaps.
    Step { from: DataTime, to: DataTime, generation: u64 },
    /// What one journal had received for a namespace.
    Journal { sequence: u64 },
    /// What was in all the chunks of journals from one number to another.
    Merged { first: u64, last: u64 },
}

impl ChunkName {
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('_');
        let name = match parts.next()? {
            "step" => Self::Step {
                from: DataTime(parts.next()?.parse().ok()?),
                to: DataTime(parts.next()?.parse().ok()?),
                generation: parts.next()?.parse().ok()?,
            },
            "journal" => Self::Journal { sequence: parts.next()?.parse().ok()? },
            "merged" => Self::Merged { first: parts.next()?.parse().ok()?, last: parts.next()?.parse().ok()? },
            _ => return None,
        };
        parts.next().is_none().then_some(name)
    }

    /// Whether `newer` takes the place of this one.
    pub fn hidden_by(&self, newer: &Self) -> bool {
        match (self, newer) {
            (Self::Step { from, generation, .. }, Self::Step { from: start, to: end, generation: later }) => {
                generation < later && start <= from && from < end
            }
            (_, Self::Merged { first, last }) => {
                self != newer && self.sequences().is_some_and(|own| *first <= own.0 && own.1 <= *last)
            }
            _ => false,
        }
    }

    /// The numbers of the journals whose records are in this chunk, from the first to the last.
    pub fn sequences(&self) -> Option<(u64, u64)> {
        match *self {
            Self::Step { .. } => None,
            Self::Journal { sequence } => Some((sequence, sequence)),
            Self::Merged { first, last } => Some((first, last)),
        }
    }
}

impl fmt::Display for ChunkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step { from, to, generation } => write!(f, "step_{}_{}_{generation}", from.0, to.0),
            Self::Journal { sequence } => write!(f, "journal_{sequence}"),
            Self::Merged { first, last } => write!(f, "merged_{first}_{last}"),
        }
    }
}

/// A chunk that is being written. Dropped before [`ChunkWriter::place`], it leaves nothing.
pub(crate) struct ChunkWriter {
    folder: PathBuf,
    pub tables: Tables,
    segments: Vec<Segment>,
    spill_bytes: usize,
}

impl ChunkWriter {
    /// `folder` must not exist yet.
    pub fn new(folder: PathBuf, spill_bytes: usize) -> Result<Self> {
        fs::create_dir(&folder).map_err(failed(&folder))?;
        Ok(Self { folder, tables: Tables::default(), segments: Vec::new(), spill_bytes })
    }

    /// Writes a signal's rows to a segment when they have become many, so that memory stays bounded.
    pub fn spill(&mut self, signals: &[Signal]) -> Result<()> {
        for &signal in signals {
            if self.tables.get(signal).bytes() > self.spill_bytes {
                self.write(signal)?;
            }
        }
        Ok(())
    }

    fn write(&mut self, signal: Signal) -> Result<()> {
        if self.tables.get(signal).is_empty() {
            return Ok(());
        }
        let number = self.segments.iter().filter(|segment| segment.signal == signal).count();
        let file = format!("{signal}-{number}.parquet");
        self.segments.push(segment::write(&self.folder, file, signal, self.tables.get_mut(signal))?);
        self.tables.clear(signal);
        Ok(())
    }

    /// Writes what is left and the manifest; all of it is on disk afterwards, but not yet visible.
    pub fn seal(&mut self, stream: &Stream) -> Result<&[Segment]> {
        self.seal_as_of(stream, WallTime::now())
    }

    /// The same for records that arrived earlier.
    pub fn seal_as_of(&mut self, stream: &Stream, arrived: WallTime) -> Result<&[Segment]> {
        for signal in Signal::ALL {
            self.write(signal)?;
        }
        let manifest =
            Manifest { format: FORMAT, stream: stream.clone(), arrived, segments: std::mem::take(&mut self.segments) };
        let text = serde_json::to_vec(&manifest).expect("a manifest has only string keys");
        self.segments = manifest.segments;
        write_durably(&self.folder.join(MANIFEST), &text)?;
        sync_folder(&self.folder)?;
        Ok(&self.segments)
    }

    /// Makes the sealed chunk visible, at once and whole.
    pub fn place(mut self, target: &Path) -> Result<()> {
        fs::rename(&self.folder, target).map_err(failed(target))?;
        self.folder.clear();
        sync_folder(target.parent().expect("a chunk is inside its stream's folder"))
    }
}

impl Drop for ChunkWriter {
    fn drop(&mut self) {
        if !self.folder.as_os_str().is_empty()
            && let Err(error) = fs::remove_dir_all(&self.folder)
        {
            tracing::warn!(folder = %self.folder.display(), %error, "an abandoned chunk stays in the staging folder");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways_and_a_later_step_hides_what_it_overlaps() {
        let step = |from, to, generation| ChunkName::Step { from: DataTime(from), to: DataTime(to), generation };
        let merged = |first, last| ChunkName::Merged { first, last };
        let journal = |sequence| ChunkName::Journal { sequence };
        for name in [step(-5, 7, 3), journal(9), merged(3, 9)] {
            assert_eq!(ChunkName::parse(&name.to_string()), Some(name));
        }
        for odd in ["", "step_1_2", "step_1_2_3_4", "journal_", "other_1"] {
            assert_eq!(ChunkName::parse(odd), None, "{odd}");
        }
        assert!(step(10, 20, 1).hidden_by(&step(10, 15, 2)));
        assert!(step(12, 20, 1).hidden_by(&step(10, 15, 2)));
        assert!(!step(15, 20, 1).hidden_by(&step(10, 15, 2)), "half-open");
        assert!(!step(10, 20, 2).hidden_by(&step(10, 15, 1)));
        assert!(journal(3).hidden_by(&merged(3, 9)) && merged(4, 9).hidden_by(&merged(3, 9)));
        assert!(!merged(3, 9).hidden_by(&merged(3, 9)) && !journal(10).hidden_by(&merged(3, 9)));
        assert!(!step(4, 5, 1).hidden_by(&merged(3, 9)));
    }
}
