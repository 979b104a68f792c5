//! A private folder beside the packs where one is built, and the rename that makes it visible.
//!
//! ```text
//! PACKS/<name>/                a published pack
//! PACKS/.staging/lock          held while a staging folder is begun or an abandoned one removed
//! PACKS/.staging/<id>.alive    held for as long as its builder lives; freed by a kill
//! PACKS/.staging/<id>/<name>/  a pack that is being built
//! ```

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use model::Result;
use uuid::Uuid;

use crate::disk::{create_folder, failed, list, sync_folder};

pub(crate) const STAGING: &str = ".staging";

const ALIVE: &str = "alive";

/// Removed with everything in it when dropped.
pub(crate) struct Staging {
    packs: PathBuf,
    folder: PathBuf,
    alive: PathBuf,
    _held: File,
}

impl Staging {
    /// Makes a new staging folder and removes those whose builders are gone.
    pub fn begin(packs: &Path) -> Result<Self> {
        let base = packs.join(STAGING);
        create_folder(&base)?;
        let path = base.join("lock");
        let opening = open(&path)?;
        opening.lock().map_err(failed(&path))?;
        remove_abandoned(&base)?;
        let id = Uuid::new_v4().to_string();
        let alive = base.join(&id).with_extension(ALIVE);
        let held = open(&alive)?;
        held.lock().map_err(failed(&alive))?;
        let folder = base.join(id);
        create_folder(&folder)?;
        Ok(Self { packs: packs.to_path_buf(), folder, alive, _held: held })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Moves the finished pack into its place. Says whether it did: not when the place is taken.
    pub fn publish(&self, name: &str) -> Result<bool> {
        let (from, to) = (self.folder.join(name), self.packs.join(name));
        match fs::rename(&from, &to) {
            Ok(()) => sync_folder(&self.packs).map(|()| true),
            Err(_) if to.exists() => Ok(false),
            Err(error) => Err(failed(&to)(error)),
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // What cannot be removed now is removed as abandoned by the next builder.
        let _ = fs::remove_dir_all(&self.folder);
        let _ = fs::remove_file(&self.alive);
    }
}

fn open(path: &Path) -> Result<File> {
    File::options().create(true).truncate(false).write(true).open(path).map_err(failed(path))
}

fn remove_abandoned(base: &Path) -> Result<()> {
    for name in list(base)? {
        let alive = base.join(&name);
        if alive.extension().is_none_or(|extension| extension != ALIVE) {
            continue;
        }
        match open(&alive)?.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => continue,
            Err(TryLockError::Error(error)) => return Err(failed(&alive)(error)),
        }
        let folder = alive.with_extension("");
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(failed(&folder))?;
        }
        fs::remove_file(&alive).map_err(failed(&alive))?;
    }
    Ok(())
}
