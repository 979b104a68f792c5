//! The bytes of a published datapack.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest, Sha256};
use testkit::process::Site;

/// Digests of files by name.
pub type Digests = BTreeMap<String, String>;

/// The folder of the pack that a run led to.
#[track_caller]
pub fn folder(site: &Site, run: &Value) -> PathBuf {
    let name = run["injection_name"].as_str().unwrap_or_else(|| panic!("the run has no pack: {run:#}"));
    site.data().join("packs").join(name)
}

pub fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Digests of the files below a folder, by path.
pub fn digests(folder: &Path) -> Digests {
    let mut digests = Digests::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
                digests.insert(name, sha256(&std::fs::read(&path).unwrap()));
            }
        }
    }
    digests
}

/// Digests of the twelve parquet files.
#[track_caller]
pub fn parquet(folder: &Path) -> Digests {
    let mut digests = digests(folder);
    digests.retain(|name, _| name.ends_with(".parquet"));
    assert_eq!(digests.len(), 12, "{digests:#?}");
    digests
}

/// A JSON file of a pack.
pub fn json(folder: &Path, file: &str) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join(file)).unwrap()).unwrap()
}
